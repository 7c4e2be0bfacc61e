"""Pages of which something has just changed: a crawl, a signal, a new estimate.

Most of them can sleep on by what is known of them already (sleepers.py). At the others a quick look is taken
(glance.py); those that stay below the level sleep, the rest are *loose*: candidates of the block with a model of their
own, until the next block is built and they become near.
"""

from math import inf, sqrt

import numpy as np

from crawld.scheduler.chart import ROUNDING, Chart, draw
from crawld.scheduler.chooser import Ints
from crawld.scheduler.columns import Columns
from crawld.scheduler.glance import QUADRATIC, Glance, Glimpse, Page, quick_ceiling, quick_look
from crawld.scheduler.hot import Hot
from crawld.scheduler.near import Near
from crawld.scheduler.sweep import FOREVER, PATIENCE, Sweep
from crawld.scheduler.valuation import Valuation

FEW = 10  # pages told apart by quick looks rather than by exact values at once
LATENESS = 1e-15  # relative: a time is less sharp than its distance from another, and must not be late
UNSEEN = Glimpse(0.0, 0.0, 0.0, 0.0, 1e300, lasting=False)  # of a page of which nothing is known


class Loose:
    """Files single pages, and keeps those that are loose."""

    def __init__(self, valuation: Valuation, pages: Columns, near: Near, hot: Hot, sweep: Sweep) -> None:
        self._valuation = valuation
        self._pages = pages
        self._near = near
        self._hot = hot
        self._sweep = sweep
        self._look: Glance | None = quick_look(valuation)
        self._quadratic = quick_ceiling(valuation) is not None
        self._moves = hasattr(valuation, "jet")
        self._additive = bool(getattr(valuation, "additive", False))
        self._models: dict[int, tuple[float, Glimpse]] = {}  # row -> when it was looked at, and what was seen

    def __len__(self) -> int:
        return len(self._models)

    @property
    def quick(self) -> bool:
        """Whether there is a quick look at single pages."""
        return self._look is not None

    def insert(self, rows: Ints) -> None:
        """Let pages be loose of which nothing is known."""
        self._models.update(dict.fromkeys(rows.tolist(), (-inf, UNSEEN)))

    def discard(self, row: int) -> None:
        """Take a page out if it is loose."""
        self._models.pop(row, None)

    def sleeps_on(self, row: int) -> bool:
        """Whether a page that has just got a signal sleeps, and still can by what is known of it."""
        if not (self._additive and self._sweep.sleepers.until[row] < inf):
            return False
        _, alpha, shape, _, _, last, boost, _, due = self._pages.table[row].tolist()
        return shape == inf and alpha > 0 and self._sleep(row, last, (boost, alpha), due)

    def _sleep(self, row: int, last: float, motion: tuple[float, float], due: float) -> bool:
        """Let a page sleep by a fact if one reaches beyond the horizon; its staleness starts and moves like that."""
        sweep = self._sweep
        sleepers = sweep.sleepers
        reach, cap = sleepers.facts[row].tolist()
        if cap >= sweep.level:
            return False
        boost, alpha = motion
        until = last + (reach - boost) / alpha
        until = min(until - LATENESS * abs(until), due, FOREVER)
        if until <= sweep.horizon:
            return False
        sleepers.until[row], sleepers.ceiling[row] = until, cap
        return True

    def stand(self, row: int, now: float) -> None:
        """Let a page that is in no tier sleep if it surely can, or be loose."""
        mu, alpha, shape, kappa, gamma, last, boost, not_before, due = self._pages.table[row].tolist()
        sweep = self._sweep
        sleepers, horizon, level = sweep.sleepers, sweep.horizon, sweep.level
        if not_before > horizon:
            sleepers.until[row], sleepers.ceiling[row] = not_before, 0.0
            return
        shifts = alpha > 0 and (boost == 0 or (self._additive and shape == inf))
        if shifts and self._sleep(row, last, (boost, alpha), due):
            return
        if boost == 0 and self._quadratic and last <= horizon:
            high = QUADRATIC * mu * alpha * (horizon - last) ** 2 * (1 + ROUNDING)
            if high < level:  # so it is of most pages just crawled; their new estimates come soon, with another look
                sleepers.until[row], sleepers.ceiling[row] = horizon, high
                return
        at, seen = max(now, last), UNSEEN
        if self._look is not None and at <= horizon:
            page = mu, alpha, shape, kappa, gamma
            span = horizon - at
            seen = self._look(at - last, span, boost, page)
            high = seen.high(span) * (1 + ROUNDING)
            if high >= level > seen.value and seen.lasting:  # so far ahead the model may be too coarse
                high = min(high, self._look(horizon - last, 0.0, boost, page).high(0.0) * (1 + ROUNDING))
            if high < level:
                until = horizon
                if shifts:
                    wait, high = self._state(row, horizon - last, boost, page, high)
                    until = last + wait
                    until = min(max(until - LATENESS * abs(until), horizon), due, FOREVER)
                sleepers.until[row], sleepers.ceiling[row] = until, high
                return
        sleepers.forget(row)
        self._models[row] = at, seen
        self._hot.offer(row, int(self._pages.host[row]), at, not_before, seen)

    def _state(self, row: int, tau: float, boost: float, page: Page, high: float) -> tuple[float, float]:
        """Look further ahead and keep what is seen as a fact; the time since the crawl that it is good for, and cap."""
        assert self._look is not None, "without a look nothing is seen"
        level = self._sweep.level
        alpha = page[1]
        top = self._look(FOREVER, 0.0, inf, page).high(0.0) * (1 + ROUNDING)
        if top < level:
            tau, high = FOREVER, top
        elif high > 0:
            x = alpha * tau + boost
            later = tau + PATIENCE * x * (sqrt(level / high) - 1) / alpha  # it grows at most like the square of x
            further = self._look(later, 0.0, boost, page).high(0.0) * (1 + ROUNDING)
            if further < level:
                tau, high = later, further
        self._sweep.sleepers.facts[row] = alpha * tau + boost, high
        return tau, high

    def watch(self, now: float) -> None:
        """Turn loose pages into near ones or let them sleep."""
        if not self._models:
            return
        seen = {row: model for row, model in self._models.items() if model[1].lasting}
        unseen = np.array([row for row in self._models if row not in seen], dtype=np.int64)
        self._models.clear()
        self._sweep.place(unseen, now)
        if seen:
            at, value, slope, bend, twist, error = np.array([(at, *look[:5]) for at, look in seen.values()]).T
            chart = Chart(at, value, slope, bend, twist, error + ROUNDING * value, np.full(len(seen), np.inf))
            self._sweep.put(np.fromiter(seen, dtype=np.int64, count=len(seen)), chart)

    def narrow(self, rows: Ints, now: float) -> tuple[Ints, float]:
        """Those of some pages that may be the best by a quick look, and what the best is worth at least."""
        if self._look is None or len(rows) > FEW:
            return rows, 0.0
        looks = []
        for page in self._pages.table[rows].tolist():
            value, _, _, _, error, _ = self._look(max(now - page[5], 0.0), 0.0, page[6], tuple(page[:5]))
            looks.append((value - error, value + error))
        low = max(looks)[0] * (1 - ROUNDING)
        kept = [row for row, (_, high) in zip(rows.tolist(), looks, strict=True) if high * (1 + ROUNDING) >= low]
        return np.array(kept), low

    def sharpen(self, rows: Ints, now: float) -> bool:
        """Whether better models could be had of those of some pages of which only a bracket is known.

        They are in the way of a decision, and would be at every slot of the block.
        """
        coarse = [row for row in rows.tolist() if row in self._models and not self._models[row][1].lasting]
        if not coarse or not self._moves:
            return False
        sharper = False
        chart = draw(self._valuation, self._pages, np.array(coarse), now, self._sweep.horizon)
        for row, (at, value, slope, bend, twist, error, until) in zip(coarse, np.array(chart).T.tolist(), strict=True):
            seen = Glimpse(value, slope, bend, twist, error, lasting=until == inf)
            sharper |= seen.lasting
            self._models[row] = at, seen
            self._hot.offer(row, int(self._pages.host[row]), at, float(self._pages.not_before[row]), seen)
        return sharper
