"""The watchdog's question: does the daemon use its slots where there is a use, under the real crawler."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from crawld.crawl.loop import LIMITS
from crawld.model.fetched import Fetched
from tests.support.virtual_web import HOST, ROBOTS, Crawling, Web, in_virtual_time, silent, status

MINUTE = 60.0
FORBIDDING = Fetched(ROBOTS, 200, b"User-agent: *\nDisallow: /\n")


def _unwell(crawling: Crawling) -> None:
    crawling.store.healthy = False


IDLE: dict[str, tuple[Web, float, Callable[[Crawling], None]]] = {
    "min_interval": (Web(), 7200.0, lambda _: None),
    "a blocked host": (Web(), 5.0, lambda crawling: crawling.gate.block(crawling.gate.host(HOST))),
    "a long delay": (Web(), 5.0, lambda crawling: crawling.gate.set_delay(crawling.gate.host(HOST), 1800.0)),
    "Retry-After": (Web(everywhere=status(429, 3600.0)), 5.0, lambda _: None),
    "a silent host": (Web(everywhere=silent), 5.0, lambda _: None),
    "a forbidding robots.txt": (Web(own={ROBOTS: lambda _: FORBIDDING}), 5.0, lambda _: None),
    "an unavailable robots.txt": (Web(own={ROBOTS: status(503)}), 5.0, lambda _: None),
    "a store that cannot write": (Web(), 5.0, _unwell),
    "a pause": (Web(), 5.0, lambda crawling: crawling.crawler.change_bandwidth(0.0)),
}


@pytest.mark.parametrize("name", IDLE)
def test_idle_slots_that_have_a_reason_are_no_stall(name: str) -> None:
    """However long they last, the daemon counts as serving its slots."""

    async def course() -> None:
        web, shortest, change = IDLE[name]
        async with Crawling(web, 10, shortest=shortest) as crawling:
            change(crawling)
            for _ in range(60):
                await asyncio.sleep(MINUTE / 2)
                assert crawling.crawler.serves_slots()

    in_virtual_time(course())


def test_idle_slots_although_pages_are_due_are_a_stall(caplog: pytest.LogCaptureFixture) -> None:
    """After a few minutes the watchdog is told, with the reason in the log; a used slot ends it."""

    async def course() -> None:
        async with Crawling(Web(), 10) as crawling:
            await asyncio.sleep(MINUTE)
            others = [asyncio.create_task(asyncio.sleep(60 * MINUTE)) for _ in range(LIMITS.in_flight)]
            crawling.crawler._tasks.update(others)
            await asyncio.sleep(3 * MINUTE)
            assert crawling.crawler.serves_slots()
            await asyncio.sleep(4 * MINUTE)
            assert not crawling.crawler.serves_slots()
            crawling.crawler._tasks.difference_update(others)
            for other in others:
                other.cancel()
            await asyncio.sleep(MINUTE)
            assert crawling.crawler.serves_slots()

    with caplog.at_level(logging.ERROR):
        in_virtual_time(course())
    told = [record for record in caplog.records if "no slot is used although pages are due" in record.message]
    assert len(told) == 1
    assert vars(told[0])["in_flight"] >= LIMITS.in_flight
