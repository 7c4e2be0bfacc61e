"""The rate of a fleet: what workers send together never exceeds it, whatever clocks, wires and timers do."""

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.fleet.pacing import LIMITS as PACING_LIMITS
from crawld.fleet.pacing import DatabaseTime, GrantPacer, RateSchedule, lease_end, schedule
from crawld.fleet.reporting import Reporter
from crawld.model.shards import Grant

ROUND = 2.0


@given(
    ahead=st.floats(-1e5, 1e5),
    wait=st.floats(0, 3),
    way=st.floats(0, 1),
    drift=st.floats(-PACING_LIMITS.drift, PACING_LIMITS.drift),
    passed=st.floats(0, 100),
)
def test_the_true_time_lies_within_its_bounds(
    ahead: float, wait: float, way: float, drift: float, passed: float
) -> None:
    """Wherever between question and answer the database read its clock, and however far the clocks drift apart."""
    read = 1000.0 + way * wait
    time = DatabaseTime(1000.0, 1000.0 + wait, now=read + ahead)
    at = 1000.0 + wait + passed
    true = read + ahead + (at - read) * (1.0 + drift)
    assert time.least(at) <= true + 1e-6
    assert time.most(at) >= true - 1e-6


@given(asked=st.floats(0, 1e6), wait=st.floats(0, 3), now=st.floats(0, 1e6), time=st.floats(0, 1e6))
def test_bounds_are_reached_when_they_say(asked: float, wait: float, now: float, time: float) -> None:
    """`possibly_at` and `surely_at` are where the bounds reach a time."""
    known = DatabaseTime(asked, asked + wait, now)
    assert math.isclose(known.most(known.possibly_at(time)), time, abs_tol=1e-6)
    assert math.isclose(known.least(known.surely_at(time)), time, abs_tol=1e-6)
    assert known.possibly_at(time) <= known.surely_at(time)


def test_around_a_boundary_the_lesser_rate_holds() -> None:
    """From when the next round may have begun until the old one is surely over, the rate is the lesser of both."""
    time = DatabaseTime(asked=99.9, answered=100.1, now=1000.0)
    rates = schedule(time, [Grant(1, 1000.0, 1002.0, 10.0), Grant(2, 1002.0, 1004.0, 4.0)])
    assert rates.rate(101.0) == 10.0
    assert rates.rate(101.95) == 4.0  # it may be 1002.05
    assert rates.rate(102.05) == 4.0  # it may be 1001.95
    assert rates.rate(103.0) == 4.0
    rising = schedule(time, [Grant(1, 1000.0, 1002.0, 4.0), Grant(2, 1002.0, 1004.0, 10.0)])
    assert [rising.rate(at) for at in (101.0, 101.95, 102.05, 103.0)] == [4.0, 4.0, 4.0, 10.0]


def test_where_nothing_is_granted_nothing_is_sent() -> None:
    """Before, between and after the rounds that are known the rate is 0."""
    time = DatabaseTime(100.0, 100.0, 1000.0)
    rates = schedule(time, [Grant(1, 1000.0, 1002.0, 10.0), Grant(3, 1004.0, 1006.0, 10.0)])
    assert [rates.rate(at) for at in (99.0, 101.0, 103.0, 105.0, 107.0)] == [0.0, 10.0, 0.0, 10.0, 0.0]
    assert schedule(time, []).rate(100.0) == 0.0


def test_the_lease_ends_before_the_database_can_think_so() -> None:
    """The deadline counts from before the question was sent, less a margin."""
    slow = DatabaseTime(asked=100.0, answered=103.0, now=1000.0)
    assert lease_end(slow, expires=1005.0) <= 105.0 - PACING_LIMITS.margin
    assert slow.most(lease_end(slow, expires=1005.0)) < 1005.0


def test_a_slot_comes_when_the_grants_have_added_up_to_one() -> None:
    """A low rate followed by a high one brings the next slot no earlier than both together allow."""
    pacer = GrantPacer(0.0)
    pacer.follow(RateSchedule((0.0, 2.0, 4.0), (0.25, 100.0, 0.0)), 0.0)
    assert not pacer.take(0.0)
    assert 2.0 < pacer.next_at() < 2.01
    assert pacer.take(pacer.next_at())
    assert not pacer.take(2.009)
    assert pacer.take(3.9)
    assert not pacer.take(5.0)
    assert pacer.next_at() == math.inf
    assert pacer.skipped > 180


@pytest.mark.parametrize("seed", range(12))
def test_no_window_holds_more_than_the_fleet_is_granted(seed: int) -> None:
    """In any window of w ≥ 1 s at most R·w + N requests leave: late beats, slow wires, stops and drifting clocks."""
    rng = random.Random(seed)
    rate, workers = rng.choice([3.0, 40.0, 300.0]), rng.choice([1, 3, 7])
    rounds = 12
    shares = [_shares(rng, workers, rate) for _ in range(rounds)]
    sent = sorted(at for worker in range(workers) for at in _worker(rng, [share[worker] for share in shares]))
    assert len(sent) > 0.2 * rate * ROUND * rounds  # or the promise would be kept by silence
    for i, start in enumerate(sent):
        for width in (1.0, 1.5, 2.5, 7.0):
            count = bisect_right(sent, start + width) - i
            assert count <= rate * width + workers + 1e-6, (seed, start, width)


def _shares(rng: random.Random, workers: int, rate: float) -> list[float]:
    """How a round is shared out: anyhow."""
    weights = [rng.random() ** rng.choice([1, 8]) + 1e-9 for _ in range(workers)]
    return [rate * weight / sum(weights) for weight in weights]


def _worker(rng: random.Random, rates: list[float]) -> list[float]:
    """When a worker sends, in the database's time: its clock is another, answers are late, and it wakes late."""
    ahead, drift = rng.uniform(-1e4, 1e4), 1.0 + rng.uniform(-PACING_LIMITS.drift, PACING_LIMITS.drift)

    def own(true: float) -> float:
        return (true - ahead) / drift

    pacer = GrantPacer(own(0.0))
    sent: list[float] = []
    for answered, rate_schedule in _answers(rng, rates, own):
        while (at := pacer.next_at() * drift + ahead) < answered:
            at += rng.choice([0.0, 0.001, 0.004, 0.02, 1.5 if rng.random() < 0.02 else 0.0]) * rng.random()
            while pacer.take(own(at)):
                sent.append(at)
        pacer.follow(rate_schedule, own(max(answered, sent[-1] if sent else 0.0)))
    return sent


def _answers(
    rng: random.Random, rates: list[float], own: Callable[[float], float]
) -> Iterator[tuple[float, RateSchedule]]:
    """When each beat was answered, and the schedule that follows from the answer; some beats are never answered."""
    grants = [Grant(k, k * ROUND, (k + 1) * ROUND, rate) for k, rate in enumerate(rates)]
    at, end = rng.random(), ROUND * (len(rates) + 1)
    while at < end:
        wait = rng.choice([0.002, 0.02, 0.7]) * rng.random()
        read = at + rng.random() * wait
        known = [grant for grant in grants if grant.starts - ROUND / 2 <= read < grant.ends]
        if rng.random() > 0.1:
            yield at + wait, schedule(DatabaseTime(own(at), own(at + wait), read), known)
        at += 1.0


def test_a_slot_waits_once_for_a_host_that_opens_before_the_next() -> None:
    """It is used when that host opens, also where another opens soon after; hosts that open later change nothing."""
    pacer = GrantPacer(0.0)
    pacer.follow(RateSchedule((0.0, 100.0), (1.0, 0.0)), 0.0)
    opens = [1.5, 2.1]
    pacer.openings = lambda: opens
    come = pacer.next_at()
    assert not pacer.take(come)
    assert pacer.next_at() == 1.5
    assert pacer.take(1.5)
    opens[:] = [90.0]
    assert pacer.take(pacer.next_at())


def test_a_slot_that_waits_for_a_host_finds_it_open_where_our_time_is_slowed() -> None:
    """By a thousandth, as a clock that follows the database's gradually: the slot comes after the host's own time."""
    earliest, monotonic, now = 1_000.5, 50.0, 1_000.0
    crawler = SimpleNamespace(gate=SimpleNamespace(earliest=np.array([earliest])))
    clock = SimpleNamespace(monotonic=lambda: monotonic, now=lambda: now)
    unused: Any = None
    reporter = Reporter(unused, cast(Any, crawler), unused, cast(Any, clock), unused, unused)
    reporter.held_up = (0,)
    (opening,) = reporter.openings()
    assert now + 0.999 * (opening - monotonic) >= earliest
    assert opening < monotonic + 0.51
