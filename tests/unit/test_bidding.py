"""What a chooser bids for: pages counted by level, the frontier's count against the scan's."""

from random import Random

import numpy as np
import pytest

from crawld.choose.chooser import Bid, Span
from crawld.choose.frontier import Frontier, Scan
from crawld.choose.greedy import GreedyNcis
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.policies import build
from crawld.choose.valuation import Beliefs, Floats

HOSTS = 20
ROUND = 4.0


def gate_of(spacing: float) -> HostGate:
    """A gate with hosts of ours."""
    gate = HostGate(HostLimits(spacing=spacing), Random(0))
    for host in range(HOSTS):
        gate.host_of_pages(f"host{host}.test")
    return gate


def beliefs_of(rng: np.random.Generator, count: int) -> Beliefs:
    """Pages as the daemon believes them: rates learnt, some signals heard."""
    shape = np.where(rng.random(count) < 0.5, 1.0, 10 ** rng.uniform(-0.3, 1.5, count))
    kappa, gamma = rng.choice([0.0, 0.7, 3.0], count), rng.random(count) / 1000
    return Beliefs(rng.random(count), 10 ** rng.uniform(-5, -2, count), shape, kappa, gamma)


def counted(bid: Bid, level: int) -> int:
    """How many pages are bid for at that level."""
    return bid.counts[min(bid.top - level, len(bid.counts) - 1)] if bid.counts and level <= bid.top else 0


def course(pages: int, spacing: float | None, longest: float, seed: int) -> tuple[Frontier, Scan, float]:
    """A frontier that has crawled for a while, amid signals, a scan over the same pages, and the time."""
    rng, gate = np.random.default_rng(seed), None if spacing is None else gate_of(spacing)
    intervals = Intervals(longest=longest, shortest=1.0)
    frontier, scan = Frontier(GreedyNcis(), gate, intervals), Scan(GreedyNcis(), gate, intervals)
    last = np.where(rng.random(pages) < 8 / pages, np.nan, -rng.random(pages) * 1000)
    frontier.add(rng.integers(0, HOSTS, pages), beliefs_of(rng, pages), last, np.zeros(pages))
    scan.pages = frontier.pages
    now = 0.0
    for _ in range(300):
        now += 0.05
        row = frontier.pick(now)
        if row is not None:
            host = int(frontier.pages.host[row])
            if gate is not None:
                gate.acquire(host, now)
                gate.finish(host, now)
            frontier.settle(row, now)
        signalled = int(rng.integers(0, pages))
        frontier.notice(signalled, float(frontier.pages.boost[signalled]) + 0.3)
    return frontier, scan, now


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("longest", [np.inf, 1010.0], ids=["never_due", "some_due"])
@pytest.mark.parametrize("spacing", [None, 0.0, 1.0, 3.0], ids=["no_gate", "open_gate", "second", "three_seconds"])
def test_the_frontier_counts_what_the_scan_counts(spacing: float | None, longest: float, seed: int) -> None:
    """Where few enough pages are there to look at all, counts are the scan's, to one level."""
    frontier, scan, now = course(400, spacing, longest, seed)
    found, right = frontier.bid(Span(now, now, now + ROUND)), scan.bid(Span(now, now, now + ROUND))
    assert found.first == right.first
    assert right.counts[-1] > 0
    for level in range(right.top + 2, right.top - len(right.counts) - 2, -1):
        assert counted(right, level + 1) <= counted(found, level) <= counted(right, level - 1)


@pytest.mark.parametrize("spacing", [0.0, 0.1], ids=["open_gate", "tight_gate"])
def test_a_sample_counts_about_what_the_scan_counts(spacing: float) -> None:
    """Among more pages than are looked at, those at the level are counted to a few percent and others roughly."""
    frontier, scan, now = course(30_000, spacing, np.inf, 1)
    found, right = frontier.bid(Span(now, now, now + ROUND)), scan.bid(Span(now, now, now + ROUND))
    level = int(np.floor(8 * np.log2(frontier.level)))
    assert counted(found, level + 1) == pytest.approx(counted(right, level + 1), rel=0.05)
    for below in (0, 8, 16, 32):
        assert counted(found, level - below) == pytest.approx(counted(right, level - below), rel=0.35)


def test_a_host_is_counted_as_often_as_it_may_be_asked() -> None:
    """A host that signals all its pages at once bids for no more than its gate allows; its due pages come first."""
    gate = gate_of(1.0)
    chooser = Frontier(GreedyNcis(), gate, Intervals(shortest=0.0))
    ones: Floats = np.ones(100)
    hosts = np.repeat([0, 1], 50)
    rows = chooser.add(hosts, Beliefs(ones, 1e-3 * ones, ones, ones, 1e-3 * ones), np.full(100, -100.0), np.zeros(100))
    chooser.pick(0.0)
    for row in rows[:50].tolist():
        if not chooser.pages.held(row):
            chooser.notice(row, 5.0)
    assert chooser.bid(Span(0.0, 0.0, 2.5)).counts[-1] == 2 * 3
    gate.acquire(0, 0.0)
    gate.finish(0, 0.0)
    assert chooser.bid(Span(0.0, 0.0, 2.5)).counts[-1] == 2 + 3
    gate.block(1)
    assert chooser.bid(Span(0.0, 0.0, 2.5)).counts[-1] == 2
    chooser.add(np.zeros(1, dtype=np.int64), beliefs_of(np.random.default_rng(0), 1), np.array([np.nan]), np.zeros(1))
    bid = chooser.bid(Span(0.0, 0.0, 2.5))
    assert (bid.first, bid.counts[-1]) == (1, 1)


def test_pages_never_crawled_come_first_in_the_bid_as_in_the_pick() -> None:
    """A new list is bid for before anything valued, as far as its hosts may be asked."""
    gate = gate_of(1.0)
    chooser = Frontier(GreedyNcis(), gate)
    rng = np.random.default_rng(3)
    chooser.add(np.arange(2000) % HOSTS, beliefs_of(rng, 2000), np.full(2000, np.nan), np.zeros(2000))
    assert chooser.bid(Span(0.0, 0.0, 2.0)) == Bid(2 * HOSTS)
    assert chooser.pick(0.0) is not None
    assert chooser.bid(Span(0.0, 0.0, 2.0)) == Bid(2 * HOSTS)


def test_a_policy_without_values_bids_for_all_its_pages() -> None:
    """Where pages are visited in turn, every page that may be asked counts the same."""
    chooser = build("uniform", bandwidth=1.0)
    chooser.add(np.zeros(7, dtype=np.int64), beliefs_of(np.random.default_rng(1), 7), np.zeros(7), np.zeros(7))
    assert chooser.bid(Span(100.0, 100.0, 102.0)) == Bid(0, 0, (7,))


def test_what_is_crawled_before_the_round_is_not_bid_for() -> None:
    """The best pages go before the round starts; what their hosts may be asked then does not count for it."""
    gate = gate_of(1.0)
    chooser = Frontier(GreedyNcis(), gate, Intervals(shortest=0.0))
    mu, ones = np.array([9.0, 8.0, 7.0, 6.0, 1.0, 1.0]), np.ones(6)
    chooser.add(np.array([0, 0, 0, 1, 1, 2]), Beliefs(mu, 1e-3 * ones, ones, ones, 1e-3 * ones), -ones, 0 * ones)
    everything = chooser.bid(Span(0.0, 1.0, 3.0))
    assert everything.counts[-1] == 2 + 2 + 1
    later = chooser.bid(Span(0.0, 1.0, 3.0, sent=2.0))  # one of the first host and one of the second
    assert later.counts[-1] == 2 + 1 + 1
    assert (later.counts[0], everything.counts[0]) == (0, 1)
    new = Beliefs(ones, ones, ones, ones, ones)
    chooser.add(np.array([0, 0, 0, 0, 0, 0]), new, np.full(6, np.nan), 0 * ones)
    assert chooser.bid(Span(0.0, 1.0, 3.0, sent=2.0)).first == 2
    assert chooser.bid(Span(0.0, 10.0, 30.0, sent=4.0)).first == 2
