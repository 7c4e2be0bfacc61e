"""Real page histories replayed: a policy crawls within a budget and sees only whether a page had changed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crawld.research.recorded import history_files, load_history

Floats = NDArray[np.float64]

Ints = NDArray[np.int64]

SHARED = Path(__file__).parents[4] / "shared" / "data"

ROUND = 100
"""Slots are decided in batches of a hundredth of a host's pages; the daemon learns after a second, which is less."""


@dataclass(frozen=True)
class Site:
    """When the pages of one site, or of several, were born, changed, were announced as changed, and died."""

    name: str
    birth: Floats
    death: Floats  # end of the record where still alive
    changes: "Moments"
    signals: "Moments"
    hosts: Ints | None = field(default=None, kw_only=True)  # by page; None: all are one host's

    @property
    def pages(self) -> int:
        """How many there ever were."""
        return len(self.birth)

    def only(self, pages: Ints) -> "Site":
        """The same site with some of its pages."""
        some = self.changes.only(pages), self.signals.only(pages)
        hosts = None if self.hosts is None else self.hosts[pages]
        return Site(self.name, self.birth[pages], self.death[pages], *some, hosts=hosts)

    def slots(self, budget: float) -> int:
        """Crawls in a budget of so many per change."""
        return int(budget * len(self.changes.times))

    def fresh_time(self, pages: Ints, last: Floats, until: Floats, start: float) -> Floats:
        """For how long after `start` copies made at `last` were current, up to `until`."""
        stale = np.minimum(self.changes.next(pages, last), until)
        return np.asarray(np.maximum(stale - np.maximum(last, start), 0.0))


class Moments:
    """Sorted times of many pages in one array, asked by page and time."""

    def __init__(self, offsets: Ints, times: Floats, start: float, end: float) -> None:
        self.times = times
        self.stride = 2.0 * (end - start + 1.0)
        self.start = start
        page = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        self.keys = page * self.stride + (times - start)
        self.ends = offsets[1:]

    def only(self, pages: Ints) -> "Moments":
        """Those of some pages."""
        starts = np.r_[0, self.ends[:-1]][pages]
        counts = self.ends[pages] - starts
        offsets = np.r_[0, np.cumsum(counts)]
        rows = np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])
        return Moments(offsets, self.times[rows], self.start, self.start + self.stride / 2 - 1.0)

    def until(self, pages: Ints, at: Floats | float) -> Ints:
        """Index behind the last moment of each page at or before a time."""
        return np.searchsorted(self.keys, pages * self.stride + (at - self.start), side="right")

    def count(self, pages: Ints, after: Floats, until: Floats | float) -> Ints:
        """Moments of each page in (after, until]."""
        return self.until(pages, until) - self.until(pages, after)

    def next(self, pages: Ints, after: Floats) -> Floats:
        """The first moment of each page after a time, inf if none."""
        at = self.until(pages, after)
        found = np.full(len(pages), np.inf)
        there = at < self.ends[pages]
        found[there] = self.times[at[there]]
        return found


def load(path: Path) -> Site:
    """One site of the reference data; times in days since its beginning."""
    data = load_history(path)
    first, day = float(data["birth"].min()), 86400.0
    end = (max(float(data[name].max()) for name in ("commit_t", "end", "change_t") if name in data) - first) / day
    birth = (data["birth"] - first) / day
    death = np.where(data["death"] > 0, (data["death"] - first) / day, end)

    def moments(kind: str) -> Moments:
        if f"{kind}_off" not in data:
            return Moments(np.zeros(len(birth) + 1, np.int64), np.zeros(0), 0.0, end)
        return Moments(data[f"{kind}_off"], (data[f"{kind}_t"] - first) / day, 0.0, end)

    hosts = np.unique(data["page_host"], return_inverse=True)[1] if "page_host" in data else None
    return Site(path.stem, birth, np.maximum(death, birth), moments("change"), moments("signal"), hosts=hosts)


def sites(folder: Path = SHARED) -> Iterator[Site]:
    """Every site of the reference data that is one host's."""
    for site in map(load, history_files(folder)):
        if site.hosts is None:
            yield site


class Policy(Protocol):
    """Who chooses and learns."""

    def choose(self, now: float, alive: Ints, last: Floats, signals: Ints, count: int) -> Ints:
        """The `count` pages to crawl now out of those alive; `last` and `signals` are theirs."""

    def learn(self, now: float, pages: Ints, tau: Floats, signals: Ints, changed: NDArray[np.bool_]) -> None:
        """What the crawls found."""


class RoundRobin:
    """The page not crawled for longest."""

    def choose(self, _now: float, alive: Ints, last: Floats, _signals: Ints, count: int) -> Ints:
        """The oldest copies."""
        return alive[np.argsort(last, kind="stable")[:count]]

    def learn(self, now: float, pages: Ints, tau: Floats, signals: Ints, changed: NDArray[np.bool_]) -> None:
        """Nothing."""


class Clairvoyant:
    """Knows which copies are stale and when their pages will change next: the most that any policy could reach."""

    def __init__(self, site: Site, importance: Floats) -> None:
        self._site, self._importance = site, importance

    def choose(self, now: float, alive: Ints, last: Floats, _signals: Ints, count: int) -> Ints:
        """Those whose new copy would stay current for longest, by importance; a fresh copy gains nothing."""
        changes, until = self._site.changes, self._site.death[alive]
        stale = np.flatnonzero(changes.next(alive, last) <= now)
        lasting = np.minimum(changes.next(alive[stale], np.full(len(stale), now)), until[stale]) - now
        return alive[stale[np.argsort(-self._importance[alive[stale]] * lasting, kind="stable")[:count]]]

    def learn(self, now: float, pages: Ints, tau: Floats, signals: Ints, changed: NDArray[np.bool_]) -> None:
        """Nothing is left to learn."""


def replay(site: Site, policy: Policy, slots: int, importance: Floats, start: float = 0.0) -> float:
    """Weighted share of living page-time from `start` on in which our copy was the current one.

    A page's first copy is taken at its birth and costs nothing; its death is known. In a simulated site a copy counts
    by its chance to be current.
    """
    last = site.birth.copy()
    fresh = np.zeros(site.pages)
    end = float(site.death.max())
    hosts = 1 if site.hosts is None else len(np.unique(site.hosts))
    every = end / slots
    taken = 0
    while taken < slots:
        now = (taken + 0.5) * every
        alive = np.flatnonzero((site.birth < now) & (site.death > now))
        count = min(max(1, len(alive) // (ROUND * hosts)), slots - taken)
        now = (taken + 0.5 * count) * every
        taken += count
        if not len(alive):
            continue
        signals = site.signals.count(alive, last[alive], now)
        pages = policy.choose(now, alive, last[alive], signals, count)
        changed = site.changes.count(pages, last[pages], now) > 0
        fresh[pages] += site.fresh_time(pages, last[pages], np.full(len(pages), now), start)
        heard = site.signals.count(pages, last[pages], now)
        tau, last[pages] = now - last[pages], now
        policy.learn(now, pages, tau, heard, changed)
    everyone = np.arange(site.pages)
    fresh += site.fresh_time(everyone, last, site.death, start)
    alive_time = np.maximum(site.death - np.maximum(site.birth, start), 0.0)
    return float((importance * fresh).sum() / (importance * alive_time).sum())
