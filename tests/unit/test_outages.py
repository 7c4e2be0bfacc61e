"""Hosts that fail and come back, under the real crawler in virtual time."""

import asyncio
from collections import Counter

import pytest

from crawld.model.fetched import Outcome, Request
from tests.support.virtual_web import (
    HOST,
    ROBOTS,
    Answer,
    Crawling,
    Web,
    in_virtual_time,
    page_url,
    refused,
    silent,
    status,
    well,
)

MINUTE = 60.0
OUTAGES = [refused, silent, status(503), status(429), status(500)]
NAMES = ["refused", "silent", "503", "429", "500"]
RATE = 2.0
COURSES = [
    *(pytest.param(20, 1, outage, id=f"20 pages {name}") for outage, name in zip(OUTAGES, NAMES, strict=True)),
    *(pytest.param(pages, 1, silent, id=f"{pages} pages silent") for pages in (1, 2, 3, 200)),
    *(pytest.param(pages, 1, status(503), id=f"{pages} pages 503") for pages in (1, 2, 3, 200)),
    *(pytest.param(pages, 10, silent, id=f"{pages} pages silent, ten at a time") for pages in (2, 200)),
    pytest.param(20, 10, refused, id="20 pages refused, ten at a time"),
]


FEW_BAD = [
    *(pytest.param(1, bad, id=f"one {name}") for bad, name in zip(OUTAGES, NAMES, strict=True)),
    *(pytest.param(2, bad, id=f"two {name}") for bad, name in zip(OUTAGES, NAMES, strict=True)),
    pytest.param(3, status(503), id="three 503"),
]


async def full_rate(pages: int) -> float:
    """Requests a second to a host that is well."""
    web = Web()
    async with Crawling(web, pages):
        await asyncio.sleep(1.5 * MINUTE)
        return len(web.between(MINUTE / 2, 1.5 * MINUTE)) / MINUTE


@pytest.mark.parametrize(("pages", "per_host", "outage"), COURSES)
def test_a_host_that_is_down_is_asked_once_a_minute_and_back_within_two(
    pages: int, per_host: int, outage: Answer
) -> None:
    """After five minutes without an answer it gets at most one request a minute; two after its return, all of them."""

    async def course() -> None:
        usual = await full_rate(pages)
        web = Web()
        async with Crawling(web, pages, per_host=per_host) as crawling:
            start = crawling.clock.monotonic()
            await asyncio.sleep(MINUTE)
            web.everywhere = outage
            await asyncio.sleep(15 * MINUTE)
            web.everywhere = well
            await asyncio.sleep(4 * MINUTE)
        down, back = start + MINUTE, start + 16 * MINUTE
        for minute in range(5, 15):
            assert len(web.between(down + minute * MINUTE, down + (minute + 1) * MINUTE)) <= 1
        assert len(web.between(down + 5 * MINUTE, back)) >= 6  # it is looked for all the time
        returned = web.between(back + 2 * MINUTE, back + 4 * MINUTE)
        assert len(returned) >= 0.95 * usual * 2 * MINUTE
        assert len({url for url in returned if url != ROBOTS}) == pages

    in_virtual_time(course())


@pytest.mark.parametrize("outage", [refused, silent, status(503)], ids=["refused", "silent", "503"])
@pytest.mark.parametrize("pages", [1, 2, 20])
def test_a_host_that_is_down_at_the_start_is_back_within_two_minutes(pages: int, outage: Answer) -> None:
    """robots.txt, which fails with the rest, does not hold the host back."""

    async def course() -> None:
        usual = await full_rate(pages)
        web = Web(everywhere=outage)
        async with Crawling(web, pages) as crawling:
            start = crawling.clock.monotonic()
            await asyncio.sleep(7 * MINUTE)
            web.everywhere = well
            await asyncio.sleep(4 * MINUTE)
        assert len(web.between(start + 5 * MINUTE, start + 7 * MINUTE)) <= 2
        returned = web.between(start + 9 * MINUTE, start + 11 * MINUTE)
        assert len(returned) >= 0.95 * usual * 2 * MINUTE

    in_virtual_time(course())


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize(("bad_pages", "bad"), FEW_BAD)
def test_bad_pages_leave_the_good_ones_their_crawls(bad: Answer, first: bool, bad_pages: int) -> None:
    """Beside a few pages that fail for ever the others keep nine tenths of their crawls."""

    async def course() -> None:
        bad_urls = [page_url(number if first else 20 - number) for number in range(bad_pages)]
        web = Web(own=dict.fromkeys(bad_urls, bad))
        async with Crawling(web, 21) as crawling:
            start = crawling.clock.monotonic()
            await asyncio.sleep(200.0)
            good = [url for url in web.between(start, start + 200.0) if url not in bad_urls]
        assert len(good) >= 0.9 * RATE * 200.0

    in_virtual_time(course())


def test_a_page_that_fails_is_not_the_next_one_asked_however_few_slots_there_are() -> None:
    """At a rate of one request in five minutes a bad page, first in the list, does not keep the others waiting."""

    async def course() -> None:
        web = Web(own={page_url(0): status(503)})
        async with Crawling(web, 5, rate=1 / 300):
            await asyncio.sleep(12 * 3600)
        asked = Counter(url for _, url in web.asked)
        assert asked[page_url(0)] <= 0.2 * len(web.asked)
        assert min(asked[page_url(number)] for number in range(1, 5)) >= 0.1 * len(web.asked)

    in_virtual_time(course())


@pytest.mark.parametrize("code", [429, 503, 403])
def test_a_retry_after_is_obeyed_by_the_whole_host(code: int) -> None:
    """Nothing is asked for as long as it says, though other requests succeed meanwhile; then other pages come first."""

    async def course() -> None:
        web = Web()
        async with Crawling(web, 20, per_host=3) as crawling:
            start = crawling.clock.monotonic()
            await asyncio.sleep(MINUTE)
            web.own[page_url(7)] = status(code, retry_after=400.0)
            await asyncio.sleep(10 * MINUTE)
        at = next(at for at, url in web.asked if url == page_url(7) and at >= start + MINUTE)
        assert web.between(at + 0.1, at + 400.0) == []
        assert len(web.between(at + 401.0, at + 461.0)) >= 0.9 * RATE * MINUTE

    in_virtual_time(course())


def test_a_silent_page_gives_its_place_to_the_next_and_few_do() -> None:
    """With one request at a time a host never has more than two further requests that wait in vain."""

    async def course() -> None:
        web = Web(own={page_url(number): silent for number in range(4)})
        async with Crawling(web, 20) as crawling:
            start = crawling.clock.monotonic()
            await asyncio.sleep(10 * MINUTE)
            assert len(web.between(start, start + 10 * MINUTE)) >= 0.75 * RATE * 10 * MINUTE
        assert web.most_under_way == 3

    in_virtual_time(course())


def test_a_host_whose_answers_all_take_long_is_asked_one_at_a_time() -> None:
    """Only what takes much longer than usual gives its place away."""

    def slow(request: Request) -> Outcome:
        return well(request)._replace(duration=6.0)

    async def course() -> None:
        web = Web(everywhere=slow)
        async with Crawling(web, 20):
            await asyncio.sleep(10 * MINUTE)
        assert web.most_under_way == 1

    in_virtual_time(course())


def test_what_the_store_keeps_of_a_host_follows_an_outage() -> None:
    """The back-off is recorded as it grows, and its end as well."""

    async def course() -> None:
        web = Web()
        async with Crawling(web, 5) as crawling:
            await asyncio.sleep(MINUTE)
            web.everywhere = refused
            await asyncio.sleep(3 * MINUTE)
            kept = crawling.store.hosts[HOST]
            assert kept.failures > 1
            assert kept.blocked_until > crawling.clock.now() - 1.0
            web.everywhere = well
            await asyncio.sleep(3 * MINUTE)
            assert (crawling.store.hosts[HOST].failures, crawling.store.hosts[HOST].blocked_until) == (0, 0.0)

    in_virtual_time(course())


def test_a_page_whose_memory_cannot_be_read_leaves_its_host_its_place() -> None:
    """Where the database fails in front of a request, nothing is sent, and the host is asked again by the next."""

    async def course() -> None:
        web = Web()
        async with Crawling(web, 5) as crawling:
            start = crawling.clock.monotonic()
            await asyncio.sleep(MINUTE)
            crawling.store.to_fail = 3
            await asyncio.sleep(MINUTE)
            assert len(web.between(start + MINUTE, start + 2 * MINUTE)) >= 0.9 * RATE * MINUTE
        assert crawling.store.failed == 3

    in_virtual_time(course())
