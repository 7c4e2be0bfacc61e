"""Reads the PoliteCrawling set (Kolobov et al. 2019): 18.5 M URLs, crawled about daily for 14 weeks, as five TSV files.

- url_urlid_hostid: URL, its id, its host's id;
- host_hostid_isconstrained: host, its id, 1 where it limits its crawlers;
- urlid_imp: id, importance;
- urlid_offset_history: id, days to the first crawl, and a list of [days since the crawl before, changed 0/1];
- urlid_chrate_compl_obs_hist: id, changes a day, of the pages whose sitemaps tell every change.

A crawl that found a change leaves open when it happened: it is drawn evenly within the interval. Pages with reliable
sitemaps have a signal at each change; one of them without a history changes as a Poisson process of its rate.
"""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from crawld.model.errors import InputError
from crawld.research.population import Floats, Population
from crawld.research.world import World

URLS, HOSTS, IMPORTANCE = "url_urlid_hostid", "host_hostid_isconstrained", "urlid_imp"
HISTORIES, RELIABLE = "urlid_offset_history", "urlid_chrate_compl_obs_hist"
FILES = (URLS, HOSTS, IMPORTANCE, HISTORIES, RELIABLE)
DAYS = 98.0
"""14 weeks: how long a page is drawn that has a rate and no history."""
MAX_LINE = 1_000_000
MAX_HOST_SHARE = 0.25
"""Of the pages that are taken, at most this share is one host's."""
MAX_BAD_LINES = 100
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def is_polite_crawling(folder: Path) -> bool:
    """Whether the folder holds files of that set."""
    return folder.is_dir() and any(_found(folder, name) for name in FILES)


def polite_crawling_world(folder: Path, pages: int, seed: int = 1) -> World:
    """About so many pages of the set as a world: whole hosts drawn at random, of a large one a part."""
    return _Sample(folder, pages, seed).world()


@dataclass(slots=True)
class _Page:
    number: str
    host: str
    importance: float = 1.0
    birth: float = 0.0
    end: float = 0.0
    changes: Floats = field(default_factory=lambda: np.empty(0))
    reliable: bool = False


class _Sample:
    """The drawn pages, filled from one file after another."""

    def __init__(self, folder: Path, pages: int, seed: int) -> None:
        self._folder, self._seed = folder, seed
        sizes = Counter(columns[2] for columns in _rows(folder, URLS, 3))
        names = sorted(sizes)
        room, largest = pages, max(1, int(MAX_HOST_SHARE * pages))
        self._taken: dict[str, int] = {}  # by host, how many of its pages
        for index in np.random.default_rng(seed).permutation(len(names)).tolist():
            self._taken[names[index]] = min(sizes[names[index]], largest, room)
            room -= self._taken[names[index]]
            if not room:
                break
        self._pages: dict[str, _Page] = {}
        for _, number, host in _rows(folder, URLS, 3):
            if self._taken.get(host, 0) > 0 and number not in self._pages:
                self._taken[host] -= 1
                self._pages[number] = _Page(number, host)

    def world(self) -> World:
        """Everything known of the pages; those of which nothing was seen are left out."""
        for number, importance in _rows(self._folder, IMPORTANCE, 2):
            if number in self._pages:
                self._pages[number].importance = max(_figure(importance), 0.0)
        for number, offset, history in _rows(self._folder, HISTORIES, 3):
            if number in self._pages:
                self._take_history(self._pages[number], max(_figure(offset), 0.0), history)
        for number, rate in _rows(self._folder, RELIABLE, 2):
            if number in self._pages:
                self._take_rate(self._pages[number], _figure(rate))
        pages = [page for page in self._pages.values() if page.end > page.birth]
        if not pages:
            raise InputError(f"no page of {self._folder} that was drawn has a history: ask for more --pages")
        return self._joined(pages)

    def _take_history(self, page: _Page, offset: float, history: str) -> None:
        figures = np.array(_NUMBER.findall(history), float)
        if len(figures) % 2 or not len(figures) or (figures[0::2] < 0).any():
            return
        ends = offset + np.cumsum(figures[0::2])
        page.birth, page.end = offset, float(ends[-1])
        found = np.flatnonzero(figures[1::2] > 0)
        stream = np.random.default_rng([self._seed, *page.number.encode()])
        page.changes = np.sort(ends[found] - figures[0::2][found] * stream.random(len(found)))

    def _take_rate(self, page: _Page, rate: float) -> None:
        page.reliable = True
        if page.end <= page.birth and rate > 0:
            stream = np.random.default_rng([self._seed, *page.number.encode()])
            page.end = DAYS
            page.changes = np.sort(stream.uniform(0.0, DAYS, stream.poisson(min(rate, 100.0) * DAYS)))

    @staticmethod
    def _joined(pages: list[_Page]) -> World:
        lived = np.array([page.end - page.birth for page in pages])
        counts = np.array([len(page.changes) for page in pages])
        reliable = np.array([page.reliable for page in pages])
        mu = np.array([page.importance for page in pages])
        if mu.sum() <= 0:
            mu = np.ones(len(pages))
        changes: Floats = np.concatenate([page.changes for page in pages])
        owners = np.repeat(np.arange(len(pages)), counts)
        told = np.flatnonzero(reliable[owners])
        told = told[np.lexsort((owners[told], changes[told]))]
        return World(
            population=Population(mu / mu.mean(), counts / lived, reliable.astype(float), np.zeros(len(pages))),
            horizon=float(max(page.end for page in pages)),
            changes=changes,
            change_offsets=np.concatenate([[0], np.cumsum(counts)]),
            signal_times=changes[told],
            signal_pages=owners[told],
            hosts=np.unique([page.host for page in pages], return_inverse=True)[1],
            births=np.array([page.birth for page in pages]),
            deaths=np.array([page.end for page in pages]),
            listed=reliable,
        )


def _found(folder: Path, name: str) -> Path | None:
    """The file of that name, with any ending and packed or not."""
    return next((path for path in sorted(folder.iterdir()) if path.name.partition(".")[0] == name), None)


def _rows(folder: Path, name: str, columns: int) -> Iterator[list[str]]:
    """The lines of a file that have so many columns; an error where nearly none has."""
    path = _found(folder, name)
    if path is None:
        raise InputError(f"{folder} has no file {name}: the PoliteCrawling set is {', '.join(FILES)}")
    good = bad = 0
    for line in _lines(path):
        cells = line.split("\t", columns - 1)
        if len(cells) == columns and all(cells):
            good += 1
            yield cells
            continue
        bad += 1
        if bad >= MAX_BAD_LINES and bad > good:
            raise InputError(f"{path} is no such file: line {good + bad} has not {columns} columns")
    if not good:
        raise InputError(f"{path} has no line of {columns} columns")


def _lines(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(MAX_LINE):
                yield line.decode("utf-8", "replace").rstrip("\r\n")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _figure(text: str) -> float:
    """The number in a cell; 0 where there is none."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if np.isfinite(value) else 0.0
