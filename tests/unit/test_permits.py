"""Who waits for a slot and a host: few, not long, and at little cost to each slot."""

import asyncio

from crawld.daemon.pages.pages import Pages
from crawld.daemon.slots.further_requests import MOST_WAITING_PER_HOST, MOST_WAITING_PER_PAYER, Permits
from crawld.daemon.slots.request_chain import FIRST_CREDIT, Cause, Refusal, RequestChain
from crawld.daemon.slots.unproven_hosts import UnprovenHosts
from crawld.frontier.politeness import HostGate, HostLimits
from crawld.pacer import Pacer
from tests.unit.virtual_web import VirtualClock, in_virtual_time


class _CountingGate(HostGate):
    looks = 0

    def ready(self, host: int, now: float) -> bool:
        self.looks += 1
        return super().ready(host, now)


def _permits(gate: HostGate, rate: float = 100.0) -> Permits:
    clock, pages = VirtualClock(), Pages()
    pacer = Pacer(rate, clock.monotonic())
    return Permits(gate, pages, pacer, clock, UnprovenHosts(gate, pages, lambda: rate))


def _busy(gate: HostGate, name: str, now: float) -> int:
    host = gate.host(name)
    gate.acquire(host, now)
    gate.finish(host, now)
    return host


def test_a_host_that_is_not_ready_soon_is_not_waited_for() -> None:
    """The refusal says when to come back: each page of an payer one gap after the one before."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=60.0))
        permits, now = _permits(gate), VirtualClock().now()
        host = _busy(gate, "slow.org", now)
        refusals = [await permits.wait(host, RequestChain("from.org")) for _ in range(3)]
        times = [refusal.at - now for refusal in refusals if refusal is not None]
        assert [round(time) for time in times] == [58, 118, 178]
        assert len(permits) == 0

    in_virtual_time(course())


def test_origins_share_the_turns_of_a_host() -> None:
    """A page of another payer need not wait for all pages of the first."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=60.0))
        permits, now = _permits(gate), VirtualClock().now()
        host = _busy(gate, "slow.org", now)
        for _ in range(100):
            await permits.wait(host, RequestChain("many.org"))
        refusal = await permits.wait(host, RequestChain("few.org"))
        assert refusal is not None
        assert refusal.at - now <= 3 * 60.0

    in_virtual_time(course())


def test_few_wait_for_one_host_and_for_one_origin() -> None:
    """Beyond that they are refused at once, and all the others in time."""

    async def course() -> None:
        gate = HostGate(HostLimits(spacing=0.0))
        permits = _permits(gate)
        one = [asyncio.create_task(permits.wait(gate.host("one.org"), RequestChain(f"{n}.org"))) for n in range(100)]
        payer = [
            asyncio.create_task(permits.wait(gate.host(f"{n}.com"), RequestChain("chain.org"))) for n in range(100)
        ]
        await asyncio.sleep(0.1)
        beyond = int(FIRST_CREDIT) + MOST_WAITING_PER_PAYER
        assert sum(not task.done() for task in one) == MOST_WAITING_PER_HOST
        assert sum(not task.done() for task in payer) == beyond
        assert len(permits) == MOST_WAITING_PER_HOST + beyond
        await asyncio.sleep(60.0)
        causes = [refusal.cause for task in payer if isinstance(refusal := task.result(), Refusal)]
        assert causes == [Cause.SHARE] * 100
        assert len(permits) == 0

    in_virtual_time(course())


def test_a_slot_does_not_look_at_everyone_who_waits() -> None:
    """Its cost stays far below the number that wait."""

    async def course() -> None:
        gate = _CountingGate(HostLimits(spacing=0.3))
        permits, clock = _permits(gate), VirtualClock()
        hosts = [_busy(gate, f"{n}.org", clock.now()) for n in range(100)]
        tasks = [
            asyncio.create_task(permits.wait(host, RequestChain(f"from{host}-{n}.org")))
            for host in hosts
            for n in range(15)
        ]
        await asyncio.sleep(0.01)
        assert len(permits) == 1500
        gate.looks = slots = granted = 0
        while len(permits) > 500:
            await asyncio.sleep(0.01)
            if permits.grant(clock.now()) or permits.grant_beyond(clock.now()):
                granted += 1
                gate.finish(next(host for host in hosts if gate.in_flight[host]), clock.now())
            slots += 1
        assert granted >= 500
        assert gate.looks <= 10 * slots
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    in_virtual_time(course())
