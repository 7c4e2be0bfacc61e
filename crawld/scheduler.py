"""The facade: what the drivers say to the scheduler, in pages and sources rather than rows and boosts.

The life of a page: `add` puts it in; `pick` holds it; `settle` (we know what it is now) or `release` (we don't) gives
it back; `notice` counts a signal; `learn` takes over new estimates; `retire` takes it out. No verb awaits, so one
event loop needs no locks, and a page can never be fetched twice at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.forecast.sample import Believed
from crawld.frontier.chooser import Chooser
from crawld.frontier.page_table import HELD, WAITING
from crawld.frontier.weighted_draw import WeightedDraw
from crawld.learning.freshness import SKEW, Ages, survival, survival_of_one
from crawld.model.age_curve import AgeCurve
from crawld.model.estimate import Estimate
from crawld.model.signal import SOURCES
from crawld.value.valuation import Beliefs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NEVER = float("nan")
_S = len(SOURCES)
COST_MEMORY = 0.3  # what the latest visit weighs in a page's requests per visit
COST_STEP = 0.05  # a page this close to one request per visit costs one
LARGEST_KAPPA = 50.0  # beyond it a signal is certain to 1e-21


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
    not_before: Floats | None = None
    gone: Bools | None = None  # whether that crawl found the page gone
    copied: Floats | None = None  # that time as it was recorded, even if our clock has been set back behind it


@dataclass(frozen=True, slots=True)
class Standing:
    """What the scheduler holds of one page."""

    last: float
    signals: tuple[int, ...]
    alpha: float
    shape: float
    kappa: tuple[float, ...]
    gamma: tuple[float, ...]
    importance: float


class Scheduler:
    """Pages by id over a chooser's rows. `assumed` is (α, shape) of a page nothing is known of yet.

    Values are taken over posteriors of a shape of at most `most_shape`, or what `learn` said since: at 1 no page is
    ever given up, and rates that drift are found out (docs/method.md, Estimation). Predicted freshness goes by the
    posterior as it is.
    """

    def __init__(
        self,
        chooser: Chooser,
        *,
        assumed: tuple[float, float] = (1.0 / 604800.0, 1.0),
        most_shape: float = np.inf,
    ) -> None:
        self.chooser = chooser
        self.assumed = assumed
        self._most_shape = most_shape
        self._row_of: dict[int, int] = {}
        self._id = np.empty(0, dtype=np.int64)
        self._last = np.empty(0)
        self._copied = np.empty(0)  # the same as recorded, which may lie in the future
        self._gone = np.empty(0, dtype=bool)
        self._importance = np.empty(0)
        self._cost = np.empty(0)  # requests per visit: the page table has importance per request
        self._shape = np.empty(0)  # as learnt; the page table has what values are taken over
        self._most = np.empty(0)  # the largest shape that values are taken over
        self._count = np.empty((0, _S), dtype=np.int64)
        self._kappa = np.empty((0, _S))
        self._gamma = np.empty((0, _S))
        self._ages = Ages()
        self._draw = WeightedDraw(self._audit_weights)
        self._held: dict[int, tuple[int, ...]] = {}  # row -> signals counted when it was picked
        self._leaving: dict[int, int] = {}  # pages retired while held, with their rows

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
        beliefs = _beliefs(new.importance, alpha, _cautious(shape, self._most_shape), kappa, gamma)
        rows = self.chooser.add(new.hosts, beliefs, new.last, _boost(count, kappa), new.not_before)
        self._grow(int(rows.max()) + 1)
        self._id[rows], self._last[rows] = new.ids, new.last
        self._importance[rows], self._cost[rows] = new.importance, 1.0
        self._copied[rows] = new.last if new.copied is None else new.copied
        self._gone[rows] = False if new.gone is None else new.gone
        self._shape[rows], self._most[rows] = shape, self._most_shape
        self._count[rows], self._kappa[rows], self._gamma[rows] = count, kappa, gamma
        self._row_of.update(zip(new.ids.tolist(), rows.tolist(), strict=True))
        self._draw.change(rows)

    def retire(self, page_ids: Sequence[int]) -> None:
        """Take pages out; one that is being fetched leaves for good when it is given back."""
        here = [page_id for page_id in page_ids if page_id in self._row_of]
        rows = self._rows(here)
        for page_id in here:
            row = self._row_of.pop(page_id)
            if self._held.pop(row, None) is not None:
                self._leaving[page_id] = row
        self.chooser.retire(rows)
        self._draw.change(rows)

    def reweight(self, page_ids: Sequence[int], importance: Floats) -> None:
        """Give pages a new importance."""
        rows = self._rows(page_ids)
        self._importance[rows] = importance
        self._draw.change(rows)
        self.chooser.reweight(rows, importance / self._cost[rows])

    def charge(self, page_id: int, requests: int) -> None:
        """Count what a visit cost: a page is worth its crawl value over its requests per visit, redirects included."""
        row = self._row_of.get(page_id)
        if row is None or (before := float(self._cost[row])) == requests:
            return
        cost = before + COST_MEMORY * (requests - before)
        self._cost[row] = cost if abs(cost - 1.0) >= COST_STEP else 1.0
        rows = np.array([row])
        self.chooser.reweight(rows, self._importance[rows] / self._cost[rows])

    def cost_of(self, page_id: int) -> float:
        """How many requests a visit to the page takes, about."""
        return float(self._cost[self._row_of[page_id]])

    def pick(self, now: float) -> int | None:
        """The page most worth crawling now among those whose host may be asked, held until it is given back."""
        row = self.chooser.pick(now)
        if row is None:
            return None
        self._held[row] = tuple(self._count[row].tolist())
        return int(self._id[row])

    def hold(self, page_id: int, now: float) -> bool:
        """Hold this very page, whatever its value (audits, second looks); False if it is held already."""
        row = self._row_of.get(page_id)
        if row is None or not self.chooser.hold(row, now):
            return False
        self._held[row] = tuple(self._count[row].tolist())
        return True

    def settle(self, page_id: int, at: float, not_before: float = -np.inf, *, gone: bool = False) -> None:
        """Give back a page of which we know what it is as of `at`. Signals seen since it was picked still count."""
        row = self._row_of.get(page_id)
        if row is None:
            self.chooser.settle(self._leaving.pop(page_id), at)
            return
        if any(known := self._held.pop(row)):
            self._count[row] -= np.array(known, dtype=np.int64)
        if math.isnan(self._last[row]):
            self._draw.change(np.array([row]))
        self._last[row] = self._copied[row] = at
        self._gone[row] = gone
        self.chooser.settle(row, at)
        if (boost := self._boost_of(row)) > 0:
            self.chooser.notice(row, boost)
        if not_before > -np.inf:
            self.chooser.hold(row, at)
            self.chooser.release(row, not_before)

    def release(self, page_id: int, not_before: float = -np.inf) -> None:
        """Give back a page of which nothing new is known, not to be picked before that time."""
        row = self._row_of.get(page_id)
        if row is None:
            row = self._leaving.pop(page_id)
        else:
            self._held.pop(row)
        self.chooser.release(row, not_before)

    def lift(self, page_id: int, asked_at: float) -> None:
        """Let a page that waits after an attempt at that time wait no longer than the minimum interval."""
        row = self._row_of.get(page_id)
        if row is not None:
            self.chooser.lift(row, asked_at)

    def notice(self, page_id: int, source: int = 0) -> None:
        """Count a signal of that source (an index into SOURCES)."""
        row = self._row_of.get(page_id)
        if row is None:
            return
        self._count[row, source] += 1
        if row not in self._held:
            self.chooser.notice(row, self._boost_of(row))

    def learn(self, estimates: Sequence[Estimate], most_shape: Floats | None = None) -> None:
        """Take over new estimates of pages that are still here, and how far their shapes are to be believed."""
        here = [at for at, e in enumerate(estimates) if e.page_id in self._row_of]
        known = [estimates[at] for at in here]
        if known:
            if most_shape is not None:
                self._most[self._rows([e.page_id for e in known])] = most_shape[here]
            self.teach(
                [e.page_id for e in known],
                alpha=np.array([e.alpha for e in known]),
                shape=np.array([e.shape for e in known]),
                kappa=np.array([e.kappa for e in known]),
                gamma=np.array([e.gamma for e in known]),
            )

    def teach(self, page_ids: Sequence[int], *, alpha: Floats, shape: Floats, kappa: Floats, gamma: Floats) -> None:
        """Take over beliefs as columns; `kappa` and `gamma` are (pages, sources)."""
        rows = self._rows(page_ids)
        self._shape[rows], self._kappa[rows], self._gamma[rows] = shape, kappa, gamma
        beliefs = _beliefs(self.chooser.pages.mu[rows], alpha, _cautious(shape, self._most[rows]), kappa, gamma)
        self.chooser.learn(rows, beliefs, _boost(self._count[rows], kappa))

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Value copies made at `last` as if made at `since`, where no later crawl has come in between."""
        here = [at for at, page_id in enumerate(page_ids) if page_id in self._row_of]
        rows = self._rows([page_ids[at] for at in here])
        still = self._last[rows] <= last[here] + 1.0
        rows, shifted = rows[still], since[here][still]
        if len(rows) == 0:
            return
        kappa = self._kappa[rows]
        shape = _cautious(self._shape[rows], self._most[rows])
        beliefs = _beliefs(self.chooser.pages.mu[rows], self.chooser.pages.alpha[rows], shape, kappa, self._gamma[rows])
        self.chooser.learn(rows, beliefs, _boost(self._count[rows], kappa), shifted)

    def age_by(self, host: int, curve: AgeCurve | None) -> None:
        """Let the copies of a host's pages age by this curve; None: by plain time."""
        self._ages.put(host, curve)

    def change_bandwidth(self, rate: float, now: float) -> None:
        """Tell a policy that allots rates how much there is to allot; values do not depend on it."""
        self.chooser.change_bandwidth(rate, now)

    # -- what drivers ask -------------------------------------------------------------------------------------------

    def standing(self, page_id: int) -> Standing | None:
        """What is held of a page, or None if it is not here."""
        row = self._row_of.get(page_id)
        if row is None:
            return None
        return Standing(
            last=float(self._last[row]),
            signals=self._held.get(row, tuple(self._count[row].tolist())),
            alpha=float(self.chooser.pages.alpha[row]),
            shape=float(self._shape[row]),
            kappa=tuple(self._kappa[row].tolist()),
            gamma=tuple(self._gamma[row].tolist()),
            importance=float(self._importance[row]),
        )

    def freshness_of(self, page_id: int, now: float) -> float:
        """The probability that our copy of the page is what the page is now (`crawld.learning.freshness`)."""
        row = self._row_of[page_id]
        copied = float(self._copied[row])
        if not copied <= now + SKEW:
            return 0.0
        doubt = math.exp(-self._boost_of(row))
        if self._gone[row]:
            return doubt
        age = self._ages.of_one(int(self.chooser.pages.host[row]), copied, now)
        return doubt * survival_of_one(age, float(self.chooser.pages.alpha[row]), float(self._shape[row]))

    def dated(self, page_id: int, now: float) -> bool:
        """Whether we know how old the copy is; not where there is none, or one from after the clock was set back."""
        return bool(self._copied[self._row_of[page_id]] <= now + SKEW)

    def heard(self, page_id: int) -> tuple[int, ...]:
        """The signals counted since the last success, by source; while the page is out, those known when it left."""
        row = self._row_of.get(page_id)
        return () if row is None else self._held.get(row) or tuple(self._count[row].tolist())

    def last_success(self, page_id: int) -> float:
        """When the page was last crawled with success, nan if never or not here."""
        row = self._row_of.get(page_id)
        return NEVER if row is None else float(self._last[row])

    def held(self, page_id: int) -> bool:
        """Whether the page is out being crawled."""
        return self._row_of[page_id] in self._held

    def waits_until(self, page_id: int) -> float:
        """The time before which the page is not picked, whatever its value."""
        return float(self.chooser.pages.not_before[self._row_of[page_id]])

    def some_waiting(self, now: float, most: int) -> list[int]:
        """Some of the waiting pages, of those that may be asked by their own waits if there are any."""
        return [int(page_id) for page_id in self._id[self.chooser.pages.some(now, most)]]

    def importance_of(self, page_ids: Sequence[int]) -> Floats:
        """What pages weigh now."""
        return np.asarray(self._importance[self._rows(page_ids)])

    def expected_at(self, page_id: int, now: float) -> float:
        """When the page will be picked if nothing changes, its host aside; now while it is out being crawled."""
        row = self._row_of[page_id]
        return now if row in self._held else float(self.chooser.expected_of(np.array([row]), now)[0])

    def value_of(self, page_id: int, now: float) -> float:
        """The crawl value of a page now."""
        return float(self.chooser.value_of(self._rows([page_id]), now)[0])

    def standings(self, page_ids: Sequence[int], now: float) -> tuple[Ints, Floats, Floats, Ints]:
        """Of the pages that are here: ids, freshness, when each is expected to be picked, and hosts. For any thread."""
        rows = np.array([row for i in page_ids if (row := self._row_of.get(i)) is not None], dtype=np.int64)
        expected = self.chooser.expected_of(rows, now) if len(rows) else np.zeros(0)
        return self._id[rows], self._freshness(rows, now), expected, self.chooser.pages.host[rows].astype(np.int64)

    def freshness_of_all(self, now: float) -> tuple[Ints, Floats, Floats]:
        """Ids, freshness and importance of all pages. For any thread: a page may be seen half-way through a change."""
        rows = self.chooser.pages.present()
        rows = rows[rows < len(self._gamma)]  # the last column that grows where pages come in just now
        return self._id[rows], self._freshness(rows, now), self._importance[rows]

    def predicted_freshness(self, now: float) -> float | None:
        """The importance-weighted mean freshness of all pages now; None without pages that weigh anything."""
        _, fresh, weights = self.freshness_of_all(now)
        total = float(np.sum(weights))
        return float(np.sum(weights * fresh)) / total if total > 0 else None

    def believed(self, now: float) -> Believed:
        """What a forecast needs of all pages: columns of ours, which another thread may read."""
        pages = self.chooser.pages
        waiting = np.isnan(self._copied[: pages.size]) & (pages.not_before[: pages.size] > now)
        return Believed(
            hosts=pages.host,
            importance=self._importance,
            beliefs=Beliefs(pages.mu, pages.alpha, pages.shape, pages.kappa, pages.gamma),
            shape=self._shape,
            gone=self._gone,
            closed=waiting,
            rows=pages.present(),
        )

    def draw(self, uniform: float) -> int | None:
        """A page that has a copy, drawn by importance with a uniform number: for audits."""
        row = self._draw.draw(uniform)
        return None if row is None else int(self._id[row])

    def _audit_weights(self, start: int, stop: int) -> Floats:
        """The importance of the pages in these rows, 0 where there is none or it has no copy."""
        state = self.chooser.pages.state[start : min(stop, self.chooser.pages.size)]
        rows = slice(start, start + len(state))
        there = ((state == WAITING) | (state == HELD)) & ~np.isnan(self._last[rows])
        return np.where(there, self._importance[rows], 0.0)

    def _boost_of(self, row: int) -> float:
        """Σκn of one page, without numpy's overhead."""
        counts = self._count[row].tolist()
        if not any(counts):
            return 0.0
        boost = 0.0
        for count, kappa in zip(counts, self._kappa[row].tolist(), strict=True):
            if count:
                boost += count * kappa
        return boost

    # -- within -----------------------------------------------------------------------------------------------------

    def _rows(self, page_ids: Sequence[int]) -> Ints:
        return np.fromiter((self._row_of[i] for i in page_ids), dtype=np.int64, count=len(page_ids))

    def _freshness(self, rows: Ints, now: float) -> Floats:
        fresh = np.zeros(len(rows))
        known = np.flatnonzero(self._copied[rows] <= now + SKEW)
        rows = rows[known]
        age = self._ages.of(self.chooser.pages.host[rows].astype(np.int64), self._copied[rows], now)
        alive = np.where(self._gone[rows], 1.0, survival(age, self.chooser.pages.alpha[rows], self._shape[rows]))
        fresh[known] = alive * np.exp(-_boost(self._count[rows], self._kappa[rows]))
        return fresh

    def _grow(self, size: int) -> None:
        have = len(self._id)
        if size <= have:
            return
        more = max(size, have + have // 2) - have
        for name in (
            "_id",
            "_last",
            "_copied",
            "_gone",
            "_importance",
            "_cost",
            "_shape",
            "_most",
            "_count",
            "_kappa",
            "_gamma",
        ):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros((more, *column.shape[1:]), dtype=column.dtype)]))


def _cautious(shape: Floats, most: Floats | float) -> Floats:
    """Shapes as values take them; what is known for certain stays certain."""
    return np.asarray(np.where(np.isinf(shape), shape, np.minimum(shape, most)))


def _boost(count: Ints, kappa: Floats) -> Floats:
    """Σκn over the sources, with inf where a signal that never lies was seen (and 0·inf = 0)."""
    boost: Floats = (np.where(count > 0, kappa, 0.0) * count).sum(axis=-1)
    return boost


def _beliefs(mu: Floats, alpha: Floats, shape: Floats, kappa: Floats, gamma: Floats) -> Beliefs:
    """One κ and γ a page: those of its only useful source, or the pair that stands for several.

    Staleness itself always counts every source by its own κ (`_boost`). Only the pace at which further signals are
    expected is taken from one pair, chosen to keep the total change rate Δ and the drift α + Σγκ: over random pairs of
    sources the crawl value is then off by 1 % on average (docs/method.md, Several sources).
    """
    useful = (kappa > 0) & (gamma > 0)
    rate = np.where(useful, gamma, 0.0).sum(axis=-1)
    single = np.where(useful, kappa, 0.0).sum(axis=-1)
    several = useful.sum(axis=-1) > 1
    if several.any():
        single[several], rate[several] = _merged(kappa[several], np.where(useful, gamma, 0.0)[several])
    return Beliefs(mu=mu, alpha=alpha, shape=shape, kappa=single, gamma=rate)


def _merged(kappa: Floats, gamma: Floats) -> tuple[Floats, Floats]:
    """κ and γ of one source with the same γ(1 − e^−κ) and γκ as these several, by bisection."""
    finite = np.minimum(kappa, LARGEST_KAPPA)
    drift, true = (gamma * finite).sum(axis=-1), (-np.expm1(-finite) * gamma).sum(axis=-1)
    low, high = finite.min(axis=-1), finite.max(axis=-1)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = -np.expm1(-middle) * drift > true * middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    kappa_one = np.maximum(0.5 * (low + high), np.finfo(float).tiny)
    return kappa_one, drift / kappa_one
