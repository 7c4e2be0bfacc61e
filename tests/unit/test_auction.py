"""How the budget of a round is divided among workers."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.choose.chooser import LIMITS as CHOOSER_LIMITS
from crawld.choose.chooser import Bid
from crawld.fleet.auction import FLOOR, clear

COUNTS = st.lists(st.integers(0, 10_000), max_size=40).map(lambda counts: tuple(sorted(counts)))
BIDS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.builds(Bid, first=st.integers(0, 1000), top=st.integers(-400, 400), counts=COUNTS),
    max_size=12,
)
REQUESTS = st.floats(0.0, 1e9)


def bid_of(values: list[float], first: int = 0) -> Bid:
    """The bid of a worker whose pages are worth this, 1e-3 or more of the best: eleven octaves deep."""
    top = math.floor(CHOOSER_LIMITS.levels_per_octave * math.log2(max(values)))
    levels = range(top, top - 11 * CHOOSER_LIMITS.levels_per_octave, -1)
    return Bid(
        first, top, tuple(sum(v >= 2 ** (level / CHOOSER_LIMITS.levels_per_octave) for v in values) for level in levels)
    )


@given(BIDS, REQUESTS, st.randoms(use_true_random=False))
def test_never_more_than_the_budget(bids: dict[str, Bid], requests: float, order: random.Random) -> None:
    """The shares sum to the budget at most, to the last bit, in whatever order they are summed."""
    shares = list(clear(bids, requests).shares.values())
    order.shuffle(shares)
    total = 0.0
    for share in shares:  # plainly, as a database would: sum() compensates for rounding
        total += share
    assert total <= requests
    assert math.fsum(shares) <= requests
    assert all(share >= 0 for share in shares)


@given(BIDS.filter(bool), st.floats(1e-3, 1e9))
def test_the_whole_budget_is_given_away(bids: dict[str, Bid], requests: float) -> None:
    """Nothing of the budget is kept back, and nobody gets much less than the floor."""
    clearing = clear(bids, requests)
    assert set(clearing.shares) == set(bids)
    assert sum(clearing.shares.values()) == pytest.approx(requests, rel=1e-9)
    assert min(clearing.shares.values()) >= (1 - FLOOR) * FLOOR * requests / len(bids) * (1 - 1e-9)


@given(BIDS, REQUESTS, st.floats(1.0, 10.0))
def test_a_larger_budget_lowers_the_level(bids: dict[str, Bid], requests: float, factor: float) -> None:
    """With more requests to give away, the last of them is worth no more than before, and nobody who bids loses."""
    less, more = clear(bids, requests), clear(bids, requests * factor)
    assert more.level <= less.level * (1 + 1e-12)
    if more.level > 0:
        assert all(more.shares[worker] >= (1 - FLOOR) * less.shares[worker] * (1 - 1e-9) for worker in bids)


@given(st.lists(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=60), min_size=1, max_size=6), st.floats(0.05, 0.95))
def test_the_pages_worth_most_are_served(values: list[list[float]], part: float) -> None:
    """Each worker gets about as many requests as pages of its own are among the best of all."""
    everyone = sorted((value for some in values for value in some), reverse=True)
    requests = part * len(everyone)
    clearing = clear({str(worker): bid_of(some) for worker, some in enumerate(values)}, requests)
    step = 2 ** (1.01 / CHOOSER_LIMITS.levels_per_octave)
    for worker, some in enumerate(values):
        served = clearing.shares[str(worker)]
        surely = sum(value >= clearing.level * step for value in some)
        perhaps = sum(value >= clearing.level / step for value in some)
        assert (1 - FLOOR) * surely - 1e-6 <= served <= max(perhaps, FLOOR * requests / len(values)) + 1e-6
    assert everyone[-1] / step <= clearing.level <= everyone[0] * step


def test_pages_that_come_first_are_served_before_valued_ones() -> None:
    """A worker with new pages is served first; what is left goes by value."""
    clearing = clear({"new": Bid(first=60), "old": Bid(0, 0, (500,))}, 100.0)
    assert clearing.shares["new"] == pytest.approx(60)
    assert clearing.shares["old"] == pytest.approx(40)


def test_too_many_pages_that_come_first_share_the_budget() -> None:
    """Where not all of them can be served, each worker is served in proportion, and nothing goes by value."""
    clearing = clear({"a": Bid(first=300), "b": Bid(100, 0, (500,))}, 100.0)
    assert clearing.level == math.inf
    assert clearing.shares["a"] == pytest.approx(75.0)
    assert clearing.shares["b"] == pytest.approx(25.0)


def test_a_worker_whose_pages_are_worth_little_can_still_poll() -> None:
    """Whoever bids too little gets a hundredth of an equal share, at the cost of all others."""
    clearing = clear({"a": Bid(0, 8, (500,)), "b": Bid(0, -8, (500,)), "c": Bid()}, 300.0)
    assert clearing.shares["b"] == clearing.shares["c"] == pytest.approx(FLOOR * 100, rel=0.01)
    assert clearing.shares["a"] == pytest.approx(300 - 2 * FLOOR * 100, rel=0.01)


def test_what_nobody_bids_for_is_spread_evenly() -> None:
    """Polls and pages to come are served where valued pages leave requests over."""
    clearing = clear({"a": Bid(0, 3, (10,)), "b": Bid()}, 100.0)
    assert clearing.level == 0.0
    assert clearing.shares["a"] == pytest.approx(55.0)
    assert clearing.shares["b"] == pytest.approx(45.0)


def test_no_budget_and_nobody() -> None:
    """Without a budget everyone gets nothing; without bidders there is nobody to get anything."""
    assert clear({"a": Bid(5, 0, (7,))}, 0.0).shares == {"a": 0.0}
    assert clear({}, 100.0).shares == {}
