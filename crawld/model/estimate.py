"""An estimate: what we believe of a page, with its evidence."""

import math
from dataclasses import dataclass, field

from crawld.model.signal import SOURCES


@dataclass(frozen=True, slots=True)
class Estimate:
    """Posterior of one page. Rates are per second.

    α ~ Gamma(shape, rate) is the rate of changes that no signal announces; `kappa` and `gamma` hold, by source
    in the order of `SOURCES`, the log-staleness one signal adds and how often signals come.
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

    @property
    def alpha(self) -> float:
        """Mean rate of changes that no signal announces."""
        return self.shape / self.rate

    @property
    def change_rate(self) -> float:
        """Δ = α + Σ γ(1 − e^−κ): the total rate of changes."""
        return self.alpha - sum(g * math.expm1(-k) for k, g in zip(self.kappa, self.gamma, strict=True))
