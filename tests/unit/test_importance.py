"""Importance learnt from requests: the posterior moves from the list's weight to what readers ask for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.pages.demand import DAY, RequestEvidence, fade, moved, posterior_mean, watch
from crawld.pages.demand import LIMITS as DEMAND_LIMITS


def evidence(requests: float = 0.0, days: float = 0.0) -> RequestEvidence:
    """What was seen of one page."""
    return RequestEvidence(np.array([requests]), np.array([days]))


def one(number: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A column of one page."""
    return np.array([number])


def test_before_anything_is_seen_the_lists_weight_counts() -> None:
    """Also a weight of nothing."""
    nothing = RequestEvidence(np.zeros(3), np.zeros(3))
    assert posterior_mean(np.array([0.0, 1.0, 7.5]), nothing).tolist() == [0.0, 1.0, 7.5]


def test_requests_raise_importance_and_their_absence_lowers_it() -> None:
    """The mean of the posterior is (wk + N)/(k + D)."""
    assert posterior_mean(one(2.0), evidence(6.0, 1.0)) == pytest.approx(
        [(2.0 * DEMAND_LIMITS.prior_days + 6.0) / (DEMAND_LIMITS.prior_days + 1)]
    )
    assert posterior_mean(one(2.0), evidence(0.0, 1.0))[0] < 2.0 < posterior_mean(one(2.0), evidence(6.0, 1.0))[0]


def test_evidence_counts_half_after_a_half_life() -> None:
    """Requests and days fade alike, so that their ratio stays."""
    old = fade(evidence(8.0, 4.0), one(DEMAND_LIMITS.half_life_days * DAY))
    assert (old.requests[0], old.days[0]) == (4.0, 2.0)


def test_a_steady_rate_is_found_whatever_the_weight_was() -> None:
    """Forty days of twenty requests a day leave an eleventh of the prior."""
    seen, hours = evidence(), 40 * 24
    for _ in range(hours):
        seen = watch(seen, one(DAY / 24), one(20 / 24))
    spread = DEMAND_LIMITS.half_life_days / np.log(2)
    assert seen.days[0] == pytest.approx(spread, rel=0.03)
    for weight in (0.1, 1.0, 50.0):
        expected = 20 + (weight - 20) / (1 + spread)
        assert posterior_mean(one(weight), seen)[0] == pytest.approx(expected, rel=0.05)


@given(st.lists(st.floats(0, 3 * DAY), min_size=1, max_size=6))
def test_how_the_time_is_cut_makes_no_difference(pieces: list[float]) -> None:
    """Watching in pieces adds up to watching once."""
    seen = evidence(3.0, 2.0)
    for piece in pieces:
        seen = watch(seen, one(piece), one(0.0))
    at_once = watch(evidence(3.0, 2.0), one(sum(pieces)), one(0.0))
    assert seen.requests[0] == pytest.approx(at_once.requests[0])
    assert seen.days[0] == pytest.approx(at_once.days[0])


def test_only_what_moved_by_a_tenth_is_news() -> None:
    """Either way, and from nothing at all."""
    old = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    new = np.array(
        [1 + 0.9 * DEMAND_LIMITS.moved, 1 + 1.1 * DEMAND_LIMITS.moved, 1 - 1.1 * DEMAND_LIMITS.moved, 0.0, 1e-9]
    )
    assert moved(old, new).tolist() == [False, True, True, False, True]
