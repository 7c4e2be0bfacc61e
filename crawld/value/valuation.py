"""The contract between crawl values and whoever picks by them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Number = TypeVar("Number", float, Floats)
Page = tuple[float, float, float, float, float]  # μ, α, shape, κ, γ


@dataclass(frozen=True, slots=True)
class Beliefs:
    """What is believed of each page, as columns of equal length.

    α has mean `alpha` and a Gamma posterior of shape `shape` (inf: α is known). `kappa` is the log-staleness one
    signal adds, `gamma` the rate of signals, `mu` the importance.
    """

    mu: Floats
    alpha: Floats
    shape: Floats
    kappa: Floats
    gamma: Floats

    def select(self, pages: NDArray[np.bool_] | NDArray[np.intp]) -> "Beliefs":
        """The same of some pages only."""
        return Beliefs(self.mu[pages], self.alpha[pages], self.shape[pages], self.kappa[pages], self.gamma[pages])


class Jet(NamedTuple):
    """A value and how it moves with τ: |V(τ+h) − V − slope·h − curvature·h²/2| ≤ bound·h³/6 for every h ≥ 0."""

    value: Floats
    slope: Floats
    curvature: Floats
    bound: Floats


class Valuation(ABC):
    """A crawl value: it never falls as time passes nor as signals arrive.

    `tau` is the time since the last successful crawl, `boost` the log-staleness that signals have added since
    (κn for one source, Σκn for several; may be inf), so that log-staleness is x = ατ + boost.

    A value must tell `value` and `crossing`; whatever else it can tell makes picking by it cheaper.
    """

    additive = False  # a page of known α is worth the same at the same x, whether time or signals made it
    deaf = False  # signals change nothing
    quick = False  # `jet_of` takes microseconds

    @abstractmethod
    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now."""

    @abstractmethod
    def crossing(self, level: float, boost: Floats, beliefs: Beliefs) -> Floats:
        """A τ before which the value is surely below `level`: rounded down, 0 if reached already, inf if never."""

    def jet(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Jet:
        """The value now, its first two derivatives in τ, and a bound on the third from now on; inf where unknown."""
        unknown = np.full(len(tau), np.inf)
        return Jet(self.value(tau, boost, beliefs), unknown, unknown, unknown)

    def jet_of(self, tau: float, boost: float, page: Page) -> tuple[float, float, float, float]:
        """The same of one page, equal to 1e-12."""
        jet = self.jet(np.array([tau]), np.array([boost]), Beliefs(*(np.array([part]) for part in page)))
        value, slope, curvature, bound = (float(row[0]) for row in jet)
        return value, slope, curvature, bound

    def ceiling_of(self, tau: float, boost: float, page: Page) -> float:  # noqa: ARG002 - others need them
        """What the value of one page cannot exceed, where that is much cheaper to say than the value; else inf."""
        return np.inf

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:  # noqa: ARG002 - others need them
        """A rate r for which the value is at most μrτ²/2 before the first signal; inf where there is none."""
        return alpha + np.inf
