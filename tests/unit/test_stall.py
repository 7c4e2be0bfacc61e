"""The watchdog's question: does the daemon use its slots where there is a use, under the real crawler."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable

import pytest

from crawld.crawl import loop
from crawld.crawl.loop import LIMITS
from crawld.model.fetched import Fetched, Outcome, Request
from tests.support.virtual_web import HOST, ROBOTS, Crawling, Web, in_virtual_time, page_url, silent, status, well

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


def test_idle_slots_although_pages_are_due_are_a_stall(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few minutes the watchdog is told, with the reason in the log; a used slot ends it."""
    monkeypatch.setattr(loop, "LIMITS", dataclasses.replace(LIMITS, in_flight=3))

    def slow(request: Request) -> Outcome:
        return well(request)._replace(duration=8 * MINUTE)

    async def course() -> None:
        slow_pages = [f"https://slow.example/{number}" for number in range(3)]
        pages = [*slow_pages, *map(page_url, range(10))]
        async with Crawling(Web(own=dict.fromkeys(slow_pages, slow)), pages, per_host=3) as crawling:
            await asyncio.sleep(MINUTE)
            assert crawling.crawler.in_flight == 3
            await asyncio.sleep(2 * MINUTE)
            assert crawling.crawler.serves_slots()
            await asyncio.sleep(4 * MINUTE)
            assert not crawling.crawler.serves_slots()
            for url in slow_pages:
                crawling.web.own[url] = well
            await asyncio.sleep(2 * MINUTE)
            assert crawling.crawler.serves_slots()

    with caplog.at_level(logging.ERROR):
        in_virtual_time(course())
    told = [record for record in caplog.records if "no slot is used although pages are due" in record.message]
    assert len(told) == 1
    assert vars(told[0])["in_flight"] == 3
