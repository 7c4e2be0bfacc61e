"""A fleet of workers against one scheduler over all pages, by how the budget is shared among the workers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from random import Random

import numpy as np
from numpy.typing import NDArray

from crawld.choose.chooser import Bid
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.policies import DEFAULT
from crawld.fleet.auction import Clearing, aim, clear
from crawld.model.shards import shard_of_host
from crawld.model.signal import SOURCES
from crawld.model.units import DAY
from crawld.research.crawler import MemoryHistories
from crawld.research.engine import Events, Run
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning, Past
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import Floats, Ints, Phase, Population, World, draw_world, from_quality, run_key


@dataclass(frozen=True)
class FleetLimits:
    """Numbers that bound and tune this module."""

    shards: int = 256
    pages_per_host: int = 4
    start: float = 20.0
    steady: float = 20.25
    step: float = 21.0
    call: float = 21.5
    end: float = 22.0
    """The past ends; figures count from here; rates step up; the largest host signals all its pages; the end."""
    steep: float = 10.0
    """Factor by which the rates of one worker's pages rise."""
    call_seconds: float = 1.0
    called_truly: float = 0.5
    """The share of the largest host's pages that have changed when it signals them all."""
    learning: int = 5
    """Rounds between two rounds of learning."""
    min_pages: int = 1600
    pages_per_worker: int = 100
    second: float = 0.025
    """A second of the daemon, in the time of the world."""
    round: float = 2.0 * second
    bidding: float = 1.0 * second
    """Seconds between a round's bids and its beginning."""
    spacing: float = 1.0 * second
    """Between two requests to one host: the largest hosts cannot be asked as often as they would be worth it."""


LIMITS = FleetLimits()


@dataclass(frozen=True)
class FleetWorld:
    """A world whose hosts are in shards, and when its pages were crawled before the start."""

    world: World
    workers: int
    past_crawls: Floats  # (crawls, pages)

    @cached_property
    def worker_of(self) -> Ints:
        """Worker that holds each page's shard."""
        return _workers(self.world.host_of, self.workers)

    def past(self, pages: Ints) -> Past:
        """Findings on these pages before the start, by a crawl a day each."""
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

    def _seen(self, pages: Ints) -> "_SeenPages":
        """Of each page and each of its past intervals, the signals and whether it changed; and signals after them."""
        signals_by_page = self._signals_by_page
        intervals = len(self.past_crawls) - 1
        signals, changed = np.zeros((len(pages), intervals), np.int64), np.zeros((len(pages), intervals), bool)
        since = np.zeros(len(pages), np.int64)
        for at, page in enumerate(pages.tolist()):
            crawls = self.past_crawls[:, page]
            counts = np.diff(np.searchsorted(signals_by_page[page], [*crawls, LIMITS.start], side="right"))
            signals[at], since[at] = counts[:-1], counts[-1]
            changed[at] = np.diff(np.searchsorted(self.world.changes_by_page[page], crawls, side="right")) > 0
        return _SeenPages(signals, changed, since)

    @cached_property
    def _signals_by_page(self) -> list[Floats]:
        world = self.world
        order = np.argsort(world.signal_pages, kind="stable")
        ends = np.searchsorted(world.signal_pages[order], np.arange(1, world.population.pages))
        return np.split(world.signal_times[order], ends)


@dataclass(frozen=True, slots=True)
class _SeenPages:
    signals: Ints
    changed: NDArray[np.bool_]
    since: Ints


def part_of(world: World, pages: Ints) -> World:
    """The world of some pages from the start on, with pages and hosts numbered anew."""
    place = np.full(world.population.pages, -1)
    place[pages] = np.arange(len(pages))
    heard = (place[world.signal_pages] >= 0) & (world.signal_times > LIMITS.start)
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
    stepped = np.where(_workers(hosts, workers) == 0, LIMITS.steep, 1.0)
    later = replace(population, delta=population.delta * stepped, nu=population.nu * stepped)
    drawn = replace(draw_world([Phase(0.0, population), Phase(LIMITS.step, later)], LIMITS.end, key), hosts=hosts)
    days = np.arange(np.floor(LIMITS.start))[:, None]
    return FleetWorld(_with_call(rng, drawn), workers, days + rng.random(pages))


def _workers(host_of: Ints, workers: int) -> Ints:
    """Worker that holds the shard of each page's host."""
    shards = [shard_of_host(f"host{host}.test", LIMITS.shards) for host in range(int(host_of.max()) + 1)]
    return np.array(shards)[host_of] % workers


def _hosts(pages: int) -> Ints:
    """Host of each page: sizes fall as 1/(k + 10), so that the first ones may not be asked as often as others."""
    shares = np.cumsum(1.0 / (10.0 + np.arange(1, max(2, pages // LIMITS.pages_per_host) + 1)))
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
    """Adds a call: the largest host signals all its pages within a second; some have changed just then."""
    called = np.flatnonzero(world.host_of == 0)
    changes = list(world.changes_by_page)
    for page in called[rng.random(len(called)) < LIMITS.called_truly].tolist():
        changes[page] = np.sort(np.append(changes[page], LIMITS.call))
    times = np.append(world.signal_times, LIMITS.call + LIMITS.call_seconds * LIMITS.second * rng.random(len(called)))
    order = np.argsort(times, kind="stable")
    return replace(
        world,
        changes=np.concatenate(changes),
        change_offsets=np.cumsum([0] + [len(one) for one in changes]),
        signal_times=times[order],
        signal_pages=np.append(world.signal_pages, called)[order],
    )


class Division(StrEnum):
    """Ways to divide the requests of a round among the workers."""

    AUCTION = "auction"
    EQUAL = "equal"
    BY_PAGES = "by-pages"
    ONE = "one-scheduler"


class FleetWorker:
    """One worker: a scheduler over its pages that sends as much as it is granted."""

    def __init__(self, fleet: FleetWorld, pages: Ints, others: Floats | float) -> None:
        self.pages = pages
        self._world = world = part_of(fleet.world, pages)
        self._gate = HostGate(HostLimits(spacing=LIMITS.spacing * DAY, max_delay=DAY), Random(0))  # noqa: S311 - no secret
        for host in range(int(world.host_of.max(initial=-1)) + 1):
            self._gate.host_of_pages(f"host{host}")
        learning = OnlineLearning(round_share=1e9)
        past = replace(fleet.past(pages), others=others)
        self._crawler = OnlineCrawler(DEFAULT, world, float(len(pages)), learning, gate=self._gate, past=past)
        self._events = Events(world, self._crawler, [])
        self._rate, self._credit, self._at = 0.0, 0.0, LIMITS.start  # requests a day; of a slot, as of when
        self._last: list[float] = (past.last / DAY).tolist()
        self.times: list[float] = []
        self.crawled: list[int] = []
        self.slots = 0
        self._held_up: tuple[int, ...] = ()  # hosts whose gates are waited for

    @property
    def taught(self) -> Floats:
        """Evidence of its hosts on the prior that all hosts share."""
        return self._crawler.learner.taught

    def hear(self, others: Floats) -> None:
        """Take over what the hosts of other workers say of it."""
        self._crawler.learner.hear(others)

    def grant(self, rate: float) -> None:
        """Let so many requests a day be sent from now on."""
        self._rate = rate

    def bid(self, now: float, start: float, level: float) -> Bid:
        """Bids for the round that begins then."""
        self._events.tell(now)
        span, sent = (now * DAY, (start + LIMITS.round) * DAY), (start - now) * self._rate
        bid = self._crawler.scheduler.bid(*span, start=start * DAY, sent=sent, level=level)
        self._held_up = bid.held_up
        return bid

    def run(self, until: float) -> None:
        """Crawl until then: a slot comes whenever what was granted has added up to one request."""
        while self._rate > 0 and (now := self._aimed(self._at + (1.0 - self._credit) / self._rate)) < until:
            self._at, self._credit = now, 0.0
            self.slots += 1
            self._events.tell(now)
            page = self._crawler.pick(now)
            if page is not None:
                self._crawl(page, now)
        self._credit = min(1.0, self._credit + (until - self._at) * self._rate)
        self._at = until

    def _aimed(self, now: float) -> float:
        """Time at which a slot that comes now is used: as soon as a host opens that is worth waiting for."""
        aimed = aim(now * DAY, DAY / self._rate, [float(self._gate.earliest[host]) for host in self._held_up])
        days = aimed / DAY
        return days if days * DAY >= aimed else math.nextafter(days, math.inf)  # a hair before, the host is shut

    def learn(self, now: float) -> None:
        """One round of learning."""
        self._crawler.learn(now * DAY)

    def _crawl(self, page: int, now: float) -> None:
        host = int(self._world.host_of[page])
        self._gate.acquire(host, now * DAY)
        self._gate.finish(host, now * DAY)
        self._crawler.settle(page, now, self._world.changed_between(page, self._last[page], now))
        self._last[page] = now
        self.times.append(now)
        self.crawled.append(int(self.pages[page]))


def run_fleet(fleet: FleetWorld, policy: str) -> Run:
    """Let the workers of a fleet, or one scheduler, run through the world: a request a day for each page."""
    everyone = np.arange(fleet.world.population.pages)
    parts = (
        [everyone]
        if policy == Division.ONE
        else [np.flatnonzero(fleet.worker_of == one) for one in range(fleet.workers)]
    )
    workers = _join(fleet, [pages for pages in parts if len(pages)])
    requests = len(everyone) * LIMITS.round
    clearing = _clearing(policy, workers, requests, (LIMITS.start, LIMITS.start), math.inf)
    for number, begin in enumerate(
        np.arange(LIMITS.start, LIMITS.end - LIMITS.round / 2, LIMITS.round).tolist(), start=1
    ):
        for name, worker in workers.items():
            worker.grant(clearing.shares[name] / LIMITS.round)
            worker.run(begin + LIMITS.round - LIMITS.bidding)
        bidding = begin + LIMITS.round - LIMITS.bidding, begin + LIMITS.round
        clearing = _clearing(policy, workers, requests, bidding, clearing.level)
        for worker in workers.values():
            worker.run(begin + LIMITS.round)
        if number % LIMITS.learning == 0:
            _learn(list(workers.values()), begin + LIMITS.round)
    return _all_crawls(fleet, list(workers.values()))


def _join(fleet: FleetWorld, parts: Sequence[Ints]) -> dict[str, FleetWorker]:
    """Workers that start one after another, each with what those before it have learnt of all hosts."""
    workers: dict[str, FleetWorker] = {}
    taught: Floats | float = 0.0
    for number, pages in enumerate(parts):
        workers[str(number)] = worker = FleetWorker(fleet, pages, taught)
        taught = taught + worker.taught
    return workers


def _learn(workers: Sequence[FleetWorker], now: float) -> None:
    """One round of learning, with what the others' hosts have taught so far."""
    total = sum(worker.taught for worker in workers)
    for worker in workers:
        worker.hear(np.asarray(total - worker.taught))
        worker.learn(now)


def _clearing(
    policy: str, workers: Mapping[str, FleetWorker], requests: float, bidding: tuple[float, float], level: float
) -> Clearing:
    """Requests of each worker in the next round, from bids made then for a round that starts then."""
    if policy == Division.AUCTION:
        return clear({name: worker.bid(*bidding, level) for name, worker in workers.items()}, requests)
    weights = {name: 1.0 if policy == Division.EQUAL else float(len(worker.pages)) for name, worker in workers.items()}
    return Clearing(math.inf, {name: requests * weight / sum(weights.values()) for name, weight in weights.items()})


def _all_crawls(fleet: FleetWorld, workers: Sequence[FleetWorker]) -> Run:
    """Crawls of all workers, the past included."""
    past = fleet.past_crawls
    times = np.concatenate([past.ravel(), *(worker.times for worker in workers)])
    pages = np.concatenate([np.tile(np.arange(past.shape[1]), len(past)), *(worker.crawled for worker in workers)])
    order = np.argsort(times, kind="stable")
    slots = past.size + sum(worker.slots for worker in workers)
    return Run(fleet.world, times[order], pages[order].astype(np.int64), slots, started_fresh=True)


def measure_fleet(trial: Trial) -> Measures:
    """The freshness that a way to share the budget reaches: steady, after a step of rates, and after a host's call."""
    workers = trial.pages
    fleet = draw_fleet_world(
        max(LIMITS.min_pages, LIMITS.pages_per_worker * workers), workers, run_key(trial.seed, trial.repeat)
    )
    run = run_fleet(fleet, trial.contestant)
    steady, stepped, called = (
        run.ledger().accuracy_series(np.array([LIMITS.steady, LIMITS.step, LIMITS.call, LIMITS.end])).tolist()
    )
    return {"accuracy": steady, "after_step": stepped, "after_call": called}


EXPERIMENTS = (
    Experiment(
        name="fleet",
        shows="how much fresher one scheduler over all pages is than several workers, by how these share the budget",
        pages=(4, 32),
        repeats=2,
        contestants=(Division.AUCTION, Division.BY_PAGES, Division.EQUAL, Division.ONE),
        measure=measure_fleet,
        x_axis="workers",
        measured="freshness",
        best=Division.ONE,
        settings={
            "pages": f"{LIMITS.pages_per_worker} a worker, at least {LIMITS.min_pages}, in hosts of different sizes, "
            "each page crawled "
            "every 40 seconds on average",
            "round": "2 seconds, bids a second before it",
            "hosts": "asked once a second at most",
            "learning": f"by each worker from its own crawls, every {LIMITS.learning} rounds; "
            "what hosts in general are like is "
            "shared",
            "after_step": f"from when the pages of one worker change {LIMITS.steep:g} times as often",
            "after_call": "from when the largest host signals all its pages within a second",
            "loss": f"in percent of what {Division.ONE} reaches in the same world",
        },
    ),
)
