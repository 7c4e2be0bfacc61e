"""Contestants by name: crawld's policies, other crawlers' rules, and learners of papers."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crawld.choose.policies import POLICIES, build
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.model.errors import InputError
from crawld.research.crawler import UNBOUND, KnowingCrawler
from crawld.research.engine import SimulatedCrawler
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning
from crawld.research.peers import PEERS, peer_crawler
from crawld.research.world import Floats, Ints, World

ROUND_ROBIN = "uniform"
"""Round robin has nothing to learn."""


class MirrorSync(SimulatedCrawler):
    """Mirror descent on the rates at which pages are visited (Kolobov et al. 2020).

    A page's cost per time, at rate r, is C(r) = r ∫ c(τ) dτ over an interval 1/r, so C'(r) = (mean cost within the
    interval − cost at its end) / r. A share EXPLORE of the intervals is cut at a moment drawn evenly: what is found
    there is the mean cost, without bias; the others show the cost at their end. After each round of as many crawls as
    there are pages the rates take one step of exponentiated gradient and are scaled to the bandwidth. The constants
    are those that did best of eight pairs on drawn worlds.
    """

    EXPLORE, STEP, LEAST = 0.1, 0.03, 0.1

    def __init__(self, world: World, bandwidth: float) -> None:
        self._mu = world.population.mu / max(float(world.population.mu.mean()), 1e-300)
        self._bandwidth = bandwidth
        self._rate = np.ones(world.population.pages)
        self._gradient, self._visits = np.zeros((2, world.population.pages))
        self._alive = np.zeros(world.population.pages, bool)
        self._explores = np.zeros(world.population.pages, bool)
        self._due: list[tuple[float, int]] = []
        self._random = np.random.default_rng(1)
        self._crawls = 0
        self.appear(np.flatnonzero(world.born <= 0), 0.0)

    def appear(self, pages: Ints, at: float) -> None:
        """Give new pages the mean rate."""
        self._rate[pages] = self._rate[self._alive].mean() if self._alive.any() else 1.0
        self._alive[pages] = True
        self._scale()
        for page in pages.tolist():
            self._plan(page, at)

    def vanish(self, pages: Ints) -> None:
        """Share the rates of pages that are gone among the others."""
        self._alive[pages] = False
        self._scale()

    def pick(self, now: float) -> int | None:  # noqa: ARG002 - the most overdue, or the next one
        """The page whose visit is planned first."""
        while self._due:
            page = heapq.heappop(self._due)[1]
            if self._alive[page]:
                return page
        return None

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Count the cost that was found, and take a step at the end of a round."""
        share = self.EXPLORE if self._explores[page] else self.EXPLORE - 1.0
        self._gradient[page] += changed / share / self._rate[page]
        self._visits[page] += 1
        self._crawls += 1
        if self._crawls >= self._alive.sum():
            self._step()
        self._plan(page, now)

    def change_bandwidth(self, rate: float, now: float) -> None:  # noqa: ARG002 - from now on
        """Scale all rates."""
        self._bandwidth = rate
        self._scale()

    def _step(self) -> None:
        gradient = self._mu * self._gradient / np.maximum(self._visits, 1.0)
        unit = self._bandwidth / max(int(self._alive.sum()), 1)
        self._rate *= np.exp(np.clip(-self.STEP * gradient * unit, -1.0, 1.0))
        self._gradient[:] = self._visits[:] = 0.0
        self._crawls = 0
        self._scale()

    def _scale(self) -> None:
        """Let the rates of living pages use up the bandwidth; no rate falls below a part of the mean one."""
        living = self._alive
        if living.any():
            mean = self._bandwidth * (1.0 - self.EXPLORE / 2.0) / living.sum()  # cut intervals are half as long
            self._rate[living] *= mean / self._rate[living].mean()
            self._rate[living] = np.maximum(self._rate[living], self.LEAST * mean)
            self._rate[living] *= mean / self._rate[living].mean()

    def _plan(self, page: int, now: float) -> None:
        interval = 1.0 / self._rate[page]
        self._explores[page] = self._random.random() < self.EXPLORE
        heapq.heappush(self._due, (now + interval * (self._random.random() if self._explores[page] else 1.0), page))


class ExploreThenCommit(SimulatedCrawler):
    """Visits all pages in turn at first, then at the optimal rates for what it has seen (Upadhyay et al. 2020).

    Of all its crawls the square root of their number, for each page, is for exploring. Then each page has the rate that
    its own visits suggest, ln (n+1)/(n−x+½) over their mean interval for x changes in n visits, and keeps it. A page
    that comes later has the mean rate. Visits follow Azar et al.'s rates (2018), as the policy `lds`.
    """

    def __init__(self, world: World, bandwidth: float) -> None:
        pages = world.population.pages
        self._world, self._bandwidth = world, bandwidth
        living = float((world.died - world.born).sum()) / world.horizon
        self._left = int(living * max(np.sqrt(bandwidth * world.horizon / living), 1.0))
        self._last = np.full(pages, np.nan)
        self._visits, self._changes, self._watched = np.zeros((3, pages))
        self._alpha: Floats = np.ones(pages)
        self._scheduler = Scheduler(build("uniform", bandwidth=bandwidth, intervals=UNBOUND))
        self.appear(np.flatnonzero(world.born <= 0), 0.0)

    def appear(self, pages: Ints, at: float) -> None:
        """Take in new pages."""
        self._last[pages] = at
        self._add(self._scheduler, pages)

    def vanish(self, pages: Ints) -> None:
        """Forget pages that are gone."""
        self._last[pages] = np.nan
        self._scheduler.retire(pages.tolist())

    def pick(self, now: float) -> int | None:
        """The next page of the plan."""
        return self._scheduler.pick(now)

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Count what was found, and commit when exploring is over."""
        self._scheduler.settle(page, now)
        self._visits[page] += 1
        self._changes[page] += changed
        self._watched[page] += now - self._last[page]
        self._last[page] = now
        self._left -= 1
        if self._left == 0:
            self._commit()

    def change_bandwidth(self, rate: float, now: float) -> None:
        """Plan anew."""
        self._bandwidth = rate
        self._scheduler.change_bandwidth(rate, now)

    def _commit(self) -> None:
        visits, unchanged = self._visits, self._visits - self._changes
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = np.log((visits + 1.0) / (unchanged + 0.5)) * visits / self._watched
        seen = np.isfinite(rates) & (visits > 0)
        mean = float(rates[seen].mean()) if seen.any() else 1.0
        self._alpha = np.where(seen, rates, mean)
        self._scheduler = Scheduler(build("lds", bandwidth=self._bandwidth, intervals=UNBOUND))
        self._add(self._scheduler, np.flatnonzero(~np.isnan(self._last)))

    def _add(self, scheduler: Scheduler, pages: Ints) -> None:
        mu, hosts = self._world.population.mu[pages], self._world.host_of[pages]
        certain = np.full(len(pages), np.inf)
        scheduler.add(Arrivals(pages, hosts, mu, self._last[pages], alpha=self._alpha[pages], shape=certain))


@dataclass(frozen=True, slots=True)
class PaperLearner:
    """A learner of a paper: its rule in words, and a crawler that follows it."""

    rule: str
    make: Callable[[World, float], SimulatedCrawler]


LEARNERS: dict[str, PaperLearner] = {
    "mirrorsync": PaperLearner("mirror descent on visit rates, Kolobov et al. 2020", MirrorSync),
    "explore-then-commit": PaperLearner("in turn, then at the optimal rates of what was seen", ExploreThenCommit),
}


def names() -> list[str]:
    """All names: policies, learners, other crawlers, and the one that knows the true rates."""
    return [*POLICIES, *LEARNERS, *PEERS, "known"]


def contestant(name: str, world: World, bandwidth: float, learning: OnlineLearning | None = None) -> SimulatedCrawler:
    """The crawler of that name, with copies of all pages that are there at the start, learning from its own crawls."""
    if name in PEERS:
        return peer_crawler(name, world, copies=True)
    if name in LEARNERS:
        return LEARNERS[name].make(world, bandwidth)
    if name == "known":
        return KnowingCrawler("greedy-ncis", world, bandwidth)
    if name not in POLICIES:
        raise InputError(f"there is no policy or crawler {name!r}: choose from {', '.join(names())}")
    return OnlineCrawler(name, world, bandwidth, OnlineLearning(max_updates=0) if name == ROUND_ROBIN else learning)
