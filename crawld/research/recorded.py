"""Recorded histories of real pages as worlds: what changed when, and what sitemaps said of it.

A file holds numpy arrays in Unix seconds: birth and death (0: alive) by page, change_off and change_t, and where there
was a sitemap signal_off, signal_t, signal_lastmod, and by page lastmod0, the first one (-1: no usable value). Pages are
one host's, unless page_host names the host of each. A world counts days from the first birth.
"""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from crawld.model.errors import InputError
from crawld.model.units import DAY
from crawld.research.world import Floats, Ints, Population, World


@dataclass(frozen=True)
class RecordedLimits:
    """Numbers that bound and tune this module."""

    bytes_a_word: float = 6.0
    tries: int = 30
    """Windows that are drawn before the nearest to what was wanted is taken."""
    max_line: int = 1_000_000
    max_host_share: float = 0.25
    """Of the pages that are taken, at most this share is one host's."""
    max_bad_lines: int = 100
    polite_days: float = 98.0
    """14 weeks: how long a page of the PoliteCrawling set is drawn that has a rate and no history."""


LIMITS = RecordedLimits()


def history_files(folder: Path) -> list[Path]:
    """Every history in a folder; at least one, or an error that names the folder."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: name one that holds histories (.npz)")
    files = sorted(folder.glob("*.npz"))
    if not files:
        raise InputError(f"no histories (.npz) in {folder}")
    return files


def load_history(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a history file, or an error that says what is wrong with it."""
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
    except (OSError, ValueError, EOFError, BadZipFile, TypeError) as error:
        raise InputError(f"{path} is no recorded history: {error}") from error
    missing = {"birth", "death", "change_off", "change_t"} - set(arrays)
    if missing:
        raise InputError(f"{path} is no recorded history: it has no {', '.join(sorted(missing))}")
    if not len(arrays["birth"]):
        raise InputError(f"{path} is no recorded history: it has no pages")
    return arrays


def recorded_world(path: Path, max_pages: int | None = None, offset: int = 0) -> World:
    """The history in a file, all pages equally important; of more than `max_pages` every k-th from `offset` on."""
    return world_of(load_history(path), max_pages, offset)


def world_of(arrays: dict[str, NDArray[Any]], max_pages: int | None = None, offset: int = 0) -> World:
    """Makes a world of arrays that have been read."""
    first = float(arrays["birth"].min())
    seen_last = [float(arrays[name].max(initial=0)) for name in ("commit_t", "end", "change_t") if name in arrays]
    end = (max(seen_last) - first) / DAY
    step = -(-len(arrays["birth"]) // (max_pages or len(arrays["birth"])))
    chosen = np.arange(offset % step, len(arrays["birth"]), step)
    births = ((arrays["birth"] - first) / DAY)[chosen]
    deaths = np.where(arrays["death"] > 0, (arrays["death"] - first) / DAY, end)[chosen]
    offsets, rows = _rows(arrays["change_off"], chosen)
    changes = (arrays["change_t"][rows] - first) / DAY
    magnitudes = None
    if "change_words" in arrays:
        words = np.maximum(arrays["change_bytes"][rows], 1) / LIMITS.bytes_a_word
        magnitudes = np.minimum(arrays["change_words"][rows] / words, 1.0)
    seen, pages, claims, listed = np.empty(0), np.empty(0, np.int64), np.empty(0), None
    if "signal_off" in arrays:
        signal_offsets, rows = _rows(arrays["signal_off"], chosen)
        seen = (arrays["signal_t"][rows] - first) / DAY
        pages = np.repeat(np.arange(len(chosen)), np.diff(signal_offsets))
        listed = (arrays["lastmod0"] >= 0)[chosen]
        stated = arrays["signal_lastmod"][rows].astype(float)
        claims = np.where(stated >= 0, (stated - first) / DAY, np.nan)
    order = np.lexsort((pages, seen))
    # A lastmod that names no hour claims its whole day.
    whole_day = np.isclose(((claims + first / DAY) % 1.0), 0.0, atol=1e-9)
    nothing = np.zeros(len(chosen))
    lived = np.maximum(deaths - births, 1.0 / 24.0)
    hosts = np.unique(arrays["page_host"][chosen], return_inverse=True)[1] if "page_host" in arrays else None
    return World(
        population=Population(np.ones(len(chosen)), np.diff(offsets) / lived, nothing, nothing),
        horizon=end,
        changes=changes,
        change_offsets=offsets,
        signal_times=seen[order],
        signal_pages=pages[order],
        signal_claims=claims[order],
        signal_spans=np.where(whole_day, 1.0, 0.0)[order],
        hosts=hosts,
        births=births,
        deaths=np.maximum(deaths, births),
        listed=listed,
        magnitudes=magnitudes,
    )


def _rows(offsets: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """New offsets, and the rows of the chosen pages one after another."""
    starts = offsets[:-1][chosen].astype(np.int64)
    counts = np.diff(offsets)[chosen].astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])
    return ends, np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])


def together(worlds: Sequence[World], days: float) -> World:
    """Several hosts in one world: the last `days` days of each, which end at the same moment."""
    parts = [last_days(world, days) for world in worlds]
    firsts = np.cumsum([0] + [part.population.pages for part in parts])
    first_hosts = np.cumsum([0] + [int(part.host_of.max()) + 1 for part in parts])
    times = np.concatenate([part.signal_times for part in parts])
    pages = np.concatenate([part.signal_pages + first for part, first in zip(parts, firsts, strict=False)])
    order = np.lexsort((pages, times))
    columns = [part.population for part in parts]
    return World(
        population=Population(*(np.concatenate([getattr(one, name) for one in columns])
                                for name in ("mu", "delta", "lam", "nu"))),
        horizon=days,
        changes=np.concatenate([part.changes for part in parts]),
        change_offsets=np.concatenate([[0], np.cumsum(np.concatenate([np.diff(p.change_offsets) for p in parts]))]),
        signal_times=times[order],
        signal_pages=pages[order],
        signal_claims=np.concatenate([_or(part.signal_claims, part, np.nan) for part in parts])[order],
        signal_spans=np.concatenate([_or(part.signal_spans, part, 0.0) for part in parts])[order],
        listed=np.concatenate([_listed(part) for part in parts]),
        hosts=np.concatenate([part.host_of + first for part, first in zip(parts, first_hosts, strict=False)]),
        births=np.concatenate([part.born for part in parts]),
        deaths=np.concatenate([part.died for part in parts]),
    )  # fmt: skip


def _or(column: Floats | None, world: World, otherwise: float) -> Floats:
    return np.full(len(world.signal_times), otherwise) if column is None else column


def _listed(world: World) -> NDArray[np.bool_]:
    return np.zeros(world.population.pages, bool) if world.listed is None else world.listed


def last_days(world: World, days: float) -> World:
    """Cuts the last days out, for the pages alive in them; time counts from their beginning."""
    return window(world, world.horizon - days, days)


def window(world: World, start: float, days: float) -> World:
    """Cuts the days from `start` on out, for the pages alive in them; time counts from there."""
    end = start + days
    alive = np.flatnonzero((world.died > start) & (world.born < end))
    seen = of_pages(world, alive)
    kept = (seen.changes > start) & (seen.changes < end if end < world.horizon else True)
    heard = (seen.signal_times > start) & (seen.signal_times < end if end < world.horizon else True)
    return replace(
        seen,
        horizon=days,
        changes=seen.changes[kept] - start,
        change_offsets=np.concatenate([[0], np.cumsum(kept)])[seen.change_offsets],
        magnitudes=None if seen.magnitudes is None else seen.magnitudes[kept],
        signal_times=seen.signal_times[heard] - start,
        signal_pages=seen.signal_pages[heard],
        signal_claims=_or(seen.signal_claims, seen, np.nan)[heard] - start,
        signal_spans=_or(seen.signal_spans, seen, 0.0)[heard],
        listed=_listed(seen),
        births=np.maximum(seen.born - start, 0.0),
        deaths=np.minimum(seen.died, end) - start,
    )


def of_pages(world: World, pages: Ints) -> World:
    """The world of these pages alone."""
    place = np.full(world.population.pages, -1)
    place[pages] = np.arange(len(pages))
    told = place[world.signal_pages] >= 0
    offsets, rows = _rows(world.change_offsets, pages)
    p = world.population
    return replace(
        world,
        population=Population(p.mu[pages], p.delta[pages], p.lam[pages], p.nu[pages]),
        changes=world.changes[rows],
        change_offsets=offsets,
        magnitudes=None if world.magnitudes is None else world.magnitudes[rows],
        signal_times=world.signal_times[told],
        signal_pages=place[world.signal_pages[told]],
        signal_claims=None if world.signal_claims is None else world.signal_claims[told],
        signal_spans=None if world.signal_spans is None else world.signal_spans[told],
        hosts=world.host_of[pages],
        births=None if world.births is None else world.births[pages],
        deaths=None if world.deaths is None else world.deaths[pages],
        listed=None if world.listed is None else world.listed[pages],
    )


def measured_rates(world: World) -> World:
    """Gives a world's population each page's mean rate of change while it lived."""
    lived = np.maximum(world.died - world.born, 1.0 / 24.0)
    return replace(world, population=replace(world.population, delta=np.diff(world.change_offsets) / lived))


def draw_window(world: World, pages: int, changes: int, stream: np.random.Generator) -> World:
    """Some pages of a world for some time, drawn at random, in which about so many changes happen, or somewhat more.

    Of a small world all of it is taken.
    """
    best, distance = world, np.inf
    living = float((world.died - world.born).sum()) / world.horizon
    share = min(1.0, pages / living)
    days = min(world.horizon, 1.15 * changes / (share * max(len(world.changes), 1) / world.horizon))
    for _ in range(LIMITS.tries):
        cut = window(world, stream.uniform(0.0, world.horizon - days), days)
        some = np.sort(stream.permutation(cut.population.pages)[: max(1, round(share * cut.population.pages))])
        cut = of_pages(cut, some)
        if 1.0 <= len(cut.changes) / changes <= 1.4:
            return cut
        off = abs(np.log(max(len(cut.changes), 0.1) / (1.15 * changes)))
        if off < distance:
            best, distance = cut, off
    return best


class PoliteFile(StrEnum):
    """The TSV files of the PoliteCrawling set (Kolobov et al. 2019): 18.5 M URLs, crawled about daily for 14 weeks."""

    URLS = "url_urlid_hostid"
    HOSTS = "host_hostid_isconstrained"
    IMPORTANCE = "urlid_imp"
    HISTORIES = "urlid_offset_history"
    RELIABLE = "urlid_chrate_compl_obs_hist"


def is_polite_crawling(folder: Path) -> bool:
    """Tells whether the folder holds files of that set."""
    return folder.is_dir() and any(_found(folder, name) for name in PoliteFile)


def polite_crawling_world(folder: Path, pages: int, seed: int = 1) -> World:
    """About so many pages of the set as a world: whole hosts drawn at random, of a large one a part."""
    return _Sample(folder, pages, seed).world()


@dataclass(slots=True)
class _RecordedPage:
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
        sizes = Counter(columns[2] for columns in _tsv_rows(folder, PoliteFile.URLS, 3))
        names = sorted(sizes)
        room, largest = pages, max(1, int(LIMITS.max_host_share * pages))
        self._taken: dict[str, int] = {}  # by host, how many of its pages
        for index in np.random.default_rng(seed).permutation(len(names)).tolist():
            self._taken[names[index]] = min(sizes[names[index]], largest, room)
            room -= self._taken[names[index]]
            if not room:
                break
        self._pages: dict[str, _RecordedPage] = {}
        for _, number, host in _tsv_rows(folder, PoliteFile.URLS, 3):
            if self._taken.get(host, 0) > 0 and number not in self._pages:
                self._taken[host] -= 1
                self._pages[number] = _RecordedPage(number, host)

    def world(self) -> World:
        """Everything known of the pages; those of which nothing was seen are left out."""
        for number, importance in _tsv_rows(self._folder, PoliteFile.IMPORTANCE, 2):
            if number in self._pages:
                self._pages[number].importance = max(_figure(importance), 0.0)
        for number, offset, history in _tsv_rows(self._folder, PoliteFile.HISTORIES, 3):
            if number in self._pages:
                self._take_history(self._pages[number], max(_figure(offset), 0.0), history)
        for number, rate in _tsv_rows(self._folder, PoliteFile.RELIABLE, 2):
            if number in self._pages:
                self._take_rate(self._pages[number], _figure(rate))
        pages = [page for page in self._pages.values() if page.end > page.birth]
        if not pages:
            raise InputError(f"no page of {self._folder} that was drawn has a history: ask for more --pages")
        return self._joined(pages)

    def _take_history(self, page: _RecordedPage, offset: float, history: str) -> None:
        figures = np.array(re.findall(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", history), float)
        if len(figures) % 2 or not len(figures) or (figures[0::2] < 0).any():
            return
        ends = offset + np.cumsum(figures[0::2])
        page.birth, page.end = offset, float(ends[-1])
        found = np.flatnonzero(figures[1::2] > 0)
        stream = np.random.default_rng([self._seed, *page.number.encode()])
        page.changes = np.sort(ends[found] - figures[0::2][found] * stream.random(len(found)))

    def _take_rate(self, page: _RecordedPage, rate: float) -> None:
        page.reliable = True
        if page.end <= page.birth and rate > 0:
            stream = np.random.default_rng([self._seed, *page.number.encode()])
            page.end = LIMITS.polite_days
            page.changes = np.sort(
                stream.uniform(0.0, LIMITS.polite_days, stream.poisson(min(rate, 100.0) * LIMITS.polite_days))
            )

    @staticmethod
    def _joined(pages: list[_RecordedPage]) -> World:
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


def _tsv_rows(folder: Path, name: str, columns: int) -> Iterator[list[str]]:
    """The lines of a file that have so many columns; an error where nearly none has."""
    path = _found(folder, name)
    if path is None:
        raise InputError(f"{folder} has no file {name}: the PoliteCrawling set is {', '.join(PoliteFile)}")
    good = bad = 0
    for line in _lines(path):
        cells = line.split("\t", columns - 1)
        if len(cells) == columns and all(cells):
            good += 1
            yield cells
            continue
        bad += 1
        if bad >= LIMITS.max_bad_lines and bad > good:
            raise InputError(f"{path} is no such file: line {good + bad} has not {columns} columns")
    if not good:
        raise InputError(f"{path} has no line of {columns} columns")


def _lines(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(LIMITS.max_line):
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
