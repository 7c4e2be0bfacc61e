"""Rates to sequences: in which order, and when, pages are visited so that each gets its rate.

Every order is a lazy, endless sequence of (time, page); pages of rate 0 never come, and without any rate it is empty.
"""

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from crawld.choose.allocation import Floats, columns
from crawld.choose.host_gate import HostGate


@dataclass(frozen=True)
class OrderLimits:
    """Numbers that bound and tune this module."""

    early: int = 64  # windows that one slot may open before their time in search of a host that is ready
    block: int = 1024  # random numbers drawn at once
    rounding: float = 1e-9  # slots: a window's edge that is this close to a whole number is that number


LIMITS = OrderLimits()


# A queue of pages that each have a window: from when a visit may be made, and by when it should have been.

ABSENT = 0  # the stamp of a row that is not queued


_Upcoming = tuple[float, int, int, int, int, float, float]  # opens, stamp, row, host, rank, limit, earliest
_Opened = tuple[int, float, int, int, int]  # rank, limit, stamp, row, host


class Windows(NamedTuple):
    """Windows as columns: `opens`, then the order of those open: by `rank`, by `limit`, by who came first."""

    rows: Sequence[int]
    hosts: Sequence[int]
    opens: Sequence[float]
    ranks: Sequence[int]
    limits: Sequence[float]
    earliest: Sequence[float]  # before this the row is not taken, not even for an idle slot


class WindowQueue:
    """Rows with windows. A row is queued at most once: `put` moves it."""

    def __init__(self, gate: HostGate | None = None) -> None:
        self._gate = gate
        self._revision = -1
        self._stamps = 0
        self._stamp: list[int] = []  # by row; an entry of another stamp is of the past
        self._upcoming: list[_Upcoming] = []
        self._opened: dict[int, list[_Opened]] = {}  # by host
        self._listed: dict[int, int] = {}  # the stamp by which a host stands in `_ready`
        self._ready: list[_Opened] = []  # the first of each host that is not put aside
        self._aside: list[tuple[float, int]] = []  # (until, host)
        self._is_aside: set[int] = set()

    def put(self, windows: Windows) -> None:
        """Queue rows, or move them; equal windows keep the order given. A window that never opens is not queued."""
        entries = self._stamped(windows)
        if len(entries) > 16 and len(entries) > len(self._upcoming) // 8:
            self._upcoming += entries
            heapq.heapify(self._upcoming)
        else:
            for entry in entries:
                heapq.heappush(self._upcoming, entry)

    def refill(self, windows: Windows, now: float) -> None:
        """Queue these rows and no others, many at once."""
        self._stamp = [ABSENT] * len(self._stamp)
        self._opened, self._listed, self._ready = {}, {}, []
        entries = self._stamped(windows)
        self._upcoming = [entry for entry in entries if entry[0] > now]
        heapq.heapify(self._upcoming)
        for opens, stamp, row, host, rank, limit, _ in entries:
            if opens <= now:
                self._opened.setdefault(host, []).append((rank, limit, stamp, row, host))
        for host, opened in list(self._opened.items()):
            heapq.heapify(opened)
            self._list(host)

    def _stamped(self, windows: Windows) -> list[_Upcoming]:
        """The entries of rows that are from now on the only ones of these rows."""
        if len(windows.rows) == 0:
            return []
        more = int(max(windows.rows)) + 1 - len(self._stamp)
        if more > 0:
            self._stamp.extend([ABSENT] * more)
        entries = []
        for row, host, opens, rank, limit, earliest in zip(*windows):
            self._stamps += 1
            if opens < np.inf:
                self._stamp[row] = self._stamps
                entries.append((opens, self._stamps, row, host, rank, limit, earliest))
            else:
                self._stamp[row] = ABSENT
        return entries

    def drop(self, row: int) -> None:
        """Take a row out, if it is queued."""
        if row < len(self._stamp):
            self._stamp[row] = ABSENT

    def take(self, now: float) -> int | None:
        """Take out the row whose window ends first among the open ones whose host is ready, else open one early."""
        self._reopen_hosts(now)
        while self._upcoming and self._upcoming[0][0] <= now:
            self._open_next()
        row = self._first(now)
        for _ in range(LIMITS.early):
            if row is not None or not self._upcoming or self._upcoming[0][6] > now:
                break
            self._open_next()
            row = self._first(now)
        return row

    def _open_next(self) -> None:
        """Move the row whose window opens first to its host's open ones."""
        _, stamp, row, host, rank, limit, _ = heapq.heappop(self._upcoming)
        if self._stamp[row] != stamp:
            return
        heapq.heappush(self._opened.setdefault(host, []), (rank, limit, stamp, row, host))
        self._list(host)

    def _list(self, host: int) -> None:
        """Make the host's first open row stand for it, unless the host is put aside."""
        opened = self._opened.get(host)
        while opened and self._stamp[opened[0][3]] != opened[0][2]:
            heapq.heappop(opened)
        if not opened:
            self._opened.pop(host, None)
            self._listed.pop(host, None)
        elif host not in self._is_aside and self._listed.get(host) != opened[0][2]:
            self._listed[host] = opened[0][2]
            heapq.heappush(self._ready, opened[0])

    def _first(self, now: float) -> int | None:
        """Take out the first open row of a ready host."""
        while self._ready:
            _, _, stamp, row, host = heapq.heappop(self._ready)
            if self._listed.get(host) != stamp:
                continue  # another row of the host has come before it
            del self._listed[host]
            if self._stamp[row] != stamp:
                self._list(host)
                continue
            if self._gate is not None and self._gate.ready_at[host] > now:
                self._put_aside(host, now)
                continue
            self._stamp[row] = ABSENT
            self._list(host)
            return row
        return None

    def _put_aside(self, host: int, now: float) -> None:
        """Do not look at a host until it may be ready; one with a request in flight is looked at again soon."""
        assert self._gate is not None
        until = max(float(self._gate.earliest[host]), now + 0.05 * float(self._gate.delay[host]))
        self._is_aside.add(host)
        heapq.heappush(self._aside, (until, host))

    def _reopen_hosts(self, now: float) -> None:
        if self._gate is None:
            return
        if self._gate.revision != self._revision:
            self._revision = self._gate.revision
            self._aside = [(-np.inf, host) for _, host in self._aside]
        while self._aside and self._aside[0][0] <= now:
            _, host = heapq.heappop(self._aside)
            self._is_aside.discard(host)
            self._list(host)


Visit = tuple[float, int]


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
    opens = [max(math.floor(count / share[page] - LIMITS.rounding) + 1.0, 1.0) for page, count in zip(pages, done)]
    ends = [float(math.ceil((count + 1) / share[page] - LIMITS.rounding)) for page, count in zip(pages, done)]
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
        times = now + np.cumsum(rng.exponential(1 / total, LIMITS.block))
        pages = np.searchsorted(cumulative, rng.random(LIMITS.block) * total, side="right")
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
