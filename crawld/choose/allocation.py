"""Optimal rates: how a fixed bandwidth is shared among pages under each paper's objective (docs/method.md, Allocation).

Every allocation takes columns of importance and change rate (or the signal model's parameters) and a bandwidth, and
returns one rate per page; the rates sum to the bandwidth. Bandwidth that helps no page is spread evenly.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.choose.series import Measures, measure_pages
from crawld.choose.value import level_crossing
from crawld.model.errors import InputError


@dataclass(frozen=True)
class AllocationLimits:
    """Numbers that bound and tune this module."""

    sum_tolerance: float = 1e-13  # relative; what is left is spread by one last scaling
    bracket_tolerance: float = 1e-11  # relative; where demand still differs at two multipliers this close, it jumps
    block: int = 16384  # pages at once, so that what is computed on the way stays in the cache
    small: float = 0.5  # below this r the closed forms cancel and a power series is used
    close: float = 2e-14  # relative: a crawl value this near the level is the level
    sample: int = 5_000  # pages among which the level is sought first


LIMITS = AllocationLimits()


# One budget, one multiplier: the search that every optimal allocation shares.

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Balance:
    """Rates that spend the budget: `share` of the time the demand at `low`, the rest of it the demand at `high`.

    `multiplier` is what one more crawl is worth. `low` and `high` differ only where demand jumps between them.
    """

    rates: Floats
    multiplier: float
    low: float
    high: float
    share: float


def columns(*values: ArrayLike) -> tuple[Floats, ...]:
    """The arguments as float columns of one length; InputError where one is negative, infinite or not a number."""
    arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in values))
    for array in arrays:
        if array.ndim != 1 or not np.all((array >= 0) & (array < np.inf)):
            raise InputError("importance and rates are columns of finite numbers not below 0")
    return tuple(np.ascontiguousarray(array) for array in arrays)


def budget(bandwidth: float) -> float:
    """The bandwidth as a finite number not below 0, else an InputError."""
    rate = float(bandwidth)
    if not math.isfinite(rate) or rate < 0:
        raise InputError(f"bandwidth must be finite and not below 0, not {bandwidth!r}")
    return rate


def spread(rates: Floats, bandwidth: float) -> Floats:
    """Hand what is left of the bandwidth to all pages alike: it is of no use to any of them."""
    if rates.size == 0:
        return rates
    left = max(0.0, bandwidth - float(rates.sum()))
    return scaled(rates + left / rates.size, bandwidth)


def scaled(rates: Floats, bandwidth: float) -> Floats:
    """The same rates, summing to the bandwidth to the last bit or two."""
    total = float(rates.sum())
    return rates * (bandwidth / total) if total > 0 else rates


def balance(demand: Callable[[float], Floats], bandwidth: float, guess: float) -> Balance:
    """Find the multiplier at which demand, which falls as the multiplier rises, meets the bandwidth.

    The search is a regula falsi on log demand against log multiplier, which is nearly a straight line for every
    objective here, kept honest by bisection. Where demand jumps across the bandwidth, rates are mixed from both sides
    (docs/method.md, Allocation).
    """
    demand = _sound(demand)
    low, at_low, high, at_high = _bracket(demand, bandwidth, guess)
    above, below = _log(at_low.sum() / bandwidth), _log(at_high.sum() / bandwidth)
    wide, slow, side = math.inf, 0, 0
    while (
        above > LIMITS.sum_tolerance and below < -LIMITS.sum_tolerance and high > low * (1 + LIMITS.bracket_tolerance)
    ):
        width = math.log(high / low)
        slow, wide = (slow + 1 if width > wide / 2 else 0), width
        middle = _between(low, high, above, below if slow < 3 else -math.inf)
        rates = demand(middle)
        excess = _log(rates.sum() / bandwidth)
        if excess >= 0:
            low, at_low, above = middle, rates, excess
            below = below / 2 if side > 0 else below  # the Illinois rule: an end that stays put pulls less and less
            side = 1
        else:
            high, at_high, below = middle, rates, excess
            above = above / 2 if side < 0 else above
            side = -1
    total_low, total_high = float(at_low.sum()), float(at_high.sum())
    if total_low <= bandwidth * (1 + LIMITS.sum_tolerance):
        return Balance(scaled(at_low, bandwidth), low, low, low, 1.0)
    if total_high >= bandwidth * (1 - LIMITS.sum_tolerance):
        return Balance(scaled(at_high, bandwidth), high, high, high, 1.0)
    share = (bandwidth - total_high) / (total_low - total_high)
    mixed = share * at_low + (1 - share) * at_high
    return Balance(scaled(mixed, bandwidth), math.sqrt(low) * math.sqrt(high), low, high, share)


def _sound(demand: Callable[[float], Floats]) -> Callable[[float], Floats]:
    """Demand at the edge of float64: what overflows is as much as can be, what cannot be told is nothing."""

    def sound(multiplier: float) -> Floats:
        with np.errstate(all="ignore"):
            rates = demand(multiplier)
        return rates if np.isfinite(rates).all() else np.nan_to_num(rates, nan=0.0, posinf=1e290)

    return sound


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


def _between(low: float, high: float, above: float, below: float) -> float:
    """A multiplier strictly inside the bracket: interpolated, or the geometric middle where that cannot be."""
    weight = above / (above - below) if math.isfinite(below) else 0.5
    middle = low * math.exp(weight * math.log(high / low))
    return min(max(middle, math.nextafter(low, high)), math.nextafter(high, low))


def _bracket(demand: Callable[[float], Floats], bandwidth: float, guess: float) -> tuple[float, Floats, float, Floats]:
    """Two multipliers, the demand at the lower one not below the bandwidth, at the upper one below it."""
    low = high = min(max(guess, 1e-250), 1e250)
    at_low = at_high = demand(low)
    step = 2.0
    if at_low.sum() >= bandwidth:
        while at_high.sum() >= bandwidth:
            low, at_low = high, at_high
            high, step = high * step, min(step * step, 1e16)
            at_high = demand(high) if high < 1e305 else np.zeros_like(at_low)
            high = min(high, 1e305)
    else:
        while at_low.sum() < bandwidth:
            high, at_high = low, at_low
            low, step = low / step, min(step * step, 1e16)
            if low < 1e-305:
                return 1e-305, scaled(at_high, bandwidth), high, at_high
            at_low = demand(low)
    return low, at_low, high, at_high


def kkt_residual(marginal: Floats, rates: Floats, multiplier: float) -> float:
    """Distance of rates from optimal: the largest relative gap between a page's marginal value and the multiplier.

    `marginal` is each page's gain from a little more rate; a page at rate 0 may gain less than the multiplier.
    """
    if rates.size == 0 or multiplier <= 0:
        return 0.0
    gap = (marginal - multiplier) / multiplier
    return float(np.max(np.where(rates > 0, np.abs(gap), np.maximum(gap, 0.0))))


# Optimal rates for visits at random moments: Azar et al.'s two algorithms, and BLC with Kolobov et al.'s floor.


def azar_continuous(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates that maximise Σ μρ/(ρ+Δ), Azar et al. 2018 Algorithm 2: one sort, then one pass.

    The support is a prefix of the pages in falling order of μ/Δ. With q = √(μ/Δ) a page of the support gets
    Δ(Rq + Σ Δⱼ(q − qⱼ))/Σ Δⱼqⱼ, written with differences of q so that a small R is not lost beside a large ΣΔ.
    """
    weight, change = columns(mu, delta)
    rate = budget(bandwidth)
    rates = np.zeros_like(weight)
    useful = np.flatnonzero((weight > 0) & (change > 0))
    if rate == 0 or useful.size == 0:
        return spread(rates, rate)
    root = np.sqrt(weight[useful] / weight[useful].max()) / np.sqrt(change[useful])
    order = np.argsort(-root, kind="stable")
    page, root = useful[order], root[order]
    pace = change[page]
    below = root - root[0]
    surplus = rate * root + np.cumsum(pace) * below - np.cumsum(pace * below)
    support = int(np.count_nonzero(np.logical_and.accumulate(surplus > 0)))
    page, root, pace, below = page[:support], root[:support], pace[:support], below[:support]
    # Summed afresh over the support: a running subtraction would lose digits.
    gain = rate * root + pace.sum() * below - (pace * below).sum()
    rates[page] = np.maximum(pace * gain / (pace * root).sum(), 0.0)
    return scaled(rates, rate)


def azar_discrete(mu: ArrayLike, delta: ArrayLike, bandwidth: float = 1.0) -> Floats:
    """Probabilities p that maximise Σ μp/(p+Δ−pΔ), Azar et al. Algorithm 1, with `bandwidth` pages asked per time step.

    `delta` is the probability that a page changes within a step (1 and more mean surely). No page is asked more
    than once a step unless all are.
    """
    weight, change = columns(mu, np.minimum(np.asarray(delta, dtype=np.float64), 1.0))
    rate = budget(bandwidth)
    rates = np.zeros_like(weight)
    useful = np.flatnonzero((weight > 0) & (change > 0))
    if rate >= useful.size:
        rates[useful] = 1.0
    if rate == 0 or rate >= useful.size:
        return spread(rates, rate)
    importance, chance = weight[useful] / weight[useful].max(), change[useful]
    sure = chance == 1.0

    def demand(multiplier: float) -> Floats:
        wanted = (np.sqrt(importance * chance / multiplier) - chance) / np.where(sure, 1.0, 1.0 - chance)
        clipped: Floats = np.clip(np.where(sure, importance >= multiplier, wanted), 0.0, 1.0)
        return clipped

    rates[useful] = balance(demand, rate, float(importance.mean())).rates
    return rates


def binary_lambdacrawl(mu: ArrayLike, delta: ArrayLike, bandwidth: float, epsilon: float = 0.0) -> Floats:
    """BLC: Azar et al.'s continuous optimum; with ε > 0 BLCε, where no page gets less than ε·bandwidth/pages.

    Kolobov et al. 2019 lift the pages below the floor and solve once more for the others; here that is repeated until
    none is     below it, which is the optimum under the floor.
    """
    if not 0 <= epsilon <= 1:
        raise InputError(f"epsilon is a share of the bandwidth between 0 and 1, not {epsilon!r}")
    weight, change = columns(mu, delta)
    rate = budget(bandwidth)
    if epsilon == 0 or weight.size == 0:
        return azar_continuous(weight, change, rate)
    floor = epsilon * rate / weight.size
    rates = np.full_like(weight, floor)
    free = np.arange(weight.size)
    while free.size:
        left = rate - floor * (weight.size - free.size)
        wanted = azar_continuous(weight[free], change[free], max(left, 0.0))
        if np.all(wanted >= floor):
            rates[free] = wanted
            break
        free = free[wanted >= floor]
    return spread(rates, rate)


# Optimal rates for visits at even intervals: freshness and age (Cho & Garcia-Molina 2000), and harmonic penalty.

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
        for start in range(0, pace.size, LIMITS.block):
            part = slice(start, start + LIMITS.block)
            level = (pace[part] * (multiplier / importance[part]) ** (1 / power)) ** power
            wanted[part] = pace[part] / inverse(level)
        return wanted

    rates[useful] = fastest * balance(demand, rate / fastest, float(importance.mean())).rates
    return scaled(rates, rate)


def freshness_gain(r: Floats) -> Floats:
    """P(2, r) = 1 − e^−r(1+r)."""
    return np.where(r < LIMITS.small, _series(r, 2, _SIGNED_GAMMA), -np.expm1(-r) - r * np.exp(-r))


def age_gain(r: Floats) -> Floats:
    """½r² − P(2, r)."""
    return np.where(r < LIMITS.small, _series(r, 3, _SIGNED_GAMMA), r * r / 2 + np.expm1(-r) + r * np.exp(-r))


def harmonic_gain(r: Floats) -> Floats:
    """The excess of r over 1 − e^−r."""
    return np.where(r < LIMITS.small, _series(r, 2, _SIGNED_EXPONENTIAL), r + np.expm1(-r))


def _series(r: Floats, first: int, coefficients: list[float]) -> Floats:
    """Σ_{k≥first} (−1)^(k−first) coefficients[k]·r^k, for r < ½."""
    small = np.minimum(r, LIMITS.small)
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
    return np.where(r < LIMITS.small, -np.log1p(-freshness_gain(np.minimum(r, LIMITS.small))), r - np.log1p(r))


_BY_DEPTH = _tabulated(_depth)
_BY_AGE = _tabulated(age_gain)
_BY_HARMONIC = _tabulated(harmonic_gain)


def inverse_freshness_gain(level: Floats) -> Floats:
    """The r with P(2, r) = level; inf from 1 on."""
    inside = np.clip(level, 1e-300, np.nextafter(1.0, 0.0))
    depth = -np.log1p(-inside)
    r: Floats = np.maximum(_start(depth, _BY_DEPTH), np.sqrt(2 * depth))
    deep = r >= LIMITS.small
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


# Optimal rates under Kolobov et al.'s harmonic penalty, where signals tell of every change of some of the pages.


def lambdacrawl(mu: ArrayLike, delta: ArrayLike, bandwidth: float, complete: ArrayLike = False) -> Floats:
    """Rates that minimise Σ μ ln((ρ+Δ)/ρ) + Σ μ ln(Δ/ρ), the second sum over pages whose every change is announced.

    Kolobov et al. 2019, Algorithms 1 to 3. One multiplier serves both kinds: ρ(ρ+Δ) = μΔ/λ without announcements, ρ =
    min(μ/λ, Δ) with them, where ρ/Δ is the probability of crawling upon an announcement.
    """
    weight, change = columns(mu, delta)
    told = _mask(complete, weight)
    rate = budget(bandwidth)
    rates = np.zeros_like(weight)
    useful = np.flatnonzero((weight > 0) & (change > 0))
    told = told[useful]
    importance, pace = weight[useful], change[useful]
    if rate == 0 or useful.size == 0 or (told.all() and rate >= pace.sum()):
        rates[useful] = pace if rate >= pace.sum() else 0.0
        return spread(rates, rate)

    def demand(multiplier: float) -> Floats:
        most = importance / multiplier
        return np.where(told, np.minimum(most, pace), 2 * most / (1 + np.sqrt(1 + 4 * most / pace)))

    rates[useful] = balance(demand, rate, float(importance.sum()) / rate).rates
    return rates


def lambdacrawl_approximate(mu: ArrayLike, delta: ArrayLike, bandwidth: float, complete: ArrayLike = False) -> Floats:
    """LambdaCrawl with Kolobov et al.'s Proposition 9: rates in proportion to importance where nothing is announced.

    Their change rates then matter only for what both kinds of page get in all: the split under which one more unit of
    bandwidth is worth the same to both.
    """
    weight, change = columns(mu, delta)
    told = _mask(complete, weight)
    rate = budget(bandwidth)
    rates = np.zeros_like(weight)
    useful = (weight > 0) & (change > 0)
    blind, told = useful & ~told, useful & told
    if rate == 0 or not blind.any():
        return lambdacrawl(weight, change, rate, told)
    share = weight[blind] / weight[blind].sum()
    importance, pace = weight[blind], change[blind]

    def announced(spent: float) -> Floats:
        """Returns the share of the announced pages when the others together get `spent`."""
        worth = float(np.sum(share * importance * pace / (share * spent * (share * spent + pace))))
        return np.minimum(weight[told] / worth, change[told])

    def demand(multiplier: float) -> Floats:
        spent = rate / multiplier
        return np.concatenate([share * spent, announced(spent)])

    if told.any():
        found = balance(demand, rate, 1.0).rates
        rates[blind], rates[told] = found[: share.size], found[share.size :]
    else:
        rates[blind] = share * rate
    return scaled(rates, rate)


def _mask(complete: ArrayLike, like: Floats) -> NDArray[np.bool_]:
    return np.broadcast_to(np.asarray(complete, dtype=np.bool_), like.shape)


# What given rates achieve, in closed form: freshness, age and harmonic penalty of each page, by order of visits.


class VisitOrder(StrEnum):
    """Spacing of the visits to one page in time."""

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


# The optimum with signals: Busa-Fekete et al. 2025 Theorem 1, one threshold on the crawl value for all pages.


@dataclass(frozen=True, slots=True)
class SignalOptimum:
    """The best rates where signals are used, the level Λ (what one more crawl is worth), and what they achieve.

    A page whose rate jumps at Λ is crawled at `thresholds[0]` for `share` of the time and at `thresholds[1]` else;
    for all others the two are one.
    """

    rates: Floats
    level: float
    thresholds: tuple[Floats, Floats]  # log-staleness at which each page is crawled, inf: never
    share: float
    freshness: Floats


def signal_optimal(mu: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, bandwidth: float) -> Floats:
    """Rates of the best policy that sees signals: Busa-Fekete et al. 2025 Theorem 1, mixing where rates jump."""
    return signal_optimum(mu, alpha, kappa, gamma, bandwidth).rates


def signal_optimum(
    mu: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, bandwidth: float
) -> SignalOptimum:
    """The level Λ at which crawling every page that reaches it spends the bandwidth, and all that follows from it.

    Rates are 1/ψ(V⁻¹(Λ)). They jump where every change is announced (α = 0) and where no signal is false (κ = ∞),
    and within float64 near Λ = μ/Δ; there two thresholds are mixed so that rates sum to the bandwidth.
    """
    weight, silent, signals = columns(mu, alpha, gamma)
    worth = np.broadcast_to(np.asarray(kappa, dtype=np.float64), weight.shape)
    if not np.all(worth >= 0):
        raise InputError("the worth of a signal is a number not below 0, or infinite")
    rate = budget(bandwidth)
    change = silent - signals * np.expm1(-worth)
    useful = np.flatnonzero((weight > 0) & (change > 0))
    never = np.full_like(weight, np.inf)
    always = np.where(change > 0, 0.0, 1.0)
    announced = silent[useful] == 0
    most = float(signals[useful].sum())
    if rate == 0 or useful.size == 0:
        return SignalOptimum(spread(np.zeros_like(weight), rate), 0.0, (never, never), 1.0, always)
    a, k, g, m = silent[useful], worth[useful], signals[useful], weight[useful]
    if announced.all() and rate >= most:  # every signal can be followed, and nothing else is of use
        at_once, followed = never.copy(), np.zeros_like(weight)
        at_once[useful], followed[useful] = 0.0, g
        return SignalOptimum(spread(followed, rate), 0.0, (at_once, at_once), 1.0, np.ones_like(weight))

    pages = _Pages(m, a, k, g)
    found = balance(pages.visits, rate, pages.guess(rate))
    rates, thresholds, fresh = np.zeros_like(weight), (never.copy(), never.copy()), always
    rates[useful] = found.rates
    fresh[useful] = 0.0
    for side, level, part in ((0, found.low, found.share), (1, found.high, 1 - found.share)):
        thresholds[side][useful], share = pages.at(level)
        fresh[useful] += part * share
    return SignalOptimum(rates, found.multiplier, thresholds, found.share, fresh)


def optimum_accuracy(mu: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: ArrayLike, bandwidth: float) -> float:
    """The best freshness, weighted by importance, that signals allow."""
    weight = np.atleast_1d(np.asarray(mu, dtype=np.float64))
    fresh = signal_optimum(mu, alpha, kappa, gamma, bandwidth).freshness
    return float(np.sum(weight * fresh) / np.sum(weight)) if np.any(weight > 0) else 0.0


class _Pages:
    """Pages and where each was crawled at the level tried last, from where the next level is sought."""

    def __init__(self, mu: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> None:
        self._mu, self._alpha, self._kappa, self._gamma = mu, alpha, kappa, gamma
        self._change = alpha - gamma * np.expm1(-kappa)
        self._x = np.full_like(mu, np.nan)

    def guess(self, bandwidth: float) -> float:
        """About the level at which they spend the bandwidth: found on a sample where they are many."""
        typical = float(np.median(self._mu / self._change)) / 2
        if self._mu.size <= 2 * LIMITS.sample:
            return typical
        every = self._mu.size // LIMITS.sample
        part = slice(None, None, every)
        sample = _Pages(self._mu[part], self._alpha[part], self._kappa[part], self._gamma[part])
        if not sample._alpha.any():
            return typical
        return balance(sample.visits, bandwidth / every, typical).multiplier

    def visits(self, level: float) -> Floats:
        """Rates at which pages are crawled whose crawl value is not let rise above the level."""
        x, length = self._cross(level)
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(x < np.inf, np.minimum(1 / length, 1e300), 0.0)

    def at(self, level: float) -> tuple[Floats, Floats]:
        """The log-staleness at which pages are crawled at that level, and the share of time they are then fresh."""
        x, length = self._cross(level)
        finite = x < np.inf
        fresh = np.where(finite, 1.0, 0.0)
        crossed = finite & (length > 0)
        # w = V/μ + e^−x·ψ, so that w/ψ needs no further sum (docs/method.md, The model).
        fresh[crossed] = level / self._mu[crossed] / length[crossed] + np.exp(-x[crossed])
        return x, np.minimum(fresh, 1.0)

    def _cross(self, level: float) -> tuple[Floats, Floats]:
        """Finds where V reaches the level, and the cycle length there.

        Newton's method on r(x), the log-staleness at which a page without signals would have the value V(x): without
        signals it is x itself, with signals nearly straight. What does not settle is left to `level_crossing`.
        """
        with np.errstate(over="ignore"):
            share = level * self._change / self._mu
        x = np.full_like(self._mu, np.inf)
        length = np.full_like(self._mu, np.inf)
        todo = np.flatnonzero((share < 1) & (self._alpha > 0))  # with α = 0 the crossing is a closed form
        goal = inverse_freshness_gain(share[todo])
        tried = self._x[todo]
        tried = np.where(np.isfinite(tried), tried, goal * np.sqrt(self._alpha[todo] / self._change[todo]))
        for _ in range(6):
            measures = self._measure(tried, todo)
            with np.errstate(all="ignore"):
                done = np.abs(measures.value * self._mu[todo] / level - 1) <= LIMITS.close
                x[todo[done]], length[todo[done]] = tried[done], measures.length[done]
                r = inverse_freshness_gain(measures.value * self._change[todo])
                slope = np.exp(r - tried) * measures.length * self._change[todo] / r
                tried = np.maximum(tried + (goal - r) / slope, tried / 8)
            going = ~done & np.isfinite(tried) & (tried > 0)
            todo, goal, tried = todo[going], goal[going], tried[going]
        left = np.flatnonzero((share < 1) & (length == np.inf))
        x[left] = level_crossing(level, self._alpha[left], self._kappa[left], self._gamma[left], self._mu[left])
        left = left[x[left] < np.inf]
        length[left] = self._measure(x[left], left).length
        self._x = x
        return x, length

    def _measure(self, x: Floats, pages: NDArray[np.int64]) -> Measures:
        return measure_pages(x, self._alpha[pages], self._kappa[pages], self._gamma[pages])


__all__ = [
    "SignalOptimum",
    "age_optimal",
    "azar_continuous",
    "azar_discrete",
    "binary_lambdacrawl",
    "freshness_optimal",
    "harmonic_optimal",
    "kkt_residual",
    "lambdacrawl",
    "lambdacrawl_approximate",
    "optimum_accuracy",
    "proportional",
    "signal_optimal",
    "signal_optimum",
    "uniform",
]


def uniform(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """The same rate for every page, whatever its importance and change rate."""
    weight, _ = columns(mu, delta)
    return spread(np.zeros_like(weight), budget(bandwidth))


def proportional(mu: ArrayLike, delta: ArrayLike, bandwidth: float) -> Floats:
    """Rates in proportion to change rates: Cho & Garcia-Molina's and Kolobov et al.'s cautionary example."""
    _, change = columns(mu, delta)
    if not change.any():
        return uniform(change, change, bandwidth)
    return scaled(change / change.max(), budget(bandwidth))
