"""Crawl values, cycle lengths and level crossings (docs/method.md, "The model")."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.scheduler.value_inverse import rising_crossing
from crawld.scheduler.value_series import Measures, measure

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
BLOCK = 16384  # pages evaluated at once, so that temporaries stay in the cache


def columns(*arguments: ArrayLike) -> tuple[tuple[int, ...], list[Floats]]:
    """The common shape of the arguments, and each as a flat column of that many floats."""
    arrays = [np.asarray(argument, dtype=np.float64) for argument in arguments]
    shape = arrays[0].shape
    if any(array.shape != shape for array in arrays):
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        arrays = [np.broadcast_to(array, shape) for array in arrays]
    return shape, [array.reshape(-1) for array in arrays]


def measure_pages(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool = True) -> Measures:
    """V, ψ and αψ′ of flat columns for importance 1, block by block and in any unit of time."""
    if x.size <= BLOCK:
        return _measure_block(x, alpha, kappa, gamma, length=length)
    parts = [
        _measure_block(x[now], alpha[now], kappa[now], gamma[now], length=length)
        for now in (slice(start, start + BLOCK) for start in range(0, x.size, BLOCK))
    ]
    return Measures(
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([part.density for part in parts]),
        np.concatenate([part.unrest for part in parts]),
    )


def _measure_block(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool) -> Measures:
    with np.errstate(all="ignore"):
        unit = np.maximum(alpha, gamma)
        if not unit.all():
            unit = np.where(unit > 0, unit, 1.0)
        result = measure(x, alpha / unit, kappa, gamma / unit, length=length)
        result.value /= unit
        result.length /= unit
        result.unrest = result.unrest * unit
    return result


def crawl_value(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, mu: ArrayLike = 1.0) -> Floats:
    """V(x): what crawling a page at log-staleness x is worth."""
    shape, (xs, alphas, kappas, gammas, mus) = columns(x, alpha, kappa, gamma, mu)
    value = measure_pages(xs, alphas, kappas, gammas, length=False).value
    return times(mus, value).reshape(shape)[()]


def times(mu: Floats, value: Floats) -> Floats:
    """μ·V where an overflow is inf and nothing is ever worth a page of no importance."""
    with np.errstate(all="ignore"):
        product = mu * value
    return product if np.isfinite(product).all() else np.where(mu > 0, product, 0.0)


def cycle_length(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike) -> Floats:
    """ψ(x): the expected time between crawls of a page that is crawled at log-staleness x."""
    shape, flat = columns(x, alpha, kappa, gamma)
    return measure_pages(*flat).length.reshape(shape)[()]


def fresh_time(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike) -> Floats:
    """w(x): the expected time per cycle that the copy of a page crawled at log-staleness x is fresh."""
    shape, flat = columns(x, alpha, kappa, gamma)
    measures = measure_pages(*flat)
    with np.errstate(all="ignore"):
        stale = np.exp(-flat[0]) * measures.length
    stale[flat[0] == np.inf] = 0.0
    return (measures.value + stale).reshape(shape)[()]


def level_crossing(
    level: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, mu: ArrayLike = 1.0
) -> Floats:
    """The log-staleness at which V reaches `level`; inf where it never does."""
    shape, (levels, alphas, kappas, gammas, mus) = columns(level, alpha, kappa, gamma, mu)
    return staleness_at(levels, mus, alphas, kappas, gammas, tolerance=0.0)[1].reshape(shape)[()]


def staleness_at(
    level: Floats, mu: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, tolerance: float
) -> tuple[Floats, Floats]:
    """Brackets (low, high) of the log-staleness where μV reaches `level`: V(low) < level ≤ V(high)."""
    with np.errstate(all="ignore"):
        top = 1.0 / (alpha - gamma * np.expm1(-kappa))
        goal = level / mu
    top[(alpha == 0) & ((gamma == 0) | (kappa == 0))] = 0.0
    goal[np.isnan(goal)] = 0.0

    def evaluate(x: Floats, pages: Indices) -> tuple[Floats, Floats]:
        measures = measure_pages(x, alpha[pages], kappa[pages], gamma[pages])
        return measures.value, np.exp(-x) * measures.length

    with np.errstate(all="ignore"):
        depth = -2 * np.log1p(-goal / top)  # what GREEDY would need: x − ln(1+x) = depth/2
        start = np.sqrt(depth) + depth / (2 + 0.5 * np.sqrt(depth))
        return rising_crossing(evaluate, goal, top, start, tolerance)
