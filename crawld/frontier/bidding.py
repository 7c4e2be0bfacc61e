"""What a chooser's pages will be worth by some time, counted by level: a worker's bid in a round (docs/fleet.md).

Not every page is looked at. Where one page stands for several, it has their number as its weight.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.frontier.page_table import Ints
from crawld.frontier.politeness import HostGate
from crawld.model.fleet import LEVELS_PER_OCTAVE, Bid
from crawld.value.valuation import Floats

LOWEST, HIGHEST = -128, 128
"""Octaves of crawl value that are told apart; what is worth less is not bid for, what is worth more counts as this."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The pages that may be picked by some time, as far as their own waits say."""

    due: Ints  # by host: pages that come before all valued ones
    hosts: NDArray[np.int32]  # of the valued pages that were looked at
    values: Floats
    weights: Floats

    def at_hosts(self, count: int) -> Ints:
        """The due pages of that many hosts."""
        due = np.zeros(count, dtype=np.int64)
        due[: min(count, len(self.due))] = self.due[:count]
        return due


def bid_for(wanted: Wanted, crowd: Ints, gate: HostGate | None, now: float, until: float) -> Bid:
    """Count pages by level, of each host no more than may be asked until then; `crowd` is how many wait, by host."""
    room = _room(gate, len(crowd), now, until)
    due = wanted.at_hosts(len(crowd))
    first = np.minimum(due, room)
    room -= first
    some = np.flatnonzero(wanted.values > 2.0**LOWEST)
    hosts, values, weights = wanted.hosts[some], wanted.values[some], wanted.weights[some]
    weights, order = _allowed(hosts, values, weights, room)
    counts, top = _by_level(values[order], weights)
    most = float(np.minimum(np.maximum(crowd - due, 0), room).sum())
    return Bid(int(first.sum()), top, tuple(np.minimum(np.rint(counts), np.floor(most)).astype(np.int64).tolist()))


def _room(gate: HostGate | None, hosts: int, now: float, until: float) -> Floats:
    """How many requests to each host may start until then."""
    room = np.full(hosts, np.inf)
    if gate is not None:
        earliest, delay = gate.earliest[:hosts], gate.delay[:hosts]
        left = until - np.maximum(earliest, now)
        with np.errstate(divide="ignore", invalid="ignore"):
            more = np.where(delay > 0, np.floor(left / delay), np.inf)
        room[: len(earliest)] = np.where(left > 0, more + 1.0, 0.0)
    return room


def _allowed(hosts: NDArray[np.int32], values: Floats, weights: Floats, room: Floats) -> tuple[Floats, Ints]:
    """The weights of pages as far as their hosts have room, the best first, and the order of pages that they are in."""
    order = np.lexsort((-values, hosts))
    hosts, weights = hosts[order], weights[order]
    before = np.cumsum(weights) - weights
    starts = np.flatnonzero(np.diff(hosts, prepend=-1))
    before -= np.repeat(before[starts], np.diff(starts, append=len(hosts)))
    # A page that stands for several stands for those of other hosts too.
    return np.clip(np.maximum(room[hosts], weights) - before, 0.0, weights), order


def _by_level(values: Floats, weights: Floats) -> tuple[Floats, int]:
    """How many pages are worth at least each level, from the top down, and the top level."""
    if not len(values):
        return np.zeros(0), 0
    octaves = np.log2(np.minimum(values, 2.0**HIGHEST))
    level = np.floor(LEVELS_PER_OCTAVE * octaves).astype(np.int64)
    top = int(level.max())
    return np.cumsum(np.bincount(top - level, weights)), top
