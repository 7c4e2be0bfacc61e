"""The auction of a round: what workers bid in, what each may send out.

The budget goes where one scheduler over all pages would spend it: first the pages that come before all valued ones,
then the valued ones from the top down, until the counts sum to the budget. That is the common level (docs/fleet.md).
"""

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crawld.choose.chooser import LIMITS as CHOOSER_LIMITS
from crawld.choose.chooser import Bid

FLOOR = 0.01
"""Part of an equal share that a worker gets whatever it bids, so that its polls do not wait for ever."""


@dataclass(frozen=True, slots=True)
class Clearing:
    """A round as it was cleared: the crawl value of the last request granted, and requests by worker.

    The level is 0 where everyone got all it bid for, and inf where not even the pages that come first were served.
    """

    level: float
    shares: Mapping[str, float]


def clear(bids: Mapping[str, Bid], requests: float) -> Clearing:
    """Divide so many requests among the bidders; in whatever order the shares are summed, they never exceed it."""
    if not bids or requests < sys.float_info.min:
        return Clearing(math.inf, dict.fromkeys(bids, 0.0))
    first = sum(bid.first for bid in bids.values())
    wanted = {worker: float(bid.first) for worker, bid in bids.items()}
    level = math.inf
    if first >= requests:
        wanted = {worker: count * (requests / first) for worker, count in wanted.items()}
    else:
        level, valued = _valued(bids, requests - first)
        # What is left over is spread evenly: polls, robots.txt and pages that turn up meanwhile need requests too.
        spare = max(0.0, requests - first - math.fsum(valued.values())) / len(bids) if level == 0 else 0.0
        wanted = {worker: count + valued[worker] + spare for worker, count in wanted.items()}
    floor = FLOOR * requests / len(bids)
    return Clearing(level, _within({worker: max(count, floor) for worker, count in wanted.items()}, requests))


def _valued(bids: Mapping[str, Bid], requests: float) -> tuple[float, dict[str, float]]:
    """The level at which counts sum to so many requests, and the counts there; level 0 where they sum to less."""
    bidding = [bid for bid in bids.values() if bid.counts]
    low = min((bid.top - len(bid.counts) + 1 for bid in bidding), default=0)
    if sum(_count(bid, low) for bid in bidding) <= requests:
        return 0.0, {worker: float(_count(bid, low)) for worker, bid in bids.items()}
    high = max(bid.top for bid in bidding) + 1
    while high - low > 1:  # more than can be granted is worth `low`, and no more than that is worth `high`
        middle = (low + high) // 2
        if sum(_count(bid, middle) for bid in bidding) > requests:
            low = middle
        else:
            high = middle
    above = {worker: _count(bid, high) for worker, bid in bids.items()}
    between = {worker: _count(bid, low) - above[worker] for worker, bid in bids.items()}
    part = (requests - sum(above.values())) / sum(between.values())
    level = 2.0 ** ((high - part) / CHOOSER_LIMITS.levels_per_octave)
    return level, {worker: above[worker] + part * between[worker] for worker in bids}


def _count(bid: Bid, level: int) -> int:
    """Counts the bidder's valued pages that are worth at least that level."""
    if not bid.counts or level > bid.top:
        return 0
    return bid.counts[min(bid.top - level, len(bid.counts) - 1)]


def _within(shares: dict[str, float], requests: float) -> dict[str, float]:
    """The shares, shortened where rounding could carry their sum over the budget."""
    room = requests * (1.0 - 4.0 * (len(shares) + 1) * sys.float_info.epsilon)
    total = math.fsum(shares.values())
    return shares if total <= room else {worker: share * (room / total) for worker, share in shares.items()}


def aim(now: float, spacing: float, openings: Iterable[float]) -> float:
    """Returns when to use a slot that comes now: at the first opening of a coveted host before the next, or at once.

    A worker with few slots would ask a host that is held up by politeness a slot too late each time: with slots as far
    apart as half of the host's spacing, one request in four of those that it may be sent is missed (docs/fleet.md).
    """
    return min((opening for opening in openings if now < opening < now + spacing), default=now)
