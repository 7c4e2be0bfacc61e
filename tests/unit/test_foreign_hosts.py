"""Hosts without pages, which redirects lead to, under the real crawler in virtual time."""

import asyncio
from itertools import count

from crawld.fetch.robots_cache import DAY, NeedsFetch
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Redirected, Request, Scope, Trouble
from crawld.model.url import host_of, origin_of
from tests.support.virtual_web import HOST, ROBOTS, Crawling, Web, in_virtual_time, page_url

PAGES = 100
numbers = count()


def elsewhere(request: Request) -> Outcome:
    """Our own pages lead to ever other hosts: some answer, some are dead, some ask us to wait or to be slow."""
    if request.url == ROBOTS:
        return Fetched(request.url, 404, duration=0.01)
    host = host_of(request.url)
    if host == HOST:
        return Redirected(request.url, 302, f"https://f{next(numbers)}.example/", duration=0.01)
    kind = int(host[1:].partition(".")[0]) % 4
    if request.url.endswith("/robots.txt"):
        body = b"User-agent: *\nDisallow: /x\nCrawl-delay: 5\n" if kind == 1 else b""
        return Fetched(request.url, 200, body, duration=0.01)
    if kind == 2:
        return FetchFailed(request.url, Trouble.REFUSED, Scope.HOST, "connection refused", duration=0.01)
    if kind == 3:
        return FetchFailed(request.url, Trouble.STATUS, Scope.HOST, "status 429", 429, 3600.0, 0.01)
    return Fetched(request.url, 200, b"<p>text</p>", duration=0.01)


def test_hosts_seen_once_leave_nothing() -> None:
    """After many hosts were seen once everything that is kept by host is as large as it was before."""

    async def course() -> None:
        web = Web(everywhere=elsewhere)
        async with Crawling(web, PAGES, rate=20.0, per_host=20) as crawling:
            await asyncio.sleep(60.0)
            seen = len({host_of(url) for _, url in web.asked})
            assert crawling.gate.known == seen > 100
            crawling.crawler.change_bandwidth(0.0)
            for _ in range(3):
                await asyncio.sleep(DAY / 3)
                await crawling.crawler.admission.forget_idle_hosts()
            admission = crawling.crawler.admission
            assert not admission.robots_under_way
            assert admission.ledgers <= 1
        assert crawling.gate.known == 1
        assert crawling.gate.size == seen
        now = crawling.clock.now()
        own = crawling.gate.host(HOST)
        assert [host for host in range(seen) if crawling.gate.has_answered(host)] == [own]
        assert not any(crawling.gate.backs_off(host) for host in range(seen))
        sites = {origin_of(url) for _, url in web.asked}
        known = [site for site in sites if not isinstance(crawling.robots.verdict(f"{site}/", now), NeedsFetch)]
        assert set(known) <= {origin_of(ROBOTS)}
        assert not crawling.robots.unavailable(now)
        assert page_url(0) in {url for _, url in web.asked}

    in_virtual_time(course())
