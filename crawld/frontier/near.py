"""The pages whose crawl value may reach the level before the horizon, each with a chart of its value.

A chart says of a page: |V(t) − (value + slope·d + bend·d²)| ≤ twist·d³ + error with d = t − `at`, for every time t
from `at` to `until`. A valuation's jet gives a Taylor model that never ends; where there is none, the chart is the
bracket between two values, which is a bound because no crawl value falls with time. `error` also covers the rounding of
the value itself, so that an order that charts call certain is the order of the rounded values too. A value may be
inf (an unbounded one, after a sure signal): its chart is huge instead, and such pages are told apart by exact values.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawld.frontier.page_table import Ints, PageTable
from crawld.value.valuation import Floats, Page, Valuation

HUGE = 1e250
ROUNDING = 1e-10  # relative, far above what a value's own rounding can do
GONE = -np.inf
_VALUE = 1  # the row of a chart's value


class Chart(NamedTuple):
    """Models of several pages as columns."""

    at: Floats
    value: Floats
    slope: Floats
    bend: Floats
    twist: Floats
    error: Floats
    until: Floats


def draw(valuation: Valuation, pages: PageTable, rows: Ints, now: float, until: float) -> Chart:
    """Charts of pages from now on; those without a jet are good until `until` only."""
    last, boost, beliefs = pages.last[rows], pages.boost[rows], pages.beliefs(rows)
    value, slope, curvature, third = valuation.jet(np.maximum(now - last, 0.0), boost, beliefs)
    value = np.minimum(value, HUGE)
    # A copy from after `now` (the clock stepped back) does not age before its own time.
    at = np.maximum(now, last)
    chart = Chart(at, value, slope, curvature / 2, third / 6, ROUNDING * value, np.full(len(rows), np.inf))
    unknown = np.flatnonzero(~((third < np.inf) & (np.abs(curvature) < np.inf) & (slope < np.inf)))
    if len(unknown):
        tau = np.maximum(until - last[unknown], 0.0)
        low, high = value[unknown], valuation.value(tau, boost[unknown], beliefs.select(unknown))
        high = np.minimum(high, HUGE)
        chart.value[unknown], chart.error[unknown] = (low + high) / 2, (high - low) / 2 + ROUNDING * high
        chart.until[unknown] = until
        for column in (chart.slope, chart.bend, chart.twist):
            column[unknown] = 0.0
    return chart


def draw_one(valuation: Valuation, page: list[float], now: float) -> tuple[float, ...] | None:
    """The same of one page by its row of the page table, in plain floats; None if it has no jet."""
    last, boost = page[5:7]
    at = max(now, last)
    beliefs: Page = (page[0], page[1], page[2], page[3], page[4])
    value, slope, curvature, third = valuation.jet_of(at - last, boost, beliefs)
    if not third < np.inf > value:
        return None
    return at, min(value, HUGE), slope, curvature / 2, third / 6, ROUNDING * value, np.inf


def highest(chart: Chart, at: float) -> Floats:
    """What the value cannot exceed up to that time."""
    ahead = np.maximum(at - chart.at, 0.0)
    return chart.value + ahead * (chart.slope + ahead * (chart.bend + ahead * chart.twist)) + chart.error


class Near:
    """Charts of the pages worth watching, packed; the place of a page is found by its row.

    Invariant: `place[row]` is where the row stands, -1 if it does not stand here; a place left behind has row -1.
    """

    def __init__(self) -> None:
        self.size = self.dead = 0
        self.row: Ints = np.full(64, -1, dtype=np.int64)
        self.host: NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self.place: NDArray[np.int32] = np.full(0, -1, dtype=np.int32)
        self._columns = np.zeros((len(Chart._fields) + 1, 64))  # charts, and before when a page may not be picked

    def __len__(self) -> int:
        return self.size - self.dead

    @property
    def nbytes(self) -> int:
        """The memory taken."""
        return sum(a.nbytes for a in (self.row, self.host, self.place, self._columns))

    def fit(self, rows: int) -> None:
        """Make room for that many rows."""
        if rows > len(self.place):
            place = np.full(rows, -1, dtype=np.int32)
            place[: len(self.place)] = self.place
            self.place = place

    def chart(self) -> Chart:
        """The charts of all places, also of those left behind (whose value is -inf)."""
        return Chart(*self._columns[:-1, : self.size])

    def insert(self, rows: Ints, hosts: NDArray[np.int32], not_before: Floats, chart: Chart) -> None:
        """Take in pages."""
        end = self.size + len(rows)
        assert np.all(self.place[rows] == -1), "a page stands near only once"
        self._grow(end)
        some = slice(self.size, end)
        self.row[some], self.host[some], self.place[rows] = rows, hosts, np.arange(self.size, end)
        self.size = end
        self._columns[-1, some] = not_before
        self.redraw(some, chart)

    def insert_one(self, row: int, host: int, not_before: float, chart: tuple[float, ...]) -> None:
        """Take in one page."""
        place = self.size
        assert self.place[row] == -1, "a page stands near only once"
        self._grow(place + 1)
        self.row[place], self.host[place], self.place[row] = row, host, place
        self.size = place + 1
        self._columns[:, place] = (*chart, not_before)

    def redraw(self, places: slice | Ints, chart: Chart) -> None:
        """Replace the charts of some places."""
        for column, values in zip(self._columns, chart, strict=False):
            column[places] = values

    def redraw_one(self, place: int, chart: tuple[float, ...]) -> None:
        """Replace the chart of one place."""
        self._columns[:-1, place] = chart

    def remove(self, row: int) -> None:
        """Take a page out if it stands here."""
        place = self.place[row]
        if place >= 0:
            self.place[row] = self.row[place] = -1
            self._columns[_VALUE, place] = GONE
            self.dead += 1

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Pack the places that are marked and drop all others."""
        rows = self.row[: self.size]
        gone = rows[~mask]
        self.place[gone[gone >= 0]] = -1
        kept = np.flatnonzero(mask)
        self.size, self.dead = len(kept), 0
        self.row[: self.size], self.host[: self.size] = rows[kept], self.host[kept]
        self._columns[:, : self.size] = self._columns[:, kept]
        self.place[self.row[: self.size]] = np.arange(self.size)

    def lead(self, now: float, ready_at: Floats | None) -> tuple[Ints, float]:
        """The places among which the best page is that may be asked now, and the least it is worth."""
        at, value, slope, bend, twist, error, _, not_before = self._columns[:, : self.size]
        ahead = np.maximum(now - at, 0.0)
        here = bend * ahead
        here += slope
        here *= ahead
        here += value
        blur = twist * ahead
        blur *= ahead
        blur *= ahead
        blur += error
        np.putmask(here, not_before > now, GONE)
        if ready_at is not None:
            np.putmask(here, ready_at.take(self.host[: self.size]) > now, GONE)
        least = float((here - blur).max(initial=GONE))
        if least == GONE:
            return np.zeros(0, dtype=np.int64), 0.0
        here += blur
        return (here >= least).nonzero()[0], least

    def _grow(self, size: int) -> None:
        if size <= len(self.row):
            return
        more = max(size, 2 * len(self.row)) - len(self.row)
        self.row = np.concatenate([self.row, np.full(more, -1, dtype=np.int64)])
        self.host = np.concatenate([self.host, np.zeros(more, dtype=np.int32)])
        self._columns = np.hstack([self._columns, np.zeros((len(self._columns), more))])
