"""crawld's own learner in a replay: what the daemon learns and picks by, over histories kept in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay import Floats, Ints, Site
from benchmarks.replay_signals import CrowdCounts
from crawld.learning.estimator import Prior
from crawld.learning.host_priors import cautious
from crawld.learning.online_learner import OnlineLearner
from crawld.model.crowd import CROWDS
from crawld.value.greedy import GreedyNcis
from crawld.value.valuation import Beliefs

MOST_ROWS = 200
DAY = 86400.0


@dataclass(frozen=True)
class Remembered:
    """Histories of some pages, as the store would give them."""

    page_ids: Ints
    offsets: Ints
    at: Floats
    tau: Floats
    signals: Ints
    changed: NDArray[np.bool_]
    hosts: Sequence[str]
    first_success: Floats
    signal_counts: Ints


class Learnt:
    """Picks by the posterior-expected crawl value as the daemon does; learns from what crawls found alone."""

    def __init__(self, site: Site, importance: Floats, *, signals: bool = False, visit: float = 30.0) -> None:
        """`visit` is the first guess of the days between changes, as the daemon takes it from its bandwidth."""
        self._importance = importance
        self._counts = CrowdCounts(site) if signals else None
        self._sources = len(CROWDS) if signals else 0
        self.learner = OnlineLearner(Prior(alpha_rate=visit * DAY, gamma_rate=visit * DAY), self._sources)
        hosts = np.zeros(site.pages, np.int64) if site.hosts is None else site.hosts
        self._hosts = np.array([f"host{number}" for number in hosts.tolist()], object)
        self._birth, self._last = site.birth * DAY, site.birth.copy()
        self._shape, self._rate, self._most_shape = np.full((3, site.pages), np.nan)
        self._kappa, self._gamma = np.zeros((2, site.pages, self._sources))
        self._rows = np.zeros(site.pages, np.int64)
        self._at, self._tau = np.zeros((2, site.pages, MOST_ROWS))
        self._changed = np.zeros((site.pages, MOST_ROWS), bool)
        self._signals = np.zeros((site.pages, MOST_ROWS, self._sources), np.int64)
        self._heard = np.zeros((site.pages, self._sources), np.int64)
        self.predicted: list[Floats] = []
        self.found_fresh: list[NDArray[np.bool_]] = []

    def choose(self, now: float, alive: Ints, last: Floats, _signals: Ints, count: int) -> Ints:
        """The pages most worth crawling."""
        new = alive[np.isnan(self._shape[alive])]
        if len(new):
            self._fit(new, now * DAY)
        if count >= len(alive):
            return alive
        shape, rate = cautious(self._shape[alive], self._rate[alive], self._most_shape[alive])
        kappa = self._kappa[alive]
        beliefs = Beliefs(
            self._importance[alive], shape / rate, shape, kappa.sum(axis=1), self._gamma[alive].sum(axis=1)
        )
        age = self.learner.age(self._hosts[alive].tolist(), last * DAY, now * DAY)
        value = GreedyNcis().value(age, self._boost(alive, self._since(alive, last, now)), beliefs)
        return alive[np.argpartition(-value, count)[:count]]

    def learn(self, now: float, pages: Ints, tau: Floats, _signals: Ints, changed: NDArray[np.bool_]) -> None:
        """Fit the pages crawled, and those whose prior that moved; note what had been predicted."""
        signals = self._since(pages, self._last[pages], now)
        fresh = np.exp(-self._shape[pages] * np.log1p(tau * DAY / self._rate[pages]) - self._boost(pages, signals))
        self.predicted.append(fresh)
        self.found_fresh.append(~changed)
        full = pages[self._rows[pages] == MOST_ROWS]
        for column in (self._at, self._tau, self._signals, self._changed):
            column[full, :-1] = column[full, 1:]
        self._rows[full] -= 1
        row = self._rows[pages]
        self._at[pages, row], self._tau[pages, row] = now * DAY, tau * DAY
        self._signals[pages, row], self._changed[pages, row] = signals, changed
        self._rows[pages] += 1
        self._heard[pages] += signals
        self._last[pages] = now
        self._fit(pages, now * DAY)

    def _since(self, pages: Ints, last: Floats, now: float) -> Ints:
        if self._counts is None:
            return np.zeros((len(pages), 0), np.int64)
        return self._counts.count(pages, last, now)

    def _boost(self, pages: Ints, signals: Ints) -> Floats:
        return np.asarray((self._kappa[pages] * signals).sum(axis=1))

    def _fit(self, pages: Ints, now: float) -> None:
        for _ in range(3):  # pages whose host's prior moved are fitted again, as the daemon does in its next rounds
            update = self.learner.teach(self._recall(pages), now)
            self._shape[pages], self._rate[pages] = update.posterior.shape, update.posterior.rate
            self._kappa[pages], self._gamma[pages] = update.posterior.trust, update.gamma
            self._most_shape[pages] = update.most_shape
            pages = update.again
            if not len(pages):
                break

    def _recall(self, pages: Ints) -> Remembered:
        count = self._rows[pages]
        used = np.arange(count.max(initial=0)) < count[:, None]
        take = pages[:, None], np.arange(used.shape[1])[None, :]
        return Remembered(
            pages,
            np.r_[0, np.cumsum(count)],
            self._at[take][used],
            self._tau[take][used],
            self._signals[take][used],
            self._changed[take][used],
            self._hosts[pages].tolist(),
            self._birth[pages],
            self._heard[pages],
        )
