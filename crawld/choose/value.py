"""The front door: crawl values, cycle lengths and level crossings as functions of numbers or arrays of any shape.

Formulas are in docs/method.md, "The model". `greedy.py` has the same values as policies pick by them.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.choose.crossing import Indices, rising_crossing
from crawld.choose.expected import expected_pages
from crawld.choose.objectives import age_pages, harmonic_pages
from crawld.choose.series import measure_pages, weigh

Floats = NDArray[np.float64]


def crawl_value(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, mu: ArrayLike = 1.0) -> Floats:
    """V(x): what crawling a page at log-staleness x is worth."""
    return _each(lambda *page: measure_pages(*page).value, x, alpha, kappa, gamma, mu=mu)


def approximate_value(
    x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, mu: ArrayLike = 1.0, *, terms: int
) -> Floats:
    """APPROX-j: the first `terms` terms of both of V's sums, taken literally also where κ = 0."""
    return _each(lambda *page: measure_pages(*page, terms=terms).value, x, alpha, kappa, gamma, mu=mu)


def harmonic_value(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, mu: ArrayLike = 1.0) -> Floats:
    """The crawl value under the penalty H(n) for n missed changes: it grows without bound, so no page is given up."""
    return _each(harmonic_pages, x, alpha, kappa, gamma, mu=mu)


def age_value(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, mu: ArrayLike = 1.0) -> Floats:
    """The crawl value when the penalty is the age of the copy: exact without signals, in the mean with them."""
    return _each(age_pages, x, alpha, kappa, gamma, mu=mu)


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
    return _each(expected_pages, tau, signals, shape, rate, kappa, gamma, mu=mu)


def cycle_length(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike) -> Floats:
    """ψ(x): the expected time between crawls of a page that is crawled at log-staleness x."""
    return _each(lambda *page: measure_pages(*page).length, x, alpha, kappa, gamma)


def fresh_time(x: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike) -> Floats:
    """w(x) = V + e^−xψ: the expected time per cycle that the copy of a page crawled at log-staleness x is fresh."""

    def fresh(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
        found, left = measure_pages(x, alpha, kappa, gamma), np.exp(-x)
        with np.errstate(all="ignore"):
            result = found.value + np.where(left > 0, left * found.length, 0.0)
        result[(found.length == np.inf) & (found.value == 0)] = np.inf  # never changes, so fresh for good
        return result

    return _each(fresh, x, alpha, kappa, gamma)


def level_crossing(
    level: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, mu: ArrayLike = 1.0
) -> Floats:
    """The log-staleness at which V reaches `level`; inf where it never does."""
    return _each(_crossings, level, alpha, kappa, gamma, mu)


def _crossings(level: Floats, alpha: Floats, kappa: Floats, gamma: Floats, mu: Floats) -> Floats:
    def evaluate(x: Floats, pages: Indices) -> tuple[Floats, Floats]:
        found = measure_pages(x, alpha[pages], kappa[pages], gamma[pages])
        return found.value, np.exp(-x) * found.length

    with np.errstate(all="ignore"):
        top = 1.0 / (alpha - gamma * np.expm1(-kappa))
        top[(alpha == 0) & ((gamma == 0) | (kappa == 0))] = 0.0
        goal = level / mu
        goal[np.isnan(goal)] = 0.0
        depth = -2 * np.log1p(-goal / top)  # what GREEDY would need: x − ln(1+x) = depth/2
        start = np.sqrt(depth) + depth / (2 + 0.5 * np.sqrt(depth))
        return rising_crossing(evaluate, goal, top, start, tolerance=0.0)[1]


def _each(function: Callable[..., Floats], *arguments: ArrayLike, mu: ArrayLike | None = None) -> Floats:
    """The function of flat columns applied to arguments of any common shape, and weighed by importance."""
    wanted = arguments if mu is None else (*arguments, mu)
    arrays = np.broadcast_arrays(*(np.asarray(argument, dtype=np.float64) for argument in wanted))
    flat = [array.reshape(-1) for array in arrays]
    found = function(*flat) if mu is None else weigh(flat[-1], function(*flat[:-1]))
    return found.reshape(arrays[0].shape)[()]
