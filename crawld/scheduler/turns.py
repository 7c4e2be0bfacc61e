"""A queue of pages that each have a window: from when a visit may be made, and by when it should have been.

Rows whose window has opened are taken by the earliest end, per host, so that a host that may not be asked costs nothing
until it may. A slot that finds no open window is given to the page whose window opens next, rather than lost.
"""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.politeness import HostGate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EARLY = 64  # windows that one slot may open before their time in search of a host that is ready
ABSENT = 0  # the stamp of a row that is not queued


class _Entry(NamedTuple):
    rank: int
    limit: float
    stamp: int
    row: int


class Windows(NamedTuple):
    """Windows as columns: `opens`, then the order of those open: by `rank`, by `limit`, by who came first."""

    rows: Ints
    hosts: Ints
    opens: Floats
    ranks: Ints
    limits: Floats
    earliest: Floats  # before this the row is not taken, not even for an idle slot


class TurnQueue:
    """Rows with windows. A row is queued at most once: `put` moves it."""

    def __init__(self, gate: HostGate | None = None) -> None:
        self._gate = gate
        self._revision = -1
        self._stamps = 0
        self._stamp: Ints = np.zeros(0, dtype=np.int64)
        self._host: Ints = np.zeros(0, dtype=np.int64)
        self._rank: Ints = np.zeros(0, dtype=np.int64)
        self._limit: Floats = np.zeros(0)
        self._earliest: Floats = np.zeros(0)
        self._upcoming: list[tuple[float, int, int]] = []  # (opens, stamp, row)
        self._opened: dict[int, list[_Entry]] = {}  # by host
        self._listed: dict[int, int] = {}  # the stamp by which a host stands in `_ready`
        self._ready: list[_Entry] = []  # the first of each host that is not put aside
        self._aside: list[tuple[float, int]] = []  # (until, host)
        self._is_aside: set[int] = set()

    def put(self, windows: Windows) -> None:
        """Queue rows, or move them; equal windows keep the order given. A window that never opens is not queued."""
        rows = windows.rows
        if rows.size == 0:
            return
        self._grow(int(rows.max()) + 1)
        stamps = np.arange(self._stamps + 1, self._stamps + rows.size + 1)
        self._stamps += rows.size
        queued = windows.opens < np.inf
        self._stamp[rows] = np.where(queued, stamps, ABSENT)
        self._host[rows], self._rank[rows], self._limit[rows] = windows.hosts, windows.ranks, windows.limits
        self._earliest[rows] = windows.earliest
        entries = list(zip(windows.opens[queued].tolist(), stamps[queued].tolist(), rows[queued].tolist()))
        if len(entries) > 16 and len(entries) > len(self._upcoming) // 8:
            self._upcoming += entries
            heapq.heapify(self._upcoming)
        else:
            for entry in entries:
                heapq.heappush(self._upcoming, entry)

    def clear(self) -> None:
        """Forget every row."""
        self._stamp[:] = ABSENT
        self._upcoming.clear()
        self._opened.clear()
        self._listed.clear()
        self._ready.clear()

    def drop(self, row: int) -> None:
        """Take a row out, if it is queued."""
        if row < self._stamp.size:
            self._stamp[row] = ABSENT

    def take(self, now: float) -> int | None:
        """Take out the row whose window ends first among the open ones whose host is ready, else open one early."""
        self._reopen_hosts(now)
        while self._upcoming and self._upcoming[0][0] <= now:
            self._open_next()
        row = self._first(now)
        for _ in range(EARLY):
            if row is not None or not self._upcoming or self._earliest[self._upcoming[0][2]] > now:
                break
            self._open_next()
            row = self._first(now)
        return row

    def _open_next(self) -> None:
        """Move the row whose window opens first to its host's open ones."""
        _, stamp, row = heapq.heappop(self._upcoming)
        if self._stamp[row] != stamp:
            return
        host = int(self._host[row])
        heapq.heappush(
            self._opened.setdefault(host, []), _Entry(int(self._rank[row]), float(self._limit[row]), stamp, row)
        )
        self._list(host)

    def _list(self, host: int) -> None:
        """Make the host's first open row stand for it, unless the host is put aside."""
        opened = self._opened.get(host)
        while opened and self._stamp[opened[0].row] != opened[0].stamp:
            heapq.heappop(opened)
        if not opened:
            self._opened.pop(host, None)
            self._listed.pop(host, None)
        elif host not in self._is_aside and self._listed.get(host) != opened[0].stamp:
            self._listed[host] = opened[0].stamp
            heapq.heappush(self._ready, opened[0])

    def _first(self, now: float) -> int | None:
        """Take out the first open row of a ready host."""
        while self._ready:
            entry = heapq.heappop(self._ready)
            host = int(self._host[entry.row])
            if self._listed.get(host) != entry.stamp:
                continue  # another row of the host has come before it, or the row has moved to another host
            del self._listed[host]
            if self._stamp[entry.row] != entry.stamp:
                self._list(host)
                continue
            if self._gate is not None and self._gate.ready_at[host] > now:
                self._put_aside(host, now)
                continue
            self._stamp[entry.row] = ABSENT
            self._list(host)
            return entry.row
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

    def _grow(self, size: int) -> None:
        have = self._stamp.size
        if size <= have:
            return
        more = max(size, have * 5 // 4) - have
        for name in ("_stamp", "_host", "_rank", "_limit", "_earliest"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros(more, dtype=column.dtype)]))
