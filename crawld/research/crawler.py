"""The daemon's scheduler, policies and estimator in simulated time: nothing here decides anything of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.choose.page_table import Intervals
from crawld.choose.policies import build
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.model.estimate import Histories
from crawld.model.signal import SOURCES
from crawld.research.engine import SimulatedCrawler
from crawld.research.gamma_posterior import smoothed_rates
from crawld.research.world import NO_CLAIM, Claim, Floats, Ints, Population, World

UNBOUND = Intervals(longest=np.inf, shortest=0.0)
"""The papers' policies wait as long or as short as they like."""


class MemoryHistories:
    """Histories of pages in memory, as the store would give them; `hosts` names the host of each page, from 0 on.

    Of each page the latest observations are kept, as many as the store gives.
    """

    def __init__(self, hosts: Sequence[str], sources: int = len(SOURCES), max_rows: int = 200) -> None:
        pages = len(hosts)
        self._hosts = np.array(hosts, object)
        self._max_rows = max_rows
        self._count = np.zeros(pages, np.int64)
        self._first, self._last = np.full((2, pages), np.nan)
        self._heard = np.zeros((pages, sources), np.int64)
        self._at, self._tau = np.zeros((2, pages, 4))
        self._changed = np.zeros((pages, 4), bool)
        self._magnitude = np.full((pages, 4), np.nan)
        self._signals = np.zeros((pages, 4, sources), np.int64)

    def heard(self, page: int, source: int) -> None:
        """A signal of a page that has been crawled was counted."""
        self._heard[page, source] += 1

    def heard_many(self, pages: Ints, counts: Ints) -> None:
        """Counts signals by page and source."""
        self._heard[pages] += counts

    def begin(self, pages: Ints, at: Floats | float) -> None:
        """First copies, which have nothing to be compared with."""
        self._first[pages] = self._last[pages] = at

    def crawled(
        self,
        pages: Ints,
        at: Floats | float,
        signals: Ints,
        changed: NDArray[np.bool_],
        magnitude: Floats | float = np.nan,
    ) -> None:
        """Pages were crawled at `at`: the signals counted since the crawl before (pages, sources), what was found."""
        magnitude = np.broadcast_to(magnitude, len(pages))
        new, at = np.isnan(self._last[pages]), np.broadcast_to(at, len(pages))
        self.begin(pages[new], at[new])
        pages, at, signals, changed, magnitude = (one[~new] for one in (pages, at, signals, changed, magnitude))
        self._make_room(pages)
        row = self._count[pages]
        self._at[pages, row], self._tau[pages, row] = at, at - self._last[pages]
        self._signals[pages, row], self._changed[pages, row], self._magnitude[pages, row] = signals, changed, magnitude
        self._count[pages] += 1
        self._last[pages] = at

    def of(self, pages: Ints) -> Histories:
        """The histories of these pages."""
        count = self._count[pages]
        used = np.arange(int(count.max(initial=0))) < count[:, None]
        take = pages[:, None], np.arange(used.shape[1])[None, :]
        return Histories(
            page_ids=pages,
            offsets=np.concatenate([[0], np.cumsum(count)]),
            at=self._at[take][used],
            tau=self._tau[take][used],
            signals=self._signals[take][used],
            changed=self._changed[take][used],
            magnitude=self._magnitude[take][used],
            hosts=self._hosts[pages].tolist(),
            first_success=self._first[pages],
            signal_counts=self._heard[pages],
        )

    def _make_room(self, pages: Ints) -> None:
        """A free row for each page: more rows for all, or the oldest of those forgotten that have the most."""
        have = self._at.shape[1]
        full = pages[self._count[pages] == have]
        if not len(full):
            return
        if have < self._max_rows:
            more = min(2 * have, self._max_rows) - have
            for name in ("_at", "_tau", "_changed", "_magnitude", "_signals"):
                column = getattr(self, name)
                room = np.zeros((len(column), more, *column.shape[2:]), column.dtype)
                setattr(self, name, np.concatenate([column, room], axis=1))
            return
        for column in (self._at, self._tau, self._changed, self._magnitude, self._signals):
            column[full, :-1] = column[full, 1:]
        self._count[full] -= 1


@dataclass(frozen=True, slots=True)
class Learnt:
    """Beliefs by page, as the scheduler takes them over."""

    alpha: Floats
    shape: Floats
    kappa: Floats
    gamma: Floats

    @classmethod
    def truth(cls, population: Population) -> "Learnt":
        """The true rates, known for certain."""
        return cls(population.alpha, np.full(population.pages, np.inf), population.kappa, population.gamma)

    def arrivals(self, pages: Ints, hosts: Ints, mu: Floats, last: Floats) -> Arrivals:
        """These pages, of which that is believed."""
        kappa, gamma = _by_source(self.kappa[pages]), _by_source(self.gamma[pages])
        return Arrivals(
            pages, hosts, mu, last, alpha=self.alpha[pages], shape=self.shape[pages], kappa=kappa, gamma=gamma
        )


Fit = Callable[[Histories], Learnt]


class SmoothedFit:
    """Kolobov et al.'s estimator: change rates alone, smoothed, and a first guess where nothing was seen."""

    def __init__(self, first_guess: float) -> None:
        self._first_guess = first_guess

    def __call__(self, seen: Histories) -> Learnt:
        """Every page's rate by itself."""
        rates = smoothed_rates(seen.offsets, seen.tau, seen.changed)
        rates = np.where(np.diff(seen.offsets) > 0, rates, self._first_guess)
        nothing = np.zeros_like(rates)
        return Learnt(rates, np.full_like(rates, np.inf), nothing, nothing)


@dataclass(frozen=True, slots=True)
class Learning:
    """Parameters are not known but learnt, anew at every epoch; before that every page is taken for `first_guess`."""

    fit: Callable[[], Fit]
    epoch: float
    first_guess: tuple[float, float]  # α and the shape of its distribution


class ScheduledCrawler(SimulatedCrawler):
    """crawld as the simulator sees it, with estimates that are given."""

    def __init__(self, scheduler: Scheduler, pages: int, discard: float = 0.0) -> None:
        self._scheduler, self._discard = scheduler, discard
        self._last = [0.0] * pages

    def pick(self, now: float) -> int | None:
        """The page most worth crawling."""
        return self._scheduler.pick(now)

    def settle(self, page: int, now: float, changed: bool) -> None:  # noqa: ARG002 - nothing is left to learn
        """Start the page's time anew."""
        self._scheduler.settle(page, now)
        self._last[page] = now

    def notice(self, page: int, now: float, claimed: Claim = NO_CLAIM) -> None:  # noqa: ARG002 - the papers' claim none
        """Count a signal, unless it comes so soon after a crawl that it is taken to be of what was crawled."""
        if now - self._last[page] >= self._discard:
            self._scheduler.notice(page)

    def change_bandwidth(self, rate: float, now: float) -> None:
        """Tell those policies that plan ahead; to the others a slot is a slot."""
        self._scheduler.change_bandwidth(rate, now)


class LearningCrawler(ScheduledCrawler):
    """A policy that knows nothing but the importance of pages, and learns no signals.

    `taught` is what it believed from epoch to epoch.
    """

    def __init__(self, policy: str, mu: Floats, bandwidth: float, learning: Learning, *, copies: bool) -> None:
        pages, (alpha, shape) = len(mu), learning.first_guess
        last, hosts = np.full(pages, 0.0 if copies else np.nan), np.zeros(pages, np.int64)
        scheduler = Scheduler(build(policy, bandwidth=bandwidth, intervals=UNBOUND), assumed=learning.first_guess)
        scheduler.add(Arrivals(np.arange(pages), hosts, mu, last))
        super().__init__(scheduler, pages)
        self._fit, self._epoch = learning.fit(), learning.epoch
        self._next_epoch = learning.epoch
        self._histories = MemoryHistories([""] * pages, sources=1)
        self._histories.begin(np.arange(pages), last)
        nothing = np.zeros(pages)
        self.taught = [Learnt(np.full(pages, alpha), np.full(pages, shape), nothing, nothing)]

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Hand over what the crawl found, and at the end of an epoch everything learnt from all of them."""
        super().settle(page, now, changed)
        self._histories.crawled(np.array([page]), now, np.zeros((1, 1), np.int64), np.array([changed]))
        if now >= self._next_epoch:
            self._next_epoch += self._epoch
            learnt = self._fit(self._histories.of(np.arange(len(self._last))))
            self.taught.append(learnt)
            kappa, gamma = _by_source(learnt.kappa), _by_source(learnt.gamma)
            self._scheduler.teach(range(len(kappa)), alpha=learnt.alpha, shape=learnt.shape, kappa=kappa, gamma=gamma)

    def known_at(self, time: float) -> Learnt:
        """Beliefs at that time."""
        return self.taught[min(int(time / self._epoch), len(self.taught) - 1)]


class KnowingCrawler(ScheduledCrawler):
    """A policy that knows each page's true rates, of changes and of signals; pages may come and go.

    `world.population` is what it knows. A page of which no signal is true (λ = 0) is crawled by its rate alone.
    """

    def __init__(self, policy: str, world: World, bandwidth: float) -> None:
        super().__init__(Scheduler(build(policy, bandwidth=bandwidth, intervals=UNBOUND)), world.population.pages)
        self._world, true = world, Learnt.truth(world.population)
        useful = world.population.lam > 0
        self._known = Learnt(true.alpha, true.shape, *(np.where(useful, one, 0.0) for one in (true.kappa, true.gamma)))
        self.appear(np.flatnonzero(world.born <= 0), 0.0)

    def appear(self, pages: Ints, at: float) -> None:
        """Take in pages with their first copies."""
        world = self._world
        last = np.full(len(pages), at)
        self._scheduler.add(self._known.arrivals(pages, world.host_of[pages], world.population.mu[pages], last))

    def vanish(self, pages: Ints) -> None:
        """Forget pages that are gone."""
        self._scheduler.retire(pages.tolist())

    def notice(self, page: int, now: float, claimed: Claim = NO_CLAIM) -> None:  # noqa: ARG002 - the claim counts
        """Count a signal, unless it claims a time before the last crawl."""
        if self._scheduler.last_success(page) < claimed[1]:
            self._scheduler.notice(page)


def scheduled(
    policy: str,
    beliefs: Population,
    bandwidth: float,
    *,
    learning: Learning | None = None,
    discard: float = 0.0,
) -> ScheduledCrawler:
    """A policy by its name, knowing `beliefs` exactly; or, learning, nothing but the importance of pages.

    Who knows the pages has a copy of each at time 0; who learns has none.
    """
    if learning is None:
        return convinced(policy, beliefs.mu, Learnt.truth(beliefs), bandwidth, discard)
    return LearningCrawler(policy, beliefs.mu, bandwidth, learning, copies=False)


def convinced(policy: str, mu: Floats, learnt: Learnt, bandwidth: float, discard: float = 0.0) -> ScheduledCrawler:
    """A policy by its name with given estimates and a copy of every page, which learns no more."""
    pages = np.arange(len(mu))
    scheduler = Scheduler(build(policy, bandwidth=bandwidth, intervals=UNBOUND))
    scheduler.add(learnt.arrivals(pages, np.zeros_like(pages), mu, np.zeros(len(mu))))
    return ScheduledCrawler(scheduler, len(mu), discard)


def _by_source(column: Floats) -> Floats:
    """The simulator has one source of signals, the daemon several."""
    table = np.zeros((len(column), len(SOURCES)))
    table[:, 0] = column
    return table
