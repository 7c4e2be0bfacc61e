"""Optimal rates for visits at even intervals: freshness and age (Cho & Garcia-Molina 2000), and harmonic penalty."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from crawld.choose.allocation_balance import Floats, balance, budget, columns, scaled, spread

_BLOCK = 16384  # pages at once, so that what is computed on the way stays in the cache
_SMALL = 0.5  # below this r the closed forms cancel and a power series is used
_SIGNED_EXPONENTIAL = [1 / math.factorial(k) for k in range(20)]
_SIGNED_GAMMA = [(k - 1) / math.factorial(k) for k in range(20)]


def freshness_optimal(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates that maximise Σ μ·freshness at even intervals: Cho & Garcia-Molina 5.3, Busa-Fekete et al. eq. (5).

    The marginal value of rate is (μ/Δ)·P(2, r) with r = Δ/rate, so r is an inverse of P(2, ·) at λΔ/μ.
    """
    return _periodic(mu, delta, bandwidth, 1, inverse_freshness_gain)


def age_optimal(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates that minimise Σ μ·age at even intervals: Cho & Garcia-Molina 5.3. Every page that changes gets some."""
    return _periodic(mu, delta, bandwidth, 2, inverse_age_gain)


def harmonic_optimal(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates that minimise Σ μ·harmonic penalty at even intervals (docs/method.md, "Other objectives")."""
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
        wanted: Floats = np.empty_like(pace)
        for start in range(0, pace.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            level = (pace[part] * (multiplier / importance[part]) ** (1 / power)) ** power
            wanted[part] = pace[part] / inverse(level)
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


def _tabulated(gain: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Logarithms of the gain, and of r, on a grid: a start from which two steps of Newton's method suffice."""
    r = np.geomspace(1e-8, 1e8, 6000)
    return np.log(gain(r)), np.log(r)


def _depth(r: Floats) -> Floats:
    """The excess of r over ln(1+r), which is −ln(1 − P(2, r)); below ½ taken from P(2, r), which does not cancel."""
    return np.where(r < _SMALL, -np.log1p(-freshness_gain(np.minimum(r, _SMALL))), r - np.log1p(r))


_BY_DEPTH = _tabulated(_depth)
_BY_AGE = _tabulated(age_gain)
_BY_HARMONIC = _tabulated(harmonic_gain)


def inverse_freshness_gain(level: Floats) -> Floats:
    """The r with P(2, r) = level; inf from 1 on."""
    inside = np.clip(level, 1e-300, np.nextafter(1.0, 0.0))
    depth = -np.log1p(-inside)
    r: Floats = np.maximum(_start(depth, _BY_DEPTH), np.sqrt(2 * depth))
    deep = r >= _SMALL
    for _ in range(2):
        r[deep] -= (r[deep] - np.log1p(r[deep]) - depth[deep]) * (1 + r[deep]) / r[deep]
    shallow = ~deep
    if shallow.any():
        r[shallow] = _solve(inside[shallow], r[shallow], freshness_gain, lambda z: z * z * np.exp(-z))
    r[level >= 1] = np.inf
    return r


def inverse_age_gain(level: Floats) -> Floats:
    """The r with r²/2 − P(2, r) = level."""
    least = np.maximum(np.cbrt(3 * level), np.sqrt(2 * level))
    start = np.maximum(_start(level, _BY_AGE), least)
    return _solve(level, start, age_gain, lambda z: -z * z * np.expm1(-z))


def inverse_harmonic_gain(level: Floats) -> Floats:
    """The r with r − 1 + e^−r = level."""
    start = np.maximum(_start(level, _BY_HARMONIC), np.maximum(np.sqrt(2 * level), level))
    return _solve(level, start, harmonic_gain, lambda z: -z * np.expm1(-z))


def _start(level: Floats, table: tuple[Floats, Floats]) -> Floats:
    """About the r of that level; 0 outside of the grid, where a bound known to the caller is near enough."""
    with np.errstate(divide="ignore"):
        return np.exp(np.interp(np.log(level), *table, left=-np.inf, right=-np.inf))


def _solve(level: Floats, start: Floats, gain: Callable[[Floats], Floats], slope: Callable[[Floats], Floats]) -> Floats:
    """Newton's method on log gain against log r, nearly a straight line; `slope` is r·gain'(r)."""
    r = np.clip(start, 1e-150, 1e150)
    for _ in range(6):
        value = gain(r)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            step = np.log(level / value) * value / slope(r)
        step = np.clip(np.where(np.isfinite(step), step, 0.0), -2.0, 2.0)
        r = r * np.exp(step)
        if np.all(np.abs(step) < 1e-7):  # quadratic: the step just made left less than a rounding
            break
    return r
