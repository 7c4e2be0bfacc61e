"""Pages that come before valued ones: never crawled, or, in their turn, waiting longer than the maximum interval.

Their order does not change with time (longest overdue first, never crawled before all; then importance, then row), so
each host has its pages sorted, and only the first pages of the hosts are compared at a slot. Pages taken in together
form one sorted run, which takes in older runs no longer than itself. An entry is good while its page has its number.
"""

import numpy as np
from numpy.typing import NDArray

from crawld.choose.page_table import Ints, PageTable
from crawld.choose.valuation import Floats

ABSENT = 0
NOBODY = (np.inf, 0.0, -1)  # due, -importance, row


class DueFirst:
    """The pages that are due, by host."""

    def __init__(self, pages: PageTable) -> None:
        self._pages = pages
        self.mark: NDArray[np.int32] = np.zeros(0, dtype=np.int32)  # the run in which each page stands
        self._runs: dict[int, list[tuple[int, NDArray[np.int32]]]] = {}  # its number; rows sorted, the best last
        self._last_run = ABSENT
        self._first = np.zeros((3, 0))  # by host: due, -importance and row of its first page
        self.count = 0

    def holds(self, row: int) -> bool:
        """Whether the page stands here."""
        return row < len(self.mark) and bool(self.mark[row])

    def insert(self, rows: Ints) -> None:
        """Take in due pages."""
        if not len(rows):
            return
        if rows.max() >= len(self.mark):
            self.mark = np.concatenate([self.mark, np.zeros(len(self._pages.state) - len(self.mark), np.int32)])
        assert not self.mark[rows].any(), "a page is due only once"
        self.count += len(rows)
        self._last_run += 1
        due = self._sorted(rows.astype(np.int32))
        self.mark[due] = self._last_run
        hosts, starts = np.unique(self._pages.host[due], return_index=True)
        for host, run in zip(hosts.tolist(), np.split(due, starts[1:]), strict=True):
            self._add_run(host, run)
            self._renew(host)

    def remove(self, row: int) -> None:
        """Take a page out, if it stands here."""
        if self.holds(row):
            self.mark[row] = ABSENT
            self.count -= 1
            host = int(self._pages.host[row])
            if self._first[2, host] == row:
                self._renew(host)

    def best(self, now: float, ready_at: Floats | None) -> int | None:
        """The first of the due pages whose host may be asked now."""
        due, rank, row = self._first
        if ready_at is not None:
            known = min(len(due), len(ready_at))
            due = np.where(ready_at[:known] <= now, due[:known], np.inf)
        least = due.min(initial=np.inf)
        if not self.count or least == np.inf:
            return None
        hosts = np.flatnonzero(due == least)
        hosts = hosts[rank[hosts] == rank[hosts].min()]
        return int(row[hosts].min())

    def _add_run(self, host: int, run: NDArray[np.int32]) -> None:
        """Add a run, joined with those before it that are no longer: a host has few, however often pages come."""
        runs = self._runs.setdefault(host, [])
        joined = run
        while runs and len(runs[-1][1]) <= len(joined):
            number, other = runs.pop()
            joined = np.concatenate([joined, other[self.mark[other] == number]])
        if len(joined) > len(run):
            joined = self._sorted(joined)
            self.mark[joined] = self._last_run
        runs.append((self._last_run, joined))

    def _sorted(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """The rows by host, the best of each last."""
        due, rank = self._keys(rows)
        return rows[np.lexsort((-rows, -rank, -due, self._pages.host[rows]))]

    def _keys(self, rows: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """What pages are ordered by, before their rows."""
        due = self._pages.due[rows]
        return due, np.where(due == -np.inf, -self._pages.mu[rows], 0.0)

    def _renew(self, host: int) -> None:
        """Find the first page of a host again, dropping entries that are no longer good."""
        kept = []
        for number, run in self._runs.pop(host, ()):
            end = len(run)
            while end and self.mark[run[end - 1]] != number:
                end -= 1
            if end:
                kept.append((number, run[:end]))
        if kept:
            self._runs[host] = kept
        if host >= self._first.shape[1]:
            more = np.repeat(np.array([NOBODY]).T, max(16, 2 * host) - self._first.shape[1], axis=1)
            self._first = np.hstack([self._first, more])
        ends = np.array([run[-1] for _, run in kept], dtype=np.int32)
        keys = zip(*(key.tolist() for key in (*self._keys(ends), ends)), strict=True)
        self._first[:, host] = min(keys, default=NOBODY)
