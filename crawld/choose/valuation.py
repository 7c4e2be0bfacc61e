"""The contract between crawl values and the choosers that pick by them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crawld.choose.scalar import Motion


@dataclass(frozen=True)
class ValuationLimits:
    """Numbers that bound and tune this module."""

    safety: float = 1e-13  # far above the error of any value, so that a point judged below the level surely is
    early: float = 1e-6  # how much too early, relatively, a crossing may be
    end: float = 1e300  # a time by which every value has arrived


LIMITS = ValuationLimits()


# Where a rising value reaches a level: safeguarded Newton over many pages at once.

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Rising = Callable[[Floats, Indices], tuple[Floats, Floats]]


def rising_crossing(
    evaluate: Rising, goal: Floats, top: Floats, start: Floats, tolerance: float
) -> tuple[Floats, Floats]:
    """Brackets (low, high) with value(low) < goal ≤ value(high), at most `tolerance`·low wide where that is reachable.

    `evaluate(t, pages)` gives value and slope; `top` is the value at infinity, `start` a guess. Where `goal` is 0 the
    bracket is (0, 0); where the value never gets there it is (inf, inf). A tolerance of 0 asks for the last digit;
    with a positive one the low end lies `SAFETY` below the goal, beyond any rounding of the value.
    Newton works on √(−2 ln(1−V/top)), or ln V where V has no top: both are nearly straight in t or in ln t.
    """
    low, high = np.zeros_like(goal), np.full_like(goal, np.inf)
    never = ~(goal < top)
    low[never] = np.inf
    high[goal <= 0] = 0.0
    low[goal <= 0] = 0.0
    active = np.flatnonzero((goal > 0) & ~never)
    t = np.where(np.isfinite(start) & (start > 0), start, 1.0)[active]
    aim = goal[active] * (1 - LIMITS.safety) if tolerance else goal[active]
    for step in range(200):
        if not active.size:
            break
        value, slope = evaluate(t, active)
        below = value < aim
        low[active[below]] = t[below]
        high[active[~below]] = t[~below]
        new = _newton(t, value, slope, aim, top[active])
        lo, hi = low[active], high[active]
        if tolerance:  # overshoot a little towards the far side, so that both ends close in
            new = np.where(below, new * (1 + 0.4 * tolerance), new * (1 - 0.4 * tolerance))
        bad = ~((new > lo) & (new < hi)) | (step % 8 == 7)
        if bad.any():
            new[bad] = _split(lo[bad], hi[bad])
        open_ = (hi - lo > tolerance * lo) & (new > lo) & (new < hi)
        if not open_.all():
            active, new, aim = active[open_], new[open_], aim[open_]
        t = new
    return low, high


def _newton(t: Floats, value: Floats, slope: Floats, aim: Floats, top: Floats) -> Floats:
    bounded = top < 1e6 * aim
    share = np.where(bounded, value / top, 0.0)
    here, there = np.sqrt(-2 * np.log1p(-share)), np.sqrt(-2 * np.log1p(-aim / top))
    straight = t + (there - here) * here * (top - value) / slope
    steep = t * np.exp(np.log(aim / value) * value / (slope * t))
    return np.where(bounded, straight, steep)


def _split(low: Floats, high: Floats) -> Floats:
    """Between the ends: in proportion where they are far apart, else in the middle."""
    open_end = ~np.isfinite(high)
    middle = np.where(high > 4 * low, np.sqrt(low) * np.sqrt(high), 0.5 * (low + high))
    middle = np.where(low == 0, high * 1e-3, middle)
    return np.where(open_end, low * 8, middle)


Number = TypeVar("Number", float, Floats)
Page = tuple[float, float, float, float, float]  # μ, α, shape, κ, γ


class Beliefs(NamedTuple):
    """Beliefs of each page, as columns of equal length.

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
        """Returns the beliefs by signals alone, with their part of the importance."""
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

    def taylor_of(self, tau: float, boost: float, page: Page) -> Motion | None:  # noqa: ARG002 - others need them
        """The same of one page in plain floats; None where only arrays tell it."""
        return None

    def early_rate(self, alpha: Number, kappa: Number, gamma: Number) -> Number:  # noqa: ARG002 - others need them
        """A rate r for which the value is at most μrτ²/2 before the first signal; inf where there is none."""
        return alpha + np.inf

    def ceiling(self, tau: float, boost: float, page: Page) -> float:
        """Upper bound of the value of one page, where that is much cheaper to say than the value; else inf."""
        mu, alpha, _, kappa, gamma = page
        return 0.5 * mu * self.early_rate(alpha, kappa, gamma) * tau * tau * (1 + 1e-9) if boost == 0 else np.inf

    def crossing(self, level: float, boost: Floats, beliefs: Beliefs) -> Floats:
        """A τ before which the value is surely below `level`: rounded down, 0 if reached already, inf if never."""

        def evaluate(tau: Floats, pages: Indices) -> tuple[Floats, Floats]:
            found = self.taylor(tau, boost[pages], beliefs.select(pages))
            return found.value, found.slope

        now, end = (self.value(np.full_like(boost, tau), boost, beliefs) for tau in (0.0, LIMITS.end))
        goal = np.where(now >= level * (1 - LIMITS.early), 0.0, level)
        with np.errstate(all="ignore"):
            return rising_crossing(evaluate, goal, end, 1 / beliefs.alpha, LIMITS.early)[0]


# What values are taken over: the beliefs of pages with several sources of signals, as one κ and one γ a page.


def boost_by_signals(count: NDArray[np.integer], kappa: NDArray[np.floating]) -> Floats:
    """Σκn over the sources, with inf where a signal that never lies was seen (and 0·inf = 0)."""
    boost: Floats = (np.where(count > 0, kappa, 0.0).astype(np.float64) * count).sum(axis=-1)
    return boost


def merged_beliefs(mu: Floats, alpha: Floats, shape: Floats, kappa: Floats, gamma: Floats) -> Beliefs:
    """One κ and γ a page: those of its only useful source, or the pair that stands for several.

    Staleness itself always counts every source by its own κ (`boost_by_signals`). Only the pace at which further
    signals are expected is taken from one pair, chosen to keep the total change rate Δ and the drift α + Σγκ: over
    random pairs of sources the crawl value is then off by 1 % on average (docs/method.md, Several sources).
    """
    useful = (kappa > 0) & (gamma > 0)
    rate = np.where(useful, gamma, 0.0).sum(axis=-1)
    single = np.where(useful, kappa, 0.0).sum(axis=-1)
    several = useful.sum(axis=-1) > 1
    if several.any():
        single[several], rate[several] = _merged(kappa[several], np.where(useful, gamma, 0.0)[several])
    return Beliefs(mu=mu, alpha=alpha, shape=shape, kappa=single, gamma=rate)


def _merged(kappa: Floats, gamma: Floats) -> tuple[Floats, Floats]:
    """κ and γ of one source with the same γ(1 − e^−κ) and γκ as these several, by bisection."""
    finite = np.minimum(kappa, 50.0)  # beyond it a signal is certain to 1e-21
    drift, true = (gamma * finite).sum(axis=-1), (-np.expm1(-finite) * gamma).sum(axis=-1)
    low, high = finite.min(axis=-1), finite.max(axis=-1)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = -np.expm1(-middle) * drift > true * middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    kappa_one = np.maximum(0.5 * (low + high), np.finfo(float).tiny)
    return kappa_one, drift / kappa_one
