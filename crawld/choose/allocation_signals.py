"""The optimum with signals: Busa-Fekete et al. 2025 Theorem 1, one threshold on the crawl value for all pages."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.choose.allocation_balance import Floats, balance, budget, columns, spread
from crawld.choose.allocation_cho import inverse_freshness_gain
from crawld.choose.series import Measures, measure_pages
from crawld.choose.value import level_crossing
from crawld.model.errors import InputError

CLOSE = 2e-14  # relative: a crawl value this near the level is the level
SAMPLE = 5_000  # pages among which the level is sought first


@dataclass(frozen=True, slots=True)
class SignalOptimum:
    """The best rates where signals are used, the level Λ (what one more crawl is worth), and what they achieve.

    A page whose rate jumps at Λ is crawled at `thresholds[0]` for `share` of the time and at `thresholds[1]` else;
    for all others the two are one.
    """

    rates: Floats
    level: float
    thresholds: tuple[Floats, Floats]  # log-staleness at which each page is crawled, inf: never
    share: float
    freshness: Floats


def signal_optimal(mu: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, bandwidth: float) -> Floats:
    """Rates of the best policy that sees signals: Busa-Fekete et al. 2025 Theorem 1, mixing where rates jump."""
    return signal_optimum(mu, alpha, kappa, gamma, bandwidth).rates


def signal_optimum(
    mu: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, bandwidth: float
) -> SignalOptimum:
    """The level Λ at which crawling every page that reaches it spends the bandwidth, and all that follows from it.

    Rates are 1/ψ(V⁻¹(Λ)). They jump where every change is announced (α = 0) and where no signal is false (κ = ∞),
    and within float64 near Λ = μ/Δ; there two thresholds are mixed so that rates sum to the bandwidth.
    """
    weight, silent, signals = columns(mu, alpha, gamma)
    worth = np.broadcast_to(np.asarray(kappa, dtype=np.float64), weight.shape)
    if not np.all(worth >= 0):
        raise InputError("the worth of a signal is a number not below 0, or infinite")
    rate = budget(bandwidth)
    change = silent - signals * np.expm1(-worth)
    useful = np.flatnonzero((weight > 0) & (change > 0))
    never = np.full_like(weight, np.inf)
    always = np.where(change > 0, 0.0, 1.0)
    announced = silent[useful] == 0
    most = float(signals[useful].sum())
    if rate == 0 or useful.size == 0:
        return SignalOptimum(spread(np.zeros_like(weight), rate), 0.0, (never, never), 1.0, always)
    a, k, g, m = silent[useful], worth[useful], signals[useful], weight[useful]
    if announced.all() and rate >= most:  # every signal can be followed, and nothing else is of use
        at_once, followed = never.copy(), np.zeros_like(weight)
        at_once[useful], followed[useful] = 0.0, g
        return SignalOptimum(spread(followed, rate), 0.0, (at_once, at_once), 1.0, np.ones_like(weight))

    pages = _Pages(m, a, k, g)
    found = balance(pages.visits, rate, pages.guess(rate))
    rates, thresholds, fresh = np.zeros_like(weight), (never.copy(), never.copy()), always
    rates[useful] = found.rates
    fresh[useful] = 0.0
    for side, level, part in ((0, found.low, found.share), (1, found.high, 1 - found.share)):
        thresholds[side][useful], share = pages.at(level)
        fresh[useful] += part * share
    return SignalOptimum(rates, found.multiplier, thresholds, found.share, fresh)


def optimum_accuracy(mu: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, bandwidth: float) -> float:
    """The best freshness, weighted by importance, that signals allow."""
    weight = np.atleast_1d(np.asarray(mu, dtype=np.float64))
    fresh = signal_optimum(mu, alpha, kappa, gamma, bandwidth).freshness
    return float(np.sum(weight * fresh) / np.sum(weight)) if np.any(weight > 0) else 0.0


class _Pages:
    """Pages and where each was crawled at the level tried last, from where the next level is sought."""

    def __init__(self, mu: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> None:
        self._mu, self._alpha, self._kappa, self._gamma = mu, alpha, kappa, gamma
        self._change = alpha - gamma * np.expm1(-kappa)
        self._x = np.full_like(mu, np.nan)

    def guess(self, bandwidth: float) -> float:
        """About the level at which they spend the bandwidth: found on a sample where they are many."""
        typical = float(np.median(self._mu / self._change)) / 2
        if self._mu.size <= 2 * SAMPLE:
            return typical
        every = self._mu.size // SAMPLE
        part = slice(None, None, every)
        sample = _Pages(self._mu[part], self._alpha[part], self._kappa[part], self._gamma[part])
        if not sample._alpha.any():
            return typical
        return balance(sample.visits, bandwidth / every, typical).multiplier

    def visits(self, level: float) -> Floats:
        """How often pages are crawled whose crawl value is not let rise above the level."""
        x, length = self._cross(level)
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(x < np.inf, np.minimum(1 / length, 1e300), 0.0)

    def at(self, level: float) -> tuple[Floats, Floats]:
        """The log-staleness at which pages are crawled at that level, and the share of time they are then fresh."""
        x, length = self._cross(level)
        finite = x < np.inf
        fresh = np.where(finite, 1.0, 0.0)
        crossed = finite & (length > 0)
        # w = V/μ + e^−x·ψ, so that w/ψ needs no further sum (docs/method.md, The model).
        fresh[crossed] = level / self._mu[crossed] / length[crossed] + np.exp(-x[crossed])
        return x, np.minimum(fresh, 1.0)

    def _cross(self, level: float) -> tuple[Floats, Floats]:
        """Where V reaches the level, and the cycle length there.

        Newton's method on r(x), the log-staleness at which a page without signals would have the value V(x): without
        signals it is x itself, with signals nearly straight. What does not settle is left to `level_crossing`.
        """
        with np.errstate(over="ignore"):
            share = level * self._change / self._mu
        x = np.full_like(self._mu, np.inf)
        length = np.full_like(self._mu, np.inf)
        todo = np.flatnonzero((share < 1) & (self._alpha > 0))  # with α = 0 the crossing is a closed form
        goal = inverse_freshness_gain(share[todo])
        tried = self._x[todo]
        tried = np.where(np.isfinite(tried), tried, goal * np.sqrt(self._alpha[todo] / self._change[todo]))
        for _ in range(6):
            measures = self._measure(tried, todo)
            with np.errstate(all="ignore"):
                done = np.abs(measures.value * self._mu[todo] / level - 1) <= CLOSE
                x[todo[done]], length[todo[done]] = tried[done], measures.length[done]
                r = inverse_freshness_gain(measures.value * self._change[todo])
                slope = np.exp(r - tried) * measures.length * self._change[todo] / r
                tried = np.maximum(tried + (goal - r) / slope, tried / 8)
            going = ~done & np.isfinite(tried) & (tried > 0)
            todo, goal, tried = todo[going], goal[going], tried[going]
        left = np.flatnonzero((share < 1) & (length == np.inf))
        x[left] = level_crossing(level, self._alpha[left], self._kappa[left], self._gamma[left], self._mu[left])
        left = left[x[left] < np.inf]
        length[left] = self._measure(x[left], left).length
        self._x = x
        return x, length

    def _measure(self, x: Floats, pages: NDArray[np.int64]) -> Measures:
        return measure_pages(x, self._alpha[pages], self._kappa[pages], self._gamma[pages])
