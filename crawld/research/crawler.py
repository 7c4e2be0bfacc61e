"""The daemon's scheduler, policies and estimator in simulated time: nothing here decides anything of its own."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.choose.page_table import Intervals
from crawld.choose.policies import build
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.model.signal import SOURCES
from crawld.research.gamma_posterior import smoothed_rates
from crawld.research.world import NO_CLAIM, Claim, Floats, Ints, Population, World


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything seen so far: page i owns the rows offsets[i]:offsets[i+1] of the columns."""

    offsets: Ints
    tau: Floats
    signals: Ints
    changed: NDArray[np.bool_]
    watched: Floats  # by page: time since its first crawl
    heard: Ints  # by page: signals in that time


@dataclass(frozen=True, slots=True)
class Learnt:
    """Beliefs by page, as the scheduler takes them over."""

    alpha: Floats
    shape: Floats
    kappa: Floats
    gamma: Floats


Fit = Callable[[Observed], Learnt]


class Notebook:
    """Writes down what crawls find, page by page; `copies` are the times of those there are at the start, else nan."""

    def __init__(self, copies: Floats) -> None:
        self._pages = len(copies)
        self._page: list[int] = []
        self._tau: list[float] = []
        self._signals: list[int] = []
        self._changed: list[bool] = []
        self._last = copies.copy()
        self._first = copies.copy()
        self._since = np.zeros(self._pages, dtype=np.int64)
        self._heard = np.zeros(self._pages, dtype=np.int64)

    def crawled(self, page: int, now: float, changed: bool) -> None:
        """A crawl found the page changed or not since the one before; the first of a page compares with nothing."""
        last = self._last[page]
        if np.isnan(last):
            self._first[page] = now
        else:
            self._page.append(page)
            self._tau.append(now - last)
            self._signals.append(int(self._since[page]))
            self._changed.append(changed)
            self._heard[page] += self._since[page]
        self._last[page] = now
        self._since[page] = 0

    def heard(self, page: int) -> None:
        """A signal of the page came."""
        self._since[page] += 1

    def observed(self) -> Observed:
        """All of it, in the order of pages."""
        page = np.array(self._page, dtype=np.int64)
        order = np.argsort(page, kind="stable")
        return Observed(
            offsets=np.concatenate([[0], np.cumsum(np.bincount(page, minlength=self._pages))]).astype(np.int64),
            tau=np.array(self._tau)[order],
            signals=np.array(self._signals, dtype=np.int64)[order],
            changed=np.array(self._changed, dtype=bool)[order],
            watched=np.nan_to_num(self._last - self._first),
            heard=self._heard.copy(),
        )


class SmoothedFit:
    """Kolobov et al.'s estimator: change rates alone, smoothed, and a first guess where nothing was seen."""

    def __init__(self, first_guess: float) -> None:
        self._first_guess = first_guess

    def __call__(self, seen: Observed) -> Learnt:
        """Every page's rate by itself."""
        rates = smoothed_rates(seen.offsets, seen.tau, seen.changed)
        rates = np.where(np.diff(seen.offsets) > 0, rates, self._first_guess)
        nothing = np.zeros_like(rates)
        return Learnt(rates, np.full_like(rates, np.inf), nothing, nothing)


UNBOUND = Intervals(longest=np.inf, shortest=0.0)
"""The papers' policies wait as long or as short as they like."""


@dataclass(frozen=True, slots=True)
class Learning:
    """Parameters are not known but learnt, anew at every epoch; before that every page is taken for `first_guess`."""

    fit: Callable[[], Fit]  # a new one for each run: it may remember
    epoch: float
    first_guess: tuple[float, float]  # α and the shape of its distribution


class ScheduledCrawler:
    """crawld as the simulator sees it; `copies` are the times of the copies at the start, nan where there is none."""

    def __init__(
        self, scheduler: Scheduler, copies: Floats, learning: Learning | None = None, discard: float = 0.0
    ) -> None:
        self._scheduler = scheduler
        self._learning = learning
        self._discard = discard
        self._notebook = Notebook(copies)
        self._last = [0.0] * len(copies)
        self._fit = learning.fit() if learning else None
        self._next_epoch = learning.epoch if learning else np.inf
        self.pick = scheduler.pick

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Hand over what the crawl found, and at the end of an epoch everything learnt from all of them."""
        self._scheduler.settle(page, now)
        self._last[page] = now
        if self._learning is None or self._fit is None:
            return
        self._notebook.crawled(page, now, changed)
        if now >= self._next_epoch:
            self._next_epoch += self._learning.epoch
            self._teach(self._fit(self._notebook.observed()))

    def notice(self, page: int, now: float, claimed: Claim = NO_CLAIM) -> None:  # noqa: ARG002 - the papers' claim none
        """Count a signal, unless it comes so soon after a crawl that it is taken to be of what was crawled."""
        if now - self._last[page] < self._discard:
            return
        self._scheduler.notice(page)
        if self._learning is not None:
            self._notebook.heard(page)

    def change_bandwidth(self, rate: float, now: float) -> None:
        """Tell those policies that plan ahead; to the others a slot is a slot."""
        self._scheduler.change_bandwidth(rate, now)

    def _teach(self, learnt: Learnt) -> None:
        ids = range(len(learnt.alpha))
        self._scheduler.teach(
            ids, alpha=learnt.alpha, shape=learnt.shape, kappa=_by_source(learnt.kappa), gamma=_by_source(learnt.gamma)
        )


class KnowingCrawler:
    """A policy that knows each page's true rates, of changes and of signals; pages may come and go.

    `world.population` is what it knows. A page of which no signal is true (λ = 0) is crawled by its rate alone.
    """

    def __init__(self, policy: str, world: World, bandwidth: float) -> None:
        self._world = world
        p = world.population
        useful = p.lam > 0
        self._alpha = p.alpha
        self._kappa, self._gamma = (_by_source(np.where(useful, one, 0.0)) for one in (p.kappa, p.gamma))
        self._scheduler = Scheduler(build(policy, bandwidth=bandwidth, intervals=UNBOUND))
        self.pick = self._scheduler.pick
        self.change_bandwidth = self._scheduler.change_bandwidth
        self.appear(np.flatnonzero(world.born <= 0), 0.0)

    def appear(self, pages: Ints, at: float) -> None:
        """Take in pages with their first copies."""
        known = Arrivals(
            pages,
            self._world.host_of[pages],
            self._world.population.mu[pages],
            np.full(len(pages), at),
            alpha=self._alpha[pages],
            shape=np.full(len(pages), np.inf),
            kappa=self._kappa[pages],
            gamma=self._gamma[pages],
        )
        self._scheduler.add(known)

    def vanish(self, pages: Ints) -> None:
        """Forget pages that are gone."""
        self._scheduler.retire(pages.tolist())

    def settle(self, page: int, now: float, changed: bool) -> None:  # noqa: ARG002 - nothing is left to learn
        """Start the page's time anew."""
        self._scheduler.settle(page, now)

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
    copies: bool = False,
) -> ScheduledCrawler:
    """A policy by its name, knowing `beliefs` exactly; or, learning, nothing but the importance of pages.

    Who knows the pages has a copy of each at time 0; who learns has none, unless there are said to be copies.
    """
    if learning is None:
        certain = np.full(beliefs.pages, np.inf)
        return convinced(
            policy, beliefs.mu, Learnt(beliefs.alpha, certain, beliefs.kappa, beliefs.gamma), bandwidth, discard
        )
    pages = beliefs.pages
    scheduler = Scheduler(build(policy, bandwidth=bandwidth, intervals=UNBOUND), assumed=learning.first_guess)
    last = np.full(pages, 0.0 if copies else np.nan)
    scheduler.add(Arrivals(np.arange(pages), np.zeros(pages, dtype=np.int64), beliefs.mu, last))
    return ScheduledCrawler(scheduler, last, learning, discard)


def convinced(policy: str, mu: Floats, learnt: Learnt, bandwidth: float, discard: float = 0.0) -> ScheduledCrawler:
    """A policy by its name with given estimates and a copy of every page, which learns no more."""
    pages = len(mu)
    scheduler = Scheduler(build(policy, bandwidth=bandwidth, intervals=UNBOUND))
    last = np.zeros(pages)
    scheduler.add(
        Arrivals(
            np.arange(pages),
            np.zeros(pages, dtype=np.int64),
            mu,
            last,
            alpha=learnt.alpha,
            shape=learnt.shape,
            kappa=_by_source(learnt.kappa),
            gamma=_by_source(learnt.gamma),
        )
    )
    return ScheduledCrawler(scheduler, last, None, discard)


def _by_source(column: Floats) -> Floats:
    """The simulator has one source of signals, the daemon several."""
    table = np.zeros((len(column), len(SOURCES)))
    table[:, 0] = column
    return table
