"""How often signals come: pages alike go by their host, pages that differ by themselves."""

import numpy as np
import pytest

from crawld.learn.host_priors import Magnitudes, SignalRates


def rates(counts: np.ndarray, watched: float = 100.0) -> np.ndarray:
    """The rates of pages of one host watched for as long."""
    found, rows, host = SignalRates(1), np.arange(len(counts)), np.zeros(len(counts), np.int64)
    found.count(rows, host, np.full(len(counts), watched), counts[:, None])
    return found.of(rows, host)[:, 0]


def test_counts_that_differ_by_chance_are_drawn_together() -> None:
    """Pages of one rate: each is believed near what is usual, also one without a signal."""
    counts = np.random.default_rng(1).poisson(2.0, 300)
    found = rates(counts)
    assert found.mean() == pytest.approx(0.02, rel=0.1)
    assert found.std() < 0.3 * np.std(counts / 100.0)
    assert found[counts == 0].min() > 0.01


def test_counts_that_differ_beyond_chance_stay_apart() -> None:
    """Half of the pages are named ten times as often as the rest, and are believed to be so much more."""
    counts = np.random.default_rng(2).poisson(np.repeat([2.0, 20.0], 200))
    found = rates(counts)
    assert found[:200].mean() < 0.035
    assert found[200:].mean() == pytest.approx(0.2, rel=0.1)


def test_pages_that_leave_are_taken_out_of_their_host() -> None:
    """What is usual follows from the pages that are there, and without signals nothing is to be waited for."""
    found, rows, host = SignalRates(2), np.arange(2), np.zeros(2, np.int64)
    found.count(rows, host, np.full(2, 10.0), np.array([[5, 0], [1, 0]]))
    assert (found.of(rows, host)[:, 1] == 0.0).all()
    found.forget(rows[:1], host[:1])
    assert found.of(rows[1:], host[1:])[0, 0] == pytest.approx(0.1)
    assert found.spoken(host[:1]).tolist() == [[True, False]]


def test_large_changes_are_significant_and_a_page_without_any_is_like_its_host() -> None:
    """Of two hosts whose changes are large and small, pages count by their own changes, drawn to their host's."""
    seen, rows, host = Magnitudes(), np.arange(4), np.array([0, 0, 1, 1])
    seen.count(rows, host, np.zeros((4, 2)))
    assert seen.significance(rows, host).tolist() == [1.0] * 4
    seen.count(rows, host, np.array([[100, 80.0], [0, 0.0], [100, 2.0], [3, 2.4]]))
    own, sibling, small, edited = seen.significance(rows, host).tolist()
    assert own == pytest.approx(0.8 * 203 / 84.4, rel=0.02)
    assert sibling == pytest.approx(own, rel=0.05)
    assert small < 0.1 < edited < own
    seen.count(rows[:1], host[:1], np.zeros((1, 2)))
    assert seen.significance(rows[1:2], host[1:2])[0] == pytest.approx(1.0)
