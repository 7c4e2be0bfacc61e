"""The exact best page for every slot, without looking at every page (docs/method.md, "Exact argmax").

Every waiting page that has been crawled and is not overdue is in one of three states:

- it *sleeps* (sweep.py) under a promise that its crawl value stays below the level for now;
- it is *near* (near.py): its value may reach the level before the horizon; a chart follows its value;
- it has *changed* (a crawl, a signal, a new estimate) and is looked at before the next pick.

A pick reads the charts of all near pages. The best of them is the best page of all if it is not below the level, so
that no sleeping page can beat it. Where charts leave open which is the best, they are drawn anew, which gives exact
values now and sharp charts for the slots to come. If the best is below the level, the sleeping pages of the hosts that
are ready are asked, or the level is lowered.
DueFirst pages (overdue.py) come before all of these.
"""

from heapq import heappop, heappush

import numpy as np

from crawld.frontier.chooser import ValueChooser
from crawld.frontier.due_first import DueFirst
from crawld.frontier.near import ROUNDING, draw, draw_one
from crawld.frontier.page_table import WAITING, Intervals, Ints
from crawld.frontier.politeness import HostGate
from crawld.frontier.sweep import SINGLY, Sweep
from crawld.value.valuation import Beliefs, Floats, Valuation

ASKED = 2048  # sleeping pages that are rather evaluated at once than by lowering the level
RARELY = 16  # times between two sweeps that this may be done: a scan per slot would not do


class Frontier(ValueChooser):
    """A chooser that finds the same page as the scan, at a cost that does not grow with the number of pages."""

    def __init__(self, valuation: Valuation, gate: HostGate | None = None, intervals: Intervals | None = None) -> None:
        super().__init__(valuation, gate, intervals)
        self._gate_revision = gate.revision if gate is not None else 0
        self._overdue = DueFirst(self.pages)
        self._calendar: list[tuple[float, int]] = []  # when pages may become late
        self._sweep = Sweep(valuation, self.pages, gate)
        self._near = self._sweep.near
        self._changed: dict[int, None] = {}  # pages to look at before the next pick, in order
        self._now = -np.inf
        self._slot = 0.0  # seconds between picks, about
        self._paced_at, self._paced_calls, self._calls = -np.inf, 0, 0
        self._own_evaluations = 0
        self._asked = 0  # how often sleeping pages were asked since the last sweep

    @property
    def active(self) -> int:
        """How many pages the choice is being made among."""
        return len(self._near) + len(self._changed) + self._overdue.count

    @property
    def evaluations(self) -> int:
        """How many crawl values have been evaluated so far."""
        return self._own_evaluations + self._sweep.evaluations

    @property
    def nbytes(self) -> int:
        """The memory all columns take."""
        return self.pages.nbytes + self._sweep.nbytes + self._overdue.nbytes

    # Verbs that change pages

    def add(self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None) -> Ints:
        """Take in pages and return their rows."""
        rows = self.pages.insert(hosts, beliefs, last, boost, not_before)
        self._sweep.fit(len(self.pages.state))
        late = (self.pages.due[rows] <= self._now) | np.isnan(last)
        self._overdue.insert(rows[late])
        if len(rows) - np.count_nonzero(late) > 4096:
            self._sweep.take_in(rows[~late], self._now)
        else:
            self._reconsider(rows[~late].tolist())
        return rows

    def retire(self, rows: Ints) -> None:
        """Forget pages."""
        for row in rows.tolist():
            self._withdraw(row)
        self.pages.remove(rows)

    def reweight(self, rows: Ints, mu: Floats) -> None:
        """Change the importance of pages."""
        super().reweight(rows, mu)
        self._believe_again(rows)

    def learn(self, rows: Ints, beliefs: Beliefs, boost: Floats, last: Floats | None = None) -> None:
        """Replace what is believed of pages."""
        super().learn(rows, beliefs, boost, last)
        self._believe_again(rows)

    def hold(self, row: int, now: float) -> bool:
        """Hold this very page; False if it is held already."""
        if self.pages.held(row):
            return False
        self._withdraw(row)
        self.pages.hold(row, now)
        return True

    def settle(self, row: int, now: float) -> None:
        """Give back a page crawled with success."""
        if self.pages.settle(row, now):
            self._file(row)

    def release(self, row: int, not_before: float = -np.inf) -> None:
        """Give back a page as it was."""
        if self.pages.release(row, not_before):
            self._file(row)

    def lift(self, row: int, asked_at: float) -> None:
        """Let a page wait no longer than the minimum interval."""
        if self.pages.lift(row, asked_at):
            self._withdraw(row)
            self._file(row)

    def notice(self, row: int, boost: float) -> None:
        """Set the log-staleness that signals have added."""
        added = boost - float(self.pages.boost[row])
        self.pages.boost[row] = boost
        if not (self._valuation.deaf or row in self._changed or self._sweep.sleeps_on(row, added)):
            self._reconsider([row])

    # The pick

    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now."""
        if not self.pages.waiting:
            return None
        self._calls += 1
        self._now = now
        if self._gate is not None and self._gate.revision != self._gate_revision:
            self._gate_revision = self._gate.revision
            self._sweep.unshut()
        if not self._sweep.start <= now <= self._sweep.horizon or self._sweep.thin:
            self._look_ahead(now)
        elif self._changed:
            self._sweep.place(self._take_changed(), now)
        if self._calendar and self._calendar[0][0] <= now:
            self._turn_calendar(now)
        row = self._late(now) if self._overdue.count else None
        if row is None:
            row = self._best(now)
        if row is not None:
            self._withdraw(row)
            self.pages.hold(row, now)
            self.picks += 1
        return row

    def _best(self, now: float) -> int | None:
        """The page of the highest value."""
        ready_at = None if self._gate is None else self._gate.ready_at
        sweep = self._sweep
        while True:
            places, value = self._near.lead(now, ready_at)
            row = int(self._near.row[places[0]]) if len(places) else None
            if len(places) > 1 or (row is not None and value < sweep.level):
                row, value = self._redraw(places, now)
            if row is not None and (value >= sweep.level or sweep.sink(value)):
                break
            if row is None and self._nobody(now):
                return None
            asleep = sweep.asleep(value, now)
            if not len(asleep) or (len(asleep) <= ASKED and self._asked < RARELY):
                self._asked += 1
                row, value = self._exactly(asleep if row is None else np.append(asleep, row), now)
                break
            self._look_ahead(now, fall=True)
        if row is None or value <= 0:
            return None
        self.level = value
        sweep.lowest_pick = min(sweep.lowest_pick, value)
        return row

    def _nobody(self, now: float) -> bool:
        """Whether surely no page can be picked now."""
        if self._sweep.level == 0:
            return True
        if self._gate is None:
            return False
        crowd = self.pages.crowd
        return not ((self._gate.ready_at[: len(crowd)] <= now) & (crowd > 0)).any()

    def _redraw(self, places: Ints, now: float) -> tuple[int | None, float]:
        """Draw the charts of some near pages anew; the best of them by its value now."""
        near, pages = self._near, self.pages
        rows = near.row[places]
        self._own_evaluations += len(rows)
        if len(rows) <= SINGLY and self._valuation.quick:
            values = np.empty(len(rows))
            for at, page in enumerate(pages.table[rows].tolist()):
                chart = draw_one(self._valuation, page, now)
                if chart is None:
                    return self._exactly(rows, now)
                near.redraw_one(int(places[at]), chart)
                values[at] = chart[1]
        else:
            charts = draw(self._valuation, pages, rows, now, self._sweep.horizon)
            near.redraw(places, charts)
            if (charts.until < np.inf).any():  # a bracket does not tell the value now
                return self._exactly(rows, now)
            values = charts.value
        best = int(values.argmax())
        close = rows[values >= values[best] * (1 - 3 * ROUNDING)]
        if len(close) > 1 or values[best] >= 1e200:
            return self._exactly(close, now)
        return int(rows[best]), float(values[best])

    def _exactly(self, rows: Ints, now: float) -> tuple[int | None, float]:
        """The best of some pages as the scan would have it."""
        if not len(rows):
            return None, 0.0
        values = self.pages.value(self._valuation, rows, now)
        self._own_evaluations += len(rows)
        best = values.max()
        return int(rows[values == best].min()), float(best)

    # Sweeps

    def _look_ahead(self, now: float, *, fall: bool = False) -> None:
        """Sweep: find the pages that may reach the level, or a lower one, before a new horizon."""
        self._pace(now)
        self._asked = 0
        for row in self._sweep.run(now, self._slot, self._take_changed(), fall=fall).tolist():
            heappush(self._calendar, (float(self.pages.due[row]), row))

    def _pace(self, now: float) -> None:
        """Estimate the seconds between picks."""
        calls = self._calls - self._paced_calls
        if now != self._paced_at and (calls >= 8 or not 0 <= now - self._paced_at <= 8 * self._slot):
            slot = (now - self._paced_at) / max(calls, 1)
            if 0 < slot < np.inf:  # a pause is no slow pace: believe it in steps
                self._slot = min(slot, 4 * self._slot) if self._slot else slot
            self._paced_at, self._paced_calls = now, self._calls

    def _take_changed(self) -> list[int]:
        """The changed pages, which are then looked at."""
        rows = list(self._changed)
        self._changed.clear()
        return rows

    # Single pages

    def _withdraw(self, row: int) -> None:
        """Take a page out of whatever state it is in."""
        self._near.remove(row)
        self._changed.pop(row, None)
        self._overdue.remove(row)
        self._sweep.forget(row)

    def _file(self, row: int) -> None:
        """Put a page that has come back where it belongs."""
        due = float(self.pages.due[row])
        if due <= self._now:
            self._overdue.insert(np.array([row]))
            return
        if due <= self._sweep.horizon:
            heappush(self._calendar, (due, row))
        self._changed[row] = None

    def _believe_again(self, rows: Ints) -> None:
        """Look again at pages of which other things are believed."""
        late = self._overdue.among(rows)
        for row in rows[late].tolist():
            self._overdue.rekey(row)
        self._reconsider(rows[~late].tolist())

    def _reconsider(self, rows: list[int]) -> None:
        """Look again at pages whose value may have changed; a late page is, or comes, where it belongs."""
        pages = self.pages
        for row in rows:
            due = pages.due[row]
            if pages.state[row] == WAITING and due > self._now and not self._overdue.holds(row):
                self._near.remove(row)
                self._sweep.forget(row)
                self._changed[row] = None
                if due <= self._sweep.horizon:
                    heappush(self._calendar, (float(due), row))

    # Late pages

    def _late(self, now: float) -> int | None:
        """The first late page that may be asked now."""
        pages = self.pages
        while True:
            row = self._overdue.best(now, None if self._gate is None else self._gate.ready_at)
            if row is None:
                return None
            if pages.not_before[row] <= now and pages.due[row] <= now:
                return row
            # Not before its time, or not late any more because the clock stepped back.
            self._overdue.remove(row)
            heappush(self._calendar, (max(float(pages.not_before[row]), float(pages.due[row])), row))
            if pages.due[row] > now:
                self._reconsider([row])
                self._sweep.place(self._take_changed(), now)

    def _turn_calendar(self, now: float) -> None:
        """Move pages that have become late before all valued ones."""
        pages = self.pages
        while self._calendar and self._calendar[0][0] <= now:
            row = heappop(self._calendar)[1]
            if pages.state[row] != WAITING or self._overdue.holds(row) or pages.due[row] > now:
                continue
            self._withdraw(row)
            if pages.not_before[row] <= now:
                self._overdue.insert(np.array([row]))
            else:
                heappush(self._calendar, (float(pages.not_before[row]), row))
