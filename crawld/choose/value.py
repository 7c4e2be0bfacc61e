"""The front door: crawl values, cycle lengths and level crossings as functions of numbers or arrays of any shape.

Formulas are in docs/method.md, "The model". `greedy.py` has the same values as policies pick by them.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.choose.expected import expected_pages
from crawld.choose.objectives import age_pages, harmonic_pages
from crawld.choose.series import SATURATION, measure_pages, weigh
from crawld.choose.valuation import Indices, rising_crossing

# When a crawl without signals is due, in closed form: the time at which (μ/Δ)·P(2, Δτ) reaches the level Λ.


def inverse_gamma_2(p: float) -> float:
    """Solves P(2, y) = 1 − e^−y(1 + y) = p; inf for p ≥ 1."""
    if p >= 1.0:
        return math.inf
    low, high = math.sqrt(2.0 * p), 1.0  # P(2, y) ≤ y²/2
    while _gamma_2(high) < p and high < 1e3:
        high *= 2.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        if _gamma_2(middle) < p:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def revisit_interval(rate: float, importance: float, level: float) -> float:
    """Seconds between crawls of a page without signals that changes at `rate`; inf where none is worth `level`."""
    if rate <= 0 or importance <= 0:
        return math.inf
    return inverse_gamma_2(level * rate / importance) / rate


def _gamma_2(y: float) -> float:
    """P(2, y); a short series where the closed form cancels."""
    return y * y * (0.5 - y / 3.0) if y < 1e-4 else -math.expm1(-y) - y * math.exp(-y)


# The crawl value of pages with several independent sources of signals (docs/method.md, "The model").

Floats = NDArray[np.float64]

STEPS = 400  # grid cells between 0 and x: the error falls with their square


def multi_source_value(
    x: ArrayLike, alpha: ArrayLike, kappas: ArrayLike, gammas: ArrayLike, mu: ArrayLike = 1.0
) -> Floats:
    """V at log-staleness x; the last axis of `kappas` and `gammas` runs over the sources."""
    kappa, gamma = np.broadcast_arrays(np.asarray(kappas, dtype=np.float64), np.asarray(gammas, dtype=np.float64))
    shape = np.broadcast_shapes(np.shape(x), np.shape(alpha), np.shape(mu), kappa.shape[:-1])
    sources = kappa.shape[-1]
    xs, alphas, mus = (np.broadcast_to(np.asarray(a, dtype=np.float64), shape).ravel() for a in (x, alpha, mu))
    kappa, gamma = (np.broadcast_to(a, (*shape, sources)).reshape(-1, sources) for a in (kappa, gamma))
    with np.errstate(all="ignore"):
        unit = np.maximum(alphas, gamma.max(axis=1, initial=0.0))
        unit = np.where(unit > 0, unit, 1.0)
        scaled, gamma = alphas / unit, np.where(kappa > 0, gamma / unit[:, None], 0.0)
        kappa = np.where(gamma > 0, kappa, np.inf)
        delta = scaled - (gamma * np.expm1(-kappa)).sum(axis=1)
        value = np.where(delta > 0, 1 / delta, 0.0)
        value[xs <= 0] = 0.0
        open_ = np.flatnonzero((xs > 0) & (xs < SATURATION) & (delta > 0))
        for start in range(0, open_.size, 4096):
            now = open_[start : start + 4096]
            value[now] = np.fmin(_integrate(xs[now], scaled[now], kappa[now], gamma[now]), value[now])
        value /= unit
    return weigh(mus, value).reshape(shape)[()]


def _integrate(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> Floats:
    """March αΨ′ + GΨ = y + Σγ_sΨ(y−κ_s), Ψ = ∫ψ, over a grid of each page's own; V = e^−xΨ(x) + ∫e^−yΨ.

    Ψ rather than ψ, because it has no steps even where α is nothing; each cell is solved exactly for a straight push.
    """
    h = x / STEPS
    fine = kappa < h[:, None]  # jumps finer than the grid are drift, up to their second moment
    drift = alpha + np.where(fine, gamma * kappa, 0.0).sum(axis=1)
    ahead = np.where(fine, gamma * kappa * kappa, 0.0).sum(axis=1) / drift / 2
    ahead[~(drift > 0)] = 0.0
    gamma = np.where(fine, 0.0, gamma)
    total = gamma.sum(axis=1)
    stiff = total * h / drift
    keep = np.exp(-stiff)
    mild = stiff < 1e-3
    phi = np.where(mild, 1 - stiff / 2 + stiff * stiff / 6, -np.expm1(-stiff) / stiff)
    gain = np.where(mild, h / drift * (0.5 - stiff / 6 + stiff * stiff / 24), (1 - phi) / total)
    gain_old = np.where(mild, h / drift * phi, -np.expm1(-stiff) / total) - gain
    delay = np.where(gamma > 0, kappa / h[:, None], np.inf)
    history = np.zeros((STEPS + 1, x.size))
    push, area = ahead, np.zeros_like(x)
    for j in range(1, STEPS + 1):
        next_push = j * h + ahead + _delayed(history, j - delay, gamma)
        history[j] = keep * history[j - 1] + gain_old * push + gain * next_push
        area += history[j] * np.exp(-j * h)
        push = next_push
    last: Floats = history[STEPS] * np.exp(-x)
    area -= 0.5 * last
    return last + h * area


def _delayed(history: Floats, at: Floats, gamma: Floats) -> Floats:
    """Σγ_sΨ at fractional grid positions, nothing before the start."""
    inside = at > 0
    if not inside.any():
        return np.zeros(at.shape[0])
    position = np.where(inside, at, 0.0)
    floor = np.minimum(position.astype(np.intp), history.shape[0] - 2)
    share = position - floor
    pages = np.arange(at.shape[0])[:, None]
    at_delay = history[floor, pages] * (1 - share) + history[floor + 1, pages] * share
    pushes: Floats = np.einsum("ij,ij->i", np.where(inside, at_delay, 0.0), gamma)
    return pushes


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
