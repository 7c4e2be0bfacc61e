"""Intervals that a learner has not seen before: each is predicted before it is used for training."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SUREST = 1e-4  # no prediction is believed beyond this


@dataclass(frozen=True, slots=True)
class NewIntervals:
    """Rows in the order of their pages, oldest first; `age` is their length by the host's clock.

    A fit fills in, by row, the chance that the interval would end unchanged: `fresh` by each share of the page's own
    history, and `blind` the same of a twin that knows how often signals come but not when. `shape` and `mean` of α are
    what was believed before, without signals.
    """

    page: Ints  # place among the pages that are fitted
    tau: Floats
    age: Floats
    signals: Floats  # (rows, sources)
    gamma: Floats  # (rows, sources): how often signals come
    changed: NDArray[np.bool_]
    weight: Floats
    shares: tuple[float, ...] = (1.0,)
    predicting: bool = True
    shape: Floats = field(init=False)
    mean: Floats = field(init=False)
    fresh: Floats = field(init=False)  # (rows, shares)
    blind: Floats = field(init=False)

    def __post_init__(self) -> None:
        rows = len(self.page)
        for name in ("shape", "mean"):
            object.__setattr__(self, name, np.ones(rows))
        for name in ("fresh", "blind"):
            object.__setattr__(self, name, np.ones((rows, len(self.shares))))

    @classmethod
    def none(cls, sources: int) -> "NewIntervals":
        """No intervals."""
        nothing, none = np.zeros(0), np.zeros((0, sources))
        return cls(np.zeros(0, np.int64), nothing, nothing, none, none, np.zeros(0, bool), nothing)

    @property
    def known(self) -> "NewIntervals":
        """The same, not to be predicted again."""
        columns = self.page, self.tau, self.age, self.signals, self.gamma, self.changed, self.weight
        return NewIntervals(*columns, predicting=False)

    def totals(self, pages: int) -> Floats:
        """Σ weight · (length, signals by source) of each page, (1 + sources, pages)."""
        columns = [self.tau, *self.signals.T]
        return np.array([np.bincount(self.page, self.weight * column, minlength=pages) for column in columns])

    def layers(self, pages: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Places among `pages`, which ascend, with a first row, and those rows; with a second row; and so on."""
        first, last = np.searchsorted(self.page, [pages, pages + 1])
        count = last - first
        for layer in range(int(count.max(initial=0))):
            longer = np.flatnonzero(count > layer)
            yield longer, first[longer] + layer

    def log_chance(self, fresh: Floats) -> Floats:
        """The logarithm of the chance that was given to what was then found."""
        fresh = fresh.clip(SUREST, 1.0 - SUREST)
        return np.asarray(np.log(np.where(self.changed, 1.0 - fresh, fresh)))
