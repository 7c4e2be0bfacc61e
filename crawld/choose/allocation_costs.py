"""What given rates achieve, in closed form: freshness, age and harmonic penalty of each page, by order of visits.

The order says how a page's visits lie in time: at even intervals (fixed), once at random in each of its intervals
(random), or at the moments of a Poisson process (purely random). Cho & Garcia-Molina Table 2; r = Δ/rate throughout.
"""

import math
from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from crawld.choose.allocation_balance import Floats, columns
from crawld.choose.allocation_cho import freshness_optimal


class VisitOrder(StrEnum):
    """How the visits to one page lie in time."""

    FIXED = "fixed"
    RANDOM = "random"
    PURELY_RANDOM = "purely-random"


def freshness(delta: ArrayLike, rates: ArrayLike, order: VisitOrder = VisitOrder.FIXED) -> Floats:
    """The share of time each page's copy is fresh: 1 where it never changes, 0 where it does and is never visited."""
    change, rate = columns(delta, rates)
    r = _ratio(change, rate)
    match order:
        case VisitOrder.FIXED:
            result = _phi(1, r)
        case VisitOrder.RANDOM:
            result = _phi(2, r) * (1 + _phi(1, r))
        case VisitOrder.PURELY_RANDOM:
            result = 1 / (1 + r)
    return np.where(change > 0, np.where(rate > 0, result, 0.0), 1.0)


def age(delta: ArrayLike, rates: ArrayLike, order: VisitOrder = VisitOrder.FIXED) -> Floats:
    """The mean time since each copy went stale, a fresh one counting 0; inf where a page changes unvisited."""
    change, rate = columns(delta, rates)
    r = _ratio(change, rate)
    even = r * _phi(3, r)
    match order:
        case VisitOrder.FIXED:
            result = even
        case VisitOrder.RANDOM:
            result = even - even * even + 2 * r * _phi(4, r)
        case VisitOrder.PURELY_RANDOM:
            result = r / (1 + r)
    with np.errstate(over="ignore"):
        return _penalty(change, rate, result / np.where(rate > 0, rate, 1.0))


def harmonic(delta: ArrayLike, rates: ArrayLike, order: VisitOrder = VisitOrder.FIXED) -> Floats:
    """Kolobov et al.'s penalty, the mean of H(changes missed) over time; inf where a page changes unvisited.

    With Ein the entire exponential integral, E H(N) = Ein(y) for N ~ Poisson(y), whose mean over an even interval is
    Ein(r) − 1 + φ₁(r); Poisson visits give ln(1+r), Kolobov et al.'s Proposition 1; random order is a quadrature.
    """
    change, rate = columns(delta, rates)
    r = _ratio(change, rate)
    match order:
        case VisitOrder.FIXED:
            result = entire_exponential_integral(r) - r * _phi(2, r)
        case VisitOrder.RANDOM:
            result = _random_order_mean(entire_exponential_integral, r)
        case VisitOrder.PURELY_RANDOM:
            result = np.log1p(r)
    return _penalty(change, rate, result)


def harmonic_announced(delta: ArrayLike, rates: ArrayLike) -> Floats:
    """The harmonic penalty of crawls upon a share rate/Δ of the announced changes: Kolobov et al., Proposition 4."""
    change, rate = columns(delta, rates)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(change > 0, np.maximum(np.log(change / rate), 0.0), 0.0)


def freshness_announced(delta: ArrayLike, rates: ArrayLike) -> Floats:
    """The freshness of pages crawled upon a share rate/Δ of their announced changes: Kolobov et al. 2019 eq. (13)."""
    change, rate = columns(delta, rates)
    return np.where(change > rate, rate / np.where(change > 0, change, 1.0), 1.0)


def weighted(mu: ArrayLike, values: ArrayLike) -> float:
    """The mean of values by importance; 0 where nothing is important."""
    weight, value = np.asarray(mu, dtype=np.float64), np.asarray(values, dtype=np.float64)
    total = float(np.sum(weight))
    return float(np.sum(np.where(weight > 0, weight, 0.0) * np.where(weight > 0, value, 0.0)) / total) if total else 0.0


def baseline_accuracy(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> float:
    """The best freshness, weighted by importance, without signals: Busa-Fekete et al. 2025 eq. (5), its BASELINE."""
    return weighted(mu, freshness(delta, freshness_optimal(mu, delta, bandwidth)))


def entire_exponential_integral(y: Floats) -> Floats:
    """Ein(y) = ∫₀^y (1−e^−t)/t dt: a series below 2, else ln y + γ + E₁(y) with E₁ as a continued fraction."""
    low, high = np.minimum(y, 2.0), np.maximum(y, 2.0)
    series = np.zeros_like(low)
    for k in range(28, 0, -1):
        series = 1 / (k * math.factorial(k)) - low * series
    fraction = np.zeros_like(high)
    for k in range(60, 0, -1):
        fraction = k * k / (high + 2 * k + 1 - fraction)
    tail = np.exp(-high) / (high + 1 - fraction)
    return np.where(y < 2, low * series, np.log(high) + np.euler_gamma + tail)


def _ratio(change: Floats, rate: Floats) -> Floats:
    """Changes per visit, some finite number where there are no visits."""
    with np.errstate(over="ignore"):
        return np.minimum(change / np.where(rate > 0, rate, 1.0), 1e150)


def _penalty(change: Floats, rate: Floats, result: Floats) -> Floats:
    return np.where(change > 0, np.where(rate > 0, result, np.inf), 0.0)


def _phi(k: int, r: Floats) -> Floats:
    """φ_k(−r) = Σ_j (−r)^j/(j+k)!: φ₁ = (1−e^−r)/r, and φ_{k+1} = (1/k! − φ_k)/r, a series below 2."""
    low, high = np.minimum(r, 2.0), np.maximum(r, 2.0)
    series = np.zeros_like(low)
    for j in range(26, -1, -1):
        series = 1 / math.factorial(j + k) - low * series
    value = -np.expm1(-high) / high
    for step in range(1, k):
        value = (1 / math.factorial(step) - value) / high
    return np.where(r < 2, series, value)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


def _random_order_mean(cost: Callable[[Floats], Floats], r: Floats) -> Floats:
    """The mean of cost(r·s), s the time since the last visit in intervals, when each interval has one at random.

    A visit at a in one interval and at b in the next are 1+b−a apart; the time since the last one has the survival
    function P(gap > s) as its density: 1 − s²/2 up to 1, (2−s)²/2 from there to 2.
    """
    total = np.zeros_like(r)
    for node, weight in zip(_NODES, _WEIGHTS):
        total += weight * (1 - node**2 / 2) * cost(r * node)
        total += weight * ((1 - node) ** 2 / 2) * cost(r * (1 + node))
    return total
