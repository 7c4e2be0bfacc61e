"""Crawl values of other objectives: V_C = μ∫ψC′ for the harmonic penalty and for age (docs/method.md, "The model")."""

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from crawld.choose.series import erlang2, eta, measure_pages


@dataclass(frozen=True)
class ChooseObjectivesLimits:
    """Numbers that bound and tune this module."""

    broad: float = 1e6  # past this log-staleness the harmonic value goes on as a straight line
    tiny: float = 1e-90
    small: float = 1e-4  # below, the age value is integrated instead of subtracted
    block: int = 512  # pages with signals measured at once


LIMITS = ChooseObjectivesLimits()


Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS
_REST = np.array([(-1) ** k * (k + 2) / factorial(k + 3) for k in range(18, -1, -1)])  # (x²/2 − P(2, x))/x³


def harmonic_pages(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """∫ψ(y)(1−e^−y)/y dy of flat columns: (1−e^−y)/y = ∫₀¹e^−sy ds makes it a mean of crawl values in slower clocks."""
    with np.errstate(all="ignore"):
        alone = np.where(x < 1, 0.5 * x * x - eta(np.minimum(x, 1.0)), x + np.expm1(-x)) / alpha
        return _with_signals(alone, _harmonic_block, x, alpha, kappa, gamma)


def _harmonic_block(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    near = np.clip(x, LIMITS.tiny, LIMITS.broad)
    span = np.log1p(near)[:, None]
    clock = np.expm1(span * _NODES) / near[:, None]
    weight = _WEIGHTS * span * np.exp(span * _NODES) / near[:, None]
    value: Floats = np.einsum("ij,ij->i", weight, _slowed(clock, near, alpha, kappa, gamma))
    tiny = np.flatnonzero(x < LIMITS.tiny)
    if tiny.size:  # C′ is 1 as for freshness
        value[tiny] = measure_pages(x[tiny], alpha[tiny], kappa[tiny], gamma[tiny]).value
    far = np.flatnonzero(x > LIMITS.broad)
    if far.size:
        length = measure_pages(near[far], alpha[far], kappa[far], gamma[far]).length
        beyond = np.where(kappa[far] < np.inf, x[far] / LIMITS.broad - 1, np.log(x[far] / LIMITS.broad))
        value[far] += length * beyond
    return value


def _slowed(clock: Floats, x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """∫ψ(y)e^−sy dy for each clock s (pages × clocks): V(sx; sα, sκ, γ)/s, since ψ only knows ratios to x."""
    slow_x, slow_alpha, slow_kappa = ((clock * column[:, None]).ravel() for column in (x, alpha, kappa))
    value = measure_pages(slow_x, slow_alpha, slow_kappa, np.repeat(gamma, clock.shape[1])).value
    return value.reshape(clock.shape) / clock


def age_pages(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """∫ψ(y)(1−e^−y) dy/Δ of flat columns."""
    with np.errstate(all="ignore"):
        near = np.minimum(x, 1.0)
        alone = np.where(x < 1, near**3 * np.polyval(_REST, near), 0.5 * x * x - erlang2(x)) / alpha / alpha
        return _with_signals(alone, _age_block, x, alpha, kappa, gamma)


def _age_block(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    rise = np.minimum(x / LIMITS.tiny, 1.0)  # what is left of the value at an x too small for the clocks below
    x = np.clip(x, LIMITS.tiny, 1e100)
    still = np.exp2(-70.0) / (1 + x)[:, None]  # a clock so slow that e^−sy is 1
    area = _slowed(still, x, alpha, kappa, gamma)[:, 0]
    value = area - measure_pages(x, alpha, kappa, gamma).value
    small = np.flatnonzero(x < LIMITS.small)
    if small.size:
        # ∫ψ(1−e^−y)dy = ∫e^−y(Ψ(x) − Ψ(y))dy, Ψ = ∫ψ
        y = x[small][:, None] * _NODES
        tile = [np.repeat(column[small], _NODES.size) for column in (alpha, kappa, gamma)]
        slow = np.full((y.size, 1), np.exp2(-70.0))
        areas = _slowed(slow, y.ravel(), *tile)[:, 0].reshape(y.shape)
        rest = np.maximum(area[small][:, None] - areas, 0.0) * np.exp(-y)
        value[small] = x[small] * np.add.reduce(rest * _WEIGHTS, axis=1)
    value = np.maximum(value, 0.0)
    value *= rise**3 / (alpha - gamma * np.expm1(-kappa))
    return value


def _with_signals(value: Floats, block: Callable[..., Floats], *page: Floats) -> Floats:
    """Fill in the values of pages with signals, at x = 0, at x = ∞, and of pages that never change."""
    x, alpha, kappa, gamma = page
    seen = np.flatnonzero((gamma > 0) & (kappa > 0) & (x > 0) & (x < np.inf))
    for start in range(0, seen.size, LIMITS.block):
        now = seen[start : start + LIMITS.block]
        value[now] = block(*(column[now] for column in page))
    value[(x == np.inf) & (alpha + gamma > 0)] = np.inf
    value[np.isnan(value)] = np.inf  # even the parts are beyond the largest float
    value[(x <= 0) | ((alpha == 0) & ((gamma == 0) | (kappa == 0)))] = 0.0
    return value


def harmonic_slopes(x: Floats) -> tuple[Floats, Floats, Floats]:
    """C′ = (1−e^−x)/x = ∫₀¹e^−sx ds and its first two derivatives."""
    fresh = np.exp(-x)
    first = np.where(x > 0, -np.expm1(-x) / x, 1.0)
    second = (fresh - first) / x
    third = -(fresh + 2 * second) / x
    near = np.flatnonzero(x < 3)
    if near.size:
        shrunk = np.exp(-x[near][:, None] * _NODES)
        second[near] = -np.add.reduce(shrunk * (_WEIGHTS * _NODES), axis=1)
        third[near] = np.add.reduce(shrunk * (_WEIGHTS * _NODES**2), axis=1)
    endless = x == np.inf
    second[endless] = third[endless] = 0.0
    return first, second, third
