"""By how much of their own histories pages are judged: as much as has predicted crawls best."""

import numpy as np

from crawld.learning.new_intervals import OWN_SHARES
from crawld.learning.own_history import LEAST_SHARE, OwnHistoryShares


def judge(shares: OwnHistoryShares, host: int, ahead: float, pages: int = 100) -> list[int]:
    """Ten crawls of a host at which a page's own history in full was ahead of the common rate by so much in all."""
    scores = np.outer(np.full(10, ahead / 10), OWN_SHARES)
    return [*map(int, shares.judge(np.full(10, host), np.full(10, pages), scores))]


def share(shares: OwnHistoryShares, host: int) -> float:
    """What the pages of a host go by."""
    return float(shares.shares(np.array([host]))[0])


def test_pages_go_by_one_rate_until_their_own_histories_predict_better() -> None:
    """A small lead says nothing; a large one lets each page go by its own history, and losing it unites them again."""
    shares = OwnHistoryShares()
    assert share(shares, 0) < LEAST_SHARE
    assert judge(shares, 0, 1.0) == []
    assert judge(shares, 0, 20.0) == [0]
    assert share(shares, 0) > 0.9
    assert judge(shares, 0, -60.0) == [0]
    assert share(shares, 0) < LEAST_SHARE


def test_the_share_that_predicts_best_is_gone_by() -> None:
    """Where histories in full mislead and a part of them does not, pages go by that part."""
    shares = OwnHistoryShares()
    scores = np.tile(np.where(OWN_SHARES == 0.3, 1.0, 0.0), (20, 1))
    assert shares.judge(np.zeros(20, np.int64), np.full(20, 100), scores).tolist() == [0]
    assert 0.25 < share(shares, 0) < 0.35


def test_a_host_with_few_pages_needs_little_proof() -> None:
    """The lead that is asked for grows with the pages of the host."""
    shares = OwnHistoryShares()
    judge(shares, 0, 1.0, pages=1)
    judge(shares, 1, 1.0)
    assert share(shares, 0) > 0.4
    assert share(shares, 1) < 0.1


def test_a_new_host_starts_from_what_others_have_shown() -> None:
    """Where ten hosts' pages have proved to differ, those of the next are taken to differ too."""
    shares = OwnHistoryShares()
    for host in range(10):
        judge(shares, host, 20.0)
    assert share(shares, 99) > 0.8
    assert judge(shares, 99, -20.0) == [99]
    assert share(shares, 99) < LEAST_SHARE


def test_a_host_does_not_prove_itself_by_its_own_vote() -> None:
    """However often it is asked, a lead that is too small stays too small."""
    shares = OwnHistoryShares()
    for _ in range(200):
        judge(shares, 0, 0.0)
    judge(shares, 0, 8.0)
    for _ in range(50):
        judge(shares, 0, 0.0)
    assert share(shares, 0) < LEAST_SHARE
