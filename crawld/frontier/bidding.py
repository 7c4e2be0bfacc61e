"""What a chooser's pages will be worth by some time, counted by level: a worker's bid in a round (docs/fleet.md).

Not every page is looked at. Where one page stands for several, it has their number as its weight.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crawld.frontier.bounds import Bounds
from crawld.frontier.candidates import GONE, Candidates
from crawld.frontier.due_first import DueFirst
from crawld.frontier.page_table import WAITING, Ints, PageTable
from crawld.frontier.politeness import HostGate
from crawld.value.valuation import Floats, Valuation

LEVELS_PER_OCTAVE = 8
"""Levels of crawl value that bids count by: level j is 2 ** (j / LEVELS_PER_OCTAVE), the same for everyone."""
LOWEST, HIGHEST = -128, 128
"""Octaves of crawl value that are told apart; what is worth less is not bid for, what is worth more counts as this."""

ROUNDING = 1e-9  # how far a span may exceed a whole number of delays
NEAR, FAR = 2048, 512  # pages evaluated, of those that may reach the level and of the others: some 10 ms
COVETED = 20.0  # times the level: pages worth more, of a host that may not be asked more often, are worth waiting for
SHARP = 0.01  # relative: how well a model must know a value for it to be counted without evaluating it


@dataclass(frozen=True, slots=True)
class Bid:
    """How many requests a worker can use in a round, by what they will be worth by the round's end.

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
class Wanted:
    """The pages that may be picked by some time, as far as their own waits say."""

    due: Ints  # by host: pages never crawled, which come before all valued ones
    hosts: NDArray[np.int32]  # of the valued pages that were looked at
    values: Floats
    weights: Floats


def all_wanted(pages: PageTable, valuation: Valuation | None, until: float) -> Wanted:
    """Look at every page; without a valuation all are worth the same."""
    rows = np.flatnonzero((pages.state[: pages.size] == WAITING) & (pages.not_before[: pages.size] <= until))
    never = np.isnan(pages.last[rows])
    due, rows = np.bincount(pages.host[rows[never]], minlength=len(pages.crowd)), rows[~never]
    values = np.ones(len(rows)) if valuation is None else pages.values(valuation, rows, until)
    return Wanted(due, pages.host[rows], values, np.ones(len(rows)))


def some_wanted(bounds: Bounds, changed: Collection[int], due: DueFirst, until: float) -> Wanted:
    """Read the models of a frontier's candidates, and evaluate some of its other pages.

    `changed` are pages that are neither bounded nor candidates nor known to be never crawled.
    """
    pages = bounds.pages
    rows, values, blurred = _modelled(bounds.candidates, until)
    bounded = bounds.ceiling >= 0
    reach = bounded & ((bounds.expiry <= until) | (bounds.ceiling >= bounds.level))
    near = np.concatenate([np.flatnonzero(reach), blurred, np.fromiter(changed, np.int64, len(changed))])
    looked_at, weights = [rows], [np.ones(len(rows))]
    for some, most in ((near, NEAR), (np.flatnonzero(bounded ^ reach), FAR)):
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
    return Wanted(first, pages.host[row[valued]], value[valued], weight[valued])


def _modelled(candidates: Candidates, until: float) -> tuple[Ints, Floats, Ints]:
    """Candidates with what they will be worth, as far as models know it to `SHARP`, and the others."""
    at, value, slope, bend, twist, _, not_before = candidates.models()
    places = np.flatnonzero((not_before <= until) & (value > GONE))
    ahead = np.maximum(until - at[places], 0.0)
    values = value[places] + ahead * (slope[places] + ahead * bend[places])
    sharp = twist[places] * ahead**3 <= SHARP * values
    return candidates.row[places[sharp]], values[sharp], candidates.row[places[~sharp]]


def bid_for(wanted: Wanted, pages: PageTable, gate: HostGate | None, span: Span) -> Bid:
    """Count pages by level, of each host no more than may be asked in the round, without those crawled before it."""
    some = np.flatnonzero(wanted.values > 2.0**LOWEST)
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
    waiting = (allowed < weights) & (values > COVETED * span.level) & np.isfinite(room[hosts])
    held_up = tuple(np.unique(hosts[waiting]).tolist()) if 0 < span.level < np.inf else ()
    most = float(np.minimum(np.maximum(pages.crowd - wanted.due, 0), room).sum())
    counted = tuple(np.floor(np.minimum(counts + 0.5, most)).astype(int).tolist())
    return Bid(round(float(first.sum())), top, counted, held_up)


def _room(gate: HostGate | None, hosts: int, start: float, until: float) -> Floats:
    """How many requests to each host may start in that time."""
    room = np.full(hosts, np.inf)
    if gate is not None:
        earliest, delay = gate.earliest[:hosts], gate.delay[:hosts]
        left = np.maximum(until - np.maximum(earliest, start), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            room[: len(earliest)] = np.where(left > 0, np.where(delay > 0, np.ceil(left / delay - ROUNDING), np.inf), 0)
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
    """How many pages are worth at least each level, from the top down, and the top level."""
    if not len(values):
        return np.zeros(0), 0
    octaves = np.log2(np.minimum(values, 2.0**HIGHEST))
    level = np.floor(LEVELS_PER_OCTAVE * octaves).astype(np.int64)
    top = int(level.max())
    return np.cumsum(np.bincount(top - level, weights)), top
