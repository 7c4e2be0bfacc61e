"""The exact best page for every slot, without looking at every page (docs/method.md, "Exact argmax").

Every waiting page that has been crawled is in one of three states:

- it is *bounded* (bounds.py): its crawl value stays below the level for now;
- it is a *candidate* (bounds.py): its value may reach the level before the horizon, and a model follows it;
- it has *changed* (a crawl, a signal, a new estimate) and is placed before the next pick.

A pick reads the models of all candidates. The best of them is the best page of all if it is not below the level, so
that no bounded page can beat it. Where models leave open which is the best, they are made anew, which gives exact
values now and sharp models for the slots to come. If the best is below the level, the bounded pages of the hosts that
are ready are evaluated, or the level is lowered. Due pages come before all of these in their turn (chooser.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

import numpy as np

from crawld.choose.bounds import LIMITS as BOUNDS_LIMITS
from crawld.choose.bounds import Bounds, models
from crawld.choose.chooser import Bid, DueFirst, Span, ValueChooser, bid_for, some_wanted
from crawld.choose.host_gate import HostGate
from crawld.choose.page_table import WAITING, Intervals, Ints
from crawld.choose.valuation import Valuation


@dataclass(frozen=True)
class FrontierLimits:
    """Numbers that bound and tune this module."""

    together: int = 64  # pages that are rather left to a pass than placed one by one
    asked: int = 2048  # bounded pages that are rather evaluated at once than by lowering the level
    rarely: int = 16  # times between two passes that this may be done: a scan per slot would not do


LIMITS = FrontierLimits()


# The plain choice: look at every page for every slot. The frontier is tested against it.


class Scan(ValueChooser):
    """A chooser that evaluates every page: exact by construction, and slow."""

    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now."""
        row, value = self.best(now)
        if row is not None:
            if value > 0 and not self._comes_first(row, now):
                self.level = value
            self.pages.hold(row, now)
            self.picks += 1
        return row

    def best(self, now: float) -> tuple[int | None, float]:
        """The best page that may be asked now, and its crawl value (inf if never crawled)."""
        pages, size = self.pages, self.pages.size
        eligible = (pages.state[:size] == WAITING) & (pages.not_before[:size] <= now)
        if self.gate is not None:
            eligible &= self.gate.ready_at[pages.host[:size]] <= now
        rows = np.flatnonzero(eligible)
        never = np.where(pages.due[rows] == -np.inf, pages.mu[rows], 0.0)
        late = rows[np.lexsort((rows, -never, pages.due[rows]))[:1]]
        if len(late) and self._comes_first(int(late[0]), now):
            return int(late[0]), float(self.value_of(late, now)[0])
        values = pages.values(self._valuation, rows, now)  # all have been crawled
        if len(rows) and values.max() > 0:
            return int(rows[values.argmax()]), float(values.max())  # the first of equals: the lowest row
        return (int(late[0]), 0.0) if len(late) and pages.due[late[0]] <= now else (None, 0.0)


class Frontier(ValueChooser):
    """A chooser that finds the same page as the scan, at a cost that does not grow with the number of pages."""

    def __init__(self, valuation: Valuation, gate: HostGate | None = None, intervals: Intervals | None = None) -> None:
        super().__init__(valuation, gate, intervals)
        self._gate_revision = gate.revision if gate is not None else 0
        self._bounds = Bounds(valuation, self.pages, gate)
        self._candidates = self._bounds.candidates
        self._changed: dict[int, None] = {}  # pages to place before the next pick, in order
        self._due = DueFirst(self.pages)
        self._calendar: list[tuple[float, int]] = []  # a heap: when pages may become due
        self._now = -np.inf
        self._slot = 0.0  # seconds between picks, about
        self._paced_at, self._paced_calls, self._calls = -np.inf, 0, 0
        self._asked = 0  # how often bounded pages were evaluated since the last pass

    @property
    def active(self) -> int:
        """Number of pages the choice is made among."""
        return len(self._candidates) + len(self._changed) + self._due.count

    def bid(self, span: Span) -> Bid:
        """Counts the pages that can be crawled in a round, by their worth at its end, about."""
        return bid_for(some_wanted(self._bounds, self._changed, self._due, span.until), self.pages, self.gate, span)

    # Where pages stand

    def notice(self, row: int, boost: float) -> None:
        """Set the log-staleness that signals have added; that of a page never crawled changes nothing."""
        pages = self.pages
        pages.boost[row] = boost
        if row in self._changed or pages.state.item(row) != WAITING:
            return
        if self._due.holds(row):
            if np.isnan(pages.last[row]):
                return
            self._due.remove(row)
        self._bounds.forget(row)
        self._changed[row] = None

    def _file(self, rows: list[int]) -> None:
        """Have pages placed before the next pick; those never crawled come at once before all others."""
        if len(self.pages.state) > len(self._bounds.expiry):
            self._bounds.fit(len(self.pages.state))
        if len(rows) <= LIMITS.together:
            self._changed.update(dict.fromkeys(rows))
            return
        many = np.array(rows)
        never = self.pages.due[many] == -np.inf
        self._due.insert(many[never])
        self._bounds.postpone(many[~never])

    def reserve(self, rows: int) -> None:
        """Make room for that many pages at once."""
        super().reserve(rows)
        self._bounds.fit(len(self.pages.state))

    def look_over(self, now: float) -> Iterator[None]:
        """Bound new pages some at a time: the first pick would look at all of them at once."""
        pages = self.pages
        for rows in self._bounds.bound_new(now):
            due = [row for row in rows[pages.due[rows] <= now].tolist() if not self._due.holds(row)]
            self._due.insert(np.array([row for row in due if pages.not_before[row] <= now], dtype=np.int64))
            for row in due:
                if pages.not_before[row] > now:
                    heappush(self._calendar, (float(pages.not_before[row]), row))
            yield

    def _withdraw(self, row: int) -> None:
        """Take a page out of whatever state it is in."""
        self._changed.pop(row, None)
        self._due.remove(row)
        self._bounds.forget(row)

    def _place(self, now: float) -> None:
        """Place the pages that have changed."""
        table, valued = self.pages.table, []
        for row in self._changed:
            page = table[row].tolist()
            not_before, due = page[-2:]
            if due > -inf:
                valued.append((row, page))
            if due <= self._bounds.horizon:
                heappush(self._calendar, (max(due, not_before), row))
        self._changed.clear()
        self._bounds.place(valued, now)

    # The pick

    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now."""
        if not self.pages.waiting:
            return None
        self._calls += 1
        if now < self._now:
            self._bounds.step_back()
        self._now = now
        if self.gate is not None and self.gate.revision != self._gate_revision:
            self._gate_revision = self.gate.revision
            self._bounds.open_hosts()
        if not self._bounds.start <= now <= self._bounds.horizon or self._bounds.thin():
            self._look_ahead(now)
        if self._changed:
            self._place(now)
        due = self._first_due(now)
        first = due is not None and self._comes_first(due, now)
        row = due if first or (best := self._best(now)) is None else best
        if row is not None:
            if self._due.count:
                self._due.remove(row)
            self._bounds.forget(row)
            self.pages.hold(row, now)
            self.picks += 1
        return row

    def _best(self, now: float) -> int | None:
        """The page of the highest value."""
        ready_at = None if self.gate is None else self.gate.ready_at
        bounds = self._bounds
        while True:
            places, value = self._candidates.lead(now, ready_at)
            row = int(self._candidates.row[places[0]]) if len(places) else None
            if len(places) > 1 or (row is not None and value < bounds.level):
                row, value = self._sharpen(places, now)
            if row is not None and (value >= bounds.level or bounds.sink(value)):
                break
            if row is None and self._nothing_pickable(now):
                return None
            above = bounds.above(value, now)
            if not len(above) or (len(above) <= LIMITS.asked and self._asked < LIMITS.rarely):
                self._asked += 1
                row, value = self._exactly(above if row is None else np.append(above, row), now)
                break
            self._look_ahead(now, fall=True)
        if row is None or value <= 0:
            return None
        self.level = value
        bounds.lowest_pick = min(bounds.lowest_pick, value)
        return row

    def _nothing_pickable(self, now: float) -> bool:
        """Tells whether surely no page can be picked now."""
        if self._bounds.level == 0:
            return True
        if self.gate is None:
            return False
        crowd = self.pages.crowd
        return not ((self.gate.ready_at[: len(crowd)] <= now) & (crowd > 0)).any()

    def _sharpen(self, places: Ints, now: float) -> tuple[int | None, float]:
        """Make the models of some candidates anew; the best of them by its value now."""
        rows = self._candidates.row[places]
        made = models(self._valuation, self.pages, rows, now)
        self._candidates.renew(places, made)
        values = made[1]
        best = int(values.argmax())
        close = rows[values >= values[best] * (1 - 3 * BOUNDS_LIMITS.rounding)]
        return (int(rows[best]), float(values[best])) if len(close) == 1 else self._exactly(close, now)

    def _exactly(self, rows: Ints, now: float) -> tuple[int | None, float]:
        """The best of some pages as the scan would have it."""
        if not len(rows):
            return None, 0.0
        values = self.pages.values(self._valuation, rows, now)
        best = values.max()
        return int(rows[values == best].min()), float(best)

    def _look_ahead(self, now: float, *, fall: bool = False) -> None:
        """Find the pages that may reach the level, or a lower one, before a new horizon."""
        calls = self._calls - self._paced_calls
        if now != self._paced_at and (calls >= 8 or not 0 <= now - self._paced_at <= 8 * self._slot):
            slot = (now - self._paced_at) / max(calls, 1)
            if 0 < slot < np.inf:  # a pause is no slow pace: believe it in steps
                self._slot = min(slot, 4 * self._slot) if self._slot else slot
            self._paced_at, self._paced_calls = now, self._calls
        self._asked = 0
        for row in self._bounds.run(now, self._slot, fall=fall).tolist():
            heappush(self._calendar, (float(self.pages.due[row]), row))

    # Due pages

    def _first_due(self, now: float) -> int | None:
        """The first due page that may be asked now."""
        pages, ready_at = self.pages, None if self.gate is None else self.gate.ready_at
        if self._calendar and self._calendar[0][0] <= now:
            self._turn_calendar(now)
        while (row := self._due.best(now, ready_at) if self._due.count else None) is not None:
            if pages.not_before[row] <= now and pages.due[row] <= now:
                return row
            # Not before its time, or not due any more because the clock stepped back.
            self._withdraw(row)
            self._changed[row] = None
            self._place(now)
        return None

    def _turn_calendar(self, now: float) -> None:
        """Note which pages have become due."""
        pages, come = self.pages, []
        while self._calendar and self._calendar[0][0] <= now:
            row = heappop(self._calendar)[1]
            if pages.state[row] != WAITING or self._due.holds(row) or pages.due[row] > now:
                continue
            if pages.not_before[row] <= now:
                come.append(row)
            else:
                heappush(self._calendar, (float(pages.not_before[row]), row))
        self._due.insert(np.unique(come).astype(np.int64))
