"""What learning starts from: a first guess of pages, and the intervals between crawls as evidence.

An interval of length τ with n signals ends unchanged with probability exp(−(ατ + κ·n)) (docs/method.md, Estimation).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

YEAR = 365.25 * 86400.0
SUREST = 1e-4
"""No prediction is believed beyond this."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Gamma priors by shape and rate (the mean is shape/rate): of α, and by source of κ.

    Each may be one number, or a column by page; those of κ end in an axis of sources. The defaults hold in
    seconds: a page changes every 30 days, give or take a lot, and a signal is as likely to be right as any precision.
    """

    alpha_shape: float | Floats = 1.0
    alpha_rate: float | Floats = 30 * 86400.0
    kappa_shape: float | Floats = 1.0
    kappa_rate: float | Floats = 1.0


def first_guess(round_seconds: float, shortest: float = 60.0, longest: float = 30 * 86400.0) -> Prior:
    """A prior that lets everything compete: a page changes once a round of all pages, but within limits."""
    return Prior(alpha_rate=min(max(round_seconds, shortest), longest))


def age_weights(at: ArrayLike, now: float, half_life: float = YEAR) -> Floats:
    """How much an observation made at `at` still counts: half after each half-life, for rates drift."""
    age = np.maximum(now - np.asarray(at, float), 0.0)
    return np.exp2(-age / half_life)


@dataclass(frozen=True, slots=True)
class Observations:
    """Ragged histories made ready: unchanged intervals summed, changed ones sorted by page."""

    pages: int
    sources: int
    total: Floats  # (1 + sources, pages): Σ w f over all intervals
    exposure: Floats  # the same over unchanged ones
    changed: Floats  # (1 + sources, changed intervals): f
    weights: Floats
    page: Ints  # of each changed interval

    @classmethod
    def gather(
        cls, offsets: ArrayLike, tau: ArrayLike, signals: ArrayLike, changed: ArrayLike, weights: ArrayLike | None
    ) -> "Observations":
        """Sort the evidence; intervals without length and signals, or without weight, say nothing."""
        offsets = np.asarray(offsets, np.int64)
        pages = len(offsets) - 1
        tau = np.asarray(tau, float)
        counts = np.asarray(signals, float)
        features = np.maximum(np.vstack([tau, counts[None] if counts.ndim == 1 else counts.T]), 0.0)
        weight = np.ones(len(tau)) if weights is None else np.asarray(weights, float)
        page = np.repeat(np.arange(pages), np.diff(offsets))
        telling = (features.max(axis=0) > 0) & (weight > 0)
        seen = telling & np.asarray(changed, bool)
        every = np.where(telling, weight, 0.0)
        total, exposure = (
            np.array([np.bincount(page, counting * feature, minlength=pages) for feature in features], float)
            for counting in (every, np.where(seen, 0.0, every))
        )
        return cls(pages, len(features) - 1, total, exposure, features[:, seen], weight[seen], page[seen])


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
