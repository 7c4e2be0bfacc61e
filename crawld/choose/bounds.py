"""Candidates, the bounds of all other pages, and the level that parts them (docs/method.md, "Exact argmax").

A page that is no candidate has a bound, a `ceiling` and an `expiry`: up to that time its crawl value does not exceed
the ceiling, or the page may not be picked anyway. So the level can move freely: a bound serves while it expires after
the horizon and its ceiling is below the level. It is made to expire well short of the moment when the value reaches
the level; the pages that a falling level catches are then few.

A pass sets a horizon and a level. Pages whose bound does not serve are evaluated: those that may reach the level by the
horizon become candidates, the others get a new bound.

Invariants: from the end of a pass until its horizon every bounded page that may be picked is below the level; a row
without a bound (free, held, never crawled, a candidate, or not looked at yet) has expiry = inf and ceiling = -inf; a
page that is due after the horizon has a bound that expires by then.

A candidate has a model of its value, a Taylor polynomial: |V(t) − (value + slope·d + bend·d²)| ≤ twist·d³ + error with
d = t − `at`, for every time t from `at` on. `error` also covers the rounding of the value itself, so that an order that
models call certain is the order of the rounded values too. A value may be inf (an unbounded one, after a sure signal):
its model is huge instead, and such pages are told apart by exact values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import add

import numpy as np
from numpy.typing import NDArray

from crawld.choose.host_gate import HostGate
from crawld.choose.page_table import Ints, PageTable
from crawld.choose.valuation import Beliefs, Floats, Valuation


@dataclass(frozen=True)
class BoundsLimits:
    """Numbers that bound and tune this module."""

    slots: int = 512  # slots between passes at most
    round: int = 16  # and at most that part of a round of all pages, so that most pages keep their bounds
    candidates: int = 1024  # candidates aimed at, at most
    few: int = 2048  # of that many pages, all that are picked until the horizon are candidates
    most: int = 4096  # pages that a pass should look at, so that no slot waits long for it
    bounded_at_once: int = 8192  # pages that are bounded before the first pick in one turn of the loop: some 10 ms
    sample: int = 131_072  # pages by whose ceilings the level falls
    patience: float = 0.5  # how far a bound reaches toward the guessed crossing
    further: float = 3.0  # times as far a bound must then reach for its page to be evaluated once more
    early: float = (
        0.3  # the part of the level up to which a page that no signal has touched is bounded without evaluating it
    )
    golden: float = 0.6180339887  # evenly spread: equal ceilings would all be caught by one fall of the level
    forever: float = 1e18  # seconds: a page below the level then never reaches it
    sunk: float = 0.9  # how far below a value the level sinks: the picks to come are worth about as much
    singly: int = 16  # pages up to which models are made in plain floats
    huge: float = 1e250  # a value that stands for inf in models
    rounding: float = 1e-10  # of a value, relative: far above what its own rounding can do


LIMITS = BoundsLimits()


GONE = -np.inf  # the value of a place left behind
_AT, _VALUE, _SLOPE, _BEND, _TWIST, _ERROR, _NOT_BEFORE = range(7)  # rows: a model, and when a page may be picked


def models(
    valuation: Valuation, pages: PageTable, rows: Ints, now: float, taken: list[list[float]] | None = None
) -> Floats:
    """Models of pages from now on, one a column, and when each may be picked; `taken` are their rows of the table."""
    pages.evaluations += len(rows)
    if len(rows) <= LIMITS.singly:
        made = _singly(valuation, pages.table.take(rows, 0).tolist() if taken is None else taken, now)
        if made is not None:
            return made
    *beliefs, last, boost, not_before, _ = pages.take(rows)
    # A copy from after `now` (the clock stepped back) does not age before its own time.
    at = np.maximum(now, last)
    value, slope, curvature, third = valuation.taylor(at - last, boost, Beliefs(*beliefs))
    made = np.empty((7, len(rows)))
    made[_AT], made[_VALUE], made[_SLOPE], made[_BEND], made[_TWIST] = at, value, slope, 0.5 * curvature, third / 6
    made[_ERROR], made[_NOT_BEFORE] = LIMITS.rounding * value, not_before
    if value.max() >= LIMITS.huge:
        endless = value >= LIMITS.huge
        made[_VALUE, endless], made[_SLOPE:_ERROR, endless], made[_ERROR, endless] = (
            LIMITS.huge,
            0.0,
            LIMITS.rounding * LIMITS.huge,
        )
    return made


def _singly(valuation: Valuation, pages: list[list[float]], now: float) -> Floats | None:
    """The same of few pages, given by their rows of the table; None where the valuation has no plain floats."""
    made: list[tuple[float, ...]] = []
    for mu, alpha, shape, kappa, gamma, heard, deaf_alpha, deaf_shape, last, boost, not_before, _ in pages:
        at = max(now, last)
        found = valuation.taylor_of(at - last, boost, (heard * mu, alpha, shape, kappa, gamma))
        if found is None:
            return None
        value, slope, curvature, third = found
        if heard < 1:
            deaf = valuation.taylor_of(at - last, 0.0, ((1 - heard) * mu, deaf_alpha, deaf_shape, 0.0, 0.0))
            assert deaf is not None, "a valuation has plain floats for all pages or none"
            value, slope, curvature, third = map(add, found, deaf)
        if value >= LIMITS.huge:
            value, slope, curvature, third = LIMITS.huge, 0.0, 0.0, 0.0
        made.append((at, value, slope, 0.5 * curvature, third / 6, LIMITS.rounding * value, not_before))
    return np.array(made).T


def highest(made: Floats, at: float) -> Floats:
    """Upper bounds of values up to that time."""
    ahead = np.maximum(at - made[_AT], 0.0)
    rise = ahead * (made[_SLOPE] + ahead * (made[_BEND] + ahead * made[_TWIST]))
    return np.asarray(made[_VALUE] + rise + made[_ERROR])


class Candidates:
    """The models of the candidates, packed; the place of a page is found by its row.

    Invariant: `place[row]` is where the row stands, -1 if it does not stand here; a place left behind has row -1.
    """

    def __init__(self) -> None:
        self.size = self.left = 0  # places in use, and those of them left behind
        self.row: Ints = np.full(64, -1, dtype=np.int64)
        self._host: NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self._place: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._models = np.zeros((7, 64))
        self._seen_at = np.nan  # when the models were read, and what the page at each place was worth then, about
        self._lowest = self._highest = np.zeros(0)

    def __len__(self) -> int:
        return self.size - self.left

    def fit(self, rows: int) -> None:
        """Make room for that many rows."""
        place = np.full(rows, -1, dtype=np.int32)
        place[: len(self._place)] = self._place
        self._place = place

    def models(self) -> Floats:
        """The models of all places, to read; of those left behind the value is -inf."""
        return self._models[:, : self.size]

    def insert(self, rows: Ints, hosts: NDArray[np.int32], made: Floats) -> None:
        """Take in pages."""
        assert (self._place[rows] == -1).all(), "a page is a candidate only once"
        begin, end = self.size, self.size + len(rows)
        if end > len(self.row):
            more = max(end, 2 * len(self.row)) - len(self.row)
            self.row = np.concatenate([self.row, np.full(more, -1, dtype=np.int64)])
            self._host = np.concatenate([self._host, np.zeros(more, dtype=np.int32)])
            self._models = np.hstack([self._models, np.zeros((7, more))])
        self.row[begin:end], self._host[begin:end], self._models[:, begin:end] = rows, hosts, made
        self._place[rows] = np.arange(begin, end)
        self.size, self._seen_at = end, np.nan

    def remove(self, row: int) -> None:
        """Take a page out if it stands here."""
        place = self._place.item(row)
        if place >= 0:
            self._place[row] = self.row[place] = -1
            self._models[_VALUE, place] = GONE
            self.left += 1
            if place < len(self._lowest):
                self._lowest[place] = self._highest[place] = GONE

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Pack the places that are marked and drop all others."""
        rows, kept = self.row[: self.size], np.flatnonzero(mask)
        self._place[rows[rows >= 0]] = -1
        self.size, self.left, self._seen_at = len(kept), 0, np.nan
        self.row[: self.size], self._host[: self.size] = rows[kept], self._host[kept]
        self._models[:, : self.size] = self._models[:, kept]
        self._place[self.row[: self.size]] = np.arange(self.size)

    def lead(self, now: float, ready_at: Floats | None) -> tuple[Ints, float]:
        """The places among which the best page is that may be asked now, and the least it is worth."""
        if self._seen_at != now:
            self._see(now)
        lowest, none = self._lowest, (np.zeros(0, dtype=np.int64), 0.0)
        if not lowest.size:
            return none
        first = int(lowest.argmax())
        if ready_at is not None and ready_at[self._host[first]] > now:
            lowest = np.where(ready_at.take(self._host[: self.size]) > now, GONE, lowest)
            first = int(lowest.argmax())
        least: float = lowest.item(first)
        if least == GONE:
            return none
        leading = (self._highest >= least).nonzero()[0]
        if ready_at is not None and leading.size > 1:
            leading = leading[ready_at[self._host[leading]] <= now]
        return leading, least

    def renew(self, places: Ints, made: Floats) -> None:
        """Put models made now in place of those of places that lead now."""
        self._models[:, places] = made
        self._lowest[places] = made[_VALUE] - made[_ERROR]
        self._highest[places] = made[_VALUE] + made[_ERROR]

    def _see(self, now: float) -> None:
        """Read all models: several slots may come at one time, and only a few places change between them."""
        at, value, slope, bend, twist, error, not_before = self.models()
        ahead = np.maximum(now - at, 0.0)
        here = bend * ahead
        here += slope
        here *= ahead
        here += value
        blur = twist * ahead
        blur *= ahead
        blur *= ahead
        blur += error
        waits = not_before > now
        if np.count_nonzero(waits):
            here[waits] = GONE
        self._seen_at, self._lowest = now, here - blur
        here += blur
        self._highest = here


SPREAD = 0.05, 0.25  # its ceiling is at least a part of the level in this range, by its row,


class Bounds:
    """Keeps bounds and level, and makes pages candidates in time."""

    def __init__(self, valuation: Valuation, pages: PageTable, gate: HostGate | None) -> None:
        self.valuation = valuation
        self.pages = pages
        self._gate = gate
        self.candidates = Candidates()
        self.expiry: Floats = np.zeros(0)
        self.ceiling: Floats = np.zeros(0)
        self.start, self.horizon = np.inf, -np.inf
        self.level = 0.0
        self.lowest_pick = np.inf  # since the last pass
        self._lowest_before = np.inf
        self._few = 0  # candidates, before the next pass
        self._shut: dict[int, float] = {}  # hosts that may not be asked until then, whose pages are bounded by that

    @property
    def _wanted(self) -> int:
        """Number of candidates to keep."""
        waiting = self.pages.waiting
        return min(LIMITS.candidates, 64 + max(waiting // 16, min(waiting, LIMITS.few) // 8))

    def thin(self) -> bool:
        """Tells whether candidates run out: fewer are left than a quarter of what the last pass wanted."""
        return self.level > 0 and self.candidates.size - self.candidates.left < self._few

    # Single pages

    def fit(self, rows: int) -> None:
        """Make room for that many rows."""
        have = len(self.expiry)
        if rows > have:
            self.candidates.fit(rows)
            expiry, ceiling = np.full(rows, np.inf), np.full(rows, -np.inf)
            expiry[:have], ceiling[:have] = self.expiry, self.ceiling
            self.expiry, self.ceiling = expiry, ceiling

    def forget(self, row: int) -> None:
        """Let a page have neither bound nor model."""
        self.candidates.remove(row)
        self.expiry[row], self.ceiling[row] = np.inf, -np.inf

    def postpone(self, rows: Ints) -> None:
        """Leave pages to the next pass, which comes before the next pick."""
        self._bound(rows, -np.inf, np.inf)
        self.start = np.inf

    def step_back(self) -> None:
        """Leave all candidates to the next pass: models do not tell of times before them, bounds do."""
        rows = self.candidates.row[: self.candidates.size].copy()
        self.candidates.keep(np.zeros(len(rows), dtype=np.bool_))
        self.postpone(rows[rows >= 0])

    def place(self, rows: list[tuple[int, list[float]]], now: float) -> None:
        """Bound pages that surely stay below the level up to the horizon, and make the others candidates.

        Each comes with its row of the page table.
        """
        horizon, level, left, taken = self.horizon, self.level, list[int](), list[list[float]]()
        for row, page in rows:
            mu, alpha, shape, kappa, gamma, heard, deaf_alpha, deaf_shape, last, boost, not_before, _ = page
            if not_before > horizon:
                self.expiry[row], self.ceiling[row] = min(not_before, LIMITS.forever), 0.0
                continue
            age = max(horizon - last, 0.0)
            high = self.valuation.ceiling(age, boost, (heard * mu, alpha, shape, kappa, gamma))
            if heard < 1:
                high += self.valuation.ceiling(age, 0.0, ((1 - heard) * mu, deaf_alpha, deaf_shape, 0.0, 0.0))
            if high < level:
                self.expiry[row], self.ceiling[row] = horizon, high
            else:
                left.append(row)
                taken.append(page)
        if left:
            self._follow(np.array(left), now, taken)

    def above(self, value: float, now: float) -> Ints:
        """The bounded pages that may be picked now and may be worth that much."""
        rows = np.flatnonzero((self.ceiling >= value) & (self.ceiling > 0))
        rows = rows[self.pages.not_before[rows] <= now]
        if self._gate is not None:
            rows = rows[self._gate.ready_at[self.pages.host[rows]] <= now]
        return rows

    def sink(self, value: float) -> bool:
        """Lower the level below `value` if no ceiling forbids it; return whether it was lowered."""
        if len(self.ceiling) > LIMITS.most:
            return False  # among so many a ceiling forbids it nearly always, and to look through them costs picks
        top = float(self.ceiling.max(initial=0.0))
        if top >= value:
            return False
        self.level = max(float(np.nextafter(top, np.inf)) if top > 0 else 0.0, LIMITS.sunk * value)
        return True

    def open_hosts(self) -> None:
        """Look again at the pages of hosts that may be asked earlier than was said."""
        assert self._gate is not None, "only a gate shuts hosts"
        for host, until in list(self._shut.items()):
            if self._gate.earliest[host] < until:
                del self._shut[host]
                rows = np.flatnonzero(self.pages.host[: self.pages.size] == host)
                self.postpone(rows[np.isfinite(self.expiry[rows])])

    # Passes

    def run(self, now: float, slot: float, *, fall: bool = False) -> Ints:
        """Pass over all bounds; returns the pages that may become due before the horizon."""
        pages, candidates = self.pages, self.candidates
        self.start, self.horizon = now, now + min(LIMITS.slots, 64 + pages.waiting // LIMITS.round) * slot
        self._set_level(fall=fall)
        rows = self._open()
        new = rows[self.ceiling[rows] == np.inf]
        self._guess_level(new, now)
        while len(rows) - len(new) > LIMITS.most and not fall and self.horizon - now > 8 * slot:
            # The pace has just dropped, or much time has passed: look less far ahead rather than long.
            self.horizon = now + 0.5 * (self.horizon - now)
            rows = self._open()
        looked_at = np.concatenate([rows, candidates.row[: candidates.size]])
        rows = self._extend(self._bound_early(self._set_aside(rows)))
        self.expiry[rows], self.ceiling[rows] = np.inf, -np.inf
        self._follow(rows, now)
        self._prune()
        self._few = self._wanted // 4
        looked_at = looked_at[looked_at >= 0]
        return np.asarray(looked_at[pages.due[looked_at] <= self.horizon])

    def bound_new(self, now: float) -> Iterator[Ints]:
        """Bound pages that no pass has looked at, some at a time; yields those that were looked at.

        Pages that may reach the level already are left to the next pass.
        """
        new = np.flatnonzero(self.ceiling == np.inf)
        self._guess_level(new, now)
        for start in range(0, len(new), LIMITS.bounded_at_once):
            rows = new[start : start + LIMITS.bounded_at_once]
            rows = rows[self.ceiling[rows] == np.inf]
            self.horizon = max(self.horizon, now)
            self._extend(self._bound_early(self._set_aside(rows)))
            yield rows

    def _guess_level(self, new: Ints, now: float) -> None:
        """Set the level by some of the pages that no pass has looked at, where there is none yet."""
        if self.level == 0 and len(new) > self._wanted:
            values = self.pages.values(self.valuation, new[:: max(1, len(new) // 8192)], now)
            self.level = float(np.quantile(values, 1 - self._wanted / len(new)))

    def _set_level(self, *, fall: bool) -> None:
        """Lower the level if candidates are wanted, raise it if there are too many."""
        wanted, count = self._wanted, len(self.candidates)
        floor = min(self.lowest_pick, self._lowest_before)
        self._lowest_before, self.lowest_pick = self.lowest_pick, np.inf
        if fall or (self.level > 0 and count < wanted // 2):
            step = 1 + len(self.ceiling) // LIMITS.sample
            some = self.ceiling[::step]
            some, most = some[(some > 0) & (some < self.level)], min(LIMITS.most, 2 * wanted) // step
            self.level = float(np.partition(some, -most)[-most]) if len(some) > most else 0.0
            if self.level < 1e-300:
                self.level = 0.0
        elif count > wanted + wanted // 2 and floor < np.inf:
            high = highest(self.candidates.models(), self.horizon)
            enough = float(np.partition(high, -wanted)[-wanted])
            self.level = max(self.level, min(enough, floor * (1 - 1e-3)))

    def _open(self) -> Ints:
        """The pages that may reach the level up to the horizon."""
        # Nothing is worth picking at value 0, so at level 0 a ceiling of 0 serves.
        reach = self.ceiling >= self.level if self.level > 0 else self.ceiling > 0
        return np.flatnonzero((self.expiry <= self.horizon) | reach)

    def _set_aside(self, rows: Ints) -> Ints:
        """Bound pages that may not be picked before the horizon whatever their value; returns the others."""
        pages, horizon = self.pages, self.horizon
        wait = pages.not_before[rows]
        if self._gate is not None:
            host = pages.host[rows]
            earliest = self._gate.earliest[host]
            for shut in np.unique(host[earliest > horizon]).tolist():
                # Some of its pages may be bounded for longer, since before the host came free earlier.
                self._shut[shut] = max(self._shut.get(shut, -np.inf), float(self._gate.earliest[shut]))
            wait = np.maximum(wait, earliest)
        waiting = wait > horizon
        # A host blocked for good must still be found again: inf is kept for rows without a bound.
        self._bound(rows[waiting], np.minimum(wait[waiting], LIMITS.forever), 0.0)
        return rows[~waiting]

    def _bound_early(self, rows: Ints) -> Ints:
        """Bound pages that no signal has touched since a crawl too short ago to matter; returns the others."""
        mu, alpha, _, kappa, gamma, heard, deaf_alpha, _, last, boost, _, due = self.pages.take(rows)
        with np.errstate(all="ignore"):
            rate = heard * self.valuation.early_rate(alpha, kappa, gamma)
            rate += (1 - heard) * self.valuation.early_rate(deaf_alpha, np.zeros_like(mu), np.zeros_like(mu))
            half = 0.5 * mu * rate * (1 + LIMITS.rounding)
            high = half * np.maximum(self.horizon - last, 0.0) ** 2
            early = (high < LIMITS.early * self.level) & (boost == 0)
            ceiling = np.maximum(2 * high, (SPREAD[0] + SPREAD[1] * (LIMITS.golden * rows % 1)) * self.level)
            until = np.minimum(last + np.sqrt(ceiling / half) * (1 - 1e-12), LIMITS.forever)
        # The time of a crawl is not as sharp as that since it.
        until = np.maximum(until - 1e-15 * np.abs(until), self.horizon)
        self._bound(rows[early], np.minimum(until, np.where(due > self.horizon, due, np.inf))[early], ceiling[early])
        return np.asarray(rows[~early])

    def _extend(self, rows: Ints) -> Ints:
        """Give pages bounds that reach further; returns those that may reach the level before the horizon."""
        level, horizon = self.level, self.horizon
        until, ceiling = self.expiry[rows], self.ceiling[rows]
        unknown = ~((ceiling > 0) & (ceiling < np.inf) & (until > -np.inf))
        until[unknown] = horizon
        ceiling[unknown] = self.pages.values(self.valuation, rows[unknown], horizon)
        rise = unknown & (ceiling >= level) & (ceiling > 0)
        risen = [rows[rise]]
        rows, until, ceiling = rows[~rise], until[~rise], ceiling[~rise]

        alpha, last, boost = self.pages.take(rows)[[1, 8, 9]]
        x = alpha * (until - last) + boost
        with np.errstate(all="ignore"):
            # A guess, early where it can be: a value grows at most like the square of x (docs/method.md, "Limits").
            crossing = until + x * (np.sqrt(level / ceiling) - 1.0) / alpha
        crossing[~(np.abs(crossing) < np.inf)] = horizon
        pending = np.arange(len(rows))
        for share in (LIMITS.patience, LIMITS.patience / 8, 0.0):
            target = horizon + share * np.maximum(crossing[pending] - horizon, 0.0)
            high = self._bound_below(rows[pending], target)
            below = (high < level) | (high <= 0)
            if share == LIMITS.patience:
                self._reach_on(rows[below], x[below], ceiling[below], target[below], high[below])
            risen.append(rows[pending[~below & (target <= horizon)]])
            pending = pending[~below & (target > horizon)]
        return np.concatenate(risen)

    def _bound_below(self, rows: Ints, until: Floats) -> Floats:
        """Bound the pages that stay below the level until then; returns upper bounds of their values at that time."""
        high = self.pages.values(self.valuation, rows, until) * (1 + LIMITS.rounding)
        below, due = (high < self.level) | (high <= 0), self.pages.due[rows]
        until = np.minimum(until, np.where(due > self.horizon, due, np.inf))
        self._bound(rows[below], until[below], high[below])
        return high

    def _reach_on(self, rows: Ints, x: Floats, value: Floats, until: Floats, high: Floats) -> None:
        """Let bounds reach further where values have grown more slowly since x than by its square.

        The power of x by which they grew is an upper bound of the one by which they go on.
        """
        alpha, last, boost = self.pages.take(rows)[[1, 8, 9]]
        with np.errstate(all="ignore"):
            there = alpha * (until - last) + boost
            power = np.log(high / value) / np.log(there / x)
            further = until + LIMITS.patience * there * np.expm1(np.log(self.level / high) / power) / alpha
        further[~(further < LIMITS.forever)] = LIMITS.forever
        worth = np.flatnonzero(further - self.horizon > LIMITS.further * (until - self.horizon))
        self._bound_below(rows[worth], further[worth])

    def _follow(self, rows: Ints, now: float, taken: list[list[float]] | None = None) -> None:
        """Make pages candidates; `taken` are their rows of the page table."""
        if len(rows):
            made = models(self.valuation, self.pages, rows, now, taken)
            self.candidates.insert(rows, self.pages.host[rows], made)

    def _prune(self) -> None:
        """Bound candidates that stay below the level, or whose host may not be asked before the horizon."""
        candidates = self.candidates
        rows = candidates.row[: candidates.size]
        high = highest(candidates.models(), self.horizon)
        kept: NDArray[np.bool_] = rows >= 0
        below = kept & (high < self.level)
        self._bound(rows[below], self.horizon, high[below])
        kept &= ~below
        kept[kept] = np.isin(rows[kept], self._set_aside(rows[kept]))
        candidates.keep(kept)

    def _bound(self, rows: Ints, expiry: Floats | float, ceiling: Floats | float) -> None:
        self.expiry[rows], self.ceiling[rows] = expiry, ceiling
