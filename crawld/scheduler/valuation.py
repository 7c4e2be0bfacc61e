"""The contract between crawl values and whoever picks by them."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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


class Valuation(Protocol):
    """A crawl value: it never falls as time passes nor as signals arrive.

    `tau` is the time since the last successful crawl, `boost` the log-staleness that signals have added since
    (κn for one source, Σκn for several; may be inf), so that log-staleness is x = ατ + boost.

    Two things it may say of itself, taken as false where it is silent: `additive`, that a page of known α is worth the
    same at the same x, whether time or signals made it; and `deaf`, that signals change nothing.
    """

    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now."""

    def crossing(self, level: float, boost: Floats, beliefs: Beliefs) -> Floats:
        """A τ before which the value is surely below `level`: rounded down, 0 if reached already, inf if never."""


class MovingValuation(Valuation, Protocol):
    """A crawl value that also tells how it moves with time."""

    def jet(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Jet:
        """The value now, its first two derivatives in τ, and a bound on the third from now on."""
