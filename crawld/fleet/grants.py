"""How fast a worker may send, from the grants that it knows and the database's time as far as it is known.

At each moment the rate is the least that any round grants which the moment may belong to: around the boundary of two
rounds the lesser of theirs, and 0 where nothing is known of a round. So it never exceeds what is granted, whatever the
true time is within its bounds (docs/decisions/fleet.md).
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from crawld.fleet.pacing import DatabaseTime
from crawld.model.shards import Grant

MARGIN = 0.5
"""Seconds before the end of its lease at which a worker stops: what is on its way to the wire must be out by then."""


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """Requests a second by time: `rates[i]` from `times[i]` on; none before the first time and from the last one on."""

    times: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()

    def rate(self, at: float) -> float:
        """The rate at a time."""
        index = bisect_right(self.times, at) - 1
        return self.rates[index] if index >= 0 else 0.0

    def requests(self, start: float, end: float) -> float:
        """How many requests come to be from one time to another."""
        pieces = self._pieces(start)
        return math.fsum(rate * (min(until, end) - since) for since, until, rate in pieces if since < end)

    def reached(self, start: float, requests: float) -> float:
        """When so many requests have come to be since `start`; inf if never."""
        for since, until, rate in self._pieces(start):
            gained = rate * (until - since)
            if rate > 0 and gained >= requests:
                return since + max(requests, 0.0) / rate
            requests -= gained
        return math.inf

    def _pieces(self, start: float) -> Iterable[tuple[float, float, float]]:
        """Stretches of one rate from `start` on: since when, until when, which."""
        for (since, until), rate in zip(pairwise(self.times), self.rates, strict=False):
            if until > start:
                yield max(since, start), until, rate


NOTHING = RateSchedule()


def schedule(time: DatabaseTime, grants: Sequence[Grant]) -> RateSchedule:
    """The rate at every moment since boot, by these grants."""
    edges = sorted({edge for grant in grants for edge in (grant.starts, grant.ends)})
    times = sorted({at(edge) for edge in edges for at in (time.possibly_at, time.surely_at)})
    if not times:
        return NOTHING
    middles = [(since + until) / 2 for since, until in pairwise(times)]
    rates = [_least(grants, edges, time.least(middle), time.most(middle)) for middle in middles]
    return RateSchedule(tuple(times), (*rates, 0.0))


def lease_end(time: DatabaseTime, expires: float) -> float:
    """The time since boot at which a worker must have stopped: while nobody else can take its lease to be over."""
    return time.possibly_at(expires) - MARGIN


def _least(grants: Sequence[Grant], edges: Sequence[float], low: float, high: float) -> float:
    """The least that is granted anywhere from `low` to `high`."""
    moments = [low, *(edge for edge in edges if low < edge <= high)]
    return min(_granted(grants, moment) for moment in moments)


def _granted(grants: Sequence[Grant], at: float) -> float:
    return next((grant.rate for grant in grants if grant.starts <= at < grant.ends), 0.0)
