"""crawld's own learner in a replay: the daemon's tutor, caution and crawl value over histories kept in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay import Floats, Ints, Site
from crawld.learning.estimator import Prior
from crawld.learning.host_priors import cautious
from crawld.learning.online_learner import OnlineLearner
from crawld.value.greedy import GreedyNcis
from crawld.value.valuation import Beliefs

MOST_ROWS = 200
DAY = 86400.0


@dataclass(frozen=True)
class Remembered:
    """Histories of some pages of one host, as the store would give them."""

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
        self._sources = int(signals)
        self._tutor = OnlineLearner(Prior(alpha_rate=visit * DAY, gamma_rate=visit * DAY), self._sources)
        self._birth = site.birth * DAY
        self._shape, self._rate, self._most_shape, self._kappa, self._gamma = np.full((5, site.pages), np.nan)
        self._rows, self._heard = np.zeros((2, site.pages), np.int64)
        self._at, self._tau, self._signals, self._changed = np.zeros((4, site.pages, MOST_ROWS))
        self.predicted: list[Floats] = []
        self.found_fresh: list[NDArray[np.bool_]] = []

    def choose(self, now: float, alive: Ints, last: Floats, signals: Ints, count: int) -> Ints:
        """The pages most worth crawling."""
        new = alive[np.isnan(self._shape[alive])]
        if len(new):
            self._fit(new, now * DAY)
        if count >= len(alive):
            return alive
        shape, rate = cautious(self._shape[alive], self._rate[alive], self._most_shape[alive])
        kappa = self._kappa[alive]
        beliefs = Beliefs(self._importance[alive], shape / rate, shape, kappa, self._gamma[alive])
        age = self._tutor.age(["host"] * len(alive), last * DAY, now * DAY)
        value = GreedyNcis().value(age, kappa * signals, beliefs)
        return alive[np.argpartition(-value, count)[:count]]

    def learn(self, now: float, pages: Ints, tau: Floats, signals: Ints, changed: NDArray[np.bool_]) -> None:
        """Fit the pages crawled, and those whose prior that moved; note what had been predicted."""
        fresh = np.exp(-self._shape[pages] * np.log1p(tau * DAY / self._rate[pages]) - self._kappa[pages] * signals)
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
        self._fit(pages, now * DAY)

    def _fit(self, pages: Ints, now: float) -> None:
        for _ in range(3):  # pages whose host's prior moved are fitted again, as the daemon does in its next rounds
            lesson = self._tutor.teach(self._recall(pages), now)
            self._shape[pages], self._rate[pages] = lesson.posterior.shape, lesson.posterior.rate
            self._kappa[pages] = lesson.posterior.trust.sum(axis=1)
            self._gamma[pages] = lesson.gamma.sum(axis=1)
            self._most_shape[pages] = lesson.most_shape
            pages = lesson.again
            if not len(pages):
                break

    def _recall(self, pages: Ints) -> Remembered:
        count, sources = self._rows[pages], self._sources
        used = np.arange(count.max(initial=0)) < count[:, None]
        take = pages[:, None], np.arange(used.shape[1])[None, :]
        return Remembered(
            pages,
            np.r_[0, np.cumsum(count)],
            self._at[take][used],
            self._tau[take][used],
            self._signals[take][used][:, None][:, :sources].astype(np.int64),
            self._changed[take][used] > 0,
            ["host"] * len(pages),
            self._birth[pages],
            self._heard[pages][:, None][:, :sources],
        )
