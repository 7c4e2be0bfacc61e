"""Work under way that meets a host which may not be asked, or an error of our own, under the real crawler."""

import asyncio
import dataclasses

import numpy as np
import pytest

from crawld.choose.scheduler import Arrivals
from crawld.crawl import loop
from crawld.model.fetched import Fetched, Outcome, Redirected, Request
from crawld.model.page import Page
from crawld.read.page.rules import DigestRule
from tests.support.virtual_web import (
    EPOCH,
    HOST,
    ROBOTS,
    Answer,
    Crawling,
    Web,
    in_virtual_time,
    page_url,
    refused,
    well,
)

MINUTE = 60.0
OTHER = "other.org"
OTHER_ROBOTS = f"https://{OTHER}/robots.txt"


def to(url: str) -> Answer:
    """A redirect there."""

    def answer(request: Request) -> Outcome:
        return Redirected(request.url, 301, url, duration=0.05)

    return answer


def none(request: Request) -> Outcome:
    """There is no such file, which is told after a while."""
    return Fetched(request.url, 404, duration=5.0)


def test_a_robots_txt_that_leads_to_a_blocked_host_is_fetched_now_and_then() -> None:
    """It is unavailable for its site, and nothing piles up behind it."""

    async def course() -> None:
        web = Web(own={ROBOTS: to(OTHER_ROBOTS)})
        async with Crawling(web, 20) as crawling:
            crawling.gate.block(crawling.gate.host(OTHER))
            await asyncio.sleep(10 * MINUTE)
            assert crawling.crawler.status.in_flight <= 1
            assert crawling.crawler.admission.robots.unavailable(crawling.clock.now())
        assert {url for _, url in web.asked} == {ROBOTS}
        assert len(web.asked) <= 5

    in_virtual_time(course())


def test_a_robots_txt_under_way_is_not_fetched_again() -> None:
    """While its redirect waits for another host, its pages wait and other work goes on."""

    async def course() -> None:
        web = Web(own={ROBOTS: to(OTHER_ROBOTS), OTHER_ROBOTS: none})
        async with Crawling(web, 20, per_host=5):
            await asyncio.sleep(MINUTE)
        asked = [url for _, url in web.asked]
        assert (asked.count(ROBOTS), asked.count(OTHER_ROBOTS)) == (1, 1)
        assert len(asked) > MINUTE

    in_virtual_time(course())


def test_pages_that_lead_to_one_host_fetch_its_robots_txt_once() -> None:
    """Each waits for the one under way, and none fails for it."""

    async def course() -> None:
        web = Web(own={page_url(n): to(f"https://{OTHER}/{n}") for n in range(5)} | {OTHER_ROBOTS: none})
        async with Crawling(web, 5, per_host=5) as crawling:
            await asyncio.sleep(MINUTE)
            assert not crawling.crawler.status.troubles
        assert [url for _, url in web.asked].count(OTHER_ROBOTS) == 1

    in_virtual_time(course())


def test_a_page_that_leads_to_a_blocked_host_fails() -> None:
    """Its visit ends with trouble of its own instead of waiting for the operator."""

    async def course() -> None:
        web = Web(own={page_url(0): to(f"https://{OTHER}/")})
        async with Crawling(web, 5) as crawling:
            await asyncio.sleep(MINUTE / 2)
            crawling.gate.block(crawling.gate.host(OTHER))
            await asyncio.sleep(5 * MINUTE)
            assert crawling.crawler.status.in_flight <= 1
            assert crawling.crawler.status.troubles["host_not_ready"] >= 1

    in_virtual_time(course())


def test_work_under_way_ends_where_there_is_no_room_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that wait for a slot get one also while as many are under way as may be."""
    monkeypatch.setattr(loop, "LIMITS", dataclasses.replace(loop.LIMITS, in_flight=2))

    def slow(request: Request) -> Outcome:
        return well(request)._replace(duration=9 * MINUTE)

    async def course() -> None:
        slow_pages = [f"https://{OTHER}/{number}" for number in range(3)]
        web = Web(own={page_url(0): to(page_url(1)), **dict.fromkeys(slow_pages, slow)})
        async with Crawling(web, [page_url(0), *slow_pages], per_host=3) as crawling:
            home, other = map(crawling.gate.host, (HOST, OTHER))
            crawling.gate.set_delay(home, 5.0)
            crawling.gate.block(other)
            while page_url(0) not in [url for _, url in web.asked]:
                await asyncio.sleep(0.01)
            crawling.gate.unblock(other)
            await asyncio.sleep(4.0)
            assert crawling.crawler.in_flight == 2
            before = len(web.asked)
            await asyncio.sleep(MINUTE)
            assert [url for _, url in web.asked[before:]] == [page_url(1)]

    in_virtual_time(course())


def test_a_page_whose_visit_ends_in_an_error_leaves_its_host_to_the_others() -> None:
    """It is asked again after a minute, not at every slot."""

    def rule_for(url: str) -> DigestRule:
        if url == page_url(0):
            raise ValueError("no rule")
        return DigestRule()

    async def course() -> None:
        web = Web()
        async with Crawling(web, 5, rule_for=rule_for) as crawling:
            await asyncio.sleep(5 * MINUTE)
            crawling.store.failed = crawling.crawler.status.faults
        asked = [url for _, url in web.asked]
        assert 4 <= asked.count(page_url(0)) <= 6
        assert len(asked) >= 8 * MINUTE

    in_virtual_time(course())


def test_a_page_that_leads_to_a_host_which_is_down_waits_an_hour_at_most() -> None:
    """However many pages its own host has: they are no help to find the other one well."""

    async def course() -> None:
        own = {page_url(n): to(f"https://{OTHER}/{n}") for n in range(5)}
        web = Web(own=own | {f"https://{OTHER}/{n}": refused for n in range(5)} | {OTHER_ROBOTS: none})
        async with Crawling(web, 400) as crawling:
            await asyncio.sleep(30 * MINUTE)
            assert crawling.gate.backs_off(crawling.gate.host(OTHER))
            waits = [crawling.scheduler.waits_until(n) - crawling.clock.now() for n in range(5)]
            assert MINUTE < max(waits) <= 60 * MINUTE

    in_virtual_time(course())


def test_audits_go_on_where_a_host_is_blocked() -> None:
    """A page drawn there is dropped, and the next draw counts."""

    async def course() -> None:
        web = Web()
        async with Crawling(web, 5, audit_share=0.5) as crawling:
            other = crawling.gate.host(OTHER)
            crawling.gate.block(other)
            crawling.pages.put(Page(9, f"https://{OTHER}/", OTHER, 20.0))
            arrival = Arrivals(np.array([9]), np.array([other]), np.array([20.0]), np.array([EPOCH]))
            crawling.scheduler.add(arrival)
            await asyncio.sleep(5 * MINUTE)
            assert len(crawling.crawler.audits) >= 10

    in_virtual_time(course())


def test_a_page_passed_over_while_robots_txt_comes_waits_a_moment_only() -> None:
    """It was not asked, so that the minimum interval does not hold it up."""

    async def course() -> None:
        web = Web(own={ROBOTS: none})
        async with Crawling(web, 3, per_host=3, shortest=60 * MINUTE):
            await asyncio.sleep(MINUTE)
        assert {url for url in web.between(0, MINUTE) if url != ROBOTS} == {page_url(number) for number in range(3)}

    in_virtual_time(course())
