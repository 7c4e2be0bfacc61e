"""The plain scan: the order in which pages are chosen, and the life of a row."""

import numpy as np
import pytest

from crawld.choose.chooser import LIMITS as CHOOSER_LIMITS
from crawld.choose.chooser import Chooser
from crawld.choose.frontier import Frontier, Scan
from crawld.choose.greedy import GreedyNcis
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.valuation import Beliefs
from tests.support.rising_values import Linear


def believe(mu: list[float]) -> Beliefs:
    """Pages that differ in importance alone."""
    ones = np.ones(len(mu))
    return Beliefs(np.array(mu, dtype=float), ones, np.inf * ones, ones, ones)


def made(kind: type[Scan] | type[Frontier], mu: list[float], last: list[float]) -> Chooser:
    """A chooser over pages of one host each, crawled at the given times."""
    chooser = kind(Linear(), None, Intervals(longest=1000.0, shortest=0.0))
    chooser.add(np.arange(len(mu)), believe(mu), np.array(last), np.zeros(len(mu)))
    return chooser


def scan(mu: list[float], last: list[float], gate: HostGate | None = None) -> Scan:
    """A scan over pages of one host each, crawled at the given times."""
    chooser = Scan(Linear(), gate, Intervals(longest=1000.0, shortest=0.0))
    chooser.add(np.arange(len(mu)), believe(mu), np.array(last), np.zeros(len(mu)))
    return chooser


def test_the_highest_value_is_picked_and_ties_go_to_the_lower_row() -> None:
    """Value first, then row; a held page is absent."""
    chooser: Chooser = scan([1.0, 3.0, 3.0, 2.0], [0.0] * 4)
    assert [chooser.pick(10.0) for _ in range(5)] == [1, 2, 3, 0, None]
    assert chooser.pages.held(1)
    chooser.release(1)
    assert not chooser.pages.held(1)
    assert chooser.pick(10.0) == 1
    assert chooser.level == 30.0


@pytest.mark.parametrize("kind", [Scan, Frontier])
def test_pages_never_crawled_come_first_by_importance(kind: type[Scan] | type[Frontier]) -> None:
    """No value outranks a page that was never crawled."""
    chooser = made(kind, [1.0, 2.0, 9.0, 3.0], [np.nan, np.nan, 1000.0, 1000.0])
    assert [chooser.pick(1500.0) for _ in range(2)] == [1, 0]
    assert chooser.level == 0.0
    assert [chooser.pick(1500.0) for _ in range(3)] == [2, 3, None]
    assert chooser.level == pytest.approx(1500.0)


@pytest.mark.parametrize("kind", [Scan, Frontier])
def test_overdue_pages_have_every_tenth_pick(kind: type[Scan] | type[Frontier]) -> None:
    """The longest overdue first; between their turns they are picked by value like any other page."""
    valued, overdue = [2.0] * 30, [1e-3, 1e-3, 1e-3, 9.0]
    chooser = made(kind, [*valued, *overdue], [1400.0] * 30 + [30.0, 10.0, 20.0, 40.0])
    picked = [chooser.pick(1500.0) for _ in range(35)]
    assert picked[0] == 31
    assert picked[1] == 33  # overdue and worth most
    assert [picked[turn] for turn in (10, 20)] == [32, 30]
    assert sorted(row for row in picked if row is not None) == list(range(34))
    assert picked[-1] is None


@pytest.mark.parametrize("kind", [Scan, Frontier])
def test_an_overdue_page_is_picked_where_nothing_is_worth_it(kind: type[Scan] | type[Frontier]) -> None:
    """A slot that no valued page can use is not lost while an overdue one waits, whoever's turn it is."""
    chooser = made(kind, [0.0, 0.0, 0.0], [0.0, 10.0, 1400.0])
    assert [chooser.pick(1500.0) for _ in range(3)] == [0, 1, None]


def test_an_interval_that_cannot_be_kept_costs_little_freshness() -> None:
    """A budget too small for all pages within the maximum interval is spent by value, not in turn."""
    rng, count = np.random.default_rng(5), 400
    mu, alpha = rng.exponential(1.0, count), np.where(np.arange(count) % 2 == 0, 1e-6, 1e-2)
    beliefs = Beliefs(mu, alpha, np.full(count, np.inf), np.ones(count), np.zeros(count))
    reached = []
    for longest in (np.inf, 2000.0):  # a round of all pages takes twice as long
        chooser = Frontier(GreedyNcis(), None, Intervals(longest=longest, shortest=0.0))
        chooser.add(np.zeros(count, dtype=np.int64), beliefs, -rng.random(count) * 4000, np.zeros(count))
        fresh, last = 0.0, np.array(chooser.pages.last[:count])
        for slot in range(1, 2000):
            row = chooser.pick(10.0 * slot)
            assert row is not None
            chooser.settle(row, 10.0 * slot)
            last[row] = 10.0 * slot
            fresh += float(mu @ np.exp(-alpha * (10.0 * slot - last))) / (2000 * float(mu.sum()))
        reached.append(fresh)
    in_turn = float(np.mean(-np.expm1(-alpha * 4000) / (alpha * 4000)))
    assert reached[1] > reached[0] - 0.1 * (reached[0] - in_turn)


def test_a_page_without_value_is_not_picked() -> None:
    """Nothing is gained by crawling a page twice at one instant."""
    chooser = scan([1.0], [0.0])
    assert chooser.pick(0.0) is None
    chooser.notice(0, 0.5)
    assert chooser.pick(0.0) == 0
    chooser.settle(0, 0.0)
    assert chooser.pick(0.0) is None
    assert chooser.value_of(np.array([0]), 4.0)[0] == 4.0


def test_a_page_is_not_asked_before_its_time() -> None:
    """After an attempt the shortest interval counts, or a later time that was asked for."""
    chooser = Scan(Linear(), None, Intervals(shortest=60.0))
    chooser.add(np.array([0]), believe([1.0]), np.array([0.0]), np.zeros(1))
    assert chooser.pick(59.0) is None
    assert chooser.pick(60.0) == 0
    chooser.release(0, 70.0)
    assert chooser.pick(119.0) is None
    assert chooser.pick(120.0) == 0
    chooser.release(0)
    assert chooser.pick(120.0) == 0
    chooser.release(0, 500.0)
    assert chooser.pick(499.0) is None
    assert chooser.pick(500.0) == 0


def test_hosts_that_may_not_be_asked_are_passed_over() -> None:
    """The best page of a ready host is picked."""
    gate = HostGate(HostLimits(spacing=5.0))
    for name in ("a", "b"):
        gate.host(name)
    chooser = scan([2.0, 1.0], [0.0, 0.0], gate)
    gate.acquire(0, 1.0)
    gate.finish(0, 1.0)
    assert chooser.pick(2.0) == 1
    assert chooser.pick(5.9) is None
    assert chooser.pick(6.0) == 0


def test_rows_of_retired_pages_are_reused_once_they_are_back() -> None:
    """A page retired while held keeps its row until it is given back."""
    chooser = scan([1.0, 2.0], [0.0, 0.0])
    assert chooser.pick(1.0) == 1
    chooser.retire(np.array([0, 1]))
    assert chooser.pick(1.0) is None
    assert chooser.add(np.array([0]), believe([1.0]), np.zeros(1), np.zeros(1)).tolist() == [0]
    chooser.settle(1, 2.0)
    assert chooser.add(np.array([0]), believe([1.0]), np.zeros(1), np.zeros(1)).tolist() == [1]
    with pytest.raises(KeyError):
        chooser.settle(1, 2.0)


def test_new_beliefs_and_importance_count_at_once() -> None:
    """Learning and re-weighting change the next pick; a virtual last crawl moves the value, not the deadline."""
    chooser = scan([1.0, 1.0], [0.0, 0.0])
    chooser.reweight(np.array([1]), np.array([2.0]))
    assert chooser.pick(1.0) == 1
    chooser.release(1)
    chooser.learn(np.array([0]), believe([1.0]), np.array([5.0]))
    assert chooser.pick(1.0) == 0
    chooser.release(0)
    chooser.learn(np.array([1]), believe([2.0]), np.array([0.0]), np.array([-100.0]))
    assert chooser.pick(1.0) == 1
    chooser.release(1)
    chooser.picks = CHOOSER_LIMITS.turn  # now overdue pages come first
    assert chooser.pick(1000.0) == 0


@pytest.mark.parametrize("kind", [Scan, Frontier])
def test_a_page_is_expected_when_its_value_reaches_the_level(kind: type[Scan] | type[Frontier]) -> None:
    """Or when it is overdue, and not before it may be asked; a page never crawled is expected at once."""
    chooser = kind(Linear(), None, Intervals(longest=1000.0, shortest=0.0))
    chooser.add(np.arange(3), believe([1.0, 4.0, 0.5]), np.array([0.0, 0.0, 900.0]), np.zeros(3))
    assert chooser.pick(20.0) == 1
    assert chooser.level == pytest.approx(80.0)
    chooser.settle(1, 20.0)
    assert chooser.expected_of(np.arange(3), 20.0).tolist() == pytest.approx([80.0, 40.0, 1060.0])
    assert chooser.expected_of(np.array([0]), 500.0)[0] == 500.0
    chooser.notice(0, 30.0)
    assert chooser.expected_of(np.array([0]), 20.0)[0] == pytest.approx(50.0)
    chooser.hold(0, 21.0)
    chooser.release(0, not_before=70.0)
    assert chooser.expected_of(np.array([0]), 22.0)[0] == 70.0
    (new, slow) = chooser.add(np.array([3, 4]), believe([1.0, 0.01]), np.array([np.nan, 0.0]), np.zeros(2)).tolist()
    assert chooser.expected_of(np.array([new]), 22.0)[0] == 22.0
    assert chooser.expected_of(np.array([slow]), 22.0)[0] == 1000.0
