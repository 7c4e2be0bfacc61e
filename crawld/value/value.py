"""Crawl values, cycle lengths and level crossings (docs/method.md, "The model")."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.value.expected import expected_value
from crawld.value.inverse import rising_crossing
from crawld.value.objectives import age_value, harmonic_value
from crawld.value.series import columns, measure_pages, times
from crawld.value.sources import multi_source_value

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

__all__ = [
    "age_value",
    "approximate_value",
    "crawl_value",
    "cycle_length",
    "expected_value",
    "fresh_time",
    "harmonic_value",
    "level_crossing",
    "measure_pages",
    "multi_source_value",
]


def crawl_value(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, mu: ArrayLike = 1.0) -> Floats:
    """V(x): what crawling a page at log-staleness x is worth."""
    shape, (xs, alphas, kappas, gammas, mus) = columns(x, alpha, kappa, gamma, mu)
    value = measure_pages(xs, alphas, kappas, gammas, length=False).value
    return times(mus, value).reshape(shape)[()]


def approximate_value(
    x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, mu: ArrayLike = 1.0, *, terms: int
) -> Floats:
    """APPROX-j: the first `terms` terms of both of V's sums, taken literally also where κ = 0."""
    shape, (xs, alphas, kappas, gammas, mus) = columns(x, alpha, kappa, gamma, mu)
    value = measure_pages(xs, alphas, kappas, gammas, length=False, terms=terms).value
    return times(mus, value).reshape(shape)[()]


def cycle_length(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike) -> Floats:
    """ψ(x): the expected time between crawls of a page that is crawled at log-staleness x."""
    shape, flat = columns(x, alpha, kappa, gamma)
    return measure_pages(*flat).length.reshape(shape)[()]


def fresh_time(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike) -> Floats:
    """w(x): the expected time per cycle that the copy of a page crawled at log-staleness x is fresh."""
    shape, flat = columns(x, alpha, kappa, gamma)
    measures = measure_pages(*flat)
    with np.errstate(all="ignore"):
        left = np.exp(-flat[0])
        result = measures.value + np.where(left > 0, left * measures.length, 0.0)
    result[(measures.length == np.inf) & (measures.value == 0)] = np.inf  # never changes, so fresh for good
    return result.reshape(shape)[()]


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
