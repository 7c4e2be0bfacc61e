"""Pages that come before any valued one: never crawled, or waiting longer than the maximum interval.

Their order does not change with time (longest overdue first, never crawled before all; then importance, then row), so
each host has its pages sorted, and only the heads of the hosts are compared at a slot. Pages taken in together form one
sorted run, which takes in older ones that are no longer than itself; single ones join a heap. An entry is deleted
lazily: it is good while the page is marked as standing in that very run, or in the heap with that very key.
"""

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from crawld.frontier.page_table import Ints, PageTable
from crawld.value.valuation import Floats

ABSENT, IN_HEAP, FIRST_RUN = range(3)

Key = tuple[float, float, int]  # due, -importance, row
NOBODY: Key = (np.inf, 0.0, -1)


class DueFirst:
    """The pages that are late, by host."""

    def __init__(self, pages: PageTable) -> None:
        self._pages = pages
        self._mark: NDArray[np.int32] = np.zeros(0, dtype=np.int32)  # where each page stands
        self._heaps: dict[int, list[Key]] = {}
        self._runs: dict[int, list[tuple[int, NDArray[np.int32]]]] = {}  # its number; rows sorted, the best last
        self._next_run = FIRST_RUN
        self._head_due: Floats = np.zeros(0)  # the key of each host's first page
        self._head_rank: Floats = np.zeros(0)
        self._head_row: Ints = np.zeros(0, dtype=np.int64)
        self.count = 0

    @property
    def nbytes(self) -> int:
        """The memory taken by rows in runs and by their marks."""
        return self._mark.nbytes + sum(run.nbytes for runs in self._runs.values() for _, run in runs)

    def holds(self, row: int) -> bool:
        """Whether the page stands here."""
        return row < len(self._mark) and bool(self._mark[row])

    def among(self, rows: Ints) -> NDArray[np.bool_]:
        """Which of the pages stand here."""
        self._fit(rows)
        return np.asarray(self._mark[rows] != ABSENT)

    def insert(self, rows: Ints) -> None:
        """Take in late pages."""
        self._fit(rows)
        assert not self._mark[rows].any(), "a page is late only once"
        self.count += len(rows)
        if len(rows) <= 8:
            for row in rows.tolist():
                self._push(row)
            return
        late = self._sorted(rows.astype(np.int32))
        self._mark[late] = self._next_run
        hosts, starts = np.unique(self._pages.host[late], return_index=True)
        for host, run in zip(hosts.tolist(), np.split(late, starts[1:]), strict=True):
            self._add_run(host, run)
            self._renew(host)
        self._next_run += 1

    def remove(self, row: int) -> None:
        """Take a page out, whatever the reason."""
        if self.holds(row):
            self._mark[row] = ABSENT
            self.count -= 1
            host = int(self._pages.host[row])
            if self._head_row[host] == row:
                self._renew(host)

    def rekey(self, row: int) -> None:
        """Put a page to its new place after its importance changed."""
        if self.holds(row):
            self.remove(row)
            self.count += 1
            self._push(row)

    def best(self, now: float, ready_at: Floats | None) -> int | None:
        """The first of the late pages whose host may be asked now."""
        if not self.count:
            return None
        due = self._head_due
        if ready_at is not None:
            known = min(len(due), len(ready_at))
            due = np.where(ready_at[:known] <= now, due[:known], np.inf)
        least = due.min()
        if least == np.inf:
            return None
        hosts = np.flatnonzero(due == least)
        rank = self._head_rank[hosts]
        return int(self._head_row[hosts[rank == rank.min()]].min())

    def _add_run(self, host: int, run: NDArray[np.int32]) -> None:
        """Add a run, joined with those before it that are no longer: a host has few, however often pages come."""
        runs = self._runs.setdefault(host, [])
        joined = run
        while runs and len(runs[-1][1]) <= len(joined):
            number, other = runs.pop()
            joined = np.concatenate([joined, other[self._mark[other] == number]])
        if len(joined) > len(run):
            joined = self._sorted(joined)
            self._mark[joined] = self._next_run
        runs.append((self._next_run, joined))

    def _sorted(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """The rows by host, the best of each last."""
        pages = self._pages
        rank = np.where(pages.due[rows] == -np.inf, pages.mu[rows], 0.0)
        return rows[np.lexsort((-rows, rank, -pages.due[rows], pages.host[rows]))]

    def _push(self, row: int) -> None:
        host = int(self._pages.host[row])
        self._mark[row] = IN_HEAP
        heappush(self._heaps.setdefault(host, []), self._key(row))
        self._renew(host)

    def _key(self, row: int) -> Key:
        due = float(self._pages.due[row])
        return due, -float(self._pages.mu[row]) if due == -np.inf else 0.0, row

    def _renew(self, host: int) -> None:
        """Find the first page of a host again, dropping entries that are no longer good."""
        mark = self._mark
        best = NOBODY
        heap = self._heaps.get(host)
        while heap:
            if mark[heap[0][2]] == IN_HEAP and heap[0] == self._key(heap[0][2]):
                best = heap[0]
                break
            heappop(heap)
        kept = []
        for number, run in self._runs.get(host, ()):
            end = len(run)
            while end and mark[run[end - 1]] != number:
                end -= 1
            if end:
                kept.append((number, run[:end]))
                best = min(best, self._key(int(run[end - 1])))
        if kept:
            self._runs[host] = kept
        else:
            self._runs.pop(host, None)
        if host >= len(self._head_due):
            self._grow(max(16, 2 * host))
        self._head_due[host], self._head_rank[host], self._head_row[host] = best

    def _grow(self, hosts: int) -> None:
        more = hosts - len(self._head_due)
        self._head_due = np.concatenate([self._head_due, np.full(more, np.inf)])
        self._head_rank = np.concatenate([self._head_rank, np.zeros(more)])
        self._head_row = np.concatenate([self._head_row, np.full(more, -1)])

    def _fit(self, rows: Ints) -> None:
        if len(rows) and rows.max() >= len(self._mark):
            mark = np.zeros(len(self._pages.state), dtype=np.int32)
            mark[: len(self._mark)] = self._mark
            self._mark = mark
