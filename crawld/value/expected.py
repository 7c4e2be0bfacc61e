"""The crawl value expected over what is not known of α (docs/method.md, "Evaluating the crawl value")."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil, exp, expm1, fsum, log1p, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.value.scalar import measure_page
from crawld.value.series import columns, measure_pages, times

Floats = NDArray[np.float64]
Gamma = tuple[Floats, Floats]  # shape and mean of each page's distribution of α
Measure = Callable[[Floats, Floats, Floats, Floats], Sequence[Floats]]

_PAGES = 1024  # learnt pages evaluated at once
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS


class Rule(NamedTuple):
    """How many points stand for a Gamma of shape a, and how far they reach from its mean in ln α."""

    points: int
    below: tuple[float, float]  # parts of 1/√a and of 1/a
    deepest: float
    above: tuple[float, float]  # the same, of α itself


QUICK = Rule(9, (3.8, 2.5), 7.0, (3.5, 3.5))
"""For picks: the root mean square error of E[V] is 6e-3 at shape .3, 1e-3 at 1, 1e-4 from 4 on."""
FINE = Rule(96, (8.0, 12.0), 24.0, (8.0, 24.0))
"""For `expected_value`: good to 1e-6, 1e-4 where γ ≫ α makes V kinked."""


def expected_value(
    tau: ArrayLike,
    signals: ArrayLike,
    shape: ArrayLike,
    rate: ArrayLike,
    kappa: ArrayLike,
    gamma: ArrayLike,
    mu: ArrayLike = 1.0,
) -> Floats:
    """The crawl value after `tau` and so many signals, expected over α ~ Gamma(shape, rate)."""
    form, (taus, counts, shapes, rates, kappas, gammas, mus) = columns(tau, signals, shape, rate, kappa, gamma, mu)
    with np.errstate(all="ignore"):
        boost = np.where(counts > 0, kappas * counts, 0.0)
        blind = blind_pages(boost, kappas, gammas)
        value = np.empty_like(taus)
        value[blind] = blind_value(taus[blind], shapes[blind], rates[blind])
        if not blind.all():
            seen = ~blind
            posterior = (shapes[seen], shapes[seen] / rates[seen])
            rows = mixture(_values, taus[seen], boost[seen], posterior, kappas[seen], gammas[seen], rule=FINE)
            value[seen] = rows[0]
    return times(mus, value).reshape(form)[()]


def _values(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> tuple[Floats]:
    return (measure_pages(x, alpha, kappa, gamma, length=False).value,)


def mixture(
    measure: Measure, tau: Floats, boost: Floats, posterior: Gamma, kappa: Floats, gamma: Floats, rule: Rule = QUICK
) -> Floats:
    """Rows of what `measure(x, α, κ, γ)` gives, expected over each page's Gamma posterior of α."""
    blocks = []
    shape, mean = posterior
    for start in range(0, shape.size, _PAGES):
        now = slice(start, start + _PAGES)
        factor, weight = gamma_points(shape[now], rule)
        alpha = (mean[now, None] * factor).ravel()
        x = alpha * np.repeat(tau[now], rule.points) + np.repeat(boost[now], rule.points)
        rows = measure(x, alpha, np.repeat(kappa[now], rule.points), np.repeat(gamma[now], rule.points))
        shares = np.asarray(rows) * weight.ravel()
        shares[:, weight.ravel() == 0] = 0.0  # no mass counts for nothing, even of an endless value
        blocks.append(shares.reshape(len(rows), -1, rule.points).sum(axis=2))
    return np.concatenate(blocks, axis=1)


def expected_page(
    tau: float, boost: float, posterior: tuple[float, float], kappa: float, gamma: float, terms: float
) -> tuple[float, float, float, float]:
    """The scalar twin of `mixture` for the freshness objective: E[V], its two derivatives and a bound on the third."""
    shape, mean = posterior
    value = slope = curvature = bound = 0.0
    for factor, weight in page_points(shape):
        alpha = mean * factor
        x = alpha * tau + boost
        v, drift, density, unrest = measure_page(x, alpha, kappa, gamma, terms)
        value += weight * v
        fall = weight * exp(-x)
        slope += fall * drift
        curvature += fall * alpha * (density - drift)
        bound += fall * alpha * (unrest + alpha * (2.368 + drift))
    return value, slope, curvature, bound


def expected_ceiling(tau: float, boost: float, posterior: tuple[float, float], kappa: float, gamma: float) -> float:
    """What E[V] cannot exceed: at each point V is at most 1/Δ, x²/2α, and what it would be without drift.

    ψ ≤ y/α, because signals only shorten a cycle, and ψ ≤ ⌈y/κ⌉/γ, because so many signals end it.
    """
    shape, mean = posterior
    false = exp(-kappa)
    true = gamma * (1 - false)
    total = 0.0
    for factor, weight in page_points(shape):
        alpha = mean * factor
        x = alpha * tau + boost
        most, early = 1 / (alpha + true), 0.5 * x * x / alpha
        most = min(most, early)
        if x < 20 * kappa:
            count = ceil(x / kappa)
            driven = (gamma / true * (1 - false**count) - count * exp(-x)) / gamma if true > 0 else most
            most = min(most, driven)
        total += weight * most
    return total * (1 + 1e-9) + 1e-12 / gamma


def blind_pages(boost: Floats, kappa: Floats, gamma: Floats) -> NDArray[np.bool_]:
    """Where no signal has counted nor ever will."""
    blind: NDArray[np.bool_] = gamma == 0
    blind |= kappa == 0
    blind &= boost == 0
    return blind


def gamma_points(shape: Floats, rule: Rule) -> tuple[Floats, Floats]:
    """Points and weights (pages × points) of Gamma distributions of mean 1; they do not depend on time.

    The trapezoidal rule in ln α over the whole line, whose error falls exponentially with the step. The points below
    the reach, where the density is a power of α, are one point at their own mean. Σw = 1 and Σwα = 1.
    """
    a = shape[:, None]
    root = np.sqrt(a)
    low = -np.minimum(rule.deepest, rule.below[0] / root + rule.below[1] / a)
    step = (np.log1p(rule.above[0] / root + rule.above[1] / a) - low) / (rule.points - 2)
    offset = low + step * np.arange(-1.0, rule.points - 1)
    alpha = np.exp(offset)
    weight = np.exp(-a * (np.expm1(offset) - offset))
    keep, move = -np.expm1(-a * step), -np.expm1(-(a + 1) * step)
    weight[:, :1] = weight[:, 1:2] * (1 - keep) / keep
    alpha[:, :1] = alpha[:, 1:2] * np.exp(-step) * keep / move
    weight /= weight.sum(axis=1, keepdims=True)
    alpha /= (weight * alpha).sum(axis=1, keepdims=True)
    return alpha, weight


@lru_cache(4096)
def page_points(shape: float) -> list[tuple[float, float]]:
    """The scalar twin of `gamma_points`: pairs for one page; many pages share a shape."""
    points, below, deepest, above = QUICK
    root = sqrt(shape)
    low = -min(deepest, below[0] / root + below[1] / shape)
    step = (log1p(above[0] / root + above[1] / shape) - low) / (points - 2)
    pairs = []
    for i in range(points - 1):
        offset = low + step * i
        pairs.append((exp(offset), exp(-shape * (expm1(offset) - offset))))
    keep, move = -expm1(-shape * step), -expm1(-(shape + 1) * step)
    pairs.insert(0, (pairs[0][0] * exp(-step) * keep / move, pairs[0][1] * (1 - keep) / keep))
    mass = fsum(weight for _, weight in pairs)
    mean = fsum(alpha * weight for alpha, weight in pairs) / mass
    return [(alpha / mean, weight / mass) for alpha, weight in pairs]


def blind_value(tau: Floats, shape: Floats, rate: Floats) -> Floats:
    """E[V] without signals: ∫S − τS with S(τ) = (1+τ/b)^−a the chance to be still fresh.

    With l = ln(1+τ/b) it is b·a∫(e^l−1)e^−al dl: integrated where the closed forms would cancel.
    """
    a, y = shape, np.minimum(tau, 1e300) / rate
    log = np.log1p(y)
    span = a * log
    near = (np.maximum(span, log) <= 8).nonzero()[0]
    if near.size == a.size:
        result = _blind_near(a, log)
    else:
        steep = (1 - np.exp(-span) * (1 + a * y)) / (a - 1)
        excess = a - 1
        with_log = np.where(excess == 0, log, -np.expm1(-excess * log) / excess)
        result = np.where(a >= 2, steep, a * with_log + np.expm1(-span))
        result[near] = _blind_near(a[near], log[near])
    result *= rate
    result[np.logical_not(rate < np.inf)] = 0.0
    result[rate == 0] = 0.0
    return result


def _blind_near(a: Floats, log: Floats) -> Floats:
    depth = log[:, None] * _NODES
    heights = np.exp(depth * -a[:, None])
    heights *= np.expm1(depth, out=depth)
    heights *= _WEIGHTS
    sums: Floats = np.add.reduce(heights, axis=1)
    sums *= a * log
    return sums


def blind_jet(tau: Floats, shape: Floats, rate: Floats) -> tuple[Floats, Floats, Floats]:
    """dE[V]/dτ, d²E[V]/dτ² and a bound on the third derivative from τ on, without signals."""
    a, y = shape, np.minimum(tau, 1e300) / rate
    log = np.log1p(y)
    stay = np.exp(-(a + 1) * log)
    slope = a * y * stay
    curvature = a * (1 - (a + 1) * y / (1 + y)) * stay / rate
    peak = np.maximum(y, 1 / (a + 2))
    arch = peak * np.exp(-(a + 3) * np.log1p(peak))
    bound = a * (a + 1) * (2 * stay / (1 + y) + (a + 2) * arch) / rate / rate
    fixed = (rate == np.inf).nonzero()[0]
    if fixed.size:
        slope[fixed] = curvature[fixed] = bound[fixed] = 0.0
    return slope, curvature, bound


_STEPS = tuple(zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True))


def blind_page(tau: float, shape: float, rate: float) -> tuple[float, float, float, float]:
    """The scalar twin of `blind_value` and `blind_jet`."""
    a, y = shape, min(tau, 1e300) / rate
    grown = log1p(y)
    span = a * grown
    if max(span, grown) <= 8:
        value = 0.0
        for node, weight in _STEPS:
            depth = grown * node
            value += weight * exp(-a * depth) * expm1(depth)
        value *= span
    elif a >= 2:
        value = (1 - exp(-span) * (1 + a * y)) / (a - 1)
    else:
        value = a * (grown if a == 1 else -expm1((1 - a) * grown) / (a - 1)) + expm1(-span)
    stay = exp(-(a + 1) * grown)
    peak = max(y, 1 / (a + 2))
    arch = peak * exp(-(a + 3) * log1p(peak))
    bound = a * (a + 1) * (2 * stay / (1 + y) + (a + 2) * arch) / rate / rate
    return value * rate, a * y * stay, a * (1 - (a + 1) * y / (1 + y)) * stay / rate, bound
