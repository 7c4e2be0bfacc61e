"""The exact best page for every slot, without looking at every page (docs/method.md, "Exact argmax").

Every waiting page that has been crawled and is not overdue is in one of three tiers:

- it *sleeps* (sleepers.py) under a promise that its crawl value stays below the level for now;
- it is *near* (near.py): its value may reach the level before the horizon; a chart follows its value;
- it is *loose*: something about it has just changed; it is a candidate of the block until the next block is built.

A pick is decided by a block (hot.py): the best candidate is the best page of all if it is above the block's bar (so
that no other near page can beat it) and not below the level (so that no sleeping page can). If it is not, the next
larger step is taken: evaluate the overlap exactly; build a new block; evaluate near pages exactly; ask the sleeping
pages of the hosts that are ready; lower the level.
Overdue pages (overdue.py) come before all of these.
"""

from heapq import heappop, heappush

import numpy as np

from crawld.scheduler.candidates import CANDIDATES, choose, sharpen
from crawld.scheduler.chart import highest, lowest
from crawld.scheduler.chooser import Ints
from crawld.scheduler.columns import WAITING, Intervals
from crawld.scheduler.hot import Candidates, Hot
from crawld.scheduler.keeper import Keeper
from crawld.scheduler.loose import Loose
from crawld.scheduler.near import Near
from crawld.scheduler.overdue import Overdue
from crawld.scheduler.politeness import HostGate
from crawld.scheduler.sweep import Sweep
from crawld.scheduler.valuation import Beliefs, Floats, Valuation

BLOCK = 192  # slots a block is meant to last at most
SHARE = 8  # a block lasts at most this part of a round of all pages, so that charts stay sharp
OVERLAPS = 0.1  # the part of picks that may be open by the models of a block before blocks become shorter
CHANGED = 192  # pages that may change within a block before it ends
ASKED = 4096  # sleeping pages that are rather evaluated at once than by lowering the level


class Frontier(Keeper):
    """A chooser that finds the same page as the scan, at a cost that does not grow with the number of pages."""

    def __init__(self, valuation: Valuation, gate: HostGate | None = None, intervals: Intervals | None = None) -> None:
        super().__init__(valuation, gate, intervals)
        self._gate_revision = gate.revision if gate is not None else 0
        self._near = Near()
        self._hot = Hot(CANDIDATES + CHANGED)
        self._overdue = Overdue(self.pages)
        self._calendar: list[tuple[float, int]] = []  # when pages may become late
        self._sweep = Sweep(valuation, self.pages, self._near, gate)
        self._loose = Loose(valuation, self.pages, self._near, self._hot, self._sweep)
        self._deaf = bool(getattr(valuation, "deaf", False))
        self._now = -np.inf
        self._slot = 0.0  # seconds between picks, about
        self._stretch = 1.0  # the part of their usual length that blocks last
        self._paced_at, self._paced_calls, self._calls = -np.inf, 0, 0
        self._at_once, self._together = 0, 0  # calls at this moment, and at one moment of late
        self._overlaps, self._built_calls = 0, 0  # picks that models left open in this block, and calls before it
        self._own_evaluations = 0
        self._asked = 0  # how often sleeping pages were asked since the last sweep

    @property
    def active(self) -> int:
        """How many pages the choice is being made among."""
        return len(self._near) + len(self._loose) + self._overdue.count

    @property
    def evaluations(self) -> int:
        """How many crawl values have been evaluated so far."""
        return self._own_evaluations + self._sweep.evaluations

    @property
    def nbytes(self) -> int:
        """The memory all columns take."""
        return self.pages.nbytes + self._near.nbytes + self._sweep.sleepers.nbytes + self._overdue.nbytes

    # Verbs that change pages

    def add(self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None) -> Ints:
        """Take in pages and return their rows."""
        rows = self.pages.insert(hosts, beliefs, last, boost, not_before)
        self._near.fit(len(self.pages.state))
        self._sweep.sleepers.fit(len(self.pages.state))
        self._sweep.sleepers.doubt(rows)
        late = (self.pages.due[rows] <= self._now) | np.isnan(last)
        self._overdue.insert(rows[late])
        crawled = rows[~late]
        if len(crawled) > 4096:
            self._sweep.take_in(crawled, self._now)
        else:
            self._reconsider(crawled)
        return rows

    def retire(self, rows: Ints) -> None:
        """Forget pages."""
        for row in rows.tolist():
            self._withdraw(row)
        self.pages.remove(rows)

    def reweight(self, rows: Ints, mu: Floats) -> None:
        """Change the importance of pages."""
        self.pages.mu[rows] = mu
        self._sweep.sleepers.doubt(rows)
        late = self._overdue.among(rows)
        for row in rows[late].tolist():
            self._overdue.rekey(row)
        self._reconsider(rows[~late])

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
        self.pages.boost[row] = boost
        if not (self._deaf or self._loose.sleeps_on(row)):
            self._renew(row)

    def learn(self, rows: Ints, beliefs: Beliefs, boost: Floats, last: Floats | None = None) -> None:
        """Replace what is believed of pages."""
        late = self._overdue.among(rows)
        self.pages.believe(rows, beliefs)
        self._sweep.sleepers.doubt(rows)
        self.pages.boost[rows] = boost
        if last is not None:
            self.pages.last[rows] = last
        for row in rows[late].tolist():
            self._overdue.rekey(row)
        self._reconsider(rows[~late])

    # The pick

    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now."""
        if not self.pages.waiting:
            return None
        self._calls += 1
        if now == self._now:
            self._at_once += 1
        else:
            self._together, self._at_once = max(self._at_once, self._together // 2), 1
            self._now = now
        if self._gate is not None and self._gate.revision != self._gate_revision:
            self._gate_revision = self._gate.revision
            self._sweep.unshelve()
            self._hot.end_block()
        if not self._sweep.start <= now <= self._sweep.horizon:
            self._pace(now)
            self._look_ahead(now)
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
        """The page of the highest value: each turn of the loop takes the next larger step."""
        ready_at = None if self._gate is None else self._gate.ready_at
        hot, sweep = self._hot, self._sweep
        if not hot.valid(now, None if self._gate is None else self._gate.earliest):
            self._build(now)
        while True:
            row, value, places = hot.lead(now, ready_at)
            if places is not None and (value > hot.bar or hot.fresh_at == now):
                rows = hot.rows_at(places)
                if self._loose.sharpen(rows, now):
                    continue
                self._overlaps += 1
                row, value = self._resolve(rows, now)
            if row is not None and value > hot.bar and (value >= sweep.level or sweep.sink(value)):
                break
            if row is None and places is None and self._nobody(now):
                return None
            if hot.fresh_at != now:
                self._build(now)
                continue
            row, value = self._comb(now)
            if row is not None and value <= hot.bar:
                self._stretch = max(0.5 * self._stretch, 0.125)  # too much may happen within a block of that length
            if value >= sweep.level or sweep.sink(value):
                break
            asleep = self._sleeping(value, now)
            if not len(asleep) or (len(asleep) <= ASKED and self._rarely()):
                row, value = self._resolve(asleep if row is None else np.append(asleep, row), now)
                break
            self._look_ahead(now, fall=True)
            self._build(now)
        if row is None or value <= 0:
            return None
        self.level = value
        sweep.lowest_pick = min(sweep.lowest_pick, value)
        return row

    def _nobody(self, now: float) -> bool:
        """Whether surely no page can be picked now."""
        if self._hot.complete and self._sweep.level == 0:
            return True
        if self._gate is None:
            return False
        crowd = self.pages.crowd
        return not ((self._gate.ready_at[: len(crowd)] <= now) & (crowd > 0)).any()

    def _resolve(self, rows: Ints, now: float) -> tuple[int | None, float]:
        """The best of some pages by their exact values."""
        if not len(rows):
            return None, 0.0
        rows, low = self._loose.narrow(rows, now)
        if len(rows) == 1 and low > 0:
            return int(rows[0]), low
        values = self.pages.value(self._valuation, rows, now)
        self._own_evaluations += len(rows)
        best = values.max()
        return int(rows[values == best].min()), float(best)

    def _comb(self, now: float) -> tuple[int | None, float]:
        """The best of all near pages by exact values, where the block leaves out too much."""
        near, size = self._near, self._near.size
        rows = near.row[:size]
        open_ = (rows >= 0) & (self.pages.not_before[rows] <= now)
        if self._gate is not None:
            open_ &= self._gate.ready_at[near.host[:size]] <= now
        places = np.flatnonzero(open_)
        if not len(places):
            return None, 0.0
        chart = near.chart_of(places)
        best = lowest(chart, now).max()
        return self._resolve(rows[places[highest(chart, now) >= best]], now)

    def _sleeping(self, value: float, now: float) -> Ints:
        """The sleeping pages that may be picked now and may be worth that much."""
        ceiling = self._sweep.sleepers.ceiling
        rows = np.flatnonzero((ceiling >= value) & (ceiling > 0))
        rows = rows[self.pages.not_before[rows] <= now]
        if self._gate is not None:
            rows = rows[self._gate.ready_at[self.pages.host[rows]] <= now]
        return rows

    def _rarely(self) -> bool:
        """Whether asking sleeping pages is still the exception: a scan per slot would not do."""
        self._asked += 1
        return self._asked <= 16

    # Blocks and sweeps

    def _build(self, now: float) -> None:
        """Start a block: choose its candidates among the near pages."""
        self._pace(now)
        if self._sweep.thin:
            self._look_ahead(now)
        blurred = self._overlaps > OVERLAPS * (self._calls - self._built_calls)
        self._stretch = max(0.8 * self._stretch, 0.125) if blurred else min(1.25 * self._stretch, 1.0)
        self._overlaps, self._built_calls = 0, self._calls
        slots = self._stretch * min(BLOCK, 4 + self.pages.waiting // SHARE)
        end = min(now + slots * self._slot, self._sweep.horizon)
        self._loose.watch(now)
        most = min(CANDIDATES, 16 + int(4 * slots / 3) + 4 * self._together)  # hardly more than can be picked
        chosen = choose(self.pages, self._near, self._gate, (now, end), most)
        rows, hosts = self._near.row[chosen.places], self._near.host[chosen.places]
        chart, drawn = sharpen(self._valuation, self.pages, self._near, chosen.places, now, end)
        self._own_evaluations += drawn
        self._hot.begin(now, end, Candidates(rows, hosts, chart, self.pages.not_before[rows], chosen.followed))
        self._hot.outside(chosen.bar, complete=chosen.complete)

    def _look_ahead(self, now: float, *, fall: bool = False) -> None:
        """Sweep: find the pages that may reach the level, or a lower one, before a new horizon."""
        self._loose.watch(now)
        self._asked = 0
        for row in self._sweep.run(now, self._slot, fall=fall).tolist():
            heappush(self._calendar, (float(self.pages.due[row]), row))

    def _pace(self, now: float) -> None:
        """Estimate the seconds between picks."""
        calls = self._calls - self._paced_calls
        if now != self._paced_at and (calls >= 8 or not 0 <= now - self._paced_at <= 8 * self._slot):
            slot = (now - self._paced_at) / max(calls, 1)
            if 0 < slot < np.inf:  # a pause is no slow pace: believe it in steps
                self._slot = min(slot, 4 * self._slot) if self._slot else slot
            self._paced_at, self._paced_calls = now, self._calls

    # Single pages

    def _withdraw(self, row: int) -> None:
        """Take a page out of every tier."""
        self._near.remove(row)
        self._hot.remove(row)
        self._loose.discard(row)
        self._overdue.remove(row)
        self._sweep.sleepers.forget(row)

    def _file(self, row: int) -> None:
        """Put a page that has come back where it belongs."""
        if self.pages.due[row] <= self._now:
            self._overdue.insert(np.array([row]))
        else:
            self._stand(row)

    def _reconsider(self, rows: Ints) -> None:
        """Look again at pages whose value may have changed."""
        if self._loose.quick and len(rows) <= 4:
            for row in rows.tolist():
                self._renew(row)
            return
        rows = rows[(self.pages.state[rows] == WAITING) & (self.pages.due[rows] > self._now)]
        for row in rows.tolist():
            self._near.remove(row)
            self._hot.remove(row)
            self._loose.discard(row)
        for row in rows[self.pages.due[rows] <= self._sweep.horizon].tolist():
            heappush(self._calendar, (float(self.pages.due[row]), row))
        rows = self._sweep.settle_below(rows, self._now)
        self._loose.insert(rows)
        if len(rows):
            self._hot.end_block()

    def _renew(self, row: int) -> None:
        """Look again at one page whose value may have changed."""
        if self.pages.state[row] != WAITING or self._overdue.holds(row) or self.pages.due[row] <= self._now:
            return  # a late page is, or comes, where it belongs by the calendar
        self._near.remove(row)
        self._hot.remove(row)
        self._loose.discard(row)
        self._stand(row)

    def _stand(self, row: int) -> None:
        """File a page that is in no tier."""
        due = self.pages.due[row]
        if due <= self._sweep.horizon:
            heappush(self._calendar, (float(due), row))
        self._loose.stand(row, self._now)

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
                self._renew(row)

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
