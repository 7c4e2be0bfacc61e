"""Where a rising value reaches a level: safeguarded Newton over many pages at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Rising = Callable[[Floats, Indices], tuple[Floats, Floats]]

SAFETY = 1e-13  # far above the error of any value, so that a point judged below the level surely is


def rising_crossing(
    evaluate: Rising, goal: Floats, top: Floats, start: Floats, tolerance: float
) -> tuple[Floats, Floats]:
    """Brackets (low, high) with value(low) < goal ≤ value(high), at most `tolerance`·low wide where that is reachable.

    `evaluate(t, pages)` gives value and slope; `top` is the value at infinity, `start` a guess. Where `goal` is 0 the
    bracket is (0, 0); where the value never gets there it is (inf, inf). A tolerance of 0 asks for the last digit;
    with a positive one the low end lies `SAFETY` below the goal, beyond any rounding of the value.
    Newton works on √(−2 ln(1−V/top)), or ln V where V has no top: both are nearly straight in t or in ln t.
    """
    low, high = np.zeros_like(goal), np.full_like(goal, np.inf)
    never = ~(goal < top)
    low[never] = np.inf
    high[goal <= 0] = 0.0
    low[goal <= 0] = 0.0
    active = np.flatnonzero((goal > 0) & ~never)
    t = np.where(np.isfinite(start) & (start > 0), start, 1.0)[active]
    aim = goal[active] * (1 - SAFETY) if tolerance else goal[active]
    for step in range(200):
        if not active.size:
            break
        value, slope = evaluate(t, active)
        below = value < aim
        low[active[below]] = t[below]
        high[active[~below]] = t[~below]
        new = _newton(t, value, slope, aim, top[active])
        lo, hi = low[active], high[active]
        if tolerance:  # overshoot a little towards the far side, so that both ends close in
            new = np.where(below, new * (1 + 0.4 * tolerance), new * (1 - 0.4 * tolerance))
        bad = ~((new > lo) & (new < hi)) | (step % 8 == 7)
        if bad.any():
            new[bad] = _split(lo[bad], hi[bad])
        open_ = (hi - lo > tolerance * lo) & (new > lo) & (new < hi)
        if not open_.all():
            active, new, aim = active[open_], new[open_], aim[open_]
        t = new
    return low, high


def _newton(t: Floats, value: Floats, slope: Floats, aim: Floats, top: Floats) -> Floats:
    bounded = top < 1e6 * aim
    share = np.where(bounded, value / top, 0.0)
    here, there = np.sqrt(-2 * np.log1p(-share)), np.sqrt(-2 * np.log1p(-aim / top))
    straight = t + (there - here) * here * (top - value) / slope
    steep = t * np.exp(np.log(aim / value) * value / (slope * t))
    return np.where(bounded, straight, steep)


def _split(low: Floats, high: Floats) -> Floats:
    """Between the ends: in proportion where they are far apart, else in the middle."""
    open_end = ~np.isfinite(high)
    middle = np.where(high > 4 * low, np.sqrt(low) * np.sqrt(high), 0.5 * (low + high))
    middle = np.where(low == 0, high * 1e-3, middle)
    return np.where(open_end, low * 8, middle)
