"""The level, and the passes that keep every sleeping page below it (docs/method.md, "Exact argmax").

A page that need not be watched sleeps under a promise, a time `until` and a `ceiling`: up to that time its crawl value
does not exceed the ceiling, or the page may not be picked anyway. So the level can move freely: a page sleeps on while
its promise reaches beyond the horizon and its ceiling is below the level. A promise is made well short of the moment
when the value reaches the level; the pages that a falling level catches are then few.

A sweep sets a horizon and a level. Pages whose promise does not cover both are evaluated: those that may reach the
level by the horizon are watched (near.py), the others get a new promise.

Invariants: from the end of a sweep until its horizon every sleeping page that may be picked is below the level; a row
that does not sleep (free, held, late, watched, or not looked at yet) has until = inf and ceiling = -inf.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from crawld.frontier.near import ROUNDING, Near, draw, draw_one, highest
from crawld.frontier.page_table import Ints, PageTable
from crawld.frontier.politeness import HostGate
from crawld.value.valuation import Floats, Valuation

SLOTS = 512  # slots between sweeps at most
ROUND = 16  # and at most that part of a round of all pages, so that most pages can sleep
WATCHED = 1024  # near pages aimed at, at most
FEW = 2048  # of that many pages, all that are picked until the horizon are watched
MOST = 1536  # pages that a sweep should look at, so that no slot waits long for it
SINGLY = 16  # pages that are rather looked at one by one than by arrays
PATIENCE = 0.4  # how far a promise reaches toward the guessed crossing
EARLY = 0.3  # the part of the level up to which a page that no signal has touched is left alone by a mere bound
SPREAD = 0.05, 0.25  # its ceiling is at least a part of the level in this range, by its row,
GOLDEN = 0.6180339887  # evenly spread: equal ceilings would all be caught by one fall of the level
REACH = 0.75  # the same for a page that signals come to often: each only shifts its promise
FOREVER = 1e18  # seconds: a page below the level then never reaches it
SUNK = 0.9  # how far below a value the level sinks: the picks to come are worth about as much
SATURATED = 3.0  # log-staleness from which a value hardly grows: ask whether it ever reaches the level


class Sweep:
    """Keeps the promises of sleeping pages, and moves pages near in time."""

    def __init__(self, valuation: Valuation, pages: PageTable, gate: HostGate | None) -> None:
        self._valuation = valuation
        self._pages = pages
        self._gate = gate
        self.near = Near()
        self.until: Floats = np.zeros(0)
        self.ceiling: Floats = np.zeros(0)
        self.start, self.horizon = np.inf, -np.inf
        self.level = 0.0
        self.lowest_pick = np.inf  # since the last sweep
        self._lowest_before = np.inf
        self._step = 0.01  # by which part the level falls next
        self._shut: dict[int, float] = {}  # hosts whose pages sleep because it may not be asked until then
        self.evaluations = 0

    @property
    def nbytes(self) -> int:
        """The memory taken."""
        return self.near.nbytes + self.until.nbytes + self.ceiling.nbytes

    @property
    def _watched(self) -> int:
        waiting = self._pages.waiting
        return min(WATCHED, 64 + max(waiting // 16, min(waiting, FEW) // 8))

    @property
    def thin(self) -> bool:
        """Whether the near pages are running out."""
        return self.level > 0 and len(self.near) < self._watched // 4

    # Promises

    def fit(self, rows: int) -> None:
        """Make room for that many rows."""
        self.near.fit(rows)
        more = rows - len(self.until)
        if more > 0:
            self.until = np.concatenate([self.until, np.full(more, np.inf)])
            self.ceiling = np.concatenate([self.ceiling, np.full(more, -np.inf)])

    def _promise(self, rows: Ints, until: Floats | float, ceiling: Floats | float) -> None:
        self.until[rows], self.ceiling[rows] = until, ceiling

    def forget(self, rows: Ints | int) -> None:
        """The pages do not sleep here."""
        self.until[rows], self.ceiling[rows] = np.inf, -np.inf

    def sleeps_on(self, row: int, added: float) -> bool:
        """Whether a page that slept and has just got that much log-staleness by signals still can.

        With a known α that much comes by itself in `added`/α: the promise ends sooner by that time, and a little.
        """
        until = float(self.until[row])
        if not (until <= FOREVER and self._valuation.additive):
            return False
        _, alpha, shape = self._pages.table[row, :3].tolist()
        if not (shape == np.inf and alpha > 0 and added >= 0):
            return False
        until -= added / alpha * (1 + 1e-12) + 1e-15 * abs(until)
        if not until > self.horizon:
            return False
        self.until[row] = until
        return True

    def asleep(self, value: float, now: float) -> Ints:
        """The sleeping pages that may be picked now and may be worth that much."""
        rows = np.flatnonzero((self.ceiling >= value) & (self.ceiling > 0))
        rows = rows[self._pages.not_before[rows] <= now]
        if self._gate is not None:
            rows = rows[self._gate.ready_at[self._pages.host[rows]] <= now]
        return rows

    def unshut(self) -> None:
        """Wake the pages of hosts that may be asked earlier than was said."""
        assert self._gate is not None, "only a gate shuts hosts"
        for host, until in list(self._shut.items()):
            if self._gate.earliest[host] < until:
                del self._shut[host]
                rows = np.flatnonzero(self._pages.host[: self._pages.size] == host)
                self._promise(rows[np.isfinite(self.until[rows])], -np.inf, np.inf)
                self.start = np.inf  # sweep before the next pick

    # Passes

    def run(self, now: float, slot: float, changed: list[int], *, fall: bool = False) -> Ints:
        """Sweep; returns the pages that may become late before the horizon."""
        pages, near = self._pages, self.near
        self.start, self.horizon = now, now + min(SLOTS, 64 + pages.waiting // ROUND) * slot
        level, count = self.level, len(near)
        self._set_level(fall=fall)
        rows = self._awake()
        while len(rows) > MOST and not fall and self.horizon - now > 8 * slot:
            # The pace has just dropped, or much time has passed: look less far ahead rather than long.
            self.horizon = now + 0.25 * (self.horizon - now)
            rows = self._awake()
        looked_at = np.concatenate([rows, np.array(changed, dtype=np.int64), near.row[: near.size]])
        self._watch(self._rekey(self._rest_early(self._set_aside(rows))), now)
        self.place(changed, now)
        self._prune(now)
        if self.level < level:  # a fall that brought too few pages is followed by a larger one
            wanted, came = self._watched - count, max(len(near) - count, 1)
            self._step *= min(max(wanted / came, 0.5), 2.0) if wanted > 0 and not fall else 2.0
            self._step = min(max(self._step, 1e-4), 0.5)
        looked_at = looked_at[looked_at >= 0]
        return np.asarray(looked_at[pages.due[looked_at] <= self.horizon])

    def take_in(self, rows: Ints, now: float) -> None:
        """Give a first promise to many pages at once."""
        at = max(now, float(self._pages.last[rows].max()))
        horizon, self.horizon = self.horizon, at
        some = rows[:: max(1, len(rows) // 8192)]
        if self.level == 0 and len(rows) > self._watched:
            values = self._value(some, at)
            self.level = float(np.quantile(values, 1 - self._watched / len(rows)))
        self._promise(rows, at, np.inf)  # the next sweep looks at those that do not sleep now
        self._rekey(self._rest_early(rows))
        self.horizon, self.start = horizon, np.inf

    def place(self, changed: list[int], now: float) -> None:
        """Let pages sleep that stay below the level up to the horizon, and watch the others."""
        quick = self._valuation.quick
        rows = np.array(changed, dtype=np.int64)
        if len(rows) > SINGLY or not quick:
            rows = self._rest_early(self._set_aside(rows))
        if len(rows) <= SINGLY and quick:
            for row in rows.tolist():
                self._place_one(row, now)
            return
        if len(rows):
            self.evaluations += len(rows)
            chart = draw(self._valuation, self._pages, rows, now, self.horizon)
            high = highest(chart, self.horizon)
            below = (high < self.level) | (high <= 0)
            self._promise(rows[below], self.horizon, high[below])
            rows = rows[~below]
            hosts, not_before = self._pages.host[rows], self._pages.not_before[rows]
            self.near.insert(rows, hosts, not_before, type(chart)(*(column[~below] for column in chart)))

    def _place_one(self, row: int, now: float) -> None:
        """What `place` does, for one page."""
        pages, horizon, level = self._pages, self.horizon, self.level
        page = pages.table[row].tolist()
        mu, alpha, shape, kappa, gamma, last, boost, not_before, due = page
        if not_before > horizon:
            self.until[row], self.ceiling[row] = min(not_before, FOREVER), 0.0
            return
        if boost == 0:  # what `_rest_early` does
            half = 0.5 * mu * self._valuation.early_rate(alpha, kappa, gamma) * (1 + ROUNDING)
            high = half * max(horizon - last, 0.0) ** 2
            if high < EARLY * level:
                ceiling = max(2 * high, (SPREAD[0] + SPREAD[1] * (GOLDEN * row % 1)) * level)
                until = last + sqrt(ceiling / half) * (1 - 1e-12) if half > 0 else FOREVER
                until = max(until - 1e-15 * abs(until), horizon)
                self.until[row], self.ceiling[row] = min(until, due, FOREVER), ceiling
                return
        else:
            high = self._valuation.ceiling_of(max(horizon - last, 0.0), boost, (mu, alpha, shape, kappa, gamma))
            if high < level:
                self.until[row], self.ceiling[row] = horizon, high
                return
        chart = draw_one(self._valuation, page, now)
        self.evaluations += 1
        if chart is None:
            self._watch(np.array([row]), now)
            return
        at, value, slope, bend, twist, error, _ = chart
        ahead = max(horizon - at, 0.0)
        high = value + ahead * (slope + ahead * (bend + ahead * twist)) + error
        if high >= level > value and ahead > 0:  # so far ahead the chart may be too coarse
            later = draw_one(self._valuation, page, horizon)
            high = high if later is None else min(high, later[1] + later[5])
        if high < level or high <= 0:
            self.until[row], self.ceiling[row] = self._further(page, high)
        else:
            self.near.insert_one(row, int(pages.host[row]), not_before, chart)

    def _further(self, page: list[float], high: float) -> tuple[float, float]:
        """A promise of a page below the level up to the horizon; a further one where signals only shift it."""
        _, alpha, shape, _, _, last, boost, _, due = page
        if not (self._valuation.additive and shape == np.inf and alpha > 0 and high > 0):
            return self.horizon, high
        x = alpha * (self.horizon - last) + boost
        guess = self.horizon + REACH * x * (sqrt(self.level / high) - 1) / alpha
        for until, signals in ((FOREVER, np.inf), (guess, boost)):
            later = draw_one(self._valuation, [*page[:6], signals, *page[7:]], until)
            if later is not None and later[1] + later[5] < self.level:
                return min(until, due), later[1] + later[5]
        return self.horizon, high

    def sink(self, value: float) -> bool:
        """Lower the level below `value` if no ceiling forbids it; return whether it was lowered."""
        if len(self.ceiling) > MOST:
            return False  # among so many a ceiling forbids it nearly always, and to look through them costs picks
        top = float(self.ceiling.max(initial=0.0))
        if top >= value:
            return False
        self.level = max(float(np.nextafter(top, np.inf)) if top > 0 else 0.0, SUNK * value)
        return True

    def _set_level(self, *, fall: bool) -> None:
        watched, count = self._watched, len(self.near)
        floor = min(self.lowest_pick, self._lowest_before)
        self._lowest_before, self.lowest_pick = self.lowest_pick, np.inf
        if fall or (self.level > 0 and count < watched // 2):
            before, top = self.level, float(self.ceiling.max(initial=0.0))
            self.level = min(before * (1 - self._step), top)
            if self.level < 1e-300:
                self.level = 0.0
            caught = self.ceiling[(self.ceiling >= self.level) & (self.ceiling < before)]
            if len(caught) > MOST and not fall:
                self.level = float(np.partition(caught, -MOST)[-MOST])
        elif count > watched + watched // 2 and floor < np.inf:
            high = highest(self.near.chart(), self.horizon)
            enough = float(np.partition(high, -watched)[-watched])
            self.level = max(self.level, min(enough, floor * (1 - 1e-3)))

    def _awake(self) -> Ints:
        """The pages that may reach the level up to the horizon."""
        # Nothing is worth picking at value 0, so at level 0 a ceiling of 0 sleeps on.
        reach = self.ceiling >= self.level if self.level > 0 else self.ceiling > 0
        return np.flatnonzero((self.until <= self.horizon) | reach)

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
                    until = max(self._shut.get(blocked, -np.inf), float(self._gate.earliest[blocked]))
                    self._shut[blocked] = until
                wait = np.maximum(wait, earliest)
        # A host blocked for good must still be found again: inf is kept for rows that do not sleep.
        wait = np.minimum(wait, FOREVER)
        waiting = wait > horizon
        self._promise(rows[waiting], wait[waiting], 0.0)
        return rows[~waiting]

    def _rest_early(self, rows: Ints) -> Ints:
        """Let pages sleep that no signal has touched since a crawl too short ago to matter; returns the others."""
        pages = self._pages
        with np.errstate(all="ignore"):
            rate = self._valuation.early_rate(pages.alpha[rows], pages.kappa[rows], pages.gamma[rows])
            half = 0.5 * pages.mu[rows] * rate * (1 + ROUNDING)
            high = half * np.maximum(self.horizon - pages.last[rows], 0.0) ** 2
            early = (high < EARLY * self.level) & (pages.boost[rows] == 0)
            ceiling = np.maximum(2 * high, (SPREAD[0] + SPREAD[1] * (GOLDEN * rows % 1)) * self.level)[early]
            until = np.minimum(pages.last[rows][early] + np.sqrt(ceiling / half[early]) * (1 - 1e-12), FOREVER)
        # The time of a crawl is not as sharp as that since it.
        until = np.maximum(until - 1e-15 * np.abs(until), self.horizon)
        self._promise(rows[early], np.minimum(until, pages.due[rows][early]), ceiling)
        return np.asarray(rows[~early])

    def _rekey(self, rows: Ints) -> Ints:
        """Give new promises to pages; returns those that may reach the level before the horizon."""
        pages, level, horizon = self._pages, self.level, self.horizon
        until, ceiling = self.until[rows], self.ceiling[rows]
        unknown = ~((ceiling > 0) & (ceiling < np.inf) & (until > -np.inf))
        until[unknown] = horizon
        ceiling[unknown] = self._value(rows[unknown], horizon)
        rise = unknown & (ceiling >= level) & (ceiling > 0)
        risen = [rows[rise]]
        rows, until, ceiling = rows[~rise], until[~rise], ceiling[~rise]

        alpha, last, due = pages.alpha[rows], pages.last[rows], pages.due[rows]
        x = alpha * (until - last) + pages.boost[rows]
        with np.errstate(all="ignore"):
            # A guess, early where it can be: a value grows at most like the square of x (docs/method.md, "Limits").
            crossing = until + x * (np.sqrt(level / ceiling) - 1.0) / alpha
        saturated = (x > SATURATED) | ~(np.abs(crossing) < np.inf)
        crossing[~(np.abs(crossing) < np.inf)] = horizon
        pending = np.ones(len(rows), dtype=np.bool_)
        for share in (None, PATIENCE, PATIENCE / 8, 0.0):
            at = np.flatnonzero(saturated if share is None else pending)
            target = horizon + (FOREVER if share is None else share * np.maximum(crossing[at] - horizon, 0.0))
            high = self._value(rows[at], target) * (1 + ROUNDING)
            below = (high < level) | (high <= 0)
            until = np.minimum(np.broadcast_to(target, len(at)), due[at])
            self._promise(rows[at[below]], until[below], high[below])
            pending[at[below]] = False
            if share is not None:
                surely = at[~below & (target <= horizon)]
                risen.append(rows[surely])
                pending[surely] = False
        return np.concatenate(risen)

    def _watch(self, rows: Ints, now: float) -> None:
        """Make pages near."""
        if len(rows):
            self.evaluations += len(rows)
            self.forget(rows)
            chart = draw(self._valuation, self._pages, rows, now, self.horizon)
            self.near.insert(rows, self._pages.host[rows], self._pages.not_before[rows], chart)

    def _prune(self, now: float) -> None:
        """Let near pages sleep that stay below the level, or whose host may not be asked before the horizon."""
        near = self.near
        rows = near.row[: near.size]
        ended = np.flatnonzero((rows >= 0) & (near.chart().until < self.horizon))
        if len(ended):
            self.evaluations += len(ended)
            near.redraw(ended, draw(self._valuation, self._pages, rows[ended], now, self.horizon))
        high = highest(near.chart(), self.horizon)
        alive = rows >= 0
        below: NDArray[np.bool_] = alive & (high < self.level)
        self._promise(rows[below], self.horizon, high[below])
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
