"""Which request may leave, and who pays: few wait, not long, at little cost to each slot, and nothing piles up."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from crawld.choose import policies
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.pacer import Pacer
from crawld.choose.page_table import Intervals
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.crawl import admission as admission_module
from crawld.crawl.admission import LIMITS, Admission, Cause, NotNow, Refusal, RequestChain, RobotsFetch, Sent
from crawld.fetch.robots_cache import Allowed, Disallowed, NeedsFetch, RobotsCache
from crawld.model.fetched import Fetched, Purpose, Request
from crawld.pages.pages import Pages
from tests.support.virtual_web import EPOCH, VirtualClock, in_virtual_time, refused, well


class _CountingGate(HostGate):
    looks = 0

    def ready(self, host: int, now: float) -> bool:
        self.looks += 1
        return super().ready(host, now)


def _admission(gate: HostGate, rate: float = 100.0) -> Admission:
    clock, pages = VirtualClock(), Pages()
    chooser = policies.choose("greedy-ncis").chooser(bandwidth=rate, gate=gate, intervals=Intervals(shortest=1.0))
    pacer = Pacer(rate, clock.monotonic())
    return Admission(gate, RobotsCache("crawld"), pages, Scheduler(chooser), pacer, clock)


def _busy(gate: HostGate, name: str, now: float) -> int:
    host = gate.host(name)
    gate.acquire(host, now)
    gate.finish(host, now)
    return host


def test_a_host_that_is_not_ready_soon_is_not_waited_for() -> None:
    """The refusal says when to come back: each page of a payer one gap after the one before."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=60.0))
        admission, now = _admission(gate), VirtualClock().now()
        host = _busy(gate, "slow.org", now)
        refusals = [await admission.wait(host, RequestChain("from.org")) for _ in range(3)]
        times = [refusal.at - now for refusal in refusals if refusal is not None]
        assert [round(time) for time in times] == [58, 118, 178]
        assert admission.waiting == 0

    in_virtual_time(course())


def test_payers_share_the_turns_of_a_host() -> None:
    """A page of another payer need not wait for all pages of the first."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=60.0))
        admission, now = _admission(gate), VirtualClock().now()
        host = _busy(gate, "slow.org", now)
        for _ in range(100):
            await admission.wait(host, RequestChain("many.org"))
        refusal = await admission.wait(host, RequestChain("few.org"))
        assert refusal is not None
        assert refusal.at - now <= 3 * 60.0

    in_virtual_time(course())


def test_few_wait_for_one_host_and_for_one_payer() -> None:
    """Beyond that they are refused at once, and all the others in time."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=0.0))
        admission = _admission(gate)
        one = [asyncio.create_task(admission.wait(gate.host("one.org"), RequestChain(f"{n}.org"))) for n in range(100)]
        payer = [
            asyncio.create_task(admission.wait(gate.host(f"{n}.com"), RequestChain("chain.org"))) for n in range(100)
        ]
        await asyncio.sleep(0.1)
        beyond = int(LIMITS.first_credit) + LIMITS.max_waiting_per_payer
        assert sum(not task.done() for task in one) == LIMITS.max_waiting_per_host
        assert sum(not task.done() for task in payer) == beyond
        assert admission.waiting == LIMITS.max_waiting_per_host + beyond
        await asyncio.sleep(60.0)
        causes = [refusal.cause for task in payer if isinstance(refusal := task.result(), Refusal)]
        assert causes == [Cause.SHARE] * 100
        assert admission.waiting == 0

    in_virtual_time(course())


def test_a_slot_does_not_look_at_everyone_who_waits() -> None:
    """Its cost stays far below the number that wait."""

    async def course() -> None:
        gate = _CountingGate(HostLimits(spacing=0.3))
        admission, clock = _admission(gate), VirtualClock()
        hosts = [_busy(gate, f"{n}.org", clock.now()) for n in range(100)]
        tasks = [
            asyncio.create_task(admission.wait(host, RequestChain(f"from{host}-{n}.org")))
            for host in hosts
            for n in range(15)
        ]
        await asyncio.sleep(0.01)
        assert admission.waiting == 1500
        gate.looks = slots = granted = 0
        while admission.waiting > 500:
            await asyncio.sleep(0.01)
            if admission.grant(clock.now()) or admission.grant_surplus(clock.now(), spare=True):
                granted += 1
                gate.finish(next(host for host in hosts if gate.in_flight[host]), clock.now())
            slots += 1
        assert granted >= 500
        assert gate.looks <= 10 * slots
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    in_virtual_time(course())


def test_a_first_request_is_decided_by_robots_txt_and_its_host() -> None:
    """Forbidden, not now, robots.txt first, or allowed: in this order."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=60.0))
        admission, now = _admission(gate), VirtualClock().now()
        page, file = "https://one.org/page", "https://one.org/robots.txt"
        host = gate.host("one.org")
        assert admission.decide(page, host, now) == NeedsFetch(file)
        fetch = admission.robots_under_way[file] = RobotsFetch()
        assert admission.decide(page, host, now) is NotNow.ROBOTS
        admission.begin(host, now)
        assert admission.decide(page, host, now) is NotNow.HOST
        admission.abandon(Sent(host))
        fetch.set()
        del admission.robots_under_way[file]
        admission.learn_robots(file, "one.org", Fetched(file, 200, b"User-agent: *\nDisallow: /secret\n"), None)
        assert admission.decide(page, host, now) is NotNow.HOST  # its spacing has yet to pass
        assert isinstance(admission.decide("https://one.org/secret", host, now), Disallowed)
        assert isinstance(admission.decide(page, host, now + 60.0), Allowed)
        gate.block(host)
        assert admission.decide(page, host, now + 60.0) is NotNow.FAR

    in_virtual_time(course())


def test_credit_is_earned_by_first_requests_and_spent_by_further_ones() -> None:
    """A payer without credit waits for the surplus; a first request pays for its next redirect."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=0.0))
        admission, now = _admission(gate), VirtualClock().now()

        async def further(number: int) -> bool:
            """Whether a further request of the payer is paid for."""
            waiting = asyncio.create_task(admission.wait(gate.host(f"{number}.com"), RequestChain("from.org")))
            await asyncio.sleep(0)
            paid = admission.grant(now)
            assert paid or admission.grant_surplus(now, spare=True)
            assert await waiting is None
            return paid

        assert [await further(number) for number in range(3)] == [True, True, False]
        admission.earn(gate.host("from.org"))
        assert [await further(number) for number in range(3, 5)] == [True, False]

    in_virtual_time(course())


def test_tokens_are_lost_at_hosts_that_do_not_answer_and_come_back_from_others() -> None:
    """Dead hosts use the tokens up; what is left to them is the slots that no page wants."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=0.0))
        admission, now = _admission(gate, rate=1.0), VirtualClock().now()
        for number in range(20):
            host = gate.host(f"{number}.org")
            assert admission.admits(host) == (number < 4 + LIMITS.min_tokens)
            assert admission.admits(host, spare=True)
            admission.begin(host, now)
            assert not gate.ready(host, now)  # one request at a time
            answers = number < 4
            request = Request(f"https://{number}.org/", f"{number}.org")
            admission.settle(request, Sent(host), (well if answers else refused)(request))
            assert admission.unproven(host) is not answers
        assert admission.ledgers == 0
        host = gate.host("20.org")
        admission.set_aside(host)
        slots = 0
        while admission.is_set_aside(host):
            admission.tick(0.0)
            slots += 1
        assert slots in {round(1 / LIMITS.unproven_share), round(1 / LIMITS.unproven_share) + 1}

    in_virtual_time(course())


def test_pages_that_lead_to_ever_other_dead_hosts_are_remembered_once() -> None:
    """However many hosts that are down a page has led to, it waits for the latest alone, and nothing else is kept."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=0.0))
        admission, now = _admission(gate), VirtualClock().now()
        own = gate.host_of_pages("from.org")
        arrivals = Arrivals(np.arange(3), np.array([own] * 3), np.ones(3), np.full(3, EPOCH))
        admission.scheduler.add(arrivals)
        for number in range(1000):
            request = Request(f"https://dead{number}.org/robots.txt", f"dead{number}.org", Purpose.ROBOTS)
            host = gate.host(request.host)
            admission.begin(host, now)
            admission.settle(request, Sent(host), refused(request))
            page_id = number % 3
            wait = admission.wait_for_host(host, page_id, own, now)
            assert wait is not None
            assert admission.scheduler.hold(page_id, now)
            admission.scheduler.release(page_id, wait)
        assert admission.ledgers == 3
        for number in (997, 998, 999, 1):
            request = Request(f"https://dead{number}.org/robots.txt", f"dead{number}.org", Purpose.ROBOTS)
            host = gate.host(request.host)
            gate.unblock(host)
            admission.begin(host, now)
            admission.settle(request, Sent(host), well(request))
        assert admission.ledgers == 0
        assert max(admission.scheduler.waits_until(page_id) for page_id in range(3)) <= now + 1.0

    in_virtual_time(course())


def test_ledgers_are_bounded_and_those_in_use_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the one longest unused goes, and its host is as good as new."""
    monkeypatch.setattr(admission_module, "LIMITS", replace(LIMITS, max_ledgers=50))

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=60.0))
        admission, now = _admission(gate), VirtualClock().now()
        busy = gate.host("busy.org")
        admission.begin(busy, now)
        slow = _busy(gate, "slow.org", now)
        assert await admission.wait(slow, RequestChain("from.org")) is not None
        for number in range(500):
            assert await admission.wait(_busy(gate, f"{number}.org", now), RequestChain("from.org")) is not None
        assert admission.ledgers <= 51
        again = await admission.wait(slow, RequestChain("from.org"))
        assert again is not None
        assert round(again.at - now) == 58  # as the first time
        request = Request("https://busy.org/", "busy.org")
        admission.settle(request, Sent(busy), well(request))
        assert not admission.unproven(busy)

    in_virtual_time(course())
