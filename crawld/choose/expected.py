"""The crawl value expected over what is not known of α (docs/method.md, "Evaluating the crawl value").

A page without signals has a closed form. Others are a mixture of known pages, over points of α that do not depend on
time, so that the expectation rises as each point's value does. Functions of arrays and of one page stand side by side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, expm1, frexp, inf, ldexp, log1p
from typing import NamedTuple

import numpy as np

from crawld.choose.scalar import Motion, measure_page
from crawld.choose.series import measure_pages
from crawld.choose.valuation import Beliefs, Floats


@dataclass(frozen=True)
class ExpectedLimits:
    """Numbers that bound and tune this module."""

    coarse: int = 256  # of the mantissa of a shape, between .5 and 1, as many parts of 1 are told apart
    pages: int = 1024  # learnt pages evaluated at once


LIMITS = ExpectedLimits()


Measure = Callable[[Floats, Floats, Floats, Floats], Floats]  # rows of x, α, κ and γ

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS
_STEPS = tuple(zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True))


class QuadratureRule(NamedTuple):
    """Number of points that stand for a Gamma of shape a, and their reach from its mean in ln α."""

    points: int
    below: tuple[float, float]  # parts of 1/√a and of 1/a
    deepest: float
    above: tuple[float, float]  # the same, of α itself
    coarse: bool = False  # shapes are rounded to a few hundred, so that the points of one page are mostly known


QUICK = QuadratureRule(9, (3.8, 2.5), 7.0, (3.5, 3.5), coarse=True)
"""For picks: the root mean square error of E[V] is 6e-3 at shape .3, 1e-3 at 1, 1e-4 from 4 on."""
FINE = QuadratureRule(96, (8.0, 12.0), 24.0, (8.0, 24.0))
"""For `expected_value`: good to 1e-6, 1e-4 where γ ≫ α makes V kinked."""


def expected_pages(tau: Floats, signals: Floats, shape: Floats, rate: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """E[V] after `tau` and so many signals over α ~ Gamma(shape, rate), for importance 1."""
    with np.errstate(all="ignore"):
        boost = np.where(signals > 0, kappa * signals, 0.0)
        value: Floats = unsignalled_rows(tau, shape, rate)[0]
        seen = np.flatnonzero(((gamma > 0) & (kappa > 0)) | (boost > 0))
        if seen.size:
            beliefs = Beliefs(shape, shape / rate, shape, kappa, gamma).select(seen)
            value[seen] = mixture(_values, tau[seen], boost[seen], beliefs, FINE)[0]
        return value


def _values(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    return measure_pages(x, alpha, kappa, gamma).value[None, :]


def mixture(measure: Measure, tau: Floats, boost: Floats, beliefs: Beliefs, rule: QuadratureRule = QUICK) -> Floats:
    """Rows of what `measure(x, α, κ, γ)` gives, expected over each page's Gamma posterior of α."""
    blocks = []
    for start in range(0, tau.size, LIMITS.pages):
        now = slice(start, start + LIMITS.pages)
        _, mean, shape, kappa, gamma = beliefs.select(now)[:5]
        factor, weight = gamma_points(shape, rule)
        alpha = (mean[:, None] * factor).ravel()
        times, boosts, kappas, gammas = (np.repeat(c, rule.points) for c in (tau[now], boost[now], kappa, gamma))
        shares = measure(alpha * times + boosts, alpha, kappas, gammas) * weight.ravel()
        shares[:, weight.ravel() == 0] = 0.0  # no mass counts for nothing, even of an endless value
        blocks.append(shares.reshape(len(shares), -1, rule.points).sum(axis=2))
    return np.concatenate(blocks, axis=1)


def expected_page(
    tau: float, boost: float, posterior: tuple[float, float], kappa: float, gamma: float, terms: float
) -> Motion:
    """For one page and the freshness objective: E[V], its two derivatives and a bound on the third."""
    mean, shape = posterior
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
    """Upper bound of E[V]: at each point V is at most 1/Δ, x²/2α, and what it would be without drift.

    ψ ≤ y/α, because signals only shorten a cycle, and ψ ≤ ⌈y/κ⌉/γ, because so many signals end it.
    """
    mean, shape = posterior
    false = exp(-kappa)
    true = gamma * (1 - false)
    total = 0.0
    for factor, weight in page_points(shape):
        alpha = mean * factor
        x = alpha * tau + boost
        most, early = 1 / (alpha + true), 0.5 * x * x / alpha
        most = min(most, early)
        if x < 20 * kappa and true > 0:
            count = ceil(x / kappa)
            most = min(most, (gamma / true * (1 - false**count) - count * exp(-x)) / gamma)
        total += weight * most
    return total * (1 + 1e-9) + 1e-12 / gamma


def gamma_points(shape: Floats, rule: QuadratureRule) -> tuple[Floats, Floats]:
    """Points and weights (pages × points) of Gamma distributions of mean 1; they do not depend on time.

    The trapezoidal rule in ln α over the whole line, whose error falls exponentially with the step. The points below
    the reach, where the density is a power of α, are one point at their own mean. Σw = 1 and Σwα = 1.
    """
    if rule.coarse:
        mantissa, exponent = np.frexp(shape)
        shape = np.ldexp(np.rint(mantissa * LIMITS.coarse) / LIMITS.coarse, exponent)
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


def page_points(shape: float) -> list[tuple[float, float]]:
    """The points of one page for picks, as pairs; a known α is its only point."""
    if shape == inf:
        return [(1.0, 1.0)]
    mantissa, exponent = frexp(shape)
    return _points_of(round(mantissa * LIMITS.coarse), exponent)


@lru_cache(8192)
def _points_of(mantissa: int, exponent: int) -> list[tuple[float, float]]:
    alpha, weight = gamma_points(np.array([ldexp(mantissa / LIMITS.coarse, exponent)]), QUICK)
    return list(zip(alpha[0].tolist(), weight[0].tolist(), strict=True))


def unsignalled_rows(tau: Floats, shape: Floats, rate: Floats) -> Floats:
    """E[V] = ∫S − τS without signals, S(τ) = (1+τ/b)^−a, its two derivatives and a bound on the third.

    With l = ln(1+τ/b) the value is b·a∫(e^l−1)e^−al dl: integrated where the closed forms would cancel.
    """
    a, y = shape, np.minimum(tau, 1e300) / rate
    grown = np.log1p(y)
    span, excess = a * grown, a - 1
    growth = np.where(excess == 0, grown, -np.expm1(-excess * grown) / excess)
    value = np.where(a >= 2, (1 - np.exp(-span) * (1 + a * y)) / excess, a * growth + np.expm1(-span))
    near = (np.maximum(span, grown) <= 8).nonzero()[0]
    depth = grown[near, None] * _NODES
    value[near] = span[near] * np.add.reduce(np.exp(-a[near, None] * depth) * np.expm1(depth) * _WEIGHTS, axis=1)
    stay = np.exp(-(a + 1) * grown)
    peak = np.maximum(y, 1 / (a + 2))
    arch = peak * np.exp(-(a + 3) * np.log1p(peak))
    bound = a * (a + 1) * (2 * stay / (1 + y) + (a + 2) * arch) / rate / rate
    rows = np.array((value * rate, a * y * stay, a * (1 - (a + 1) * y / (1 + y)) * stay / rate, bound))
    rows[:, ~((rate > 0) & (rate < np.inf))] = 0.0
    return rows


def unsignalled_page(tau: float, shape: float, rate: float) -> Motion:
    """The same of one page."""
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
