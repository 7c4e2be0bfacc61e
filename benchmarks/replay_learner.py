"""crawld's own learner in a replay: the daemon's tutor, caution and crawl value over histories kept in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay import Floats, Ints, Site
from crawld.scheduler.estimator import Prior
from crawld.scheduler.greedy import GreedyNcis
from crawld.scheduler.priors import cautious
from crawld.scheduler.tutor import Tutor
from crawld.scheduler.valuation import Beliefs

MOST_ROWS = 200
DAY = 86400.0


@dataclass(frozen=True)
class Remembered:
    """Histories of some pages of one host, as the store would give them; without signals."""

    page_ids: Ints
    offsets: Ints
    at: Floats
    tau: Floats
    changed: NDArray[np.bool_]
    first_success: Floats
    hosts: Sequence[str] = field(init=False)
    signals: Ints = field(init=False)
    signal_counts: Ints = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", ["host"] * len(self.page_ids))
        object.__setattr__(self, "signals", np.zeros((len(self.at), 0), np.int64))
        object.__setattr__(self, "signal_counts", np.zeros((len(self.page_ids), 0), np.int64))


class Learnt:
    """Picks by the posterior-expected crawl value on the host's clock; learns from what crawls found alone."""

    def __init__(self, site: Site, importance: Floats, *, clock: bool = True, most_shape: float = 1.0) -> None:
        self._importance = importance
        self._clock, self._most_shape = clock, most_shape
        self._tutor = Tutor(Prior(), sources=0)
        self._birth = site.birth * DAY
        self._shape, self._rate = np.full(site.pages, np.nan), np.full(site.pages, np.nan)
        self._rows = np.zeros(site.pages, np.int64)
        self._at = np.zeros((site.pages, MOST_ROWS))
        self._tau = np.zeros((site.pages, MOST_ROWS))
        self._changed = np.zeros((site.pages, MOST_ROWS), bool)
        self._value = GreedyNcis()

    def choose(self, now: float, alive: Ints, last: Floats, _signals: Ints, count: int) -> Ints:
        """The pages most worth crawling."""
        new = alive[np.isnan(self._shape[alive])]
        if len(new):
            self._fit(new, now * DAY)
        if count >= len(alive):
            return alive
        shape, rate = cautious(self._shape[alive], self._rate[alive], self._most_shape)
        nothing = np.zeros(len(alive))
        beliefs = Beliefs(self._importance[alive], shape / rate, shape, nothing, nothing)
        age = (now - last) * DAY
        if self._clock:
            age = self._tutor.age(["host"] * len(alive), last * DAY, now * DAY)
        value = self._value.value(age, nothing, beliefs)
        return alive[np.argpartition(-value, count)[:count]]

    def learn(self, now: float, pages: Ints, tau: Floats, _signals: Ints, changed: NDArray[np.bool_]) -> None:
        """Fit the pages crawled, and those whose prior that moved."""
        full = pages[self._rows[pages] == MOST_ROWS]
        for column in (self._at, self._tau, self._changed):
            column[full, :-1] = column[full, 1:]
        self._rows[full] -= 1
        row = self._rows[pages]
        self._at[pages, row], self._tau[pages, row], self._changed[pages, row] = now * DAY, tau * DAY, changed
        self._rows[pages] += 1
        self._fit(pages, now * DAY)

    def _fit(self, pages: Ints, now: float) -> None:
        for _ in range(3):
            count = self._rows[pages]
            used = np.arange(count.max(initial=0)) < count[:, None]
            take = pages[:, None], np.arange(used.shape[1])[None, :]
            histories = Remembered(
                pages,
                np.r_[0, np.cumsum(count)],
                self._at[take][used],
                self._tau[take][used],
                self._changed[take][used],
                self._birth[pages],
            )
            lesson = self._tutor.teach(histories, now)
            self._shape[pages], self._rate[pages] = lesson.posterior.shape, lesson.posterior.rate
            pages = lesson.again
            if not len(pages):
                break
