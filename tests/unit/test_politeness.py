"""The host gate: spacing, requests in flight, back-off and what survives a restart."""

from random import Random

import numpy as np
import pytest

from crawld.model.host import HostState
from crawld.scheduler.politeness import HostGate, Manners


def fail(gate: HostGate, host: int, now: float) -> float:
    """One request that fails at host scope; returns when the host may be asked again."""
    gate.acquire(host, now)
    gate.finish(host, now, trouble=True)
    return float(gate.ready_at[host])


def test_requests_to_one_host_start_at_least_the_spacing_apart() -> None:
    """After a start the host is ready again one spacing later, other hosts at once."""
    gate = HostGate(Manners(spacing=2.0))
    one, other = gate.host("one"), gate.host("other")
    gate.acquire(one, 100.0)
    gate.finish(one, 100.5)
    assert not gate.ready(one, 101.9)
    assert gate.ready(one, 102.0)
    assert gate.ready(other, 100.0)


def test_one_request_is_in_flight_unless_more_are_allowed() -> None:
    """A host that answers slowly is not asked again until it has answered."""
    single, double = HostGate(Manners(spacing=1.0)), HostGate(Manners(spacing=1.0, per_host=2))
    for gate in (single, double):
        gate.acquire(gate.host("slow"), 0.0)
    assert not single.ready(0, 50.0)
    assert double.ready(0, 50.0)
    double.acquire(0, 50.0)
    assert not double.ready(0, 99.0)
    single.finish(0, 60.0)
    assert single.ready(0, 60.0)


def test_a_host_that_is_not_ready_cannot_be_acquired() -> None:
    """Breaking the spacing is an error of the caller, not a delay."""
    gate = HostGate()
    gate.acquire(gate.host("h"), 0.0)
    with pytest.raises(AssertionError, match="may not be asked yet"):
        gate.acquire(0, 0.5)


def test_crawl_delay_counts_when_longer_and_up_to_the_cap() -> None:
    """Robots.txt can slow us down, not speed us up, and not for ever; the operator decides over both."""
    gate = HostGate(Manners(spacing=1.0, max_delay=30.0))
    host = gate.host("h")
    for asked, kept in ((0.1, 1.0), (10.0, 10.0), (3600.0, 30.0), (None, 1.0)):
        gate.set_crawl_delay(host, asked)
        assert gate.delay[host] == kept
    gate.set_delay(host, 0.25)
    gate.set_crawl_delay(host, 10.0)
    assert gate.delay[host] == 0.25
    gate.set_delay(host, None)
    assert gate.delay[host] == 10.0


def test_a_shorter_delay_frees_the_host_earlier_and_says_so() -> None:
    """A changed delay counts from the last start and raises the revision."""
    gate = HostGate(Manners(spacing=1.0))
    host = gate.host("h")
    gate.set_crawl_delay(host, 20.0)
    gate.acquire(host, 100.0)
    gate.finish(host, 100.0)
    before = gate.revision
    gate.set_crawl_delay(host, 5.0)
    assert gate.ready_at[host] == 105.0
    assert gate.revision > before


def test_failures_back_off_twice_as_long_each_time_with_jitter() -> None:
    """Each further host-scope failure doubles the wait up to a cap, lengthened by at most the jitter."""
    gate = HostGate(Manners(first_backoff=10.0, max_backoff=100.0, jitter=0.5, forgive_after=1e9), Random(1))
    host, now, waits = gate.host("h"), 0.0, []
    for _ in range(6):
        again = fail(gate, host, now)
        waits.append(again - now)
        now = again
    for wait, least in zip(waits, (10.0, 20.0, 40.0, 80.0, 100.0, 100.0), strict=True):
        assert least <= wait <= 1.5 * least
    assert len(set(waits)) == len(waits)


def test_retry_after_is_honoured_when_longer_than_the_back_off() -> None:
    """The host's own word counts, up to a limit, with or without trouble."""
    gate = HostGate(Manners(first_backoff=10.0, max_retry_after=1000.0))
    for name, trouble in (("busy", True), ("moved", False)):
        host = gate.host(name)
        gate.acquire(host, 0.0)
        gate.finish(host, 0.0, trouble=trouble, retry_after=500.0)
        assert gate.ready_at[host] == 500.0
    gate.acquire(0, 500.0)
    gate.finish(0, 500.0, retry_after=1e9)
    assert gate.ready_at[0] == 1500.0


def test_quiet_time_forgives() -> None:
    """One success does not clear the past, a quiet time does."""
    gate = HostGate(Manners(first_backoff=10.0, jitter=0.0, forgive_after=600.0))
    host = gate.host("h")
    now = fail(gate, host, 0.0)
    gate.acquire(host, now)
    gate.finish(host, now)
    assert gate.export(host).failures == 1
    assert fail(gate, host, 20.0) == 40.0
    gate.acquire(host, 700.0)
    gate.finish(host, 700.0)
    assert gate.export(host).failures == 0
    assert fail(gate, host, 800.0) == 810.0


def test_the_operator_blocks_and_unblocks() -> None:
    """A blocked host is never ready; unblocking lifts back-offs as well."""
    gate = HostGate()
    host = gate.host("h")
    fail(gate, host, 0.0)
    gate.block(host)
    assert not gate.ready(host, 1e12)
    before = gate.revision
    gate.unblock(host)
    assert gate.ready(host, 1.0)
    assert gate.revision > before


def test_what_is_known_of_a_host_survives_a_restart() -> None:
    """Export and restore carry blocks, failures, delays and the distrust of 304."""
    gate = HostGate(Manners(jitter=0.0))
    host = gate.host("h")
    gate.set_crawl_delay(host, 7.0)
    fail(gate, host, 1000.0)
    gate.distrust_304(host, 5000.0)
    state = gate.export(host)
    assert state == HostState("h", 1010.0, 1, crawl_delay=7.0, distrust_304_until=5000.0)
    second = HostGate(Manners(jitter=0.0))
    again = second.restore(state)
    assert second.export(again) == state
    assert second.delay[again] == 7.0
    assert not second.ready(again, 1009.0)
    assert second.ready(again, 1010.0)
    assert fail(second, again, 1010.0) == 1030.0


def test_many_hosts_keep_their_own_state() -> None:
    """Indices stay valid while the columns grow."""
    gate = HostGate()
    hosts = [gate.host(f"h{i}") for i in range(1000)]
    gate.acquire(hosts[17], 5.0)
    assert gate.host("h17") == hosts[17]
    assert gate.name(hosts[999]) == "h999"
    assert np.sum(gate.ready_at[:1000] <= 5.0) == 999
