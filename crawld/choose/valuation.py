"""The contract between crawl values and whoever picks by them."""

from abc import ABC, abstractmethod
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crawld.choose.crossing import Indices, rising_crossing

Floats = NDArray[np.float64]
Number = TypeVar("Number", float, Floats)
Page = tuple[float, float, float, float, float]  # μ, α, shape, κ, γ

EARLY = 1e-6  # how much too early, relatively, a crossing may be
_END = 1e300  # a time by which every value has arrived


class Beliefs(NamedTuple):
    """What is believed of each page, as columns of equal length.

    α has mean `alpha` and a Gamma posterior of shape `shape` (inf: α is known). `kappa` is the log-staleness one
    signal adds, `gamma` the rate of signals, `mu` the importance. All of that is believed with the weight `heard`
    (None: 1); with the rest of it signals mean nothing, and α has mean and shape of its own (`deaf_…`). A page's value
    is the mean of both.
    """

    mu: Floats
    alpha: Floats
    shape: Floats
    kappa: Floats
    gamma: Floats
    heard: Floats | None = None
    deaf_alpha: Floats | None = None
    deaf_shape: Floats | None = None

    def select(self, pages: NDArray[np.bool_] | NDArray[np.intp] | slice) -> "Beliefs":
        """The same of some pages only."""
        return Beliefs(*(None if column is None else column[pages] for column in self))  # type: ignore[arg-type]

    @property
    def plain(self) -> "Beliefs":
        """One rate in place of both parts, and as many fewer signals: the same total rate of changes."""
        if self.heard is None or self.deaf_alpha is None:
            return self
        alpha = np.where(self.heard < 1, self.heard * self.alpha + (1 - self.heard) * self.deaf_alpha, self.alpha)
        return Beliefs(self.mu, alpha, self.shape, self.kappa, self.heard * self.gamma)

    @property
    def hearing(self) -> "Beliefs":
        """What is believed of signals alone, with its part of the importance."""
        return self if self.heard is None else Beliefs(self.mu * self.heard, *self[1:5])

    @property
    def deaf(self) -> tuple[Indices, "Beliefs"] | None:
        """The pages with a part to which signals mean nothing, and that part."""
        if self.heard is None or self.deaf_alpha is None or self.deaf_shape is None:
            return None
        some = (self.heard < 1).nonzero()[0]
        if not some.size:
            return None
        nothing, mu = np.zeros(some.size), self.mu[some] * (1 - self.heard[some])
        return some, Beliefs(mu, self.deaf_alpha[some], self.deaf_shape[some], nothing, nothing)


class Taylor(NamedTuple):
    """A value and how it moves with τ: |V(τ+h) − V − slope·h − curvature·h²/2| ≤ bound·h³/6 for every h ≥ 0."""

    value: Floats
    slope: Floats
    curvature: Floats
    bound: Floats


class Valuation(ABC):
    """A crawl value: it never falls as time passes nor as signals arrive.

    `tau` is the time since the last successful crawl, `boost` the log-staleness that signals have added since
    (κn for one source, Σκn for several; may be inf), so that log-staleness is x = ατ + boost.

    A value must tell `value` and `taylor`; a tighter `ceiling` or `early_rate` makes picking by it cheaper.
    """

    @abstractmethod
    def value(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Floats:
        """The value of crawling each page now."""

    @abstractmethod
    def taylor(self, tau: Floats, boost: Floats, beliefs: Beliefs) -> Taylor:
        """The value now to 1e-12, its first two derivatives in τ, and a bound on the third from now on."""

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:  # noqa: ARG002 - others need them
        """A rate r for which the value is at most μrτ²/2 before the first signal; inf where there is none."""
        return alpha + np.inf

    def ceiling(self, tau: float, boost: float, page: Page) -> float:
        """What the value of one page cannot exceed, where that is much cheaper to say than the value; else inf."""
        mu, alpha, _, kappa, gamma = page
        return 0.5 * mu * self.early_rate(alpha, kappa, gamma) * tau * tau * (1 + 1e-9) if boost == 0 else np.inf

    def crossing(self, level: float, boost: Floats, beliefs: Beliefs) -> Floats:
        """A τ before which the value is surely below `level`: rounded down, 0 if reached already, inf if never."""

        def evaluate(tau: Floats, pages: Indices) -> tuple[Floats, Floats]:
            found = self.taylor(tau, boost[pages], beliefs.select(pages))
            return found.value, found.slope

        now, end = (self.value(np.full_like(boost, tau), boost, beliefs) for tau in (0.0, _END))
        goal = np.where(now >= level * (1 - EARLY), 0.0, level)
        with np.errstate(all="ignore"):
            return rising_crossing(evaluate, goal, end, 1 / beliefs.alpha, EARLY)[0]
