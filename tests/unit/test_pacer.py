"""Slots follow the rate: no drift, no burst, nothing saved up."""

import math

from hypothesis import given
from hypothesis import strategies as st

from crawld.choose.pacer import LIMITS as PACER_LIMITS
from crawld.choose.pacer import Departures, Pacer


def test_slots_do_not_drift_when_timers_wake_late() -> None:
    """The k-th slot's time follows from the rate, however late within tolerance each was used."""
    pacer = Pacer(10.0, now=100.0)
    for k in range(1000):
        assert math.isclose(pacer.next_at(), 100.0 + k * pacer.spacing, rel_tol=1e-12)
        assert pacer.take(pacer.next_at() + PACER_LIMITS.tolerance * 0.9)
    assert pacer.skipped == 0


def test_a_late_driver_loses_the_slots_it_missed() -> None:
    """After a pause the next slots keep their spacing, and the missed ones are counted."""
    pacer = Pacer(10.0, now=0.0)
    assert pacer.take(0.0)
    assert pacer.take(5.0)
    assert not pacer.take(5.0)
    assert 48 <= pacer.skipped <= 49
    assert pacer.next_at() > 5.0 + 0.09


def test_rate_zero_has_no_slots_and_its_end_no_burst() -> None:
    """At rate 0 nothing leaves; afterwards slots start one at a time."""
    pacer = Pacer(5.0, now=0.0)
    assert pacer.take(0.0)
    pacer.change_rate(0.0, now=0.1)
    assert pacer.next_at() == math.inf
    assert not pacer.take(1000.0)
    pacer.change_rate(5.0, now=1000.0)
    assert pacer.take(1000.0)
    assert not pacer.take(1000.0)
    assert pacer.skipped == 0


def test_a_raised_rate_counts_from_the_next_slot() -> None:
    """Raising the rate brings the next slot to one new spacing after the last one used."""
    pacer = Pacer(0.01, now=0.0)
    assert pacer.take(0.0)
    pacer.change_rate(50.0, now=10.0)
    assert pacer.next_at() == 10.0
    assert pacer.take(10.0)
    assert math.isclose(pacer.next_at(), 10.0 + pacer.spacing)


@given(
    rate=st.floats(0.2, 300),
    delays=st.lists(st.floats(0, 0.03) | st.floats(0, 2), min_size=5, max_size=200),
)
def test_no_window_holds_more_than_its_share(rate: float, delays: list[float]) -> None:
    """In any window of w ≥ 1 s at most R·w + 1 requests leave, however late the driver wakes."""
    pacer, sent = Pacer(rate, now=0.0), []
    now = 0.0
    for delay in delays:
        now = max(now, pacer.next_at() + delay)
        if pacer.take(now):
            sent.append(now)
    _assert_promise(sent, rate)


def _assert_promise(sent: list[float], rate: float) -> None:
    for i, start in enumerate(sent):
        for j in range(i + 1, len(sent)):
            window = sent[j] - start
            if window >= 1.0:
                assert j - i + 1 <= rate * window + 1 + 1e-6


def _leave(rate: float, kept: list[float]) -> tuple[list[float], list[float]]:
    """When requests leave that were kept so long after their slots, and how long they waited at the door."""
    pacer = Pacer(rate, now=0.0)
    departures = Departures(pacer)
    arrivals = sorted(k * pacer.spacing + late for k, late in enumerate(kept))
    waits = [departures.delay(at) for at in arrivals]
    return [at + wait for at, wait in zip(arrivals, waits, strict=True)], waits


@given(
    rate=st.floats(0.2, 300),
    kept=st.lists(st.floats(0, 0.03) | st.floats(0, 2), min_size=5, max_size=200),
)
def test_requests_kept_on_their_way_do_not_bunch(rate: float, kept: list[float]) -> None:
    """The promise holds where requests leave, however long each was kept between its slot and the door."""
    sent, _ = _leave(rate, kept)
    _assert_promise(sent, rate)


@given(rate=st.floats(0.2, 300), kept=st.lists(st.floats(0, PACER_LIMITS.tolerance * 0.99), min_size=5, max_size=200))
def test_punctual_requests_do_not_wait_at_the_door(rate: float, kept: list[float]) -> None:
    """Within the tolerance nothing is held back."""
    _, waits = _leave(rate, kept)
    assert max(waits) <= 1e-9


def test_one_late_request_costs_the_others_one_spacing() -> None:
    """A request kept for two seconds is one request more, not two seconds less."""
    kept = [0.0] * 400
    kept[3] = 2.0
    _, waits = _leave(100.0, kept)
    assert 0 < max(waits) <= (1 + PACER_LIMITS.tolerance) / 100.0


def test_what_has_its_slot_leaves_though_the_rate_falls_to_zero() -> None:
    """A pause keeps nothing that is under way, and afterwards requests leave one spacing apart."""
    pacer = Pacer(10.0, now=0.0)
    departures = Departures(pacer)
    assert departures.delay(0.0) == 0
    pacer.change_rate(0.0, now=0.01)
    assert departures.delay(0.02) == 0
    pacer.change_rate(10.0, now=5.0)
    assert departures.delay(5.0) == 0
    assert math.isclose(departures.delay(5.0), pacer.spacing - PACER_LIMITS.tolerance)


def test_a_rate_that_fell_and_rose_again_holds_nothing_up() -> None:
    """Requests on their way when the rate falls to almost nothing wait seconds, and later ones not at all for it."""
    pacer = Pacer(500.0, now=0.0)
    departures = Departures(pacer)
    assert departures.delay(0.0) == 0
    pacer.change_rate(0.001, now=0.1)
    assert max(departures.delay(0.1 + 0.001 * k) for k in range(5)) <= PACER_LIMITS.max_wait
    pacer.change_rate(500.0, now=1.0)
    assert departures.delay(1.0) <= pacer.spacing


def test_the_time_before_the_driver_began_is_not_lost() -> None:
    """A daemon that read its pages for ten seconds has skipped no slot, and its first slot comes at once."""
    pacer = Pacer(1.0, now=0.0)
    pacer.begin(10.0)
    assert pacer.take(10.0)
    assert pacer.skipped == 0
    pacer.begin(15.0)  # once under way, what is late is late
    assert pacer.take(15.0)
    assert pacer.skipped == 3
