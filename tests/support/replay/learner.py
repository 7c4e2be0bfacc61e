"""crawld's own learner in a replay: what the daemon learns and picks by, over histories kept in memory."""

import numpy as np
from numpy.typing import NDArray

from crawld.choose.freshness import mean_freshness
from crawld.choose.greedy import GreedyNcis
from crawld.choose.valuation import Beliefs, merged_beliefs
from crawld.learn.observations import Prior
from crawld.learn.online_learner import OnlineLearner
from crawld.model.signal import CROWDS
from crawld.research.crawler import MemoryHistories
from tests.support.replay.signals import CrowdCounts
from tests.support.replay.site import Floats, Ints, Site

DAY = 86400.0
COLUMNS = ("shape", "rate", "heard", "deaf_alpha", "deaf_shape")  # of an update


class Learnt:
    """Picks by the posterior-expected crawl value as the daemon does; learns from what crawls found alone."""

    def __init__(self, site: Site, importance: Floats, *, signals: bool = False, visit: float = 30.0) -> None:
        """`visit` is the first guess of the days between changes, as the daemon takes it from its bandwidth."""
        self._importance = importance
        self._counts = CrowdCounts(site) if signals else None
        self._sources = len(CROWDS) if signals else 0
        self.learner = OnlineLearner(Prior(alpha_rate=visit * DAY), self._sources)
        hosts = np.zeros(site.pages, np.int64) if site.hosts is None else site.hosts
        self._hosts = np.array([f"host{number}" for number in hosts.tolist()], object)
        self._last = site.birth.copy()
        self._histories = MemoryHistories(self._hosts.tolist(), self._sources)
        self._histories.begin(np.arange(site.pages), site.birth * DAY)
        self._believed = np.full((len(COLUMNS), site.pages), np.nan)
        self._kappa, self._gamma = np.zeros((2, site.pages, self._sources))
        self.predicted: list[Floats] = []
        self.found_fresh: list[NDArray[np.bool_]] = []

    def choose(self, now: float, alive: Ints, last: Floats, _signals: Ints, count: int) -> Ints:
        """The pages most worth crawling."""
        new = alive[np.isnan(self._believed[0, alive])]
        if len(new):
            self._fit(new, now * DAY)
        if count >= len(alive):
            return alive
        age = self.learner.age(self._hosts[alive].tolist(), last * DAY, now * DAY)
        value = GreedyNcis().value(age, self._boost(alive, self._since(alive, last, now)), self._beliefs(alive))
        # Values are equal but for rounding: the older copy comes first, then, as in the daemon, the lower row.
        return alive[np.lexsort((last, -value.astype(np.float32)))[:count]]

    def learn(self, now: float, pages: Ints, tau: Floats, _signals: Ints, changed: NDArray[np.bool_]) -> None:
        """Fit the pages crawled, and those whose prior that moved; note what had been predicted."""
        signals = self._since(pages, self._last[pages], now)
        fresh = mean_freshness(tau * DAY, self._boost(pages, signals), self._beliefs(pages))
        self.predicted.append(fresh)
        self.found_fresh.append(~changed)
        self._histories.heard_many(pages, signals)
        self._histories.crawled(pages, now * DAY, signals, changed)
        self._last[pages] = now
        self._fit(pages, now * DAY)

    def _since(self, pages: Ints, last: Floats, now: float) -> Ints:
        if self._counts is None:
            return np.zeros((len(pages), 0), np.int64)
        return self._counts.count(pages, last, now)

    def _boost(self, pages: Ints, signals: Ints) -> Floats:
        return np.asarray((self._kappa[pages] * signals).sum(axis=1))

    def _beliefs(self, pages: Ints) -> Beliefs:
        shape, rate, *mixed = self._believed[:, pages]
        beliefs = merged_beliefs(self._importance[pages], shape / rate, shape, self._kappa[pages], self._gamma[pages])
        return Beliefs(*beliefs[:5], *mixed)

    def _fit(self, pages: Ints, now: float) -> None:
        for _ in range(3):  # pages whose host's prior moved are fitted again, as the daemon does in its next rounds
            update = self.learner.teach(self._histories.of(pages), now)
            self._believed[:, pages] = [getattr(update, name) for name in COLUMNS]
            self._kappa[pages], self._gamma[pages] = update.kappa, update.gamma
            pages = update.again
            if not len(pages):
                break
