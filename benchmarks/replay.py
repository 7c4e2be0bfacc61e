"""Replays of real page histories: a policy crawls within a budget and sees only whether a page had changed.

`python -m benchmarks.replay [--json] [--data FOLDER] [--only NAME] [--full]` prints how fresh crawld keeps each history
of a folder beside round robin and known rates, with equal and with Zipf importance; a history of many hosts is run with
and without pages of more than .3 changes a day, and also with every host learning alone. Progress goes to stderr.
"""

import argparse
import copy
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crawld.errors import InputError
from crawld.learning.online_learner import OnlineLearner
from crawld.policies.policies import DEFAULT
from crawld.sim.contestants import contestant
from crawld.sim.engine import Crawler, simulate
from crawld.sim.online_crawler import OnlineCrawler, OnlineLearning
from crawld.sim.population import zipf
from crawld.sim.recorded import draw_window, history_files, load_history, measured_rates, of_pages, recorded_world
from crawld.sim.trial import standard_error
from crawld.sim.world import World

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARED = Path(__file__).parents[2] / "shared" / "data"
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


RESTLESS = 0.3
"""Changes a day above which a page of many hosts is taken for noise of its extraction."""
PAGES, SLOTS, DRAWS = 200, 1000, 5
BUDGETS = (0.1, 0.3, 1.0, 3.0)
WEIGHTS = ("equal", "Zipf")
ALONE = "hosts_alone"


class AloneCrawler(OnlineCrawler):
    """crawld whose hosts learn nothing from each other: each has a learner of its own."""

    def learn(self, now: float) -> None:
        """One round of every host with something new."""
        if "_learners" not in self.__dict__:  # the first round comes before there is anything to learn from
            self._fresh, self._learners = copy.deepcopy(self.learner), dict[int, OnlineLearner]()
        hosts = self._world.host_of
        dirty, again = self._dirty, self._again
        left_dirty: dict[int, None] = {}
        left_again: dict[int, None] = {}
        for number in {int(hosts[page]) for page in [*dirty, *again]}:
            self._dirty = dict.fromkeys(page for page in dirty if hosts[page] == number)
            self._again = dict.fromkeys(page for page in again if hosts[page] == number)
            if number not in self._learners:
                self._learners[number] = copy.deepcopy(self._fresh)
            self.learner = self._learners[number]
            super().learn(now)
            left_dirty |= self._dirty
            left_again |= self._again
        self._dirty, self._again = left_dirty, left_again


@dataclass(frozen=True, slots=True)
class Cell:
    """One history, or its calmer pages, at one budget and weighting."""

    path: Path
    budget: float
    weights: str
    calm: bool = False  # without restless pages
    draws: int = DRAWS

    @property
    def name(self) -> str:
        """The history, and what was left out of it."""
        return f"{self.path.stem}, at most {RESTLESS:g} changes a day" if self.calm else self.path.stem


def measure(cell: Cell) -> dict[str, object]:
    """Mean freshness of every contestant over the draws."""
    reached: dict[str, list[float]] = {}
    slots = []
    whole = recorded_world(cell.path)
    many = len(np.unique(whole.host_of)) > 1
    if cell.calm:
        whole = of_pages(whole, np.flatnonzero(measured_rates(whole).population.delta <= RESTLESS))
    for draw in range(cell.draws):
        stream = np.random.default_rng([draw, 11])
        cut = draw_window(whole, 447 if many else PAGES, int(SLOTS / cell.budget), stream)
        world = measured_rates(cut)
        if cell.weights == "Zipf":
            mu = zipf(world.population.pages, draw)
            world = replace(world, population=replace(world.population, mu=mu))
        rate = cell.budget * len(world.changes) / world.horizon
        for name, crawler in _contestants(world, rate, many=many):
            run = simulate(world, crawler, rate)
            reached.setdefault(name, []).append(run.ledger().accuracy(0.0, world.horizon))
        slots.append(int(rate * world.horizon))
    gains = [a - b for a, b in zip(reached["crawld"], reached["round_robin"], strict=True)]
    means = {name: round(float(np.mean(values)), 4) for name, values in reached.items()}
    about = {"world": cell.name, "weights": cell.weights, "budget": cell.budget}
    error = standard_error(gains)
    return about | means | {"lead": round(float(np.mean(gains)), 4), "error": error, "slots": int(np.mean(slots))}


def _contestants(world: World, rate: float, *, many: bool) -> Iterator[tuple[str, Crawler]]:
    learning = OnlineLearning(round_share=0.05)
    yield "round_robin", contestant("uniform", world, rate)
    yield "crawld", contestant(DEFAULT, world, rate, learning)
    yield "known", contestant("known", world, rate)
    if many:
        yield ALONE, AloneCrawler(DEFAULT, world, rate, learning)


def cells(folder: Path, only: str | None, *, full: bool) -> Iterator[Cell]:
    """Everything that is run."""
    for path in history_files(folder):
        if only is not None and only not in path.stem:
            continue
        many = "page_host" in load_history(path)
        for weights in WEIGHTS:
            for budget in BUDGETS if full or many else BUDGETS[1:3]:
                for calm in (False, True) if many else (False,):
                    yield Cell(path, budget, weights, calm, 2 * DRAWS if full else DRAWS)


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--data", type=Path, default=SHARED, metavar="FOLDER", help="where the histories (.npz) are")
    parser.add_argument("--only", metavar="NAME", help="histories whose name contains this")
    parser.add_argument("--full", action="store_true", help="more draws and budgets")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    try:
        work = [*cells(options.data, options.only, full=options.full)]
    except InputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    rows = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for number, row in enumerate(pool.map(measure, work), start=1):
            rows.append(row)
            print(f"  {number} of {len(work)}: {row}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({"benchmark": "replay", "rows": rows}, indent=1))
        return
    names = ("world", "weights", "budget", "round_robin", "crawld", "known", ALONE, "lead", "slots")
    print("".join(f"{name:>{44 if name == 'world' else 12}}" for name in names))
    for row in rows:
        print("".join(f"{row.get(name, '')!s:>{44 if name == 'world' else 12}}" for name in names))


if __name__ == "__main__":
    main()
