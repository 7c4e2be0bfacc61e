"""The pages whose crawl value may reach the level before the next sweep, each with its chart."""

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.chart import Chart
from crawld.scheduler.chooser import Ints

_COLUMNS = ("at", "value", "slope", "bend", "twist", "error", "until")
_VALUE = 1


class Near:
    """Charts of the pages worth watching, packed; the place of a page is found by its row.

    Invariant: `place[row]` is where the row stands, -1 if it does not stand here; a place left behind has row -1.
    """

    def __init__(self) -> None:
        self.size = 0
        self.dead = 0
        self.row: Ints = np.full(64, -1, dtype=np.int64)
        self.host: NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self.place: NDArray[np.int32] = np.full(0, -1, dtype=np.int32)
        self._columns = np.zeros((len(_COLUMNS), 64))

    def __len__(self) -> int:
        return self.size - self.dead

    @property
    def nbytes(self) -> int:
        """The memory taken."""
        return self.row.nbytes + self.host.nbytes + self.place.nbytes + self._columns.nbytes

    def fit(self, rows: int) -> None:
        """Make room for that many rows."""
        if rows > len(self.place):
            place = np.full(rows, -1, dtype=np.int32)
            place[: len(self.place)] = self.place
            self.place = place

    def chart(self) -> Chart:
        """The charts of all places, also of those left behind (whose value is -inf)."""
        return Chart(*self._columns[:, : self.size])

    def chart_of(self, places: Ints) -> Chart:
        """The charts of some places."""
        return Chart(*self._columns[:, places])

    def insert(self, rows: Ints, hosts: NDArray[np.int32], chart: Chart) -> None:
        """Take in pages."""
        end = self.size + len(rows)
        if end > len(self.row):
            self._grow(max(end, 2 * len(self.row)))
        assert np.all(self.place[rows] == -1), "a page stands near only once"
        self.row[self.size : end] = rows
        self.host[self.size : end] = hosts
        self.place[rows] = np.arange(self.size, end)
        for column, values in zip(self._columns, chart, strict=True):
            column[self.size : end] = values
        self.size = end

    def redraw(self, places: Ints, chart: Chart) -> None:
        """Replace the charts of some places."""
        for column, values in zip(self._columns, chart, strict=True):
            column[places] = values

    def remove(self, row: int) -> None:
        """Take a page out if it stands here."""
        place = self.place[row]
        if place >= 0:
            self.place[row] = -1
            self.row[place] = -1
            self._columns[_VALUE, place] = -np.inf
            self.dead += 1

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Pack the places that are marked and drop all others."""
        rows = self.row[: self.size]
        gone = rows[~mask]
        self.place[gone[gone >= 0]] = -1
        kept = np.flatnonzero(mask)
        self.size, self.dead = len(kept), 0
        self.row[: self.size] = rows[kept]
        self.host[: self.size] = self.host[kept]
        self._columns[:, : self.size] = self._columns[:, kept]
        self.place[self.row[: self.size]] = np.arange(self.size)

    def _grow(self, capacity: int) -> None:
        row = np.full(capacity, -1, dtype=np.int64)
        host = np.zeros(capacity, dtype=np.int32)
        columns = np.zeros((len(_COLUMNS), capacity))
        row[: self.size], host[: self.size] = self.row[: self.size], self.host[: self.size]
        columns[:, : self.size] = self._columns[:, : self.size]
        self.row, self.host, self._columns = row, host, columns
