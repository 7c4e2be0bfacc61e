"""The facade: what the drivers say to the scheduler, in pages and sources rather than rows and boosts.

The life of a page: `add` puts it in; `pick` holds it; `settle` (we know what it is now) or `release` (we don't) gives
it back; `notice` counts a signal; `learn` takes over new estimates; `retire` takes it out. No verb awaits, so one
event loop needs no locks, and a page can never be fetched twice at once.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from crawld.choose.chooser import Bid, Chooser, Span
from crawld.choose.freshness import SKEW, Ages, mean_freshness, survival_of_one
from crawld.choose.page_table import HELD, WAITING, PageTable
from crawld.choose.sample import Believed
from crawld.choose.valuation import Beliefs, boost_by_signals, merged_beliefs
from crawld.model.estimate import AgeCurve, Estimate
from crawld.model.row_index import RowIndex
from crawld.model.signal import SOURCES


@dataclass(frozen=True)
class SchedulerLimits:
    """Numbers that bound and tune this module."""

    block: int = 1024
    looked_at: int = 65_536
    """Rows looked at to find some waiting pages: the slots must not wait for a look at a million."""
    aged_at_once: int = 16_384
    cost_memory: float = 0.3  # what the latest visit weighs in a page's requests per visit
    cost_step: float = 0.05  # a page this close to one request per visit costs one
    significance_step: float = 0.05  # by which share the significance of changes moves before a page is valued anew


LIMITS = SchedulerLimits()


# Samples of rows without looking at every row.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def some_waiting(pages: PageTable, now: float, most: int) -> Ints:
    """Some of the waiting pages, spread evenly: of those that may be asked by their own waits, if there are any."""
    step = max(1, pages.size // LIMITS.looked_at)
    waiting = np.flatnonzero(pages.state[: pages.size : step] == WAITING) * step
    free = waiting[pages.not_before[waiting] <= now]
    found = free if len(free) else waiting
    return found[:: max(1, -(-len(found) // most))]


class WeightedDraw:
    """Rows drawn by their weights; `weights(start, stop)` tells those of the rows in between, 0 for no row."""

    def __init__(self, weights: Callable[[int, int], Floats]) -> None:
        self._weights = weights
        self._sums = np.zeros(0)
        self._changed: set[int] = set()  # blocks whose sum is out of date

    def change(self, rows: Ints) -> None:
        """Note that the weights of these rows have changed."""
        if len(rows):
            self._grow(int(rows.max()) // LIMITS.block + 1)
            self._changed.update(np.unique(rows // LIMITS.block).tolist())

    def change_one(self, row: int) -> None:
        """Notes the same of one row, without numpy's overhead."""
        self._grow(row // LIMITS.block + 1)
        self._changed.add(row // LIMITS.block)

    def draw(self, uniform: float) -> int | None:
        """The row that a uniform number in [0, 1) falls on; None where no row has a weight."""
        for block in self._changed:
            self._sums[block] = self._of(block).sum()
        self._changed.clear()
        total = float(self._sums.sum())
        if total <= 0:
            return None
        block, rest = _find(self._sums, uniform * total)
        row, _ = _find(self._of(block), rest)
        return block * LIMITS.block + row

    def _of(self, block: int) -> Floats:
        return self._weights(block * LIMITS.block, (block + 1) * LIMITS.block)

    def _grow(self, blocks: int) -> None:
        if blocks > len(self._sums):
            self._sums = np.append(self._sums, np.zeros(blocks - len(self._sums)))


def _find(weights: Floats, goal: float) -> tuple[int, float]:
    """Finds where the cumulated weights pass the goal, at a weight above 0, and how far into that weight."""
    reached = np.cumsum(weights)
    last = int(np.flatnonzero(weights)[-1])  # rounding may put the goal behind it
    at = min(int(np.searchsorted(reached, goal, side="right")), last)
    return at, goal - float(reached[at] - weights[at])


Bools = NDArray[np.bool_]
NEVER = float("nan")
_S = len(SOURCES)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Pages to put in, as columns. Missing estimates are nan and are filled from `Scheduler.assumed`."""

    ids: Ints
    hosts: Ints
    importance: Floats
    last: Floats  # time of the last successful crawl, nan: never; values take none to be in the future
    signals: Ints | None = None  # (pages, sources), counted since then
    alpha: Floats | None = None  # mean of the posterior of α
    shape: Floats | None = None  # its shape; inf: α is known
    kappa: Floats | None = None  # (pages, sources)
    gamma: Floats | None = None  # (pages, sources)
    mixed: Floats | None = None  # (pages, 3): the last columns of `Beliefs`
    not_before: Floats | None = None
    gone: Bools | None = None  # whether that crawl found the page gone
    copied: Floats | None = None  # that time as it was recorded, even if our clock has been set back behind it


@dataclass(frozen=True, slots=True)
class Standing:
    """The scheduler's record of one page."""

    last: float
    signals: tuple[int, ...]
    alpha: float
    shape: float
    kappa: tuple[float, ...]
    gamma: tuple[float, ...]
    importance: float
    significance: float  # of a change, 1 being usual


class Scheduler:
    """Pages by id over a chooser's rows. `assumed` is (α, shape) of a page nothing is known of yet.

    Values and predicted freshness go by the same beliefs.
    """

    def __init__(self, chooser: Chooser, *, assumed: tuple[float, float] = (1.0 / 604800.0, 1.0)) -> None:
        self.chooser = chooser
        self.assumed = assumed
        self._pages = chooser.pages  # all that is kept of pages, by row
        self._row_of = RowIndex()
        self._ahead: dict[int, float] = {}  # row -> the last crawl as values take it, where recorded in the future
        self._ages = Ages()
        self._draw = WeightedDraw(self._audit_weights)
        self._held: dict[int, tuple[int, list[int]]] = {}  # by page: its row, and signals counted when it was picked
        self._leaving: dict[int, int] = {}  # pages retired while held, with their rows
        self._alias_of: dict[int, int] = {}  # pages that are other addresses, each with the page it stands for
        self._aliases: dict[int, set[int]] = {}  # the same by that page
        self._own: dict[int, float] = {}  # the importance of all of these by themselves

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, page_id: int) -> bool:
        return page_id in self._row_of

    # -- what drivers say -------------------------------------------------------------------------------------------

    def add(self, new: Arrivals) -> None:
        """Put pages in; those never crawled come first, by importance."""
        size = len(new.ids)
        if size == 0:
            return
        alpha = np.full(size, np.nan) if new.alpha is None else new.alpha
        shape = np.full(size, np.nan) if new.shape is None else new.shape
        unknown = np.isnan(alpha)
        alpha = np.where(unknown, self.assumed[0], alpha)
        shape = np.where(unknown, self.assumed[1], shape)
        count = np.zeros((size, _S), dtype=np.int64) if new.signals is None else new.signals
        kappa = np.zeros((size, _S)) if new.kappa is None else np.nan_to_num(new.kappa, nan=0.0, posinf=np.inf)
        gamma = np.zeros((size, _S)) if new.gamma is None else np.nan_to_num(new.gamma, nan=0.0)
        beliefs = merged_beliefs(new.importance, alpha, shape, kappa, gamma)
        if new.mixed is not None:
            beliefs = Beliefs(*beliefs[:5], *np.where(np.isnan(new.mixed), (1.0, 0.0, np.inf), new.mixed).T)
        rows = self.chooser.add(new.hosts, beliefs, new.last, boost_by_signals(count, kappa), new.not_before)
        pages, copied = self._pages, new.last if new.copied is None else new.copied
        pages.page_id[rows], pages.copied[rows], pages.importance[rows] = new.ids, copied, new.importance
        pages.gone[rows] = False if new.gone is None else new.gone
        pages.write_signals(rows, kappa, gamma, count)
        ahead = np.flatnonzero(copied > new.last)
        self._ahead.update(zip(rows[ahead].tolist(), new.last[ahead].tolist(), strict=True))
        self._row_of.put(new.ids, rows)
        self._draw.change(rows)
        if self._alias_of and (known := [i for i in new.ids.tolist() if i in self._own or i in self._aliases]):
            self._own.update(dict.fromkeys(known, 0.0))
            self.reweight(known, pages.importance[self._row_of.rows(known)])

    def reserve(self, pages: int) -> None:
        """Make room for that many pages."""
        self.chooser.reserve(pages)

    def look_over(self, now: float) -> Iterator[None]:
        """Prepare the first pick among pages that were put in, a few milliseconds at a time."""
        return self.chooser.look_over(now)

    def retire(self, page_ids: Sequence[int]) -> None:
        """Take pages out; one that is being fetched leaves for good when it is given back."""
        here = [page_id for page_id in page_ids if page_id in self._row_of]
        rows = self._row_of.rows(here)
        self._row_of.remove(np.array(here, dtype=np.int64))
        for page_id, row in zip(here, rows.tolist(), strict=True):
            self._ahead.pop(row, None)
            if self._held.pop(page_id, None) is not None:
                self._leaving[page_id] = row
        self.chooser.retire(rows)
        self._draw.change(rows)

    def merge(self, alias: int, of: int) -> None:
        """Let a page stand for another one, which weighs what the heavier weighs; it keeps its value to be checked by.

        An alias weighs nothing: neither freshness nor audits count it.
        """
        for page_id in (alias, of):
            if page_id in self._row_of:
                self._own.setdefault(page_id, float(self._pages.importance[self._row_of[page_id]]))
        self._alias_of[alias] = of
        self._aliases.setdefault(of, set()).add(alias)
        self._weigh((alias, of))

    def split(self, alias: int) -> None:
        """Let a page that stood for another one be a page of its own again."""
        of = self._alias_of.pop(alias)
        self._aliases[of].discard(alias)
        self._weigh((alias, of))
        for page_id in (alias, of):
            if not self._aliases.get(page_id):
                self._aliases.pop(page_id, None)
                if page_id not in self._alias_of:
                    self._own.pop(page_id, None)

    def alias_of(self, page_id: int) -> int | None:
        """The page that this one stands for."""
        return self._alias_of.get(page_id)

    def aliases_of(self, page_id: int) -> Sequence[int]:
        """The pages that stand for this one."""
        return sorted(self._aliases.get(page_id, ()))

    @property
    def documents(self) -> int:
        """Number of pages, other addresses of them left out."""
        return len(self._row_of) - sum(page_id in self._row_of for page_id in self._alias_of)

    def _weigh(self, page_ids: Sequence[int]) -> None:
        """Bring the weight of aliases and of the pages they stand for to what they weigh by themselves."""
        for page_id in page_ids:
            if page_id not in self._row_of or page_id not in self._own:
                continue
            own, alias = self._own[page_id], page_id in self._alias_of
            cost = self.cost_of(page_id)
            weight = max(own, *(self._own.get(one, 0.0) for one in self._aliases.get(page_id, ())), 0.0)
            rows = self._row_of.rows([page_id])
            self._pages.importance[rows] = 0.0 if alias else weight
            self._draw.change(rows)
            unit = own if alias else weight / (cost or 1.0)
            self.chooser.reweight(rows, unit * self._pages.significance[rows].astype(float))

    def reweight(self, page_ids: Sequence[int], importance: Floats) -> None:
        """Give pages a new importance."""
        if self._own and (known := [at for at, page_id in enumerate(page_ids) if page_id in self._own]):
            ids = [page_ids[at] for at in known]
            self._own.update(zip(ids, importance[known].tolist(), strict=True))
            self._weigh([*ids, *{self._alias_of[page_id] for page_id in ids if page_id in self._alias_of}])
            others = np.setdiff1d(np.arange(len(page_ids)), known)
            page_ids, importance = [page_ids[at] for at in others.tolist()], importance[others]
        rows = self._row_of.rows(page_ids)
        cost = np.array([self.cost_of(page_id) for page_id in page_ids])
        self._pages.importance[rows] = importance
        self._draw.change(rows)
        self.chooser.reweight(rows, importance * self._pages.significance[rows] / cost)

    def signify(self, page_ids: Sequence[int], significance: Floats) -> None:
        """Weigh a change of each page that is here by how much of its text changes, 1 being usual."""
        here = np.flatnonzero([page_id in self._row_of for page_id in page_ids])
        rows, wanted = self._row_of.rows(page_ids[at] for at in here.tolist()), significance[here]
        before = self._pages.significance[rows].astype(float)
        news = np.flatnonzero(np.abs(wanted - before) > LIMITS.significance_step * before)
        rows = rows[news]
        self._pages.significance[rows] = wanted[news]
        self.chooser.reweight(rows, self._pages.mu[rows] * self._pages.significance[rows] / before[news])

    def charge(self, page_id: int, requests: int) -> None:
        """Count what a visit cost: a page is worth its crawl value over its requests per visit, redirects included."""
        row, pages = self._row_of.get(page_id), self._pages
        if row is None or page_id in self._alias_of:
            return
        if requests == 1 and pages.mu.item(row) == pages.importance.item(row) * pages.significance.item(row):
            return
        if (before := self._cost(row)) == requests:
            return
        cost = before + LIMITS.cost_memory * (requests - before)
        rows = self._row_of.rows([page_id])
        weight = self._pages.importance[rows] * self._pages.significance[rows]
        self.chooser.reweight(rows, weight / (cost if abs(cost - 1.0) >= LIMITS.cost_step else 1.0))

    def cost_of(self, page_id: int) -> float:
        """Number of requests that a visit to the page takes, about."""
        return self._cost(self._row_of[page_id])

    def _cost(self, row: int) -> float:
        pages = self._pages
        mu: float = pages.mu.item(row)
        weight: float = pages.importance.item(row) * pages.significance.item(row)
        return round(weight / mu, 9) if mu > 0 else 1.0  # rounded so that one request is 1

    def weight_of(self, page_id: int) -> float:
        """The unit of the page's crawl value: its importance times the significance of its changes."""
        return float(self.importance_of([page_id])[0]) * float(self._pages.significance[self._row_of[page_id]])

    def pick(self, now: float) -> int | None:
        """The page most worth crawling now among those whose host may be asked, held until it is given back."""
        row = self.chooser.pick(now)
        if row is None:
            return None
        page_id: int = self._pages.page_id.item(row)
        self._held[page_id] = row, self._pages.count[row].tolist()
        return page_id

    def hold(self, page_id: int, now: float) -> bool:
        """Hold this very page, whatever its value (audits, second looks); False if it is held already."""
        row = self._row_of.get(page_id)
        if row is None or not self.chooser.hold(row, now):
            return False
        self._held[page_id] = row, self._pages.count[row].tolist()
        return True

    def settle(self, page_id: int, at: float, not_before: float = -np.inf, *, gone: bool = False) -> None:
        """Give back a page of which we know what it is as of `at`. Signals seen since it was picked still count."""
        held = self._held.pop(page_id, None)
        if held is None:
            self.chooser.settle(self._leaving.pop(page_id), at)
            return
        (row, known), pages = held, self._pages
        counted = pages.count[row].tolist()
        if any(counted):
            pages.count[row] = np.subtract(counted, known)
        if math.isnan(pages.copied.item(row)):
            self._draw.change_one(row)
        self._ahead.pop(row, None)
        pages.copied[row], pages.gone[row] = at, gone
        self.chooser.settle(row, at)
        if counted != known and (boost := self._boost_of(row)) > 0:
            self.chooser.notice(row, boost)
        if not_before > -np.inf:
            self.chooser.hold(row, at)
            self.chooser.release(row, not_before)

    def release(self, page_id: int, not_before: float = -np.inf, *, attempted: bool = True) -> None:
        """Give back a page of which nothing new is known, not to be picked before that time.

        Where an attempt was made, the minimum interval passes too.
        """
        held = self._held.pop(page_id, None)
        if held is None:
            self.chooser.release(self._leaving.pop(page_id), not_before, attempted=attempted)
            return
        row, known = held
        self.chooser.release(row, not_before, attempted=attempted)
        if known != self._pages.count[row].tolist():
            self.chooser.notice(row, self._boost_of(row))

    def lift(self, page_id: int, asked_at: float) -> None:
        """Let a page that waits after an attempt at that time wait no longer than the minimum interval."""
        row = self._row_of.get(page_id)
        if row is not None:
            self.chooser.lift(row, asked_at)

    def postpone(self, page_id: int, not_before: float, now: float) -> None:
        """Let a page that is here and not held wait until that time, whatever its value; inf: until it is held."""
        row = self._row_of.get(page_id)
        if row is not None and self.chooser.hold(row, now):
            self.chooser.release(row, not_before)

    def notice(self, page_id: int, source: int = 0) -> None:
        """Count a signal of that source (an index into SOURCES)."""
        row = self._row_of.get(page_id)
        if row is None:
            return
        self._pages.count[row, source] += 1
        if page_id not in self._held:
            self.chooser.notice(row, self._boost_of(row))

    def learn(self, estimates: Sequence[Estimate]) -> None:
        """Take over new estimates of pages that are still here."""
        rows = self._row_of.find(np.fromiter(map(attrgetter("page_id"), estimates), np.int64))
        here = rows >= 0
        if not here.any():
            return
        fields = attrgetter("shape", "rate", "kappa", "gamma", "heard", "deaf_alpha", "deaf_shape")
        columns = zip(*map(fields, compress(estimates, here.tolist())), strict=True)
        shape, rate, kappa, gamma, *mixed = map(np.array, columns)
        self._believe(rows[here], shape / rate, shape, kappa, gamma, np.column_stack(mixed))

    def teach(
        self,
        page_ids: Sequence[int],
        *,
        alpha: Floats,
        shape: Floats,
        kappa: Floats,
        gamma: Floats,
        mixed: Floats | None = None,
    ) -> None:
        """Take over beliefs as columns; `kappa` and `gamma` are (pages, sources), `mixed` (pages, 3)."""
        self._believe(self._row_of.rows(page_ids), alpha, shape, kappa, gamma, mixed)

    def _believe(
        self, rows: Ints, alpha: Floats, shape: Floats, kappa: Floats, gamma: Floats, mixed: Floats | None
    ) -> None:
        pages = self._pages
        pages.write_signals(rows, kappa, gamma)
        beliefs = merged_beliefs(pages.mu[rows], alpha, shape, kappa, gamma)
        if mixed is not None:
            beliefs = Beliefs(*beliefs[:5], *mixed.T)
        self.chooser.learn(rows, beliefs, boost_by_signals(pages.count[rows], kappa))

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Value copies made at `last` as if made at `since`, where no later crawl has come in between."""
        found = self._row_of.find(np.array(page_ids, dtype=np.int64))
        here = (found >= 0).nonzero()[0]
        rows = found[here]
        still = self._pages.copied[rows] <= last[here] + 1.0
        rows = rows[still]
        if len(rows):
            self.chooser.learn(rows, self._pages.beliefs(rows), self._pages.boost[rows], since[here][still])

    def set_age_curve(self, host: int, curve: AgeCurve | None) -> None:
        """Let the copies of a host's pages age by this curve; None: by plain time."""
        self._ages.put(host, curve)

    def change_bandwidth(self, rate: float, now: float) -> None:
        """Tell a policy that allots rates how much there is to allot; values do not depend on it."""
        self.chooser.change_bandwidth(rate, now)

    def bid(
        self, now: float, until: float, *, start: float | None = None, sent: float = 0.0, level: float = 0.0
    ) -> Bid:
        """Counts the pages that can be crawled in a round, by their worth at its end (`crawld.fleet.auction`).

        The round is from `start` (None: now) until `until`; so many requests are `sent` before it starts. `level` is
        what the last request of the round before was worth, where it is known.
        """
        return self.chooser.bid(Span(now, now if start is None else start, until, sent, level))

    # -- what drivers ask -------------------------------------------------------------------------------------------

    def standing(self, page_id: int) -> Standing | None:
        """Returns the record of a page, or None if it is not here."""
        row = self._row_of.get(page_id)
        if row is None:
            return None
        return Standing(
            last=self.last_success(page_id),
            signals=self.heard(page_id),
            alpha=float(self._pages.alpha[row]),
            shape=float(self._pages.shape[row]),
            kappa=tuple(self._pages.kappas[row].tolist()),
            gamma=tuple(self._pages.gammas[row].tolist()),
            importance=float(self._pages.importance[row]),
            significance=float(self._pages.significance[row]),
        )

    def gone(self, page_id: int) -> bool:
        """Tells whether the last successful crawl found the page gone."""
        row = self._row_of.get(page_id)
        return row is not None and bool(self._pages.gone[row])

    def freshness_of(self, page_id: int, now: float) -> float:
        """The probability that our copy of the page is what the page is now (`crawld.choose.freshness`)."""
        row = self._row_of[page_id]
        return self._freshness_of(row, self._boost_of(row), now) if self.dated(page_id, now) else 0.0

    def _freshness_of(self, row: int, boost: float, now: float) -> float:
        pages = self._pages
        _, alpha, shape, _, _, heard, deaf_alpha, deaf_shape, *_ = pages.table[row].tolist()
        age = 0.0 if pages.gone.item(row) else self._ages.of_one(pages.host.item(row), pages.copied.item(row), now)
        fresh = heard * math.exp(-boost) * survival_of_one(age, alpha, shape)
        deaf = (1.0 - heard) * survival_of_one(age, deaf_alpha, deaf_shape) if heard < 1 else 0.0
        return float(fresh + deaf)

    def before_crawl(self, page_id: int, at: float) -> tuple[float, float | None, tuple[int, ...]]:
        """Of a held page the last success, the freshness at `at` (None: unknown age) and the signals heard before."""
        held = self._held.get(page_id)
        if held is None:
            return NEVER, None, ()
        row, known = held
        copied: float = self._pages.copied.item(row)
        boost = self._boost_of(row, known) if any(known) else 0.0
        fresh = self._freshness_of(row, boost, at) if copied <= at + SKEW else None
        return self._ahead.get(row, copied), fresh, tuple(known)

    def dated(self, page_id: int, now: float) -> bool:
        """Tells whether the age of the copy is known; not where there is none, or the clock was set back since."""
        return bool(self._pages.copied[self._row_of[page_id]] <= now + SKEW)

    def heard(self, page_id: int) -> tuple[int, ...]:
        """The signals counted since the last success, by source; while the page is out, those known when it left."""
        if (held := self._held.get(page_id)) is not None:
            return tuple(held[1])
        row = self._row_of.get(page_id)
        return () if row is None else tuple(self._pages.count[row].tolist())

    def last_success(self, page_id: int) -> float:
        """Time of the page's last successful crawl, nan if never or not here."""
        row = self._row_of.get(page_id)
        return NEVER if row is None else self._ahead.get(row, self._pages.copied.item(row))

    def change_rate_of(self, page_id: int) -> float:
        """The rate at which the page is believed to change: α + Σγ(1 − e^−κ) as far as signals are heard."""
        row, pages = self._row_of[page_id], self._pages
        announced = -(pages.gammas[row] * np.expm1(-pages.kappas[row])).sum()
        heard = float(pages.heard[row])
        deaf = (1.0 - heard) * float(pages.deaf_alpha[row]) if heard < 1 else 0.0
        return heard * float(pages.alpha[row] + announced) + deaf

    def held(self, page_id: int) -> bool:
        """Tells whether the page is out being crawled."""
        return page_id in self._held

    def waits_until(self, page_id: int) -> float:
        """The time before which the page is not picked, whatever its value."""
        return float(self._pages.not_before[self._row_of[page_id]])

    def ids(self) -> Ints:
        """The ids of all pages. For any thread."""
        return np.asarray(self._pages.page_id[self._pages.present()])

    def some_waiting(self, now: float, most: int) -> list[int]:
        """Some of the waiting pages, of those that may be asked by their own waits if there are any."""
        return [int(page_id) for page_id in self._pages.page_id[some_waiting(self._pages, now, most)]]

    def importance_of(self, page_ids: Sequence[int]) -> Floats:
        """Weights of pages now, each by itself."""
        weights = np.asarray(self._pages.importance[self._row_of.rows(page_ids)])
        for at, page_id in enumerate(page_ids) if self._own else ():
            weights[at] = self._own.get(page_id, weights[at])
        return weights

    def expected_at(self, page_id: int, now: float) -> float:
        """Time at which the page will be picked if nothing changes, its host aside; now while it is out."""
        row = self._row_of[page_id]
        return now if page_id in self._held else float(self.chooser.expected_of(np.array([row]), now)[0])

    def value_of(self, page_id: int, now: float) -> float:
        """The crawl value of a page now."""
        return float(self.chooser.value_of(self._row_of.rows([page_id]), now)[0])

    def worth(self, page_ids: Sequence[int], now: float) -> tuple[Floats, Floats]:
        """The crawl values and the freshness of pages; 0 and 1 of one that is not here, so that none waits for it."""
        value, fresh = np.zeros(len(page_ids)), np.ones(len(page_ids))
        here = np.array([page_id in self._row_of for page_id in page_ids], dtype=np.bool_)
        rows = self._row_of.rows(page_id for page_id in page_ids if page_id in self._row_of)
        value[here], fresh[here] = self.chooser.value_of(rows, now), self._freshness(rows, now)
        return value, fresh

    def total_weight(self) -> float:
        """The importance of all pages together."""
        return float(self._pages.importance[self._pages.present()].sum())

    def standings(self, page_ids: Sequence[int], now: float) -> tuple[Ints, Floats, Floats, Ints]:
        """Of the pages that are here: ids, freshness, when each is expected to be picked, and hosts. For any thread."""
        rows = np.array([row for i in page_ids if (row := self._row_of.get(i)) is not None], dtype=np.int64)
        expected = self.chooser.expected_of(rows, now) if len(rows) else np.zeros(0)
        pages = self._pages
        return pages.page_id[rows], self._freshness(rows, now), expected, pages.host[rows].astype(np.int64)

    def freshness_of_all(self, now: float) -> tuple[Ints, Floats, Floats]:
        """Ids, freshness and importance of all pages. For any thread: a page may be seen half-way through a change."""
        rows = self._pages.present()
        return self._pages.page_id[rows], self._freshness(rows, now), self._pages.importance[rows]

    def predicted_freshness(self, now: float) -> float | None:
        """The importance-weighted mean freshness of all pages now; None without pages that weigh anything."""
        _, fresh, weights = self.freshness_of_all(now)
        total = float(np.sum(weights))
        return float(np.sum(weights * fresh)) / total if total > 0 else None

    def believed(self, now: float) -> Believed:
        """Columns of all pages that a forecast needs: copies, which another thread may read."""
        pages = self._pages
        waiting = np.isnan(pages.copied[: pages.size]) & (pages.not_before[: pages.size] > now)
        return Believed(
            hosts=pages.host,
            importance=pages.importance,
            beliefs=Beliefs(*(getattr(pages, name) for name in Beliefs._fields)),
            gone=pages.gone,
            closed=waiting,
            rows=pages.present(),
        )

    def draw(self, uniform: float) -> int | None:
        """A page that has a copy, drawn by importance with a uniform number: for audits."""
        row = self._draw.draw(uniform)
        return None if row is None else int(self._pages.page_id[row])

    def _audit_weights(self, start: int, stop: int) -> Floats:
        """The importance of the pages in these rows, 0 where there is none or it has no copy."""
        rows = slice(start, min(stop, self._pages.size))
        state = self._pages.state[rows]
        there = ((state == WAITING) | (state == HELD)) & ~np.isnan(self._pages.copied[rows])
        return np.where(there, self._pages.importance[rows], 0.0)

    def _boost_of(self, row: int, counts: Sequence[int] | None = None) -> float:
        """Σκn of one page, by the signals counted so far unless others are given; without numpy's overhead."""
        boost = 0.0
        counts = self._pages.count[row].tolist() if counts is None else counts
        for count, kappa in zip(counts, self._pages.kappas[row].tolist(), strict=True):
            if count:
                boost += count * kappa
        return boost

    # -- within -----------------------------------------------------------------------------------------------------

    def _freshness(self, rows: Ints, now: float) -> Floats:
        """The freshness of pages, some at a time: all columns of a million pages at once would take 300 MB."""
        parts = range(0, len(rows), LIMITS.aged_at_once)
        return np.concatenate([np.zeros(0), *(self._aged(rows[at : at + LIMITS.aged_at_once], now) for at in parts)])

    def _aged(self, rows: Ints, now: float) -> Floats:
        fresh, pages = np.zeros(len(rows)), self._pages
        known = np.flatnonzero(pages.copied[rows] <= now + SKEW)
        rows = rows[known]
        age = self._ages.of(pages.host[rows].astype(np.int64), pages.copied[rows], now)
        age[pages.gone[rows]] = 0.0
        boost = boost_by_signals(pages.count[rows], pages.kappas[rows])
        fresh[known] = mean_freshness(age, boost, pages.beliefs(rows))
        return fresh
