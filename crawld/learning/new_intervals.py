"""Intervals that a learner has not seen before: each is foretold, with and without signals, before it is taken in."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OWN_SHARES = np.array([0.0, 0.1, 0.3, 1.0])  # powers of the likelihood of its own history that a page may be judged by
SUREST = 1e-4  # no forecast is believed beyond this: one surprise must not decide


@dataclass(frozen=True, slots=True)
class NewIntervals:
    """Rows in the order of their pages, oldest first; `age` is their length by the host's clock.

    `by_share` and `with_source` are ln of the chance that was given to what was then found: by each of `OWN_SHARES` of
    the page's own history as if there were no signals, and by all of it and one source. `shape` and `mean` of α are
    what was believed of the page before, without signals.
    """

    page: Ints  # place among the pages that are fitted
    tau: Floats
    age: Floats
    signals: Floats  # (rows, sources)
    changed: NDArray[np.bool_]
    weight: Floats
    shape: Floats = field(init=False)
    mean: Floats = field(init=False)
    by_share: Floats = field(init=False)  # (rows, shares)
    with_source: Floats = field(init=False)
    foretelling: bool = True

    def __post_init__(self) -> None:
        for name in ("shape", "mean"):
            object.__setattr__(self, name, np.zeros(len(self.page)))
        object.__setattr__(self, "by_share", np.zeros((len(self.page), len(OWN_SHARES))))
        object.__setattr__(self, "with_source", np.full(self.signals.shape, np.nan))

    @classmethod
    def none(cls, sources: int) -> "NewIntervals":
        """No intervals."""
        nothing = np.zeros(0)
        return cls(np.zeros(0, np.int64), nothing, nothing, np.zeros((0, sources)), np.zeros(0, bool), nothing)

    @property
    def known(self) -> "NewIntervals":
        """The same, not to be foretold again."""
        return NewIntervals(self.page, self.tau, self.age, self.signals, self.changed, self.weight, foretelling=False)

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

    def foretell(self, rows: Ints, fresh: Floats, source: int) -> None:
        """Note the chance that these rows would end unchanged, by one source."""
        self.with_source[rows, source] = self._chance(rows, fresh)

    def foretell_without(self, rows: Ints, fresh: Floats, gamma: tuple[Floats, Floats]) -> None:
        """The same without signals, by each of OWN_SHARES, (shares, rows); `gamma` is shape and rate of α by all."""
        self.shape[rows], self.mean[rows] = gamma[0], gamma[0] / gamma[1]
        self.by_share[rows] = self._chance(rows, fresh).T

    def _chance(self, rows: Ints, fresh: Floats) -> Floats:
        fresh = fresh.clip(SUREST, 1.0 - SUREST)
        return np.asarray(np.log(np.where(self.changed[rows], 1.0 - fresh, fresh)))

    @property
    def gain(self) -> Floats:
        """By row and source, how much better the source's forecast was than the one without signals."""
        return np.nan_to_num(self.with_source - self.by_share[:, -1:])
