"""The world of a fleet: hosts in shards, a past that everyone has learnt from, a step of rates and a host that calls.

Times are days. A fleet's second is a fortieth of a day: pages are crawled once a day on average, so a round of two
seconds is a twentieth of the time between two crawls. In a real fleet it is a thousandth or less, and what was bid a
second ago is far nearer the truth than here.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crawld.model.shards import shard_of_host
from crawld.model.signal import SOURCES
from crawld.research.histories import MemoryHistories
from crawld.research.online_crawler import DAY, Past
from crawld.research.population import Floats, Population, from_quality
from crawld.research.world import Ints, Phase, World, draw_world

SECOND = 0.025
SHARDS = 256
PAGES_PER_HOST = 4
START, STEADY, STEP, CALL, END = 20.0, 20.25, 21.0, 21.5, 22.0
"""The past ends; figures count from here; rates step up; the largest host signals all its pages; the end."""
STEEP = 10.0
"""By how much the rates of one worker's pages rise."""
CALL_SECONDS = 1.0
CALLED_TRULY = 0.5
"""The share of the largest host's pages that have changed when it signals them all."""


@dataclass(frozen=True)
class FleetWorld:
    """A world whose hosts are in shards, and when its pages were crawled before the start."""

    world: World
    workers: int
    past_crawls: Floats  # (crawls, pages)

    @cached_property
    def worker_of(self) -> Ints:
        """By page, the worker that holds its shard."""
        return _workers(self.world.host_of, self.workers)

    def past(self, pages: Ints) -> Past:
        """What was found of these pages before the start, by a crawl a day each."""
        world = self.world
        histories = MemoryHistories([f"host{host}" for host in np.unique(world.host_of[pages], return_inverse=True)[1]])
        crawls, count = self.past_crawls[:, pages], len(pages)
        seen, everyone = self._seen(pages), np.arange(count)
        histories.begin(everyone, crawls[0] * DAY)
        for interval, at in enumerate(crawls[1:]):
            signals = np.zeros((count, len(SOURCES)), np.int64)
            signals[:, 0] = seen.signals[:, interval]
            histories.crawled(everyone, at * DAY, signals, seen.changed[:, interval])
            histories.heard_many(everyone, signals)
        since = np.zeros((count, len(SOURCES)), np.int64)
        since[:, 0] = seen.since
        histories.heard_many(everyone, since)
        return Past(histories, crawls[-1] * DAY, since)

    def _seen(self, pages: Ints) -> "_Seen":
        """Of each page and each of its past intervals, the signals and whether it changed; and signals after them."""
        signals_by_page = self._signals_by_page
        intervals = len(self.past_crawls) - 1
        signals, changed = np.zeros((len(pages), intervals), np.int64), np.zeros((len(pages), intervals), bool)
        since = np.zeros(len(pages), np.int64)
        for at, page in enumerate(pages.tolist()):
            crawls = self.past_crawls[:, page]
            counts = np.diff(np.searchsorted(signals_by_page[page], [*crawls, START], side="right"))
            signals[at], since[at] = counts[:-1], counts[-1]
            changed[at] = np.diff(np.searchsorted(self.world.changes_by_page[page], crawls, side="right")) > 0
        return _Seen(signals, changed, since)

    @cached_property
    def _signals_by_page(self) -> list[Floats]:
        world = self.world
        order = np.argsort(world.signal_pages, kind="stable")
        ends = np.searchsorted(world.signal_pages[order], np.arange(1, world.population.pages))
        return np.split(world.signal_times[order], ends)


@dataclass(frozen=True, slots=True)
class _Seen:
    signals: Ints
    changed: NDArray[np.bool_]
    since: Ints


def part_of(world: World, pages: Ints) -> World:
    """The world of some pages from the start on, with pages and hosts numbered anew."""
    place = np.full(world.population.pages, -1)
    place[pages] = np.arange(len(pages))
    heard = (place[world.signal_pages] >= 0) & (world.signal_times > START)
    changes = [world.changes_by_page[page] for page in pages.tolist()]
    some = world.population
    return World(
        population=Population(some.mu[pages], some.delta[pages], some.lam[pages], some.nu[pages]),
        horizon=world.horizon,
        changes=np.concatenate([np.zeros(0), *changes]),
        change_offsets=np.cumsum([0] + [len(one) for one in changes]),
        signal_times=world.signal_times[heard],
        signal_pages=place[world.signal_pages[heard]],
        hosts=np.unique(world.host_of[pages], return_inverse=True)[1],
    )


def draw_fleet_world(pages: int, workers: int, key: int) -> FleetWorld:
    """Hosts of Zipf's sizes and different tempers; the step hits the pages of the first worker."""
    rng = np.random.default_rng(key)
    hosts = _hosts(pages)
    population = _population(rng, hosts)
    stepped = np.where(_workers(hosts, workers) == 0, STEEP, 1.0)
    later = replace(population, delta=population.delta * stepped, nu=population.nu * stepped)
    drawn = replace(draw_world([Phase(0.0, population), Phase(STEP, later)], END, key), hosts=hosts)
    days = np.arange(np.floor(START))[:, None]
    return FleetWorld(_with_call(rng, drawn), workers, days + rng.random(pages))


def _workers(host_of: Ints, workers: int) -> Ints:
    """By page, the worker that holds the shard of its host."""
    shards = [shard_of_host(f"host{host}.test", SHARDS) for host in range(int(host_of.max()) + 1)]
    return np.array(shards)[host_of] % workers


def _hosts(pages: int) -> Ints:
    """By page, its host: sizes fall as 1/(k + 10), so that the first ones may not be asked as often as others."""
    shares = np.cumsum(1.0 / (10.0 + np.arange(1, max(2, pages // PAGES_PER_HOST) + 1)))
    return np.searchsorted(shares / shares[-1], (np.arange(pages) + 0.5) / pages).astype(np.int64)


def _population(rng: np.random.Generator, host_of: Ints) -> Population:
    """Pages that differ between hosts and within them; every other host announces changes, more or less well."""
    pages, hosts = len(host_of), int(host_of.max()) + 1
    delta = np.exp(rng.normal(0.0, 1.0, pages) + rng.normal(0.0, 1.2, hosts)[host_of])
    precision, recall = rng.uniform(0.3, 1.0, hosts), rng.uniform(0.3, 0.9, hosts) * (np.arange(hosts) % 2 == 0)
    mu = np.exp(rng.normal(0.0, 0.7, pages) + rng.normal(0.0, 1.2, hosts)[host_of])
    columns = (mu / mu.mean(), delta / delta.mean(), precision[host_of], recall[host_of])
    rows = [from_quality(*page) for page in zip(*(column.tolist() for column in columns), strict=True)]
    return Population(*np.array(rows).T.copy())


def _with_call(rng: np.random.Generator, world: World) -> World:
    """The same world, but that the largest host signals all its pages within a second; some have changed just then."""
    called = np.flatnonzero(world.host_of == 0)
    changes = list(world.changes_by_page)
    for page in called[rng.random(len(called)) < CALLED_TRULY].tolist():
        changes[page] = np.sort(np.append(changes[page], CALL))
    times = np.append(world.signal_times, CALL + CALL_SECONDS * SECOND * rng.random(len(called)))
    order = np.argsort(times, kind="stable")
    return replace(
        world,
        changes=np.concatenate(changes),
        change_offsets=np.cumsum([0] + [len(one) for one in changes]),
        signal_times=times[order],
        signal_pages=np.append(world.signal_pages, called)[order],
    )
