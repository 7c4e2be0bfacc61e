"""The few pages among which the next picks are decided.

A block of slots is decided among some hundred pages: the near ones of the highest values, and those that a signal or a
new estimate has just changed. What is left out is bounded by `bar`, so a choice above the bar is the choice among all.
Of a host that cannot be asked twice within the block, pages surely below its best one are left out of the bar as well
("followers"); if that best one goes and the host is ready all the same, the block is over.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.chart import ROUNDING, Chart
from crawld.scheduler.chooser import Ints
from crawld.scheduler.glance import Glimpse
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
        self._origin = 0.0  # the models' time zero
        self._size = 0
        self._row: Ints = np.zeros(capacity, dtype=np.int64)
        self._host: Ints = np.zeros(capacity, dtype=np.int64)
        self._value: Floats = np.full(capacity, GONE)
        self._slope: Floats = np.zeros(capacity)
        self._bend: Floats = np.zeros(capacity)
        self._error: Floats = np.zeros(capacity)
        self._not_before: Floats = np.full(capacity, -np.inf)
        self._held_back = False  # whether some candidate may not be picked from the start
        self._follow: NDArray[np.bool_] = np.zeros(capacity, dtype=np.bool_)
        self._index: dict[int, int] = {}
        self._spent: list[int] = []  # hosts whose best page has just gone while followers are left out
        self._again = np.inf  # when the first such host may be asked again
        self._led_at = np.inf  # when the best candidate was last asked for, while no other has come since
        self._ranking: list[tuple[int, int, int, float, float]] | None = None  # see _rank

    def __len__(self) -> int:
        return len(self._index)

    def begin(self, start: float, end: float, candidates: Candidates) -> None:
        """Start a block with these candidates; the caller says next what is left out."""
        size = len(candidates.rows)
        chart = candidates.chart
        self._row[:size] = candidates.rows
        self._host[:size] = candidates.hosts
        # All models get the same time zero and their greatest error within the block.
        shift, ahead = start - chart.at, end - chart.at
        self._value[size:] = GONE
        self._value[:size] = chart.value + shift * (chart.slope + shift * chart.bend)
        self._slope[:size] = chart.slope + 2 * shift * chart.bend
        self._bend[:size] = chart.bend
        self._error[:size] = chart.twist * ahead * ahead * ahead + chart.error
        self._not_before[:size] = candidates.not_before
        self._held_back = bool((candidates.not_before > start).any())
        self._follow[:size] = candidates.followed
        self._index = dict(zip(candidates.rows.tolist(), range(size), strict=True))
        self._spent.clear()
        self._again = np.inf
        self._size = size
        self._origin = self.start = self.fresh_at = start
        self.end = end
        self._led_at, self._ranking = np.inf, None

    def outside(self, bar: float, *, complete: bool) -> None:
        """Say what the pages left out can reach."""
        self.bar, self.complete = bar, complete

    def end_block(self) -> None:
        """Let the next pick start a new block."""
        self.start, self.end = np.inf, -np.inf

    def valid(self, now: float, earliest: Floats | None) -> bool:
        """Whether the block can decide now, when hosts may be asked no earlier than that."""
        if not self.start <= now <= self.end:
            return False
        if earliest is not None:
            while self._spent:
                self._again = min(self._again, float(earliest[self._spent.pop()]))
        return now < self._again

    def offer(self, row: int, host: int, at: float, not_before: float, seen: Glimpse) -> None:
        """Add one changed page or replace its model, unless it stays under the bar for the rest of the block."""
        self.fresh_at = np.inf
        place = self._index.get(row, self._size)
        if place == self._size and seen.high(max(self.end - at, 0.0)) < self.bar:
            return
        if place == len(self._row):
            self.end_block()
        if self.end < at:
            return
        value, slope, bend, twist, error, _ = seen
        shift, ahead = self._origin - at, self.end - at
        self._row[place] = row
        self._host[place] = host
        self._follow[place] = False
        self._value[place] = value + shift * (slope + shift * bend)
        self._slope[place] = slope + 2 * shift * bend
        self._bend[place] = bend
        self._error[place] = twist * ahead * ahead * ahead + error + ROUNDING * value
        self._not_before[place] = not_before
        self._held_back |= not_before > self.start
        self._index[row] = place
        self._size = max(self._size, place + 1)
        self.start = max(self.start, at)
        self._led_at, self._ranking = np.inf, None

    def remove(self, row: int) -> None:
        """Take a page out if it is a candidate."""
        place = self._index.pop(row, None)
        if place is None:
            return
        self.fresh_at = np.inf
        self._value[place] = GONE
        if self._follow[place]:
            self._spent.append(int(self._host[place]))

    def lead(self, now: float, ready_at: Floats | None) -> tuple[int | None, float, Ints | None]:
        """The best candidate now and its least value; where that is open, the places among which it is."""
        if now == self._led_at:
            return self._lead_again(now, ready_at)
        self._led_at, self._ranking = now, None
        value = self._values(now)
        if ready_at is not None:
            np.putmask(value, ready_at.take(self._host) > now, GONE)
        best = int(value.argmax())
        if value[best] == GONE:
            return None, 0.0, None
        low = float(value[best] - self._error[best])
        value += self._error
        value[best] = GONE
        if low > value[value.argmax()]:
            return int(self._row[best]), low, None
        # A page of which little is known may lead by its model alone: what counts is the best lower bound.
        value[best] = low + 2 * self._error[best]
        low = float((value - 2 * self._error).max())
        return None, low, np.flatnonzero(value >= low)

    def _values(self, now: float) -> Floats:
        """The models' values now, -inf where nothing may be picked."""
        ahead = now - self._origin
        value = self._bend * ahead
        value += self._slope
        value *= ahead
        value += self._value
        if self._held_back:
            np.putmask(value, self._not_before > now, GONE)
        return value

    def _lead_again(self, now: float, ready_at: Floats | None) -> tuple[int | None, float, Ints | None]:
        """The best candidate at the moment that was asked for just before: several slots may be served at once.

        Values have not moved since, so the candidates are ranked once; those that have gone or whose host is not ready
        are passed over.
        """
        if self._ranking is None:
            self._ranking = self._rank(now)
        ranking, index = self._ranking, self._index
        while ranking and ranking[-1][1] not in index:
            ranking.pop()
        open_: list[int] = []
        leader, least = -1, GONE
        for place, row, host, low, high in reversed(ranking):
            if high < least:
                break
            if row in index and (ready_at is None or ready_at[host] <= now):
                open_.append(place)
                if low > least:
                    leader, least = row, low
        if not open_:
            return None, 0.0, None
        if len(open_) == 1:
            return leader, least, None
        return None, least, np.array(open_)

    def _rank(self, now: float) -> list[tuple[int, int, int, float, float]]:
        """Place, row, host, least and greatest value of the candidates now, the greatest last."""
        value = self._values(now)
        here = np.flatnonzero(value > GONE)
        value, error = value[here], self._error[here]
        high = value + error
        order = np.argsort(high)
        here = here[order]
        columns = (here, self._row[here], self._host[here], (value - error)[order], high[order])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def rows_at(self, places: Ints) -> Ints:
        """The rows of places."""
        return self._row[places]
