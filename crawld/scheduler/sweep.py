"""The level, and the passes that keep every sleeping page below it (docs/method.md, "Exact argmax").

A sweep sets a horizon and a level. Pages whose promise does not cover both are evaluated: those that may reach the
level by the horizon become near, the others get a new promise. The level is kept where a few thousand pages are near.

Invariant, from the end of a sweep until its horizon: every sleeping page that may be picked is below the level.
"""

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.chart import ROUNDING, Chart, draw, highest
from crawld.scheduler.chooser import Ints
from crawld.scheduler.columns import Columns
from crawld.scheduler.glance import quick_ceiling
from crawld.scheduler.near import Near
from crawld.scheduler.politeness import HostGate
from crawld.scheduler.sleepers import Sleepers, later
from crawld.scheduler.valuation import Floats, Valuation

SLOTS = 1536  # slots between sweeps at most
ROUND = 4  # and at most that part of a round of all pages, so that most pages can sleep
WATCHED = 4096  # near pages aimed at, at most
FEW = 2048  # of that many pages, all that are picked until the horizon are watched
MOST = 8192  # pages that a sweep should look at
PATIENCE = 0.6  # how far a promise reaches toward the guessed crossing
FOREVER = 1e18  # seconds: a page below the level then never reaches it
SUNK = 0.9  # how far below a value the level sinks: the picks to come are worth about as much
SATURATED = 3.0  # log-staleness from which a value hardly grows: ask whether it ever reaches the level


class Sweep:
    """Keeps the promises of sleeping pages, and moves pages near in time."""

    def __init__(self, valuation: Valuation, pages: Columns, near: Near, gate: HostGate | None) -> None:
        self._valuation = valuation
        self._pages = pages
        self._near = near
        self._gate = gate
        self._ceiling = quick_ceiling(valuation)
        self._additive = bool(getattr(valuation, "additive", False))
        self.sleepers = Sleepers()
        self.start, self.horizon = np.inf, -np.inf
        self.level = 0.0
        self.lowest_pick = np.inf  # since the last sweep
        self._lowest_before = np.inf
        self._shelved: dict[int, float] = {}  # hosts whose pages sleep because it may not be asked until then
        self.evaluations = 0

    @property
    def thin(self) -> bool:
        """Whether the near pages are running out."""
        return self.level > 0 and len(self._near) < self._watched // 4

    @property
    def _slots(self) -> int:
        return min(SLOTS, 64 + self._pages.waiting // ROUND)

    @property
    def _watched(self) -> int:
        waiting = self._pages.waiting
        return min(WATCHED, 64 + max(waiting // 16, min(waiting, FEW) // ROUND))

    def run(self, now: float, slot: float, *, fall: bool = False) -> Ints:
        """Sweep; returns the pages that may become late before the horizon."""
        self.start, self.horizon = now, now + self._slots * slot
        self._set_level(fall=fall)
        rows = self.sleepers.awake(self.horizon, self.level)
        if len(rows) > MOST and not fall:
            # The pace has just dropped, or much time has passed: look less far ahead rather than long.
            self.horizon = now + 0.25 * (self.horizon - now)
            rows = self.sleepers.awake(self.horizon, self.level)
        soon = rows[self._pages.due[rows] <= self.horizon]
        rise = self._rekey(self._set_aside(rows))
        self._watch(rise, now)
        near = self._near
        late = near.row[: near.size]
        late = late[late >= 0]
        self._prune(now)
        return np.concatenate([soon, late[self._pages.due[late] <= self.horizon]])

    def take_in(self, rows: Ints, now: float) -> None:
        """Give a first promise to many pages at once."""
        at = max(now, float(self._pages.last[rows].max()))
        values = self._value(rows, at)
        if self.level == 0 and len(rows) > self._watched:
            self.level = float(np.partition(values, -self._watched)[-self._watched])
        self.sleepers.promise(rows, at, values * (1 + ROUNDING))
        below = values < self.level
        horizon, self.horizon = self.horizon, at
        self._rekey(rows[below])
        self.horizon = horizon
        self.start = np.inf  # sweep before the next pick

    def settle_below(self, rows: Ints, now: float) -> Ints:
        """Let pages sleep that stay below the level up to the horizon; returns the others."""
        if not now <= self.horizon:
            self.sleepers.forget(rows)
            return rows
        rows = self._set_aside(rows)
        if self._ceiling is not None:
            tau = np.maximum(self.horizon - self._pages.last[rows], 0.0)
            high = self._ceiling(tau, self._pages.boost[rows], self._pages.beliefs(rows)) * (1 + ROUNDING)
        else:
            high = self._value(rows, self.horizon) * (1 + ROUNDING)
        below = high < self.level
        self.sleepers.promise(rows[below], self.horizon, high[below])
        self.sleepers.forget(rows[~below])
        return rows[~below]

    def place(self, rows: Ints, now: float) -> None:
        """Let pages sleep or be near, whichever their charts ask for."""
        rows = self._set_aside(rows)
        if len(rows):
            self.evaluations += len(rows)
            self._put(rows, draw(self._valuation, self._pages, rows, now, self.horizon))

    def put(self, rows: Ints, chart: Chart) -> None:
        """The same for pages that have been charted."""
        kept = self._set_aside(rows)
        if len(kept) < len(rows):
            mask = np.isin(rows, kept)
            chart = Chart(*(column[mask] for column in chart))
        self._put(kept, chart)

    def _put(self, rows: Ints, chart: Chart) -> None:
        high = highest(chart, self.horizon)
        below = high < self.level
        self.sleepers.promise(rows[below], self.horizon, high[below])
        self.sleepers.forget(rows[~below])
        self._near.insert(rows[~below], self._pages.host[rows[~below]], Chart(*(c[~below] for c in chart)))

    def sink(self, value: float) -> bool:
        """Lower the level below a value where no promise stands in the way; whether it is now."""
        if len(self.sleepers.ceiling) > MOST:
            return False  # of so many one stands in the way nearly always, and to look through them costs picks
        top = float(self.sleepers.ceiling.max(initial=0.0))
        if top >= value:
            return False
        self.level = max(float(np.nextafter(top, np.inf)) if top > 0 else 0.0, SUNK * value)
        return True

    def unshelve(self) -> None:
        """Wake the pages of hosts that may be asked earlier than was said."""
        assert self._gate is not None, "only a gate shelves"
        for host, until in list(self._shelved.items()):
            if self._gate.earliest[host] < until:
                del self._shelved[host]
                mine = np.flatnonzero(self._pages.host[: self._pages.size] == host)
                asleep = mine[np.isfinite(self.sleepers.until[mine])]
                self.sleepers.rouse(asleep)
                self.start = np.inf  # sweep before the next pick

    def _set_level(self, *, fall: bool) -> None:
        watched, count = self._watched, len(self._near)
        floor = min(self.lowest_pick, self._lowest_before)
        self._lowest_before, self.lowest_pick = self.lowest_pick, np.inf
        if fall or (self.level > 0 and count < watched // 2):
            lower = self.sleepers.quantile(max(2 * watched, count))  # a ceiling is above its value: fewer rise
            self.level = min(lower, np.nextafter(self.level, 0.0))
            if self.level < 1e-300:
                self.level = 0.0
        elif count > watched + watched // 2 and floor < np.inf:
            high = highest(self._near.chart(), self.horizon)
            enough = float(np.partition(high, -watched)[-watched])
            self.level = max(self.level, min(enough, floor * (1 - 1e-3)))

    def _set_aside(self, rows: Ints) -> Ints:
        """Let pages sleep that may not be picked before the horizon whatever their value; returns the others."""
        pages, horizon = self._pages, self.horizon
        wait = pages.not_before[rows]
        if self._gate is not None:
            host = pages.host[rows]
            earliest = self._gate.earliest[host]
            shut = np.flatnonzero(earliest > horizon)
            if len(shut):
                for blocked in np.unique(host[shut]).tolist():
                    # Some of its pages may sleep for longer, put there before the host came free earlier.
                    until = max(self._shelved.get(blocked, -np.inf), float(self._gate.earliest[blocked]))
                    self._shelved[blocked] = until
                wait = np.maximum(wait, earliest)
        # A host blocked for good must still be found again: inf is kept for rows that do not sleep.
        wait = np.minimum(wait, FOREVER)
        waiting = wait > horizon
        self.sleepers.promise(rows[waiting], wait[waiting], 0.0)
        return rows[~waiting]

    def _rekey(self, rows: Ints) -> Ints:
        """Give new promises to pages; returns those that may reach the level before the horizon."""
        pages, level, horizon = self._pages, self.level, self.horizon
        until, ceiling = self.sleepers.until[rows], self.sleepers.ceiling[rows]
        unknown = ~((ceiling > 0) & (ceiling < np.inf) & (until > -np.inf))
        until[unknown] = horizon
        ceiling[unknown] = self._value(rows[unknown], horizon)
        rise = unknown & (ceiling >= level) & (ceiling > 0)
        risen = [rows[rise]]
        rows, until, ceiling = rows[~rise], until[~rise], ceiling[~rise]

        alpha, last, due = pages.alpha[rows], pages.last[rows], pages.due[rows]
        x = alpha * (until - last) + pages.boost[rows]
        crossing = later(until, ceiling, x, alpha, level)
        saturated = (x > SATURATED) | ~(np.abs(crossing) < np.inf)
        crossing[~(np.abs(crossing) < np.inf)] = horizon
        pending = np.ones(len(rows), dtype=np.bool_)
        for share in (None, PATIENCE, PATIENCE / 8, 0.0):
            at = np.flatnonzero(saturated if share is None else pending)
            target = horizon + (FOREVER if share is None else share * np.maximum(crossing[at] - horizon, 0.0))
            high = self._value(rows[at], target) * (1 + ROUNDING)
            below = (high < level) | (high <= 0)
            until = np.minimum(np.broadcast_to(target, len(at)), due[at])
            self.sleepers.promise(rows[at[below]], until[below], high[below])
            self._state(rows[at[below]], until[below], high[below])
            pending[at[below]] = False
            if share is not None:
                surely = at[~below & (target <= horizon)]
                risen.append(rows[surely])
                pending[surely] = False
        return np.concatenate(risen)

    def _state(self, rows: Ints, until: Floats, high: Floats) -> None:
        """Keep promises as facts where they say something of other moments too."""
        pages = self._pages
        boost = pages.boost[rows]
        keeps = boost == 0
        if self._additive:
            keeps |= pages.shape[rows] == np.inf
        x = pages.alpha[rows] * np.maximum(until - pages.last[rows], 0.0) + boost
        self.sleepers.state(rows[keeps], x[keeps], high[keeps])

    def _watch(self, rows: Ints, now: float) -> None:
        """Make pages near."""
        if len(rows):
            self.evaluations += len(rows)
            self.sleepers.forget(rows)
            chart = draw(self._valuation, self._pages, rows, now, self.horizon)
            self._near.insert(rows, self._pages.host[rows], chart)

    def _prune(self, now: float) -> None:
        """Let near pages sleep that stay below the level, or whose host may not be asked before the horizon."""
        near = self._near
        rows = near.row[: near.size]
        ended = np.flatnonzero((rows >= 0) & (near.chart().until < self.horizon))
        if len(ended):
            self.evaluations += len(ended)
            near.redraw(ended, draw(self._valuation, self._pages, rows[ended], now, self.horizon))
        high = highest(near.chart(), self.horizon)
        alive = rows >= 0
        below: NDArray[np.bool_] = alive & (high < self.level)
        self.sleepers.promise(rows[below], self.horizon, high[below])
        alive &= ~below
        kept = self._set_aside(rows[alive])
        if len(kept) < np.count_nonzero(alive):
            alive[:] = False
            alive[near.place[kept]] = True
        near.keep(alive)

    def _value(self, rows: Ints, at: Floats | float) -> Floats:
        """The crawl values of pages at some time."""
        if not len(rows):
            return np.zeros(0)
        pages = self._pages
        self.evaluations += len(rows)
        tau = np.maximum(at - pages.last[rows], 0.0)
        return self._valuation.value(tau, pages.boost[rows], pages.beliefs(rows))
