"""One budget, one multiplier: the search that every optimal allocation shares."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.model.errors import InputError

Floats = NDArray[np.float64]

SUM_TOLERANCE = 1e-13  # relative; what is left is spread by one last scaling
BRACKET_TOLERANCE = 1e-11  # relative; where demand still differs at two multipliers this close, it jumps


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
    while above > SUM_TOLERANCE and below < -SUM_TOLERANCE and high > low * (1 + BRACKET_TOLERANCE):
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
    if total_low <= bandwidth * (1 + SUM_TOLERANCE):
        return Balance(scaled(at_low, bandwidth), low, low, low, 1.0)
    if total_high >= bandwidth * (1 - SUM_TOLERANCE):
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
    """How far rates are from optimal: the largest relative gap between a page's marginal value and the multiplier.

    `marginal` is each page's gain from a little more rate; a page at rate 0 may gain less than the multiplier.
    """
    if rates.size == 0 or multiplier <= 0:
        return 0.0
    gap = (marginal - multiplier) / multiplier
    return float(np.max(np.where(rates > 0, np.abs(gap), np.maximum(gap, 0.0))))
