"""The host gate: spacing, requests in flight, back-off and what survives a restart."""

import dataclasses
import gc
import tracemalloc
from random import Random

import numpy as np
import pytest

from crawld.choose import host_gate as evidence_module
from crawld.choose import host_gate as politeness
from crawld.choose.host_gate import LIMITS as HOST_GATE_LIMITS
from crawld.choose.host_gate import Evidence, HostGate, HostLimits, NotReady, Suspicions
from crawld.model.host import HostState
from tests.support.held_bytes import held_bytes


def ask(gate: HostGate, host: int, now: float, url: str, *, well: bool, retry_after: float | None = None) -> float:
    """One request that ends at once; returns when the host may be asked again."""
    gate.acquire(host, now)
    gate.finish(host, now, Evidence(url, now, well, retry_after=retry_after))
    return float(gate.ready_at[host])


def fail(gate: HostGate, host: int, now: float, url: str = "a", *, enough: int = 3) -> float:
    """One request that fails as a host in trouble does; returns when the host may be asked again."""
    gate.acquire(host, now)
    gate.finish(host, now, Evidence(url, now, well=False, enough=enough))
    return float(gate.ready_at[host])


def hand_gate(**limits: float) -> tuple[HostGate, int]:
    """A gate without spacing or jitter, and a host."""
    gate = HostGate(HostLimits(spacing=0.0, jitter=0.0, **limits))  # type: ignore[arg-type]
    return gate, gate.host("h")


def test_requests_to_one_host_start_at_least_the_spacing_apart() -> None:
    """After a start the host is ready again one spacing later, other hosts at once."""
    gate = HostGate(HostLimits(spacing=2.0))
    one, other = gate.host("one"), gate.host("other")
    gate.acquire(one, 100.0)
    gate.finish(one, 100.5)
    assert not gate.ready(one, 101.9)
    assert gate.ready(one, 102.0)
    assert gate.ready(other, 100.0)


def test_one_request_is_in_flight_unless_more_are_allowed() -> None:
    """A host that answers slowly is not asked again until it has answered."""
    single, double = HostGate(HostLimits(spacing=1.0)), HostGate(HostLimits(spacing=1.0, per_host=2))
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
    gate = HostGate(HostLimits(spacing=1.0, max_delay=30.0))
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
    gate = HostGate(HostLimits(spacing=1.0))
    host = gate.host("h")
    gate.set_crawl_delay(host, 20.0)
    gate.acquire(host, 100.0)
    gate.finish(host, 100.0)
    before = gate.revision
    gate.set_crawl_delay(host, 5.0)
    assert gate.ready_at[host] == 105.0
    assert gate.revision > before


def test_one_page_never_stops_its_host() -> None:
    """However often one URL fails, the others are asked."""
    gate, host = hand_gate()
    for now in range(100):
        assert fail(gate, host, float(now), "bad") <= now
    assert not gate.backs_off(host)


def test_three_pages_without_a_success_stop_their_host() -> None:
    """The third different URL that fails starts the back-off; a success before it starts the count anew."""
    gate, host = hand_gate()
    assert [fail(gate, host, 0.0, url) for url in "ab"] == [0.0, 0.0]
    ask(gate, host, 2.0, "c", well=True)
    assert [fail(gate, host, 100.0, url) for url in "de"] == [100.0, 100.0]
    assert fail(gate, host, 100.0, "f") == 110.0
    assert gate.backs_off(host)


def test_fewer_pages_are_enough_where_the_host_has_fewer() -> None:
    """The only page of a host stops it when it fails."""
    gate, host = hand_gate()
    assert fail(gate, host, 0.0, "only", enough=1) == 10.0


def test_a_failure_of_a_request_older_than_the_last_success_says_nothing() -> None:
    """A host that has answered since is well, however many old requests time out."""
    gate = HostGate(HostLimits(spacing=0.0, per_host=10))
    host = gate.host("h")
    for _ in range(4):
        gate.acquire(host, 0.0)
    ask(gate, host, 20.0, "quick", well=True)
    for url in "abcd":
        gate.finish(host, 30.0, Evidence(url, 0.0, well=False))
    assert gate.ready(host, 30.0)


def test_pages_known_to_be_bad_stop_their_host_once() -> None:
    """After a false alarm the same pages failing again are no news while others succeed, but are in a silence."""
    gate, host = hand_gate()
    for url in "abc":
        until = fail(gate, host, 0.0, url)
    ask(gate, host, until, "good", well=True)
    for url in "abc":
        assert fail(gate, host, 60.0, url) <= 60.0
    for url in "abc":
        until = fail(gate, host, 130.0, url)
    assert until == 140.0


def test_what_is_remembered_of_bad_pages_is_bounded() -> None:
    """Of a host with thousands of bad pages the latest are remembered."""
    gate, host = hand_gate()
    for number in range(3 * HOST_GATE_LIMITS.max_known_bad):
        fail(gate, host, 0.0, f"bad{number}")
        ask(gate, host, 0.0, "good", well=True)
    most = HOST_GATE_LIMITS.max_known_bad
    for number in range(2 * most, 3 * most):
        assert fail(gate, host, 0.0, f"bad{number}") == 0.0  # no news
    assert max(fail(gate, host, 0.0, f"bad{number}") for number in range(2 * most - 3, 2 * most)) > 0.0


def test_waits_double_to_a_minute_and_then_grow_with_the_outage() -> None:
    """Each probe that fails makes the next wait longer, by at most the jitter more than its share of the outage."""
    gate = HostGate(HostLimits(spacing=0.0), Random(1))
    host, now, waits = gate.host("h"), 0.0, []
    ask(gate, host, now, "good", well=True)
    for _ in range(500):
        again = fail(gate, host, now, enough=1)
        waits.append(again - now)
        now = again
    for wait, least in zip(waits[:6], (10.0, 20.0, 40.0, 62.5, 62.5, 62.5), strict=True):
        assert least <= wait <= 1.2 * least
    assert len(set(waits)) == len(waits)
    assert max(waits[:50]) <= 75.0
    assert 3 * 3600.0 <= waits[-1] <= 1.2 * 3 * 3600.0


def test_a_host_that_never_answered_is_asked_less_often() -> None:
    """Dead names in a list cost little: their waits grow with a larger share of the outage."""
    known, unknown = HostGate(HostLimits(spacing=0.0)), HostGate(HostLimits(spacing=0.0))
    known.host("h")
    known.remember_answers(np.array([0]))
    asked = []
    for gate in (known, unknown):
        host, now, count = gate.host("h"), 0.0, 0
        while now < 86400.0:
            now, count = fail(gate, host, now, enough=1), count + 1
        asked.append(count)
    assert asked[0] > 3 * asked[1]


def test_a_success_ends_the_back_off_at_once_and_says_so() -> None:
    """The host is free again, the revision is raised, and the next back-off starts from the beginning."""
    gate, host = hand_gate()
    until = fail(gate, host, fail(gate, host, 0.0, enough=1), enough=1)
    before = gate.revision
    assert ask(gate, host, until, "a", well=True) <= until
    assert gate.revision > before
    assert fail(gate, host, until + 100.0, enough=1) == until + 110.0


def test_a_back_off_is_probed_by_one_request() -> None:
    """Also where many requests at once are allowed; those still under way from before do not lengthen it."""
    gate = HostGate(HostLimits(spacing=0.0, per_host=10, jitter=0.0))
    host = gate.host("h")
    for _ in range(10):
        gate.acquire(host, 0.0)
    for number in range(10):
        gate.finish(host, 1.0, Evidence(f"p{number}", 0.0, well=False))
    assert gate.export(host).failures == 1
    assert not gate.ready(host, 10.9)
    gate.acquire(host, 11.0)
    assert not gate.ready(host, 1e9)
    gate.finish(host, 12.0, Evidence("p0", 11.0, well=True))
    for _ in range(10):
        gate.acquire(host, 12.0)


def test_a_retry_after_is_waited_out_whatever_else_succeeds() -> None:
    """It counts up to a limit, with or without trouble, and a success of another request does not shorten it."""
    gate = HostGate(HostLimits(spacing=0.0, per_host=2, jitter=0.0, max_retry_after=1000.0))
    for name, well in (("busy", False), ("forbidding", True)):
        host = gate.host(name)
        gate.acquire(host, 0.0)
        assert ask(gate, host, 0.0, "a", well=well, retry_after=500.0) == 500.0
        gate.finish(host, 10.0, Evidence("b", 0.0, well=True))
        assert gate.ready_at[host] == 500.0
    assert ask(gate, 0, 500.0, "a", well=False, retry_after=1e9) == 1500.0


def test_a_short_retry_after_does_not_shorten_a_back_off() -> None:
    """The longer of both counts."""
    gate, host = hand_gate()
    fail(gate, host, 0.0, enough=1)
    assert ask(gate, host, 10.0, "a", well=False, retry_after=1.0) == 30.0


def test_a_late_request_gives_up_its_place() -> None:
    """One that takes much longer than usual lets the next one start, spacing apart; at most two do."""
    gate = HostGate(HostLimits(spacing=1.0, late_after=3.0, late_factor=8.0, max_late=2))
    host = gate.host("h")
    gate.acquire(host, 0.0)
    gate.finish(host, 0.5, Evidence("a", 0.0, well=True, seconds=0.5))
    for start in (10.0, 20.0):
        gate.acquire(host, start)
        assert not gate.give_up_place(host, 3.9)
        assert not gate.ready(host, start + 3.9)
        assert gate.give_up_place(host, 4.0)
        assert gate.ready(host, start + 4.0)
    gate.acquire(host, 30.0)
    assert not gate.give_up_place(host, 20.0)
    gate.finish(host, 51.0, late=True)
    assert gate.give_up_place(host, 21.0)
    gate.finish(host, 52.0, late=True)
    gate.finish(host, 52.0, late=True)
    assert gate.in_flight[host] == 0


def test_a_probe_keeps_its_place() -> None:
    """A host that backs off is asked one at a time, however long that takes."""
    gate, host = hand_gate()
    now = fail(gate, host, 0.0, enough=1)
    gate.acquire(host, now)
    assert not gate.give_up_place(host, 100.0)


def test_the_gate_says_why_a_host_is_not_ready() -> None:
    """The operator's block before Retry-After, back-off, requests under way and spacing."""
    gate = HostGate(HostLimits(spacing=1.0, jitter=0.0))
    host = gate.host("h")
    assert gate.not_ready(host, 0.0) is None
    gate.acquire(host, 0.0)
    assert gate.not_ready(host, 5.0) is NotReady.BUSY
    gate.finish(host, 0.1, Evidence("a", 0.0, well=True))
    assert gate.not_ready(host, 0.5) is NotReady.SPACING
    fail(gate, host, 1.0, enough=1)
    assert gate.not_ready(host, 5.0) is NotReady.BACKING_OFF
    ask(gate, host, 11.0, "a", well=False, retry_after=100.0)
    assert gate.not_ready(host, 50.0) is NotReady.ASKED_TO_WAIT
    gate.block(host)
    assert gate.not_ready(host, 50.0) is NotReady.BLOCKED


def test_the_operator_blocks_and_unblocks() -> None:
    """A blocked host is never ready; unblocking lifts back-off and Retry-After as well."""
    gate = HostGate()
    host = gate.host("h")
    fail(gate, host, 0.0, enough=1)
    ask(gate, host, 100.0, "a", well=False, retry_after=1000.0)
    gate.block(host)
    assert not gate.ready(host, 1e12)
    before = gate.revision
    gate.unblock(host)
    assert gate.ready(host, 101.0)
    assert gate.revision > before


def test_what_is_known_of_a_host_survives_a_restart() -> None:
    """A back-off is neither forgotten nor prolonged; delays, Retry-After and the distrust of 304 are kept."""
    gate = HostGate(HostLimits(jitter=0.0))
    host = gate.host("h")
    gate.set_crawl_delay(host, 7.0)
    fail(gate, host, 1000.0, enough=1)
    gate.distrust_304(host, 5000.0)
    state = gate.export(host)
    assert state == HostState("h", 1010.0, 1, crawl_delay=7.0, distrust_304_until=5000.0)
    second = HostGate(HostLimits(jitter=0.0))
    again = second.restore(state)
    assert second.export(again) == state
    assert second.delay[again] == 7.0
    assert not second.ready(again, 1009.0)
    assert second.ready(again, 1010.0)
    assert ask(second, again, 1010.0, "a", well=False, retry_after=100.0) == 1110.0
    third = HostGate(HostLimits(jitter=0.0))
    third.restore(second.export(again))
    assert third.not_ready(0, 1109.0) is NotReady.ASKED_TO_WAIT
    assert fail(third, 0, 1110.0) == 1150.0
    assert ask(third, 0, 1150.0, "a", well=True) == 1157.0


def test_many_hosts_keep_their_own_state() -> None:
    """Indices stay valid while the columns grow."""
    gate = HostGate()
    hosts = [gate.host(f"h{i}") for i in range(1000)]
    gate.acquire(hosts[17], 5.0)
    assert gate.host("h17") == hosts[17]
    assert gate.name(hosts[999]) == "h999"
    assert np.sum(gate.ready_at[:1000] <= 5.0) == 999


# -- hosts without pages --------------------------------------------------------------------------------------------


def seen_once(gate: HostGate, name: str, now: float, **evidence: float) -> int:
    """A host that is asked once and answers."""
    host = gate.host(name)
    gate.acquire(host, now)
    gate.finish(host, now, Evidence(f"https://{name}/", now, well=True, **evidence))  # type: ignore[arg-type]
    return host


def forget(gate: HostGate, now: float) -> int:
    """A round of forgetting; how many hosts were forgotten."""
    gate.begin_round()
    total = 0
    while forgotten := gate.forget_idle(now):
        total += forgotten
    return total


def test_hosts_without_pages_are_forgotten_when_idle() -> None:
    """A host nobody asks for any more leaves nothing, its index serves others, and hosts with pages stay."""
    gate = HostGate()
    own = gate.host_of_pages("own.example")
    for number in range(2 * HOST_GATE_LIMITS.free_indexes):
        seen_once(gate, f"h{number}.example", 0.0)
    assert (forget(gate, 100.0), forget(gate, 100.0)) == (0, 2 * HOST_GATE_LIMITS.free_indexes)
    assert (gate.known, gate.host("own.example")) == (1, own)
    assert not gate.knows("h1.example")
    size = gate.size
    for number in range(HOST_GATE_LIMITS.free_indexes - 1):
        host = seen_once(gate, f"i{number}.example", 200.0)
        assert (gate.name(host), gate.in_flight[host]) == (f"i{number}.example", 0)
    assert gate.size == size


def test_what_matters_of_hosts_without_pages_is_kept() -> None:
    """Blocked, slowed down, in back-off, asked to wait or under way: such hosts are kept as long as that lasts."""
    gate = HostGate(HostLimits(spacing=0.0, jitter=0.0))
    blocked, delayed, failing, asked, busy, late = (gate.host(name) for name in "abcdef")
    gate.block(blocked)
    gate.set_delay(delayed, 5.0)
    fail(gate, failing, 0.0, enough=1)
    ask(gate, asked, 0.0, "u", well=True, retry_after=3600.0)
    gate.acquire(busy, 0.0)
    gate.acquire(late, 0.0)
    assert gate.give_up_place(late, 100.0)
    for _ in range(3):
        forget(gate, 5.0)
    assert gate.known == 6
    gate.finish(busy, 5.0)
    gate.finish(late, 5.0, late=True)
    with gate.held(busy):
        for _ in range(3):
            forget(gate, 3599.0)
        assert [name for name in "abcdef" if gate.knows(name)] == ["a", "b", "d", "e"]
    for _ in range(3):
        forget(gate, 3599.0)
    assert [name for name in "abcdef" if gate.knows(name)] == ["a", "b", "d"]
    gate.unblock(blocked)
    gate.set_delay(delayed, None)
    for _ in range(3):
        forget(gate, 3601.0)
    assert gate.known == 0


def test_a_host_in_use_is_not_idle() -> None:
    """A host without pages that is asked for now and then stays."""
    gate = HostGate()
    for round_ in range(5):
        seen_once(gate, "often.example", 100.0 * round_)
        forget(gate, 100.0 * round_ + 50.0)
    assert gate.knows("often.example")


def test_no_flood_of_hosts_makes_the_gate_forget_a_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the hosts asked for least recently are forgotten, but not when they may be asked again."""
    monkeypatch.setattr(politeness, "LIMITS", dataclasses.replace(politeness.LIMITS, max_foreign=500))
    gate = HostGate()
    own = gate.host_of_pages("own.example")
    busy = gate.host("busy.example")
    gate.acquire(busy, 0.0)
    seen_once(gate, "asked.example", 0.0, retry_after=86_000.0)
    for number in range(3 * 500):
        if gate.ready(gate.host(f"h{number}.example"), number):  # a few share the place of one that waits
            seen_once(gate, f"h{number}.example", number)
    assert gate.known <= 502
    assert not gate.knows("asked.example")
    assert not gate.ready(gate.host("asked.example"), 85_999.0)
    assert gate.ready(gate.host("asked.example"), 86_000.0)
    assert (gate.host("own.example"), gate.host("busy.example")) == (own, busy)
    gate.finish(busy, 2.0)


def test_a_host_that_comes_back_is_asked_as_its_robots_txt_says() -> None:
    """The Crawl-delay of a host that was forgotten counts again from its first request on."""
    gate = HostGate(crawl_delay_of={"slow.example": 10.0}.get)
    slow, quick = gate.host("slow.example"), gate.host("quick.example")
    assert (gate.delay[slow], gate.delay[quick]) == (10.0, 1.0)


def test_memory_of_hosts_seen_once_is_given_back() -> None:
    """Tens of thousands of hosts seen once, in rounds, leave the gate as large as the first round did."""
    gate, sizes = HostGate(), []
    tracemalloc.start()
    for round_ in range(6):
        for number in range(5_000):
            host = gate.host(f"h{number}.r{round_}.example")
            gate.acquire(host, 1e4 * round_)
            well = bool(number % 3)
            gate.finish(host, 1e4 * round_, Evidence(f"https://{'x' * 500}{number}/", 1e4 * round_, well, enough=1))
        for _ in range(2):
            forget(gate, 1e4 * round_ + 5e3)
        assert gate.known == 0
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[-1] < sizes[1] + 100_000, sizes
    assert sizes[-1] < 5_000 * 600


def test_bad_urls_are_bounded_over_all_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many hosts have bad pages, only so many URLs are remembered, and none of them as text."""
    monkeypatch.setattr(evidence_module, "LIMITS", dataclasses.replace(evidence_module.LIMITS, max_known_bad_in_all=50))
    suspicions = Suspicions()
    for host in range(100):
        suspicions.convicts(host, Evidence(f"{'x' * 5000}{host}", 1.0, well=False), 1.0)
        suspicions.acquit(host, "good", 2.0, outage=False)
    assert held_bytes(suspicions) < 50 * 5000
    no_news = [
        host
        for host in range(100)
        if not suspicions.convicts(host, Evidence(f"{'x' * 5000}{host}", 2.5, well=False, enough=1), 2.5)
    ]
    assert no_news == list(range(50, 100))
