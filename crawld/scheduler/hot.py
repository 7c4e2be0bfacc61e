"""The few pages among which the next picks are decided.

A block of slots is decided among some hundred pages: the near ones of the highest values, and those that a signal or a
new estimate has just changed. What is left out is bounded by `bar`, so a choice above the bar is the choice among all.
Of a host that cannot be asked twice within the block, pages surely below its best one are left out of the bar as well
("followers"); if that best one goes and the host is ready all the same, the block is over.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.chart import Chart
from crawld.scheduler.chooser import Ints
from crawld.scheduler.valuation import Floats

GONE = -np.inf


class Candidates(NamedTuple):
    """The near pages that a block starts with."""

    rows: Ints
    hosts: NDArray[np.int32]
    chart: Chart
    not_before: Floats
    followed: NDArray[np.bool_]  # whose host has followers


class Hot:
    """One block: charts of the candidates from `start` to `end`."""

    def __init__(self, capacity: int) -> None:
        self.start, self.end = np.inf, -np.inf  # no block
        self.bar = np.inf  # no page outside exceeds it before `end`
        self.complete = False  # no page outside can be picked before `end`, sleeping ones apart
        self.fresh_at = np.inf  # when built, until the first change
        self._size = 0
        self._row: Ints = np.zeros(capacity, dtype=np.int64)
        self._host: Ints = np.zeros(capacity, dtype=np.int64)
        self._columns = np.zeros((7, capacity))
        self._follow: NDArray[np.bool_] = np.zeros(capacity, dtype=np.bool_)
        self._index: dict[int, int] = {}
        self._spent: Ints = np.zeros(capacity, dtype=np.int64)
        self._spent_size = 0
        self._view(0)

    def __len__(self) -> int:
        return len(self._index)

    def begin(self, start: float, end: float, candidates: Candidates) -> None:
        """Start a block with these candidates; the caller says next what is left out."""
        size = len(candidates.rows)
        self._row[:size] = candidates.rows
        self._host[:size] = candidates.hosts
        for column, values in zip(self._columns, (*candidates.chart[:6], candidates.not_before), strict=True):
            column[:size] = values
        self._follow[:size] = candidates.followed
        self._index = dict(zip(candidates.rows.tolist(), range(size), strict=True))
        self._spent_size = 0
        self.start, self.end, self.fresh_at = start, end, start
        self._view(size)

    def outside(self, bar: float, *, complete: bool) -> None:
        """Say what the pages left out can reach."""
        self.bar, self.complete = bar, complete

    def end_block(self) -> None:
        """Let the next pick start a new block."""
        self.start, self.end = np.inf, -np.inf

    def valid(self, now: float, ready_at: Floats | None) -> bool:
        """Whether the block can decide now."""
        if not self.start <= now <= self.end:
            return False
        if self._spent_size and ready_at is not None:
            return bool(ready_at[self._spent[: self._spent_size]].min() > now)
        return True

    def insert(self, row: int, host: int, at: float, not_before: float, model: tuple[float, float, float]) -> None:
        """Add one changed page with (value, slope, error), good for the rest of the block."""
        place = self._size
        if place == len(self._row):
            self.end_block()
        if self.end < at:
            return
        self._row[place], self._host[place], self._follow[place] = row, host, False
        self._columns[:, place] = (at, model[0], model[1], 0.0, 0.0, model[2], not_before)
        self._index[row] = place
        self.start = max(self.start, at)
        self.fresh_at = np.inf
        self._view(place + 1)

    def remove(self, row: int) -> None:
        """Take a page out if it is a candidate."""
        place = self._index.pop(row, None)
        if place is None:
            return
        self.fresh_at = np.inf
        self._columns[:6, place] = 0.0
        self._value[place] = GONE
        if self._follow[place]:
            self._spent[self._spent_size] = self._host[place]
            self._spent_size += 1

    def lead(self, now: float, ready_at: Floats | None) -> tuple[int | None, float, Ints | None]:
        """The best candidate now and its least value; where that is open, the places among which it is."""
        if not self._size:
            return None, 0.0, None
        ahead = now - self._at
        value = self._bend * ahead
        value += self._slope
        value *= ahead
        value += self._value
        if ready_at is not None:
            value[ready_at[self._hosts] > now] = GONE
        if self._held_back:
            value[self._not_before > now] = GONE
        best = int(value.argmax())
        if value[best] == GONE:
            return None, 0.0, None
        ahead *= ahead * ahead
        ahead *= self._twist
        ahead += self._error
        low = float(value[best] - ahead[best])
        ahead += value
        ahead[best] = GONE
        if low > ahead.max():
            return int(self._row[best]), low, None
        ahead[best] = np.inf
        return None, low, np.flatnonzero(ahead >= low)

    def rows_at(self, places: Ints) -> Ints:
        """The rows of places."""
        return self._row[places]

    def _view(self, size: int) -> None:
        self._size = size
        self._at, self._value, self._slope, self._bend, self._twist, self._error, self._not_before = self._columns[
            :, :size
        ]
        self._hosts = self._host[:size]
        self._held_back = bool(size) and bool(self._not_before.max() > self.start)
