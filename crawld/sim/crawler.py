"""The daemon's scheduler, policies and estimator in simulated time: nothing here decides anything of its own."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crawld.model.signal import SOURCES
from crawld.scheduler.columns import Intervals
from crawld.scheduler.policies import build
from crawld.scheduler.scheduler import Arrivals, Scheduler
from crawld.sim.learner import Fit, Learnt, Notebook
from crawld.sim.population import Floats, Population

UNBOUND = Intervals(longest=np.inf, shortest=0.0)
"""The papers' policies wait as long or as short as they like."""


@dataclass(frozen=True, slots=True)
class Learning:
    """Parameters are not known but learnt, anew at every epoch; before that every page is taken for `first_guess`."""

    fit: Callable[[], Fit]  # a new one for each run: it may remember
    epoch: float
    first_guess: tuple[float, float]  # α and the shape of its distribution


class ScheduledCrawler:
    """crawld as the simulator sees it."""

    def __init__(
        self, scheduler: Scheduler, pages: int, learning: Learning | None = None, discard: float = 0.0
    ) -> None:
        self._scheduler = scheduler
        self._learning = learning
        self._discard = discard
        self._notebook = Notebook(pages)
        self._last = [0.0] * pages
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

    def notice(self, page: int, now: float) -> None:
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


def scheduled(
    policy: str, beliefs: Population, bandwidth: float, *, learning: Learning | None = None, discard: float = 0.0
) -> ScheduledCrawler:
    """A policy by its name, knowing `beliefs` exactly; or, learning, nothing but the importance of pages."""
    pages = beliefs.pages
    scheduler = Scheduler(build(policy, bandwidth=bandwidth, intervals=UNBOUND))
    ids = np.arange(pages)
    hosts = np.zeros(pages, dtype=np.int64)
    if learning is None:
        scheduler.add(
            Arrivals(
                ids,
                hosts,
                beliefs.mu,
                np.zeros(pages),
                alpha=beliefs.alpha,
                shape=np.full(pages, np.inf),
                kappa=_by_source(beliefs.kappa),
                gamma=_by_source(beliefs.gamma),
            )
        )
    else:
        scheduler.assumed = learning.first_guess
        scheduler.add(Arrivals(ids, hosts, beliefs.mu, np.full(pages, np.nan)))
    return ScheduledCrawler(scheduler, pages, learning, discard)


def _by_source(column: Floats) -> Floats:
    """The simulator has one source of signals, the daemon several."""
    table = np.zeros((len(column), len(SOURCES)))
    table[:, 0] = column
    return table
