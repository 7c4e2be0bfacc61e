"""Several workers against one scheduler over all pages, each with the daemon's own scheduler, learner and gate.

Workers have nothing in common but the rounds: what each may send is decided for two seconds at a time, from bids made
a second before the round begins. Each learns from its own crawls; what they know of hosts in general they share.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from crawld.auction import Clearing, aim, clear
from crawld.frontier.bidding import Bid
from crawld.frontier.politeness import HostGate, HostLimits
from crawld.policies.policies import DEFAULT
from crawld.sim.engine import Events, Run
from crawld.sim.fleet.world import END, SECOND, START, FleetWorld, part_of
from crawld.sim.online_crawler import DAY, OnlineCrawler, OnlineLearning
from crawld.sim.population import Floats
from crawld.sim.world import Ints

ROUND = 2.0 * SECOND
BIDDING = 1.0 * SECOND
"""How long before a round begins its bids are made."""
LEARNING = 5
"""Rounds between two rounds of learning."""
SPACING = 1.0 * SECOND
"""Between two requests to one host: the largest hosts cannot be asked as often as they would be worth it."""
AUCTION, EQUAL, BY_PAGES, ONE = "auction", "equal", "by-pages", "one-scheduler"


class FleetWorker:
    """One worker: a scheduler over its pages that sends as much as it is granted."""

    def __init__(self, fleet: FleetWorld, pages: Ints, others: Floats | float) -> None:
        self.pages = pages
        self._world = world = part_of(fleet.world, pages)
        self._gate = HostGate(HostLimits(spacing=SPACING * DAY, max_delay=DAY), Random(0))  # noqa: S311 - no secret
        for host in range(int(world.host_of.max(initial=-1)) + 1):
            self._gate.host_of_pages(f"host{host}")
        learning = OnlineLearning(round_share=1e9)
        past = replace(fleet.past(pages), others=others)
        self._crawler = OnlineCrawler(DEFAULT, world, float(len(pages)), learning, gate=self._gate, past=past)
        self._events = Events(world, self._crawler, [])
        self._rate, self._credit, self._at = 0.0, 0.0, START  # requests a day; of a slot, as of when
        self._last: list[float] = (past.last / DAY).tolist()
        self.times: list[float] = []
        self.crawled: list[int] = []
        self.slots = 0
        self._held_up: tuple[int, ...] = ()  # hosts whose gates are waited for

    @property
    def taught(self) -> Floats:
        """What its hosts say of the prior that all hosts share."""
        return self._crawler.learner.taught

    def hear(self, others: Floats) -> None:
        """Take over what the hosts of other workers say of it."""
        self._crawler.learner.hear(others)

    def grant(self, rate: float) -> None:
        """Let so many requests a day be sent from now on."""
        self._rate = rate

    def bid(self, now: float, start: float, level: float) -> Bid:
        """What this worker could use in the round that begins then."""
        self._events.tell(now)
        span, sent = (now * DAY, (start + ROUND) * DAY), (start - now) * self._rate
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
        """When a slot that comes now is used: as soon as a host opens that it is worth waiting for."""
        return aim(now * DAY, DAY / self._rate, [float(self._gate.earliest[host]) for host in self._held_up]) / DAY

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
    parts = [everyone] if policy == ONE else [np.flatnonzero(fleet.worker_of == one) for one in range(fleet.workers)]
    workers = _join(fleet, [pages for pages in parts if len(pages)])
    requests = len(everyone) * ROUND
    clearing = _clearing(policy, workers, requests, (START, START), math.inf)
    for number, begin in enumerate(np.arange(START, END - ROUND / 2, ROUND).tolist(), start=1):
        for name, worker in workers.items():
            worker.grant(clearing.shares[name] / ROUND)
            worker.run(begin + ROUND - BIDDING)
        bidding = begin + ROUND - BIDDING, begin + ROUND
        clearing = _clearing(policy, workers, requests, bidding, clearing.level)
        for worker in workers.values():
            worker.run(begin + ROUND)
        if number % LEARNING == 0:
            _learn(list(workers.values()), begin + ROUND)
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
    """How many requests each worker may send in the next round, from bids made then for a round that starts then."""
    if policy == AUCTION:
        return clear({name: worker.bid(*bidding, level) for name, worker in workers.items()}, requests)
    weights = {name: 1.0 if policy == EQUAL else float(len(worker.pages)) for name, worker in workers.items()}
    return Clearing(math.inf, {name: requests * weight / sum(weights.values()) for name, weight in weights.items()})


def _all_crawls(fleet: FleetWorld, workers: Sequence[FleetWorker]) -> Run:
    """What everyone did, the past included."""
    past = fleet.past_crawls
    times = np.concatenate([past.ravel(), *(worker.times for worker in workers)])
    pages = np.concatenate([np.tile(np.arange(past.shape[1]), len(past)), *(worker.crawled for worker in workers)])
    order = np.argsort(times, kind="stable")
    slots = past.size + sum(worker.slots for worker in workers)
    return Run(fleet.world, times[order], pages[order].astype(np.int64), slots, started_fresh=True)
