"""Rates to sequences: in which order, and when, pages are visited so that each gets its rate.

Every order is a lazy, endless sequence of (time, page); pages of rate 0 never come, and without any rate it is empty.
"""

import heapq
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from crawld.choose.allocation_balance import Floats, columns
from crawld.choose.window_queue import WindowQueue, Windows

Visit = tuple[float, int]

_BLOCK = 1024  # random numbers drawn at once
_ROUNDING = 1e-9  # slots: a window's edge that is this close to a whole number is that number


def earliest_deadline_first(rates: ArrayLike) -> Iterator[Visit]:
    """Azar et al. Algorithm 3: evenly spaced slots, and no page's visits ever more than 1 away from rate times time.

    The n-th visit of a page with the share ρ of all slots may be made from slot ⌊(n−1)/ρ⌋+1 and must be by ⌈n/ρ⌉; of
    those that may be made, the one with the earliest end is.
    """
    (rate,) = columns(rates)
    total = float(rate.sum())
    if total == 0:
        return
    share = rate / total
    queue = WindowQueue()
    visited = np.flatnonzero(share > 0).tolist()
    queue.put(_visits(visited, [0] * len(visited), share))
    count = [0] * share.size
    slot = 0
    while True:
        slot += 1
        page = queue.take(slot)
        assert page is not None, "every page is either open or upcoming"
        yield slot / total, page
        count[page] += 1
        queue.put(_visits([page], [count[page]], share))


def _visits(pages: Sequence[int], done: Sequence[int], share: Floats) -> Windows:
    """The windows, in slots, of each page's next visit."""
    opens = [max(math.floor(count / share[page] - _ROUNDING) + 1.0, 1.0) for page, count in zip(pages, done)]
    ends = [float(math.ceil((count + 1) / share[page] - _ROUNDING)) for page, count in zip(pages, done)]
    nothing = [0] * len(pages)
    return Windows(pages, nothing, opens, nothing, ends, [-math.inf] * len(pages))


def fixed_order(rates: ArrayLike, rng: np.random.Generator) -> Iterator[Visit]:
    """Cho & Garcia-Molina's fixed order: each page at even intervals, from a random moment of its first interval on."""
    (rate,) = columns(rates)
    phase = rng.random(rate.size)
    return _merge(rate, lambda page: float(phase[page]))


def random_order(rates: ArrayLike, rng: np.random.Generator) -> Iterator[Visit]:
    """Cho & Garcia-Molina's random order: each page once in each of its intervals, at a random moment of it."""
    (rate,) = columns(rates)
    return _merge(rate, lambda _page: rng.random())


def purely_random_order(rates: ArrayLike, rng: np.random.Generator) -> Iterator[Visit]:
    """Cho & Garcia-Molina's purely random order: a Poisson process, each visit drawn by rate whatever came before."""
    (rate,) = columns(rates)
    cumulative = np.cumsum(rate)
    total = float(cumulative[-1]) if rate.size else 0.0
    now = 0.0
    while total > 0:
        times = now + np.cumsum(rng.exponential(1 / total, _BLOCK))
        pages = np.searchsorted(cumulative, rng.random(_BLOCK) * total, side="right")
        yield from zip(times.tolist(), np.minimum(pages, rate.size - 1).tolist())
        now = float(times[-1])


def _merge(rate: Floats, moment: Callable[[int], float]) -> Iterator[Visit]:
    """All pages' visits in order of time, `moment` saying where within its interval each lies."""
    upcoming = [(moment(page) / rate[page], page, 0) for page in np.flatnonzero(rate > 0).tolist()]
    heapq.heapify(upcoming)
    while upcoming:
        at, page, interval = upcoming[0]
        following = interval + 1
        heapq.heapreplace(upcoming, ((following + moment(page)) / rate[page], page, following))
        yield float(at), page
