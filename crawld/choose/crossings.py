"""When a page's crawl value reaches a level, and how many signals may have come by then."""

from math import lgamma

import numpy as np
from numpy.typing import NDArray

from crawld.choose.page_table import Intervals
from crawld.choose.valuation import Floats

EARLY, LATE = 8, 16  # times on the scale of signals, and on that of silent changes
SOONEST = 1e-6  # expected events until a page is crawled again for which there is more bandwidth than it can use
FIRST = 0.01  # expected events until the first time of either scale
FAR, VERY_FAR = 40.0, 1e4  # expected silent changes until the last time, where α is known well, and where it is not
SATURATED = 4.0  # log-staleness after which a further signal changes next to nothing
MOST_SIGNALS = 16
TINY = 1e-300


def signals_told_apart(kappa: Floats) -> NDArray[np.int64]:
    """How many signals are told apart: so many that another would change next to nothing."""
    with np.errstate(divide="ignore"):
        return np.clip(np.ceil(SATURATED / kappa), 1, MOST_SIGNALS).astype(np.int64)


def waiting_times(silent: Floats, jumps: Floats, shape: Floats, intervals: Intervals) -> Floats:
    """Times since the last crawl at which each page is valued: on the scale of its signals and of its silent changes.

    The last one is the maximum interval, or so late that nothing is left to happen.
    """
    slow = np.maximum(silent, 1e-9 * jumps) + TINY
    first = np.maximum(FIRST / (slow + jumps), intervals.shortest)
    middle = np.where(jumps > 0, np.maximum(4 / (slow + jumps), first), first)
    last = np.where(shape > 20, FAR, VERY_FAR) / slow
    begin = np.where(jumps > 0, np.maximum(middle, FIRST / slow), first)
    early = first[:, None] * (middle / first)[:, None] ** np.linspace(0.0, 1.0, EARLY)
    last = np.clip(last, begin * 1.001, max(intervals.longest, intervals.shortest))
    late = begin[:, None] * (last / begin)[:, None] ** np.linspace(0.0, 1.0, LATE)
    soonest = np.maximum(SOONEST / (slow + jumps), intervals.shortest)
    times = np.minimum(np.concatenate([soonest[:, None], early, late], axis=1), intervals.longest)
    if intervals.longest < np.inf:
        times[:, -1] = intervals.longest
    return np.maximum.accumulate(times, axis=1)


def crossings(level: Floats, logs: Floats, times: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """When the values of one number of signals reach each level, and where they never do."""
    size = times.shape[1]
    after = (logs[:, None, :] < level[:, :, None]).sum(axis=2)
    low, high = np.maximum(after - 1, 0), np.minimum(after, size - 1)
    page = np.arange(len(times))[:, None]
    left, right = logs[page, low], logs[page, high]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where((right > left) & (left > -np.inf), (level - left) / (right - left), 1.0)
        early, late = np.log(times[page, low]), np.log(times[page, high])
        until = np.exp(early + np.clip(part, 0.0, 1.0) * (late - early))
    return until, after == size


def chance(mean: Floats, n: int) -> Floats:
    """The Poisson probability of n signals where so many are expected."""
    if n == 0:
        return np.exp(-mean)
    with np.errstate(divide="ignore"):
        return np.exp(n * np.log(mean) - mean - lgamma(n + 1))


def chance_of_more(mean: Floats, n: int) -> Floats:
    """The Poisson probability of n signals or more."""
    less = np.zeros_like(mean)
    for count in range(n):
        less += chance(mean, count)
    return np.maximum(1.0 - less, 0.0)
