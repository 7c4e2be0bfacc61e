"""Clocks of hosts: they find when pages changed together, and otherwise run like any clock."""

import numpy as np
import pytest

from crawld.choose.freshness import Ages
from crawld.learn.host_clock import BINS, HostClocks

DAY = 86400.0


def lived(rng: np.random.Generator, events: list[float], days: int = 60) -> HostClocks:
    """A host of 50 pages, each visited every eight days or so, that all change at the given days and at no other."""
    clocks = HostClocks()
    last = rng.uniform(0.0, 8.0, 50)
    for day in np.arange(8.0, days, 0.5):
        due = np.flatnonzero(last <= day - 8.0)[:5]
        if len(due):
            changed = np.array([any(at < event <= day for event in events) for at in last[due]])
            host, tau = np.zeros(len(due), np.int64), (day - last[due]) * DAY
            clocks.observe(host, np.full(len(due), day * DAY), tau, np.full(len(due), 0.05 / DAY), changed)
            last[due] = day
    return clocks


def run(clocks: HostClocks, start: float, end: float) -> float:
    """How many days the first host's clock runs between two days."""
    host = np.zeros(1, np.int64)
    return float((clocks.reading(host, end * DAY) - clocks.reading(host, start * DAY))[0]) / DAY


def test_a_mass_event_is_found_in_time() -> None:
    """The days about the event run many times faster than the quiet days around it."""
    clocks = lived(np.random.default_rng(1), [30.0])
    assert run(clocks, 28.5, 31.5) > 5.0 * run(clocks, 40.0, 43.0)
    assert run(clocks, 28.5, 31.5) > 3.0 * 2


def test_before_its_first_bin_and_after_its_last_a_clock_runs_like_any_other() -> None:
    """Nothing is known there, so a day is a day."""
    clocks = lived(np.random.default_rng(2), [30.0])
    assert run(clocks, -300.0, -250.0) == pytest.approx(50.0)
    assert run(clocks, 500.0, 510.0) == pytest.approx(10.0)


def test_hosts_do_not_touch_each_other() -> None:
    """Evidence of one host leaves the clock of another alone."""
    clocks = HostClocks()
    for end in (8.0, 16.0):
        clocks.observe(
            np.array([0, 1]), np.full(2, end * DAY), np.full(2, 8 * DAY), np.full(2, 1 / DAY), np.array([True, False])
        )
    fast, slow = (clocks.reading(np.array([0, 1]), 16 * DAY) - clocks.reading(np.array([0, 1]), 0.0)) / DAY
    assert fast > 1.5 * slow


def test_old_bins_are_forgotten_and_the_rest_keeps_its_place() -> None:
    """As time passes the clock moves on, and a later event is found as well as an earlier one."""
    days = 2 * BINS
    clocks = lived(np.random.default_rng(3), [days - 20.0], days)
    assert run(clocks, days - 22.0, days - 18.0) > 3.0 * run(clocks, days - 12.0, days - 8.0)


def test_an_age_curve_says_how_old_copies_are_by_the_clock() -> None:
    """Copies as far back as eight visits are as old by the curve as by the clock, within one bin of it."""
    clocks = lived(np.random.default_rng(1), [50.0])
    now = 60.0 * DAY
    (curve,), ages = clocks.curves(np.zeros(1, np.int64), now, np.ones(1)), Ages()
    ages.put(0, curve)
    one_bin = curve.step / DAY
    for day in np.arange(20.0, 60.0, 0.7):
        age = ages.of_one(0, float(day) * DAY, now) / DAY
        assert run(clocks, float(day) + one_bin, 60.0) - 0.1 <= age <= run(clocks, float(day) - one_bin, 60.0) + 0.1
    assert ages.of_one(0, 45.0 * DAY, now) > 3 * ages.of_one(0, 52.0 * DAY, now)
    assert curve.extra[-1] == 0.0


def test_one_well_timed_change_makes_its_time_run_several_times_faster() -> None:
    """A factor can jump: one change between two looks close together says more than that the time ran twice as fast."""
    clocks = HostClocks()
    for page in range(20):
        visits = np.array([8.0, 16.0, 24.0]) + 0.01 * page
        host, rate = np.zeros(3, np.int64), np.full(3, 0.01 / DAY)
        clocks.observe(host, visits * DAY, np.full(3, 8 * DAY), rate, np.zeros(3, bool))
    clocks.observe(host[:1], np.array([25.0 * DAY]), np.array([0.8 * DAY]), rate[:1], np.array([True]))
    assert run(clocks, 24.2, 25.0) > 3.0 * 0.8


def test_hosts_without_intervals_take_no_room() -> None:
    """A clock is made for a host when it is first told of one of its pages, whatever the host's number."""
    clocks = HostClocks()
    far = np.array([100_000])
    assert not clocks.running(far)[0]
    clocks.observe(far, np.array([8 * DAY]), np.array([8 * DAY]), np.array([0.1 / DAY]), np.array([False]))
    assert clocks.running(far)[0]
    assert clocks.bytes_a_host <= 8192
    assert not clocks.running(np.array([99_999]))[0]


class ExactClocks(HostClocks):
    """Clocks that keep everything in 64 bits."""

    precision = np.float64


def test_ages_are_exact_to_a_thousandth_in_half_floats() -> None:
    """What is kept of each factor in 16 bits gives the ages that 64 bits give, after thousands of intervals."""
    rng, small, large = np.random.default_rng(3), HostClocks(), ExactClocks()
    hosts, end = np.arange(20), 0.0
    for _ in range(400):
        end += float(rng.exponential(3600.0))
        host, tau = np.repeat(hosts, 3), rng.exponential(86400.0, 60)
        changed = rng.random(60) < np.where(host % 4 == rng.integers(4), 0.9, 0.1)
        for clocks in (small, large):
            clocks.observe(host, np.full(60, end), tau, np.full(60, 1e-5), changed)
    since = end - rng.uniform(0.0, 1e6, 20)
    ages, exact = (clocks.reading(hosts, end) - clocks.reading(hosts, since) for clocks in (small, large))
    np.testing.assert_allclose(ages, exact, rtol=1e-3)
    assert np.abs(ages / (end - since) - 1.0).max() > 0.1
