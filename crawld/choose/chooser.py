"""The contract of choosers of the page for a slot, with the verbs that all of them share."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crawld.choose.bounds import GONE, Bounds, Candidates
from crawld.choose.host_gate import HostGate
from crawld.choose.page_table import WAITING, Intervals, Ints, PageTable
from crawld.choose.valuation import Beliefs, Floats, Valuation


@dataclass(frozen=True)
class ChooserLimits:
    """Numbers that bound and tune this module."""

    levels_per_octave: int = 8
    """Levels of crawl value that bids count by: level j is 2 ** (j / LEVELS_PER_OCTAVE), the same for everyone."""
    lowest: int = -128
    highest: int = 128
    """Octaves of crawl value that are told apart; what is worth less is not bid for, what is worth more counts as
    this."""
    rounding: float = 1e-9  # how far a span may exceed a whole number of delays
    near: int = 2048  # pages evaluated, of those that may reach the level and of the others: some 10 ms
    far: int = 512
    coveted: float = (
        20.0  # times the level: pages worth more, of a host that may not be asked more often, are worth waiting for
    )
    sharp: float = 0.01  # relative: how well a model must know a value for it to be counted without evaluating it
    turn: int = 10  # a maximum interval that cannot be kept costs no more than one pick in so many (docs/method.md)


LIMITS = ChooserLimits()


# Pages that come before valued ones: never crawled, or, in their turn, waiting longer than the maximum interval.

ABSENT = 0
NO_PAGE = (np.inf, 0.0, -1)  # due, -importance, row


class DueFirst:
    """The pages that are due, by host."""

    def __init__(self, pages: PageTable) -> None:
        self._pages = pages
        self.mark: NDArray[np.int32] = np.zeros(0, dtype=np.int32)  # the run in which each page stands
        self._runs: dict[int, list[tuple[int, NDArray[np.int32]]]] = {}  # its number; rows sorted, the best last
        self._last_run = ABSENT
        self._first = np.zeros((3, 0))  # by host: due, -importance and row of its first page
        self.count = 0

    def holds(self, row: int) -> bool:
        """Tells whether the page stands here."""
        return row < len(self.mark) and self.mark.item(row) != ABSENT

    def insert(self, rows: Ints) -> None:
        """Take in due pages."""
        if not len(rows):
            return
        if rows.max() >= len(self.mark):
            self.mark = np.concatenate([self.mark, np.zeros(len(self._pages.state) - len(self.mark), np.int32)])
        assert not self.mark[rows].any(), "a page is due only once"
        self.count += len(rows)
        self._last_run += 1
        due = self._sorted(rows.astype(np.int32))
        self.mark[due] = self._last_run
        hosts, starts = np.unique(self._pages.host[due], return_index=True)
        for host, run in zip(hosts.tolist(), np.split(due, starts[1:]), strict=True):
            self._add_run(host, run)
            self._renew(host)

    def remove(self, row: int) -> None:
        """Take a page out, if it stands here."""
        if self.holds(row):
            self.mark[row] = ABSENT
            self.count -= 1
            host = int(self._pages.host[row])
            if self._first[2, host] == row:
                self._renew(host)

    def best(self, now: float, ready_at: Floats | None) -> int | None:
        """The first of the due pages whose host may be asked now."""
        due, rank, row = self._first
        if ready_at is not None:
            known = min(len(due), len(ready_at))
            due = np.where(ready_at[:known] <= now, due[:known], np.inf)
        least = due.min(initial=np.inf)
        if not self.count or least == np.inf:
            return None
        hosts = np.flatnonzero(due == least)
        hosts = hosts[rank[hosts] == rank[hosts].min()]
        return int(row[hosts].min())

    def _add_run(self, host: int, run: NDArray[np.int32]) -> None:
        """Add a run, joined with those before it that are no longer: a host has few, however often pages come."""
        runs = self._runs.setdefault(host, [])
        joined = run
        while runs and len(runs[-1][1]) <= len(joined):
            number, other = runs.pop()
            joined = np.concatenate([joined, other[self.mark[other] == number]])
        if len(joined) > len(run):
            joined = self._sorted(joined)
            self.mark[joined] = self._last_run
        runs.append((self._last_run, joined))

    def _sorted(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """The rows by host, the best of each last."""
        due, rank = self._keys(rows)
        return rows[np.lexsort((-rows, -rank, -due, self._pages.host[rows]))]

    def _keys(self, rows: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Sort keys of pages, before their rows."""
        due = self._pages.due[rows]
        return due, np.where(due == -np.inf, -self._pages.mu[rows], 0.0)

    def _renew(self, host: int) -> None:
        """Find the first page of a host again, dropping entries that are no longer good."""
        kept = []
        for number, run in self._runs.pop(host, ()):
            end = len(run)
            while end and self.mark[run[end - 1]] != number:
                end -= 1
            if end:
                kept.append((number, run[:end]))
        if kept:
            self._runs[host] = kept
        if host >= self._first.shape[1]:
            more = np.repeat(np.array([NO_PAGE]).T, max(16, 2 * host) - self._first.shape[1], axis=1)
            self._first = np.hstack([self._first, more])
        ends = np.array([run[-1] for _, run in kept], dtype=np.int32)
        keys = zip(*(key.tolist() for key in (*self._keys(ends), ends)), strict=True)
        self._first[:, host] = min(keys, default=NO_PAGE)


# What a chooser's pages will be worth by some time, counted by level: a worker's bid in a round (docs/fleet.md).


@dataclass(frozen=True, slots=True)
class Bid:
    """Number of requests a worker can use in a round, by their worth at the round's end.

    `first` pages come before all valued ones. `counts[i]` valued pages are worth at least level `top - i`, so counts
    never fall. No more is counted of a host than it may be asked in a round.
    """

    first: int = 0
    top: int = 0
    counts: tuple[int, ...] = ()
    held_up: tuple[int, ...] = field(default=(), compare=False)
    """Hosts of the bidder that have more pages worth asking for than politeness allows: their gates are waited for."""


@dataclass(frozen=True, slots=True)
class Span:
    """The round that is bid for, from `start` until `until`, as seen from `now`."""

    now: float
    start: float
    until: float
    sent: float = 0.0  # requests that leave before it starts
    level: float = 0.0  # what the last request of a round was worth, of late; 0: not known


@dataclass(frozen=True, slots=True)
class WantedPages:
    """The pages that may be picked by some time, as far as their own waits say."""

    due: Ints  # by host: pages never crawled, which come before all valued ones
    hosts: NDArray[np.int32]  # of the valued pages that were looked at
    values: Floats
    weights: Floats


def all_wanted(pages: PageTable, valuation: Valuation | None, until: float) -> WantedPages:
    """Look at every page; without a valuation all are worth the same."""
    rows = np.flatnonzero((pages.state[: pages.size] == WAITING) & (pages.not_before[: pages.size] <= until))
    never = np.isnan(pages.last[rows])
    due, rows = np.bincount(pages.host[rows[never]], minlength=len(pages.crowd)), rows[~never]
    values = np.ones(len(rows)) if valuation is None else pages.values(valuation, rows, until)
    return WantedPages(due, pages.host[rows], values, np.ones(len(rows)))


def some_wanted(bounds: Bounds, changed: Collection[int], due: DueFirst, until: float) -> WantedPages:
    """Read the models of a frontier's candidates, and evaluate some of its other pages.

    `changed` are pages that are neither bounded nor candidates nor known to be never crawled.
    """
    pages = bounds.pages
    rows, values, blurred = _modelled(bounds.candidates, until)
    bounded = bounds.ceiling >= 0
    reach = bounded & ((bounds.expiry <= until) | (bounds.ceiling >= bounds.level))
    near = np.concatenate([np.flatnonzero(reach), blurred, np.fromiter(changed, np.int64, len(changed))])
    looked_at, weights = [rows], [np.ones(len(rows))]
    for some, most in ((near, LIMITS.near), (np.flatnonzero(bounded ^ reach), LIMITS.far)):
        taken = some[:: max(1, -(-len(some) // most))]
        looked_at.append(taken)
        weights.append(np.full(len(taken), len(some) / max(1, len(taken))))
    row, weight = np.concatenate(looked_at), np.concatenate(weights)
    value = np.concatenate([values, pages.values(bounds.valuation, row[len(rows) :], until)])
    waits, never = pages.not_before[row] > until, np.isnan(pages.last[row])
    come, new = row[never & ~waits], np.flatnonzero(due.mark)
    first = np.bincount(pages.host[new[np.isnan(pages.last[new])]], minlength=len(pages.crowd))
    first += np.rint(np.bincount(pages.host[come], weight[never & ~waits], len(pages.crowd))).astype(np.int64)
    valued = ~(never | waits)
    return WantedPages(first, pages.host[row[valued]], value[valued], weight[valued])


def _modelled(candidates: Candidates, until: float) -> tuple[Ints, Floats, Ints]:
    """Candidates with what they will be worth, as far as models know it to `SHARP`, and the others."""
    at, value, slope, bend, twist, _, not_before = candidates.models()
    places = np.flatnonzero((not_before <= until) & (value > GONE))
    ahead = np.maximum(until - at[places], 0.0)
    values = value[places] + ahead * (slope[places] + ahead * bend[places])
    sharp = twist[places] * ahead**3 <= LIMITS.sharp * values
    return candidates.row[places[sharp]], values[sharp], candidates.row[places[~sharp]]


def bid_for(wanted: WantedPages, pages: PageTable, gate: HostGate | None, span: Span) -> Bid:
    """Count pages by level, of each host no more than may be asked in the round, without those crawled before it."""
    some = np.flatnonzero(wanted.values > 2.0**LIMITS.lowest)
    order = some[np.lexsort((-wanted.values[some], wanted.hosts[some]))]  # by host, the best first
    hosts, values, weights = wanted.hosts[order], wanted.values[order], wanted.weights[order]
    due = wanted.due.astype(np.float64)
    if span.sent > 0:
        room = _room(gate, len(due), span.now, span.start)
        gone = np.minimum(due, room)
        gone *= min(1.0, span.sent / max(1.0, float(gone.sum())))
        due -= gone
        weights = weights - _best(values, _allowed(hosts, weights, room - gone), span.sent - float(gone.sum()))
    room = _room(gate, len(due), span.start, span.until)
    first = np.minimum(due, room)
    room -= first
    allowed = _allowed(hosts, weights, room)
    counts, top = _by_level(values, allowed)
    waiting = (allowed < weights) & (values > LIMITS.coveted * span.level) & np.isfinite(room[hosts])
    held_up = tuple(np.unique(hosts[waiting]).tolist()) if 0 < span.level < np.inf else ()
    most = float(np.minimum(np.maximum(pages.crowd - wanted.due, 0), room).sum())
    counted = tuple(np.floor(np.minimum(counts + 0.5, most)).astype(int).tolist())
    return Bid(round(float(first.sum())), top, counted, held_up)


def _room(gate: HostGate | None, hosts: int, start: float, until: float) -> Floats:
    """Number of requests to each host that may start in that time."""
    room = np.full(hosts, np.inf)
    if gate is not None:
        earliest, delay = gate.earliest[:hosts], gate.delay[:hosts]
        left = np.maximum(until - np.maximum(earliest, start), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            room[: len(earliest)] = np.where(
                left > 0, np.where(delay > 0, np.ceil(left / delay - LIMITS.rounding), np.inf), 0
            )
    return room


def _allowed(hosts: NDArray[np.int32], weights: Floats, room: Floats) -> Floats:
    """The weights of pages, which are in the order of hosts and the best of each first, as far as hosts have room."""
    before = np.cumsum(weights) - weights
    starts = np.flatnonzero(np.diff(hosts, prepend=-1))
    before -= np.repeat(before[starts], np.diff(starts, append=len(hosts)))
    # A page that stands for several stands for those of other hosts too.
    return np.clip(np.maximum(room[hosts], weights * (room[hosts] > 0)) - before, 0.0, weights)


def _best(values: Floats, weights: Floats, count: float) -> Floats:
    """The weights of the pages worth most, as far as they come to that number."""
    order = np.argsort(-values)
    before = np.cumsum(weights[order]) - weights[order]
    best = np.zeros(len(weights))
    best[order] = np.clip(count - before, 0.0, weights[order])
    return best


def _by_level(values: Floats, weights: Floats) -> tuple[Floats, int]:
    """Number of pages worth at least each level, from the top down, and the top level."""
    if not len(values):
        return np.zeros(0), 0
    octaves = np.log2(np.minimum(values, 2.0**LIMITS.highest))
    level = np.floor(LIMITS.levels_per_octave * octaves).astype(np.int64)
    top = int(level.max())
    return np.cumsum(np.bincount(top - level, weights)), top


class Chooser(ABC):
    """Chooses one page per slot; `pick` holds a page, `settle` or `release` gives it back.

    Pages are rows: small integers handed out by `add`, reused after `retire`. Times are UTC seconds. Every order has
    its ties broken by the lower row. Among the pages that may be asked now (not held, host ready, `not_before` and the
    minimum interval passed), those never crawled come first, by importance; then, once in `TURN` picks, the longest
    overdue of those waiting beyond the maximum interval; then the highest crawl value above zero; then any overdue one.

    The verbs here change the page table. Who keeps an order of pages overrides `_file` and `_withdraw`.
    """

    _valuation: Valuation | None = None  # of those who choose by value

    def __init__(self, gate: HostGate | None, intervals: Intervals | None) -> None:
        self.gate = gate
        self.pages = PageTable(intervals or Intervals())  # to read
        self.level = 0.0  # the crawl value of what is being picked by its value now, 0 before the first such pick
        self.picks = 0  # pages picked so far

    @abstractmethod
    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now, None if there is none."""

    @abstractmethod
    def value_of(self, rows: Ints, now: float) -> Floats:
        """The crawl value of pages, inf for those never crawled."""

    @abstractmethod
    def expected_of(self, rows: Ints, now: float) -> Floats:
        """Times at which pages that are not held will be picked if nothing changes (hosts aside): never before now."""

    def bid(self, span: Span) -> Bid:
        """Counts the pages that can be crawled in a round, by their worth at its end (`crawld.fleet.auction`)."""
        return bid_for(all_wanted(self.pages, self._valuation, span.until), self.pages, self.gate, span)

    @property
    def active(self) -> int:
        """Number of pages the choice is made among."""
        return self.pages.waiting

    def change_bandwidth(self, rate: float, now: float) -> None:  # noqa: B027 - values do not depend on it
        """Tell a policy that allots rates how much there is to allot."""

    def reserve(self, rows: int) -> None:
        """Make room for that many pages at once: to grow step by step copies everything again and again."""
        self.pages.reserve(rows)

    def look_over(self, now: float) -> Iterator[None]:  # noqa: ARG002 - who keeps no order has nothing to do
        """Prepare the first pick among new pages, a few milliseconds at a time."""
        return iter(())

    def add(self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None) -> Ints:
        """Take in pages (`last` is nan where never crawled) and return their rows."""
        rows = self.pages.insert(hosts, beliefs, last, boost, not_before)
        self._file(rows.tolist())
        return rows

    def retire(self, rows: Ints) -> None:
        """Forget pages; the row of a held one is reused only after it is given back."""
        for row in rows.tolist():
            self._withdraw(row)
        self.pages.remove(rows)

    def reweight(self, rows: Ints, mu: Floats) -> None:
        """Change the importance of pages."""
        self.pages.mu[rows] = mu
        self._file_again(rows)

    def learn(self, rows: Ints, beliefs: Beliefs, boost: Floats, last: Floats | None = None) -> None:
        """Replace what is believed of pages; `last`, where given, is when the value takes the copy to be from."""
        self.pages.believe(rows, beliefs)
        self.pages.boost[rows] = boost
        if last is not None:
            self.pages.last[rows] = last
        self._file_again(rows)

    def notice(self, row: int, boost: float) -> None:
        """Set the log-staleness that signals have added since the last successful crawl."""
        self.pages.boost[row] = boost
        if self.pages.state[row] == WAITING:
            self._withdraw(row)
            self._file([row])

    def hold(self, row: int, now: float) -> bool:
        """Hold this very page, whatever its value (an audit, a second look); False if it is held already."""
        if self.pages.held(row):
            return False
        self._withdraw(row)
        self.pages.hold(row, now)
        return True

    def settle(self, row: int, now: float) -> None:
        """Give back a held page that was crawled with success: its copy is as of now, its boost 0."""
        if self.pages.settle(row, now):
            self._file([row])

    def release(self, row: int, not_before: float = -np.inf, *, attempted: bool = True) -> None:
        """Give back a held page as it was; with `not_before`, after an attempt that failed, if one was made."""
        if self.pages.release(row, not_before, attempted=attempted):
            self._file([row])

    def lift(self, row: int, asked_at: float) -> None:
        """Let a page that waits after an attempt at that time wait no longer than the minimum interval."""
        if self.pages.lift(row, asked_at):
            self._file_again(np.array([row]))

    def _file(self, rows: list[int]) -> None:  # noqa: B027 - the scan keeps no order
        """Put waiting pages where they belong."""

    def _withdraw(self, row: int) -> None:  # noqa: B027 - the scan keeps no order
        """Take a page out of where it stands, if it stands anywhere."""

    def _file_again(self, rows: Ints) -> None:
        """Put those pages that wait where they belong now."""
        waiting = rows[self.pages.state[rows] == WAITING].tolist()
        for row in waiting:
            self._withdraw(row)
        self._file(waiting)


class ValueChooser(Chooser):
    """A chooser by crawl value."""

    def __init__(self, valuation: Valuation, gate: HostGate | None = None, intervals: Intervals | None = None) -> None:
        super().__init__(gate, intervals)
        self._valuation: Valuation = valuation

    def _comes_first(self, row: int, now: float) -> bool:
        """Tells whether this page comes before the valued ones now."""
        return bool(self.pages.due[row] <= (now if self.picks % LIMITS.turn == 0 else -np.inf))

    def value_of(self, rows: Ints, now: float) -> Floats:
        """The crawl value of pages, inf for those never crawled."""
        values = np.full(len(rows), np.inf)
        crawled = ~np.isnan(self.pages.last[rows])
        values[crawled] = self.pages.values(self._valuation, rows[crawled], now)
        return values

    def expected_of(self, rows: Ints, now: float) -> Floats:
        """Times at which pages will be picked if the level stays and no signal comes: at that value, or when due."""
        *beliefs, last, boost, not_before, due = self.pages.take(rows)
        reached = last + self._valuation.crossing(self.level, boost, Beliefs(*beliefs))
        at = np.minimum(due, np.where(np.isnan(last), now, reached))
        return np.asarray(np.maximum(np.maximum(now, not_before), at))
