"""Optimal rates for pages visited at even intervals: freshness and age after S-Cho, and the harmonic penalty."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from crawld.scheduler.allocation_balance import Floats, balance, budget, columns, scaled, spread

_SMALL = 0.5  # below this r the closed forms cancel and a power series is used
_SIGNED_EXPONENTIAL = [1 / math.factorial(k) for k in range(20)]
_SIGNED_GAMMA = [(k - 1) / math.factorial(k) for k in range(20)]


def freshness_optimal(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates that maximise Σ μ·freshness at even intervals: S-Cho 5.3, S-NCIS eq. (5).

    The marginal value of rate is (μ/Δ)·P(2, r) with r = Δ/rate, so r is an inverse of P(2, ·) at λΔ/μ.
    """
    return _periodic(mu, delta, bandwidth, 1, inverse_freshness_gain)


def age_optimal(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates that minimise Σ μ·age at even intervals: S-Cho 5.3. Every page that changes gets some."""
    return _periodic(mu, delta, bandwidth, 2, inverse_age_gain)


def harmonic_optimal(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates that minimise Σ μ·harmonic penalty at even intervals (docs/method.md 1, other objectives)."""
    return _periodic(mu, delta, bandwidth, 1, inverse_harmonic_gain)


def _periodic(
    mu: ArrayLike, delta: ArrayLike, bandwidth: float, power: int, inverse: Callable[[Floats], Floats]
) -> Floats:
    """Share a budget where the marginal value is (μ/Δ^power)·gain(Δ/rate), given the inverse of the gain."""
    weight, change = columns(mu, delta)
    rate = budget(bandwidth)
    rates = np.zeros_like(weight)
    useful = np.flatnonzero((weight > 0) & (change > 0))
    if rate == 0 or useful.size == 0:
        return spread(rates, rate)
    heaviest, fastest = weight[useful].max(), change[useful].max()
    importance, pace = weight[useful] / heaviest, change[useful] / fastest

    def demand(multiplier: float) -> Floats:
        with np.errstate(over="ignore", divide="ignore", under="ignore"):
            level = (pace * (multiplier / importance) ** (1 / power)) ** power
            wanted: Floats = pace / inverse(level)
            return wanted

    rates[useful] = fastest * balance(demand, rate / fastest, float(importance.mean())).rates
    return scaled(rates, rate)


def freshness_gain(r: Floats) -> Floats:
    """P(2, r) = 1 − e^−r(1+r)."""
    return np.where(r < _SMALL, _series(r, 2, _SIGNED_GAMMA), -np.expm1(-r) - r * np.exp(-r))


def age_gain(r: Floats) -> Floats:
    """½r² − P(2, r)."""
    return np.where(r < _SMALL, _series(r, 3, _SIGNED_GAMMA), r * r / 2 + np.expm1(-r) + r * np.exp(-r))


def harmonic_gain(r: Floats) -> Floats:
    """The excess of r over 1 − e^−r."""
    return np.where(r < _SMALL, _series(r, 2, _SIGNED_EXPONENTIAL), r + np.expm1(-r))


def _series(r: Floats, first: int, coefficients: list[float]) -> Floats:
    """Σ_{k≥first} (−1)^(k−first) coefficients[k]·r^k, for r < ½."""
    small = np.minimum(r, _SMALL)
    total = np.zeros_like(small)
    for k in range(first + 13, first - 1, -1):
        total = coefficients[k] - small * total
    powered: Floats = total * small**first
    return powered


def inverse_freshness_gain(level: Floats) -> Floats:
    """The r with P(2, r) = level; inf from 1 on."""
    inside = np.minimum(level, np.nextafter(1.0, 0.0))
    depth = -np.log1p(-inside)  # r − ln(1+r) = depth, whose roots lie between √(2·depth) + ⅔·depth and + depth
    root = np.sqrt(2 * depth)
    r = np.where(depth < 1, root + root**2 / 3 + root**3 / 36 - root**4 / 270 + root**5 / 4320, root + 5 / 6 * depth)
    for _ in range(5):
        r = np.maximum(r - (r - np.log1p(r) - depth) * (1 + r) / r, root) if r.size else r
    small = inside < 0.08
    if small.any():
        r[small] = _solve(inside[small], root[small], freshness_gain, lambda z: z * z * np.exp(-z))
    return np.where(level >= 1, np.inf, r)


def inverse_age_gain(level: Floats) -> Floats:
    """The r with r²/2 − P(2, r) = level."""
    start = np.maximum(np.cbrt(3 * level), np.sqrt(2 * level))
    return _solve(level, start, age_gain, lambda z: -z * z * np.expm1(-z))


def inverse_harmonic_gain(level: Floats) -> Floats:
    """The r with r − 1 + e^−r = level."""
    return _solve(level, np.maximum(np.sqrt(2 * level), level), harmonic_gain, lambda z: -z * np.expm1(-z))


def _solve(level: Floats, start: Floats, gain: Callable[[Floats], Floats], slope: Callable[[Floats], Floats]) -> Floats:
    """Newton's method on log gain against log r, nearly a straight line; `slope` is r·gain'(r)."""
    r = np.maximum(start, 1e-150)
    for _ in range(6):
        value = gain(r)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            step = np.log(level / value) * value / slope(r)
        r = r * np.exp(np.clip(np.where(np.isfinite(step), step, 0.0), -2.0, 2.0))
        if np.all(np.abs(step) < 1e-9):  # quadratic: the step just made left 1e-18
            break
    return r
