"""Good pages keep their requests beside redirects, chains and hosts that do not answer, under the real crawler."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence

import pytest

from crawld.crawl.loop import LIMITS
from crawld.model.fetched import Fetched, Outcome, Redirected, Request
from crawld.model.url import host_of
from tests.support.virtual_web import (
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
RATE = 20.0
GOOD = [f"https://good{number}.org/" for number in range(150)]
SLOW = "www.slow.org"


def redirect(url: str) -> Answer:
    """A redirect there."""
    return lambda request: Redirected(request.url, 301, url, duration=0.05)


def later(request: Request) -> Outcome:
    """A page that takes a second."""
    return Fetched(request.url, 404 if request.url.endswith("/robots.txt") else 200, b"<p>text</p>", duration=1.0)


def crawl_delay(seconds: int) -> Answer:
    """A robots.txt that asks for that much time between requests."""
    return lambda request: Fetched(request.url, 200, f"User-agent: *\nCrawl-delay: {seconds}\n".encode(), duration=0.05)


def chains(first: str) -> Answer:
    """A redirect to a host that nobody has heard of, four more behind it."""
    fresh = itertools.count()

    def answer(request: Request) -> Outcome:
        return Redirected(request.url, 302, f"https://{first}-{next(fresh)}.chain.org/4", duration=0.05)

    return answer


def web_of_chains(request: Request) -> Outcome:
    """The hosts of a chain, each leading to the next until the last, and pages that are well."""
    if not request.host.endswith(".chain.org") or request.url.endswith("/robots.txt"):
        return well(request)
    left = int(request.url.rpartition("/")[2])
    if left == 0:
        return well(request)
    return Redirected(request.url, 302, f"https://{left}.{request.host}/{left - 1}", duration=0.05)


async def good_requests(web: Web, urls: Sequence[str]) -> int:
    """Requests to good pages in two minutes; the other pages come when the good ones have been seen."""
    async with Crawling(web, GOOD, rate=RATE, spacing=1.0, shortest=5.0) as crawling:
        await asyncio.sleep(MINUTE / 2)
        if urls:
            crawling.add(urls)
        start = asyncio.get_running_loop().time()
        await asyncio.sleep(2 * MINUTE)
        good = frozenset(GOOD)
        return sum(url in good for url in web.between(start, start + 2 * MINUTE))


@pytest.mark.parametrize("seconds", [5, 60])
def test_redirects_to_a_slow_host_take_no_places_and_come_in_turn(seconds: int) -> None:
    """A thousand pages that lead to one host with a Crawl-delay share its requests, and nothing waits for them."""

    async def course() -> None:
        pages = [f"https://slow.org/{number}" for number in range(1000)]
        own = {url: redirect(f"https://{SLOW}/{number}") for number, url in enumerate(pages)}
        web = Web(own=own | {f"https://{SLOW}/robots.txt": crawl_delay(seconds)})
        async with Crawling(web, pages, rate=4.0, spacing=1.0, shortest=5.0) as crawling:
            most = 0
            for _ in range(60):
                await asyncio.sleep(MINUTE)
                most = max(most, crawling.crawler.status.in_flight + crawling.crawler.status.waiting)
            assert most <= 20
            assert set(crawling.crawler.status.troubles) == {"host_not_ready"}
            assert not any(crawling.pages.failures(number) for number in range(1000))
        answered = [url for _, url in web.asked if url.startswith(f"https://{SLOW}/") and "robots" not in url]
        assert len(answered) >= 0.8 * 3600 / seconds
        assert len(set(answered)) >= min(0.9 * len(answered), 900)
        # Few first requests are in vain once the pages know their turns.
        late = web.between(1800.0, 3600.0)
        firsts = sum(url.startswith("https://slow.org/") for url in late)
        assert firsts <= 2.5 * (len(late) - firsts)

    in_virtual_time(course())


def test_a_redirect_gets_through_to_a_busy_slow_host() -> None:
    """A page that leads to a host whose own pages use up its Crawl-delay is crawled all the same, now and then."""

    async def course() -> None:
        pages = ["https://slow.org/", *(f"https://{SLOW}/{number}" for number in range(50))]
        web = Web(own={pages[0]: redirect(f"https://{SLOW}/"), f"https://{SLOW}/robots.txt": crawl_delay(60)})
        async with Crawling(web, pages, rate=2.0, spacing=1.0, shortest=5.0):
            await asyncio.sleep(60 * MINUTE)
        asked = Counter(url for _, url in web.asked)
        assert asked[f"https://{SLOW}/"] >= 2
        assert sum(asked[url] for url in pages[1:]) >= 25

    in_virtual_time(course())


def hops_to_slow_hosts() -> tuple[Web, list[str]]:
    """Many pages on many hosts that lead to hosts with a Retry-After or a Crawl-delay."""
    web = Web()
    pages = [f"https://from{number}.org/" for number in range(1000)]
    for number, url in enumerate(pages):
        web.own[url] = redirect(f"https://to{number % 7}.org/{number}")
    for number in range(7):
        web.own[f"https://to{number}.org/robots.txt"] = crawl_delay(60)
    for number in range(0, 1000, 2):
        web.own[f"https://to{number % 7}.org/{number}"] = status(503, retry_after=3000.0)
    return web, pages


def long_chains() -> tuple[Web, list[str]]:
    """Pages that lead through five fresh hosts at each visit."""
    pages = [f"https://chain{number}.org/" for number in range(20)]
    return Web(everywhere=web_of_chains, own={url: chains(host_of(url)) for url in pages}), pages


def dead_hosts(kind: Answer) -> tuple[Web, list[str]]:
    """Pages on hosts that do not answer."""

    def answer(request: Request) -> Outcome:
        return kind(request) if request.host.startswith("dead") else well(request)

    return Web(everywhere=answer), [f"https://dead{number}.org/" for number in range(2000)]


def tarpits() -> tuple[Web, list[str]]:
    """Pages of which only the robots.txt answers."""

    def answer(request: Request) -> Outcome:
        pit = request.host.startswith("pit") and not request.url.endswith("/robots.txt")
        return silent(request) if pit else well(request)

    return Web(everywhere=answer), [f"https://pit{number}.org/" for number in range(1000)]


def hops_to_dead_hosts() -> tuple[Web, list[str]]:
    """Pages that lead to hosts which do not answer, another one at each visit."""
    fresh = itertools.count()

    def answer(request: Request) -> Outcome:
        if request.host.startswith("dead"):
            return silent(request)
        if request.host.startswith("from") and not request.url.endswith("/robots.txt"):
            return Redirected(request.url, 302, f"https://dead{next(fresh)}.org/", duration=0.05)
        return well(request)

    return Web(everywhere=answer), [f"https://from{number}.org/" for number in range(100)]


ATTACKS = {
    "redirects to slow hosts": (hops_to_slow_hosts, False),
    "chains of fresh hosts": (long_chains, True),
    "silent hosts": (lambda: dead_hosts(silent), False),
    "refusing hosts": (lambda: dead_hosts(refused), False),
    "hosts in error": (lambda: dead_hosts(status(500)), False),
    "tarpits": (tarpits, False),
    "redirects to silent hosts": (hops_to_dead_hosts, True),
}
"""Each with whether its hosts answer: such pages have a claim to requests of their own."""


@pytest.mark.parametrize("name", ATTACKS)
def test_good_pages_keep_nine_tenths_of_their_requests(name: str) -> None:
    """Beside pages that cost much and bring little, the others are asked nearly as often as without them."""

    async def course() -> None:
        make, answering = ATTACKS[name]
        web, pages = make()
        calm = await good_requests(Web(), pages if answering else [])
        assert await good_requests(web, pages) >= 0.9 * calm
        assert web.most_under_way <= 0.25 * LIMITS.in_flight

    in_virtual_time(course())


def test_redirects_from_other_sites_leave_a_host_its_own_requests() -> None:
    """A host that is asked as often as its delay allows keeps nearly all of that for its own pages."""

    async def course() -> None:
        own = [f"https://good.org/{number}" for number in range(50)]
        foreign = [f"https://from{number}.org/{page}" for number in range(10) for page in range(10)]
        web = Web(own={url: redirect(f"https://good.org/{host_of(url)}") for url in foreign})
        async with Crawling(web, own, rate=RATE, spacing=1.0, shortest=5.0) as crawling:
            await asyncio.sleep(MINUTE)
            crawling.add(foreign)
            start = asyncio.get_running_loop().time()
            await asyncio.sleep(5 * MINUTE)
            asked = web.between(start, start + 5 * MINUTE)
        assert sum(url in own for url in asked) >= 0.85 * 5 * MINUTE
        assert sum(url.startswith("https://good.org/from") for url in asked) >= 10

    in_virtual_time(course())


@pytest.mark.parametrize("kind", [later, silent], ids=["answering", "silent"])
def test_a_list_of_new_hosts_is_crawled_at_the_full_rate(kind: Answer) -> None:
    """Where no other page wants the slots, being new costs nothing."""

    async def course() -> None:
        web = Web(everywhere=kind)
        async with Crawling(web, [f"https://new{number}.org/" for number in range(1500)], rate=RATE, spacing=1.0):
            await asyncio.sleep(MINUTE)
        assert len(web.between(0.0, MINUTE)) >= 0.95 * RATE * MINUTE

    in_virtual_time(course())


def test_new_hosts_that_answer_come_before_known_pages() -> None:
    """Beside pages that could use every slot they are crawled first."""

    async def course() -> None:
        web = Web(everywhere=later)
        new = [f"https://new{number}.org/" for number in range(500)]
        await good_requests(web, new)
        first = {url: at for at, url in reversed(web.asked) if url in set(new)}
        assert len(first) == 500
        assert max(first.values()) - min(first.values()) <= 1.3 * 1000 / RATE  # robots.txt and page

    in_virtual_time(course())


def test_many_forbidden_pages_cost_few_looks() -> None:
    """A host whose pages are all forbidden is looked at a little at a time, however short its robots.txt counts."""

    async def course() -> None:
        headers = {"cache-control": "max-age=1"}
        robots = Fetched(ROBOTS, 200, b"User-agent: *\nDisallow: /\n", headers, duration=0.05)
        web = Web(own={ROBOTS: lambda _: robots})
        forbidden = [page_url(number) for number in range(3000)]
        async with Crawling(web, [*forbidden, *GOOD[:20]], spacing=1.0, shortest=5.0) as crawling:
            await asyncio.sleep(25 * MINUTE)
            chooser, status = crawling.scheduler.chooser, crawling.crawler.status
            assert chooser.picks - status.requests <= 3500
            assert status.idle_slots <= 0.02 * status.requests

    in_virtual_time(course())


def test_waits_have_a_reason() -> None:
    """A page that waits for the host it leads to says so, and so does one whose host is not known to answer."""

    async def course() -> None:
        web, dead = dead_hosts(silent)
        leads = [f"https://slow.org/{number}" for number in range(3)]
        web.own |= {url: redirect(f"https://{SLOW}/") for url in leads}
        web.own[f"https://{SLOW}/robots.txt"] = crawl_delay(60)
        async with Crawling(web, [*GOOD, *leads], rate=RATE, spacing=1.0, shortest=5.0) as crawling:
            await asyncio.sleep(MINUTE / 2)
            crawling.add(dead)
            await asyncio.sleep(MINUTE / 2)
            now = crawling.clock.now()
            found = Counter(
                (host_of(page.url).rstrip("0123456789.org"), reason.why.value)
                for page in crawling.pages
                for reason in crawling.crawler.reasons.of(page, now)
            )
        assert found["slow", "target_not_ready"] >= 1
        assert found["dead", "host_unproven"] >= 0.9 * len(dead)

    in_virtual_time(course())
