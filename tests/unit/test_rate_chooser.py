"""The timetable keeps allotted rates slot by slot, through blocked hosts, changed minds and signals."""

import numpy as np
import pytest

from crawld.choose import allocation
from crawld.choose.allocation import VisitOrder, freshness, weighted
from crawld.choose.host_gate import Evidence, HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.rate_chooser import Bools, Plan, RateChooser
from crawld.choose.valuation import Beliefs, Floats

UNBOUND = Intervals(longest=np.inf, shortest=0.0)


def shares(weights: Floats) -> Plan:
    """A plan that allots in proportion to given weights."""

    def allot(beliefs: Beliefs, bandwidth: float) -> tuple[Floats, Bools]:
        part = weights[: beliefs.mu.size] if bandwidth else np.zeros(beliefs.mu.size)
        return bandwidth * part / max(part.sum(), 1e-300), np.zeros(beliefs.mu.size, dtype=bool)

    return Plan(allot)


def uniform(beliefs: Beliefs, bandwidth: float) -> tuple[Floats, Bools]:
    """Equal rates."""
    return allocation.uniform(beliefs.mu, beliefs.alpha, bandwidth), np.zeros(beliefs.mu.size, dtype=bool)


def known(mu: Floats, delta: Floats) -> Beliefs:
    """Pages without signals whose change rates are known."""
    nothing = np.zeros(mu.size)
    return Beliefs(mu, delta, np.full(mu.size, np.inf), nothing, nothing)


def filled(plan: Plan, pages: int, *, bandwidth: float = 1.0, last: float = 0.0) -> RateChooser:
    """A timetable of pages alike on one host."""
    table = RateChooser(plan, bandwidth, None, UNBOUND)
    ones = np.ones(pages)
    table.add(np.zeros(pages, dtype=np.int64), known(ones, ones), np.full(pages, last), 0 * ones)
    return table


def run(table: RateChooser, slots: int, *, rate: float = 1.0, start: float = 0.0) -> list[int]:
    """The pages of so many slots, each settled at once."""
    picked = []
    for slot in range(1, slots + 1):
        row = table.pick(start + slot / rate)
        assert row is not None
        table.settle(row, start + slot / rate)
        picked.append(row)
    return picked


def test_equal_rates_are_round_robin() -> None:
    """Under equal rates pages come one after the other, over and over, in the order they were added."""
    assert run(filled(Plan(uniform), 5), 15) == [0, 1, 2, 3, 4] * 3


def test_every_prefix_keeps_the_rates() -> None:
    """After every slot each page has had its share of the visits to within about one."""
    weights = np.random.default_rng(4).pareto(1.0, 40) + 0.01
    share, count = weights / weights.sum(), np.zeros(40)
    for slot, row in enumerate(run(filled(shares(weights), 40), 3000), start=1):
        count[row] += 1
        assert np.max(np.abs(slot * share - count)) <= 1.001


@pytest.mark.parametrize("random", [False, True])
def test_a_plan_reaches_the_freshness_of_its_formula(random: bool) -> None:
    """Run by the timetable, the freshness optimum is as fresh as the formula for its order of visits says."""
    rng = np.random.default_rng(5)
    mu, delta = rng.uniform(0.05, 1, 60), rng.uniform(0.05, 1, 60)
    rates = allocation.freshness_optimal(mu, delta, 20.0)
    table = RateChooser(Plan(lambda b, r: (rates, np.zeros(60, dtype=bool)), random), 20.0, None, UNBOUND)
    table.add(np.zeros(60, dtype=np.int64), known(mu, delta), np.zeros(60), np.zeros(60))
    last, fresh = np.zeros(60), np.zeros(60)
    for slot, row in enumerate(run(table, 12_000, rate=20.0), start=1):
        fresh[row] -= np.expm1(-delta[row] * (slot / 20.0 - last[row])) / delta[row]
        last[row] = slot / 20.0
    kind = VisitOrder.PURELY_RANDOM if random else VisitOrder.FIXED
    expected = weighted(mu, freshness(delta, rates, kind))
    assert weighted(mu, fresh / 600.0) == pytest.approx(expected, abs=0.012 if random else 0.006)


def test_pages_never_crawled_come_first_by_importance() -> None:
    """A page without a copy comes before all others, the most important one first."""
    table = filled(Plan(uniform), 4)
    run(table, 4)
    mu = np.array([1.0, 3.0, 2.0])
    table.add(np.zeros(3, dtype=np.int64), known(mu, np.ones(3)), np.full(3, np.nan), np.zeros(3))
    assert run(table, 3, start=4.0) == [5, 6, 4]


def test_a_held_page_is_not_picked_again() -> None:
    """A page that is out is absent until it is settled or released; released, it is still owed its visit."""
    table = filled(Plan(uniform), 2)
    first, second = table.pick(1.0), table.pick(2.0)
    assert {first, second} == {0, 1}
    assert table.pick(3.0) is None
    assert table.pages.held(0)
    assert not table.hold(0, 3.0)
    table.release(0)
    assert table.pick(4.0) == 0
    table.release(0, not_before=9.0)
    assert table.pick(8.0) is None
    assert table.pages.not_before[0] == 9.0
    assert table.pick(9.0) == 0


def test_an_audit_holds_the_page_it_wants() -> None:
    """A page held by name is out like any other."""
    table = filled(Plan(uniform), 3)
    assert table.hold(1, 0.5)
    assert [table.pick(1.0), table.pick(2.0)] == [0, 2]
    assert table.pick(3.0) is None


def test_hosts_that_may_not_be_asked_are_passed_over() -> None:
    """Only pages of ready hosts are picked, and a host that is ready again gets its share."""
    gate = HostGate(HostLimits(spacing=4.0))
    hosts = np.array([gate.host("a.example")] * 4 + [gate.host("b.example")] * 4)
    table = RateChooser(Plan(uniform), 1.0, gate, UNBOUND)
    table.add(hosts, known(np.ones(8), np.ones(8)), np.zeros(8), np.zeros(8))
    picked: list[int | None] = []
    for slot in range(1, 41):
        row = table.pick(float(slot))
        picked.append(row)
        if row is not None:
            gate.acquire(int(hosts[row]), float(slot))
            gate.finish(int(hosts[row]), slot + 0.1)
            table.settle(row, slot + 0.1)
    asked = [row for row in picked if row is not None]
    assert len(asked) == 20
    assert np.bincount(asked).max() - np.bincount(asked).min() <= 1


def test_a_host_unblocked_by_the_operator_is_asked_at_once() -> None:
    """A blocked host costs its slots, and is asked again in the first slot after it is unblocked."""
    gate = HostGate(HostLimits(spacing=0.0))
    host = gate.host("a.example")
    gate.block(host)
    table = RateChooser(Plan(uniform), 1.0, gate, UNBOUND)
    table.add(np.full(2, host), known(np.ones(2), np.ones(2)), np.zeros(2), np.zeros(2))
    assert table.pick(1.0) is None
    gate.unblock(host)
    assert table.pick(1.5) == 0


def test_a_success_that_ends_a_back_off_brings_the_pages_back_at_once() -> None:
    """Pages of a host that backed off, and those told to wait because of it, are picked as soon as it is well."""
    gate = HostGate(HostLimits(spacing=0.0))
    host = gate.host("a.example")
    table = RateChooser(Plan(uniform), 1.0, gate, UNBOUND)
    table.add(np.full(2, host), known(np.ones(2), np.ones(2)), np.zeros(2), np.zeros(2))
    assert table.pick(1.0) == 0
    gate.acquire(host, 1.0)
    gate.finish(host, 1.0, Evidence("0", 1.0, well=False, enough=1))
    table.release(0, 500.0)
    assert table.pick(2.0) is None
    gate.acquire(host, float(gate.ready_at[host]))
    gate.finish(host, 30.0, Evidence("robots.txt", 20.0, well=True))
    table.lift(0, 1.0)
    assert sorted([table.pick(30.0) or 0, table.pick(31.0) or 0]) == [0, 1]


def test_intervals_bind() -> None:
    """No page is visited sooner than the shortest interval, and each at least once in the longest."""
    table = RateChooser(shares(np.array([1.0, 0.0])), 1.0, None, Intervals(longest=10.0, shortest=3.0))
    table.add(np.zeros(2, dtype=np.int64), known(np.ones(2), np.ones(2)), np.zeros(2), np.zeros(2))
    seen: dict[int, list[int]] = {0: [], 1: []}
    for slot in range(1, 61):
        row = table.pick(float(slot))
        if row is not None:
            table.settle(row, float(slot))
            seen[row].append(slot)
    assert np.diff(seen[0]).min() >= 3
    assert np.diff(seen[1]).max() <= 11
    assert len(seen[1]) <= 7  # an idle slot may come a little early, never often


def test_new_bandwidth_and_new_beliefs_change_the_rates() -> None:
    """Rates are solved anew for another bandwidth at once, and for other pages once there are enough of them."""
    table = filled(Plan(uniform), 10)
    run(table, 10)
    assert table.rates_of(np.arange(10)) == pytest.approx(0.1)
    table.change_bandwidth(5.0, 10.0)
    run(table, 50, rate=5.0, start=10.0)
    assert table.rates_of(np.arange(10)) == pytest.approx(0.5)
    table.retire(np.arange(5))
    picked = run(table, 20, rate=5.0, start=20.0)
    assert set(picked) == {5, 6, 7, 8, 9}
    assert table.rates_of(np.arange(5, 10)) == pytest.approx(1.0)
    table.change_bandwidth(0.0, 24.0)
    table.pick(24.2)
    assert table.rates_of(np.array([9])) == 0


@pytest.mark.parametrize("random", [False, True])
def test_rates_hold_after_pages_without_a_copy_have_come_first(random: bool) -> None:
    """First crawls jump the queue; however often beliefs change after that, each page gets its rate."""
    weights = np.array([1.0, 10.0, 100.0, 1000.0])
    plan = Plan(shares(weights).allot, random)
    table = filled(plan, 4, bandwidth=1.0, last=np.nan)
    for epoch in range(40):
        table.learn(np.arange(4), known(np.ones(4), np.ones(4)), np.zeros(4))
        picked = run(table, 100, start=100.0 * epoch)
    assert picked.count(3) > 80


def test_solutions_are_few() -> None:
    """A thousand pages learnt of one at a time are solved for about sixteen times, not a thousand."""
    table = filled(Plan(uniform), 1000)
    for row in range(1000):
        run(table, 1, start=float(row))
        table.learn(np.array([row]), known(np.ones(1), np.ones(1)), np.zeros(1))
    assert table.pages.evaluations <= 34 * 1000


def test_announced_pages_are_crawled_upon_their_signals() -> None:
    """A page whose every change is announced is crawled upon the allotted share of its signals and never else."""
    rates, announced = np.array([0.5, 0.1]), np.array([False, True])
    table = RateChooser(Plan(lambda b, r: (rates, announced), True), 0.6, None, UNBOUND)
    beliefs = Beliefs(np.ones(2), np.array([0.5, 0.0]), np.full(2, np.inf), np.full(2, np.inf), np.array([0.0, 0.4]))
    table.add(np.zeros(2, dtype=np.int64), beliefs, np.zeros(2), np.zeros(2))
    crawled = 0
    for slot in range(4000):
        table.notice(1, np.inf)
        row = table.pick(slot + 0.5)
        crawled += row == 1
        if row is not None:
            table.settle(row, slot + 0.5)
    assert crawled == pytest.approx(1000, rel=0.1)


def test_retired_pages_leave_even_while_held() -> None:
    """A page retired while it is out does not come back, and its row is reused only after it is given back."""
    table = filled(Plan(uniform), 2)
    assert table.pick(1.0) == 0
    table.retire(np.array([0]))
    ones = np.ones(1)
    assert table.add(np.zeros(1, dtype=np.int64), known(ones, ones), 0 * ones, 0 * ones).tolist() == [2]
    table.settle(0, 1.5)
    assert table.add(np.zeros(1, dtype=np.int64), known(ones, ones), 0 * ones, 0 * ones).tolist() == [0]
    assert set(run(table, 9, start=2.0)) == {0, 1, 2}


def test_value_is_the_number_of_intervals_passed() -> None:
    """A page's value under a timetable is how many of its intervals have passed, inf before the first crawl."""
    table = filled(Plan(uniform), 2)
    table.reweight(np.array([0]), np.array([2.0]))
    run(table, 2)
    assert table.value_of(np.array([0, 1]), 4.0) == pytest.approx([1.5, 1.0])
    table.add(np.zeros(1, dtype=np.int64), known(np.ones(1), np.ones(1)), np.array([np.nan]), np.zeros(1))
    assert table.value_of(np.array([2]), 4.0)[0] == np.inf


def test_a_page_is_expected_by_the_end_of_its_window() -> None:
    """At two visits a second for four pages, each is expected within two seconds; one never crawled at once."""
    table = filled(Plan(uniform), 4, bandwidth=2.0)
    run(table, 8, rate=2.0)
    waits = sorted(table.expected_of(np.arange(4), 4.0) - 4.0)
    assert waits[0] >= 0
    assert waits[-1] <= 2.5
    (row,) = table.add(np.zeros(1, dtype=np.int64), known(np.ones(1), np.ones(1)), np.array([np.nan]), np.zeros(1))
    assert table.expected_of(np.array([int(row)]), 4.0)[0] == 4.0
    table.hold(int(row), 4.0)
    table.release(int(row), not_before=9.0)
    assert table.expected_of(np.array([int(row)]), 4.5)[0] == 9.0
