"""A chooser that visits pages at allotted rates: the papers' allocations, run slot by slot.

Each page has a window of one interval (one over its rate) for its next visit; windows follow one another without gap
and the earliest to end is served first, which is Azar et al.'s Algorithm 3 in real time. Where a paper crawls at
random, the window is a single moment and the next one follows after an exponential interval: the order is then that of
a Poisson process. Pages whose every change is announced wait for a signal instead, and are crawled upon it with the
probability rate over signals (Kolobov et al. 2019).

Rates are solved afresh, by the next pick, when the bandwidth changed, or when pages were added, retired, reweighted or
learnt of and one for every sixteen pages has been changed or picked since: the cost of a solution is thus spread over
many picks. Windows keep the share of the interval that has passed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.choose.chooser import Chooser
from crawld.choose.host_gate import HostGate
from crawld.choose.order import WindowQueue, Windows
from crawld.choose.page_table import FREE, LEAVING, WAITING, Intervals, Ints
from crawld.choose.valuation import Beliefs, Floats

Bools = NDArray[np.bool_]

NEVER_CRAWLED, ANNOUNCED, IN_TURN = range(3)  # ranks: these come in this order


@dataclass(frozen=True, slots=True)
class Plan:
    """Source and course of rates: `allot` gives the rates and which pages are crawled upon announcements."""

    allot: Callable[[Beliefs, float], tuple[Floats, Bools]]
    random: bool = False  # exponential intervals instead of even ones


class RateChooser(Chooser):
    """Visits pages at the rates of a plan."""

    def __init__(
        self,
        plan: Plan,
        bandwidth: float,
        gate: HostGate | None = None,
        intervals: Intervals | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(gate, intervals)
        self._plan = plan
        self._bandwidth = bandwidth
        self._rng = rng or np.random.default_rng(0)
        self._queue = WindowQueue(gate)
        self._interval: Floats = np.zeros(0)  # by row, like the columns; inf: not visited in turn
        self._turn: Floats = np.zeros(0)  # when the window for the next visit begins
        self._chance: Floats = np.zeros(0)  # of a crawl upon a signal; 0 for pages visited in turn
        self._called: Bools = np.zeros(0, dtype=np.bool_)  # a signal is to be followed
        self._new: Bools = np.zeros(0, dtype=np.bool_)  # neither allotted a rate nor crawled since it came
        self._clock = -np.inf  # the turn served last, where turns are random
        self._changed = 0
        self._unsolved = True
        self._picks_since = 0

    # -- pages come and go ------------------------------------------------------------------------------------------

    def add(self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None) -> Ints:
        """Take in pages and return their rows; they are visited at the mean rate until the next solution."""
        rows = self.pages.insert(hosts, beliefs, last, boost, not_before)
        self._grow()
        count = self.pages.waiting
        self._interval[rows] = count / self._bandwidth if self._bandwidth > 0 else np.inf
        self._turn[rows] = np.where(np.isnan(last), -np.inf, last)
        self._chance[rows], self._called[rows], self._new[rows] = 0.0, False, True
        self._queue.put(self._windows(rows))
        self._changed += rows.size
        return rows

    def retire(self, rows: Ints) -> None:
        """Forget pages."""
        super().retire(rows)
        self._changed += rows.size

    def change_bandwidth(self, rate: float, now: float) -> None:  # noqa: ARG002 - the next pick brings the time
        """Share another bandwidth from the next pick on."""
        self._unsolved = self._unsolved or rate != self._bandwidth
        self._bandwidth = rate

    # -- a slot -----------------------------------------------------------------------------------------------------

    def pick(self, now: float) -> int | None:
        """Hold and return the page whose turn it is among those that may be asked now."""
        if self._due():
            self._solve(now)
        row = self._queue.take(now)
        if row is None:
            return None
        self.level = self._owed(row, now)
        if not (self._called[row] or np.isnan(self.pages.last[row])):  # these come before their turn, however far off
            self._clock = max(self._clock, float(self._turn[row]))
        self.pages.hold(row, now)
        self.picks += 1
        self._picks_since += 1
        return row

    def settle(self, row: int, now: float) -> None:
        """Give back a page crawled with success: its next window follows the last one, or its first crawl."""
        new = bool(self._new[row] or np.isnan(self.pages.last[row]))
        if not self.pages.settle(row, now):
            return
        self._called[row] = False
        self._turn[row] = self._following(float(self._turn[row]), float(self._interval[row]), now, new)
        self._new[row] = False
        self._queue_up(row)

    def lift(self, row: int, asked_at: float) -> None:
        """Let a page wait no longer than the minimum interval."""
        if self.pages.lift(row, asked_at):
            self._queue_up(row)

    def notice(self, row: int, boost: float) -> None:
        """Count a signal: of a page whose every change is announced, some are followed by a crawl."""
        self.pages.boost[row] = boost
        if self._called[row] or self._chance[row] == 0 or self._rng.random() >= self._chance[row]:
            return
        self._called[row] = True
        if not self.pages.held(row):
            self._queue_up(row)

    # -- questions --------------------------------------------------------------------------------------------------

    def value_of(self, rows: Ints, now: float) -> Floats:
        """Number of intervals since each page's last crawl, inf for those never crawled."""
        return np.array([self._owed(row, now) for row in rows.tolist()])

    def expected_of(self, rows: Ints, now: float) -> Floats:
        """Times at which the pages' windows end: those that end earlier are served before them."""
        pages = self.pages
        end = self._turn[rows] + (0.0 if self._plan.random else self._interval[rows])
        at_once = np.isnan(pages.last[rows]) | self._called[rows]
        latest = np.where(at_once, -np.inf, np.minimum(end, pages.due[rows]))
        return np.maximum(np.maximum(now, pages.not_before[rows]), latest)

    def rates_of(self, rows: Ints) -> Floats:
        """The rate each page is visited at in turn, or upon signals."""
        upon = self._chance[rows] * self.pages.gamma[rows]
        return np.where(self._chance[rows] > 0, upon, 1 / self._interval[rows])

    # -- rates and windows ------------------------------------------------------------------------------------------

    def _owed(self, row: int, now: float) -> float:
        last = float(self.pages.last[row])
        return np.inf if np.isnan(last) else max(now - last, 0.0) / float(self._interval[row])

    def _due(self) -> bool:
        """Tells whether a new solution is worth its cost."""
        if self._unsolved:
            return True
        # Sixteen pages per change or pick make a new solution due.
        return self._changed > 0 and (self._changed + self._picks_since) * 16 >= self.pages.waiting

    def _following(self, turn: float, interval: float, now: float, new: bool) -> float:
        """Time at which the next turn of a page begins that was crawled now."""
        if interval == np.inf:
            return np.inf
        begun = now if new or not np.isfinite(turn) else turn
        if self._plan.random:
            return begun + float(self._rng.exponential(interval))
        # A page that was kept waiting owes one visit at most, however long its host was blocked.
        return now if new else max(begun + interval, now - interval)

    def _solve(self, now: float) -> None:
        """Allot the bandwidth anew and rebuild the queue, each turn keeping its distance in intervals."""
        pages = self.pages
        rows = np.flatnonzero((pages.state[: pages.size] != FREE) & (pages.state[: pages.size] != LEAVING))
        rates, announced = self._plan.allot(pages.beliefs(rows).plain, self._bandwidth)
        pages.evaluations += rows.size
        gamma = pages.gamma[rows]
        self._chance[rows] = np.where(announced, np.minimum(rates / np.where(gamma > 0, gamma, 1.0), 1.0), 0.0)
        with np.errstate(divide="ignore"):
            interval = np.where(announced, np.inf, 1 / rates)
        self._turn[rows] = self._replaced(rows, interval, now)
        self._interval[rows], self._new[rows] = interval, False
        self._called[rows] &= announced
        self._clock = now
        self._changed, self._picks_since, self._unsolved = 0, 0, False
        self._queue.refill(self._windows(rows[pages.state[rows] == WAITING]), now)

    def _replaced(self, rows: Ints, interval: Floats, now: float) -> Floats:
        """Places of turns once these are the intervals."""
        last, old, turn = self.pages.last[rows], self._interval[rows], self._turn[rows]
        since = self._clock if self._plan.random and self._clock > -np.inf else now
        begin = self._new[rows] | ~np.isfinite(turn) | (old == np.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            kept = now + np.where(begin, 0.0, turn - since) * np.where(begin, 0.0, interval / old)
        if self._plan.random:
            start = now + self._rng.exponential(size=rows.size) * np.where(interval < np.inf, interval, 0.0)
        else:
            start = np.where(np.isnan(last) | ~self._new[rows], now, last)
        return np.where(interval < np.inf, np.where(begin, start, kept), np.inf)

    def _file(self, rows: list[int]) -> None:
        """Queue pages that are given back; their visits are still owed."""
        for row in rows:
            self._queue_up(row)

    def _withdraw(self, row: int) -> None:
        """Take a page out of the queue."""
        self._queue.drop(row)

    def _file_again(self, rows: Ints) -> None:
        """Pages stay where they are until the next solution."""
        self._changed += rows.size

    def _queue_up(self, row: int) -> None:
        """Queue one page with its window; what `_windows` does for many."""
        pages = self.pages
        due, turn, earliest = float(pages.due[row]), float(self._turn[row]), float(pages.not_before[row])
        end = turn if self._plan.random else turn + float(self._interval[row])
        opens, rank, limit = min(turn, due), IN_TURN, min(end, due)
        if due == -np.inf:
            rank, limit = NEVER_CRAWLED, -float(pages.mu[row])
        elif self._called[row]:
            opens, rank, limit = -np.inf, ANNOUNCED, 0.0
        self._queue.put(Windows([row], [int(pages.host[row])], [max(opens, earliest)], [rank], [limit], [earliest]))

    def _windows(self, rows: Ints) -> Windows:
        """The windows of pages as the queue wants them."""
        pages = self.pages
        due, turn, earliest = pages.due[rows], self._turn[rows], pages.not_before[rows]
        never, called = due == -np.inf, self._called[rows]
        end = turn if self._plan.random else turn + self._interval[rows]
        rank = np.where(never, NEVER_CRAWLED, np.where(called, ANNOUNCED, IN_TURN))
        limit = np.where(never, -pages.mu[rows], np.where(called, 0.0, np.minimum(end, due)))
        opens = np.maximum(np.where(called, -np.inf, np.minimum(turn, due)), earliest)
        columns = (rows, pages.host[rows], opens, rank, limit, earliest)
        return Windows(*(column.tolist() for column in columns))

    def _grow(self) -> None:
        more = len(self.pages.state) - len(self._turn)
        if more <= 0:
            return
        for name in ("_interval", "_turn", "_chance", "_called", "_new"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros(more, dtype=column.dtype)]))
