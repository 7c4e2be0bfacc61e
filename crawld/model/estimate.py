"""An estimate: what we believe of a page, with its evidence; and the histories that estimates are made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crawld.model.signal import SOURCES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Histories:
    """The observations of several pages, ragged: page i owns rows offsets[i]:offsets[i+1], oldest first.

    Each row is one successful crawl after the first: the time and the signals (by source) since the one before,
    and whether the content had changed.
    """

    page_ids: Ints
    offsets: Ints
    at: Floats
    tau: Floats
    signals: Ints  # (rows, sources)
    changed: NDArray[np.bool_]
    hosts: Sequence[str]
    first_success: Floats  # by page: when watching began, for γ
    signal_counts: Ints  # (pages, sources): all counted signals since then
    magnitude: Floats | None = None  # by row: the share of the text that had changed, nan where unknown


@dataclass(frozen=True, slots=True)
class Estimate:
    """Posterior of one page. Rates are per second.

    α ~ Gamma(shape, rate) is the rate of changes that no signal announces; `kappa` and `gamma` hold, by source
    in the order of `SOURCES`, the log-staleness one signal adds and how often signals come. That is believed with the
    weight `heard`; with the rest of it signals mean nothing, and α has the mean `deaf_alpha` and shape `deaf_shape`.
    """

    page_id: int
    at: float
    shape: float
    rate: float
    kappa: tuple[float, ...] = field(default=(0.0,) * len(SOURCES))
    gamma: tuple[float, ...] = field(default=(0.0,) * len(SOURCES))
    alpha_se: float = math.nan
    kappa_se: tuple[float, ...] = field(default=(math.nan,) * len(SOURCES))
    crawls: int = 0
    changes: int = 0
    signals: tuple[int, ...] = field(default=(0,) * len(SOURCES))
    heard: float = 1.0
    deaf_alpha: float = 0.0
    deaf_shape: float = 1.0

    @property
    def alpha(self) -> float:
        """Mean rate of changes that no signal announces."""
        return self.shape / self.rate

    @property
    def change_rate(self) -> float:
        """The total rate of changes: Δ = α + Σ γ(1 − e^−κ), as far as signals are heard."""
        announced = -sum(g * math.expm1(-k) for k, g in zip(self.kappa, self.gamma, strict=True))
        return self.heard * (self.alpha + announced) + (1.0 - self.heard) * self.deaf_alpha
