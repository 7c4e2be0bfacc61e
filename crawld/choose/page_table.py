"""The state of every page as growing numpy columns, kept once, and the verbs that change it.

Who keeps pages keeps them here: the scan and the frontier differ only in how they find the best one, and the scheduler
keeps here what it alone writes.

Invariants: a row is free, waiting, held, or retired while held; only waiting rows are eligible; `due` is -inf exactly
for pages never crawled, so that "longest overdue first" puts them first.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawld.choose.valuation import Beliefs, Floats, Valuation
from crawld.model.signal import SOURCES

Ints = NDArray[np.int64]

FREE, WAITING, HELD, LEAVING = range(4)

DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Intervals:
    """Longest and shortest wait of a page between two attempts (seconds)."""

    longest: float = 30 * DAY
    shortest: float = 60.0


VALUED = (
    "mu", "alpha", "shape", "kappa", "gamma", "heard", "deaf_alpha", "deaf_shape", "last", "boost", "not_before", "due",
)  # fmt: skip
"""The columns that choosers go by; first those of `Beliefs`."""
BELIEVED = len(Beliefs._fields)


class PageTable:
    """The pages, by row.

    The columns in `VALUED` are views of one table that keeps a page together: pages are looked at in small groups.
    """

    mu: Floats  # importance times significance per request
    alpha: Floats
    shape: Floats  # as values take it; so are κ and γ, which stand for all sources
    kappa: Floats
    gamma: Floats
    heard: Floats
    deaf_alpha: Floats
    deaf_shape: Floats
    last: Floats  # when the value takes the copy to be from
    boost: Floats
    not_before: Floats
    due: Floats

    def __init__(self, intervals: Intervals) -> None:
        self.intervals = intervals
        self.size = 0  # rows ever handed out: all arrays are longer or equal
        self.state: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)
        self.host: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        # What the scheduler writes:
        self.page_id: Ints = np.zeros(0, dtype=np.int64)
        self.copied: Floats = np.zeros(0)  # when the copy was made, as recorded: that may lie in the future
        self.gone: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.importance: Floats = np.zeros(0)  # μ times the requests that a visit takes, over the significance
        self.significance: NDArray[np.float32] = np.zeros(0, dtype=np.float32)  # of a change; 1 is usual
        self.count: NDArray[np.int32] = np.zeros((0, len(SOURCES)), dtype=np.int32)  # signals since the last crawl
        self.kappas: NDArray[np.float32] = np.zeros((0, len(SOURCES)), dtype=np.float32)
        self.gammas: NDArray[np.float32] = np.zeros((0, len(SOURCES)), dtype=np.float32)
        self._others = [name for name, column in vars(self).items() if isinstance(column, np.ndarray)]
        self._view(np.zeros((0, len(VALUED))))
        self.crowd: Ints = np.zeros(0, dtype=np.int64)  # by host: how many of its pages wait
        self.evaluations = 0  # crawl values evaluated so far
        self._free: list[int] = []
        self._picked_at: dict[int, float] = {}

    @property
    def waiting(self) -> int:
        """Number of pages that wait."""
        return self.size - len(self._free) - len(self._picked_at)

    def present(self) -> Ints:
        """The rows of all pages that wait or are held."""
        state = self.state[: self.size]
        return np.flatnonzero((state == WAITING) | (state == HELD))

    def insert(
        self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None
    ) -> Ints:
        """Take in pages; freed rows are used first, the lowest of them first."""
        rows = self._allocate(len(hosts))
        assert np.all(self.state[rows] == FREE), "a row in use was handed out"
        assert np.all(beliefs.mu >= 0), "importance is never negative"
        self.state[rows] = WAITING
        self.host[rows] = hosts
        self.significance[rows] = 1.0
        counts = np.bincount(hosts, minlength=len(self.crowd))
        counts[: len(self.crowd)] += self.crowd
        self.crowd = counts
        self.believe(rows, beliefs)
        self.last[rows] = last
        self.boost[rows] = boost
        never = np.isnan(last)
        self.due[rows] = np.where(never, -np.inf, last + self.intervals.longest)
        earliest = np.where(never, -np.inf, last + self.intervals.shortest)
        self.not_before[rows] = earliest if not_before is None else np.maximum(earliest, not_before)
        return rows

    def believe(self, rows: Ints, beliefs: Beliefs) -> None:
        """Write beliefs over the old ones."""
        self.table[rows, :5] = np.transpose(beliefs[:5])
        for column, given, whole in zip((5, 6, 7), beliefs[5:], (1.0, 0.0, np.inf), strict=True):
            self.table[rows, column] = whole if given is None else given

    def write_signals(self, rows: Ints, kappas: Floats, gammas: Floats, count: Ints | None = None) -> None:
        """Write what is believed of signals by source, and how many came; unwritten zeros take no memory."""
        for column, given in ((self.kappas, kappas), (self.gammas, gammas), (self.count, count)):
            if given is not None:
                some = given.any(axis=1) | column[rows].any(axis=1)
                column[rows[some]] = given[some]

    def beliefs(self, rows: Ints) -> Beliefs:
        """Returns the beliefs of these pages."""
        return Beliefs(*self.take(rows)[:BELIEVED])

    def remove(self, rows: Ints) -> None:
        """Forget pages, those held once they are given back."""
        state = self.state[rows]
        assert np.all((state == WAITING) | (state == HELD)), "only a page that is there can be retired"
        self.state[rows[state == HELD]] = LEAVING
        gone = rows[state == WAITING]
        self.state[gone] = FREE
        np.subtract.at(self.crowd, self.host[gone], 1)
        self._free.extend(gone.tolist()[::-1])

    def hold(self, row: int, now: float) -> None:
        """Take a waiting page out."""
        assert self.state[row] == WAITING, "only a waiting page can be picked"
        self.state[row] = HELD
        self.crowd[self.host[row]] -= 1
        self._picked_at[row] = now

    def give_back(self, row: int) -> float | None:
        """Put a held page back and say when it was picked; None if it has been retired meanwhile."""
        picked_at = self._picked_at.pop(row)
        if self.state[row] == LEAVING:
            self.state[row] = FREE
            self._free.append(row)
            return None
        self.state[row] = WAITING
        self.crowd[self.host[row]] += 1
        return picked_at

    def settle(self, row: int, now: float) -> bool:
        """Give back a page crawled with success; False if it has been retired meanwhile."""
        if self.give_back(row) is None:
            return False
        intervals = self.intervals
        self.last[row], self.boost[row] = now, 0.0
        self.not_before[row], self.due[row] = now + intervals.shortest, now + intervals.longest
        return True

    def release(self, row: int, not_before: float, *, attempted: bool = True) -> bool:
        """Give back a page whose copy stays as it was; False if it has been retired meanwhile."""
        picked_at = self.give_back(row)
        if picked_at is None:
            return False
        if not_before > -np.inf:
            earliest = max(not_before, picked_at + self.intervals.shortest) if attempted else not_before
            self.not_before[row] = max(float(self.not_before[row]), earliest)
        return True

    def lift(self, row: int, asked_at: float) -> bool:
        """Shorten the wait of a page asked then to the minimum interval; False if it is held or waits no longer."""
        not_before = float(np.fmax(asked_at, self.last[row])) + self.intervals.shortest
        if self.state[row] != WAITING or self.not_before[row] <= not_before:
            return False
        self.not_before[row] = not_before
        return True

    def held(self, row: int) -> bool:
        """Tells whether the page is out."""
        return row in self._picked_at

    def take(self, rows: Ints) -> Floats:
        """The columns of floats of some pages, in the order of `VALUED`."""
        return np.ascontiguousarray(self.table.take(rows, 0).T)

    def values(self, valuation: Valuation, rows: Ints, at: Floats | float) -> Floats:
        """The crawl values of pages that have been crawled; a clock behind the last crawl counts as that moment."""
        if not len(rows):
            return np.zeros(0)
        page = self.take(rows)
        self.evaluations += len(rows)
        *beliefs, last, boost, _, _ = page
        return valuation.value(np.maximum(at - last, 0.0), boost, Beliefs(*beliefs))

    def _allocate(self, count: int) -> Ints:
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        fresh = count - len(reused)
        if self.size + fresh > len(self.state):
            self._grow(max(self.size + fresh, len(self.state) * 5 // 4))
        rows = np.concatenate(
            [np.array(reused, dtype=np.int64), np.arange(self.size, self.size + fresh, dtype=np.int64)]
        )
        self.size += fresh
        return rows

    def reserve(self, rows: int) -> None:
        """Make room for that many rows."""
        if rows > len(self.state):
            self._grow(rows)

    def _grow(self, capacity: int) -> None:
        for name in self._others:
            setattr(self, name, _longer(vars(self)[name], capacity))
        self._view(_longer(self.table, capacity))

    def _view(self, table: Floats) -> None:
        self.table = table
        self.mu, self.alpha, self.shape, self.kappa, self.gamma = table[:, :5].T
        self.heard, self.deaf_alpha, self.deaf_shape = table[:, 5:BELIEVED].T
        self.last, self.boost, self.not_before, self.due = table[:, BELIEVED:].T


def _longer(column: NDArray[Any], size: int) -> NDArray[Any]:
    """The column with zeros after it, which take neither time nor memory before they are written."""
    longer = np.zeros((size, *column.shape[1:]), column.dtype)
    some = np.flatnonzero(column.any(axis=1)) if column.ndim == 2 else slice(len(column))
    longer[some] = column[some]
    return longer
