"""Clearing a round: whoever finds it due reads the bids, shares the bandwidth out and writes it, once."""

from crawld.auction import clear
from crawld.frontier.bidding import Bid
from crawld.store.fleet import statements
from crawld.store.fleet.line import Line

KEPT_SECONDS = 300.0
"""How long a round and its grants are kept, for `crawld fleet status`."""


async def clear_round(line: Line, worker: str, number: int, bandwidth: float, round_seconds: float) -> float | None:
    """Clear the round unless another has; the worker's own rate in it, None where it has no grant.

    The bids are read before, and all grants are written with the round's row in one statement: a worker that stops in
    between holds no lock, and finds the round cleared by another or over when it goes on.
    """
    rows = await line.rows(statements.BIDS, number)
    bids = {row["id"]: _bid(*row["bid"]) for row in rows}
    clearing = clear(bids, bandwidth * round_seconds)
    rates = {name: share / round_seconds for name, share in clearing.shares.items()}
    oldest = number - max(int(KEPT_SECONDS / round_seconds), 2)
    await line.rows(
        statements.CLEAR, number, worker, bandwidth, clearing.level, round_seconds, list(rates), list(rates.values()),
        oldest,
    )  # fmt: skip
    own = await line.row(statements.OWN_GRANT, number, worker)
    return None if own is None else float(own["rate"])


def bid_row(bid: Bid | None) -> list[int] | None:
    """A bid as it is stored."""
    return None if bid is None else [bid.first, bid.top, *bid.counts]


def _bid(first: int, top: int, *counts: int) -> Bid:
    return Bid(first, top, counts)
