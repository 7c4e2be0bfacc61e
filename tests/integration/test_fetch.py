"""The fetcher against a real server: what comes back, and what every fault is called."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from random import Random

import pytest

from crawld.fetch.http import HttpFetcher, Timeouts
from crawld.model.clock import SystemClock
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Purpose, Redirected, Request, Scope, Trouble
from crawld.model.url import host_of
from crawld.read.page.digest import raw_hash
from crawld.read.robots import LIMITS as ROBOTS_LIMITS
from tests.support.behaviours import BEHAVIOURS, answer, raw
from tests.support.site import LOOPBACK, Site
from tests.support.walls import CLOUDFLARE

AGENT = "crawld-test/1.0 (+https://example.org/bot)"


@pytest.fixture
async def fetcher() -> AsyncIterator[HttpFetcher]:
    """A fetcher that may talk to loopback, with a small limit."""
    opened = HttpFetcher(SystemClock(), AGENT, allow_private=[LOOPBACK], max_bytes=1_000_000)
    yield opened
    await opened.close()


@pytest.fixture
async def hasty() -> AsyncIterator[HttpFetcher]:
    """A fetcher with little patience."""
    patience = Timeouts(connect=1.0, first_byte=0.3, whole=1.0)
    opened = HttpFetcher(SystemClock(), AGENT, allow_private=[LOOPBACK], timeouts=patience, max_bytes=1_000_000)
    yield opened
    await opened.close()


def ask(url: str, **more: str) -> Request:
    """A request as the daemon would send it."""
    return Request(url, host_of(url), **more)  # type: ignore[arg-type]


async def test_a_page_comes_back_whole(site: Site, fetcher: HttpFetcher) -> None:
    """A page is answered with its status, body, headers by lower-case name, and our one set of headers was sent."""
    outcome = await fetcher.fetch(ask(site.url("/ok/1")))
    assert isinstance(outcome, Fetched)
    assert (outcome.status, outcome.headers["etag"]) == (200, '"1"')
    assert b"Page /ok/1" in outcome.body
    assert outcome.wire_bytes == len(outcome.body)
    [seen] = site.visits()
    assert seen.headers["user-agent"] == AGENT
    assert seen.headers["accept-encoding"] == "gzip, deflate, br, zstd"


async def test_the_bytes_of_the_copy_are_looked_at_no_further(site: Site, fetcher: HttpFetcher) -> None:
    """What was kept as a page stays one: only bytes that differ from the copy's are searched for a bot wall."""
    wall = CLOUDFLARE.encode()
    site.pages["/page"] = answer(wall)
    asked = ask(site.url("/page"))
    for copy in (None, raw_hash(b"an earlier copy")):
        outcome = await fetcher.fetch(asked._replace(copy=copy))
        assert isinstance(outcome, FetchFailed)
        assert outcome.trouble is Trouble.BOT_WALL
    outcome = await fetcher.fetch(asked._replace(copy=raw_hash(wall)))
    assert isinstance(outcome, Fetched)
    assert (outcome.body, outcome.raw) == (wall, raw_hash(wall))


async def test_conditions_are_echoed_exactly(site: Site, fetcher: HttpFetcher) -> None:
    """Validators go back to the server as it sent them, and its 304 is an answer without a body."""
    date = "Mon,  01 Jan 2024 00:00:00 GMT"
    outcome = await fetcher.fetch(ask(site.url("/ok/1"), etag='"1"', last_modified=date))
    assert isinstance(outcome, Fetched)
    assert (outcome.status, outcome.body) == (304, b"")
    [seen] = site.visits()
    assert (seen.headers["if-none-match"], seen.headers["if-modified-since"]) == ('"1"', date)


@pytest.mark.parametrize(("alter", "status"), [("AddSuffix", 304), ("NoChange", 304), ("Remove", 200)])
async def test_a_page_behind_mod_deflate_answers_304(alter: str, status: int, site: Site, fetcher: HttpFetcher) -> None:
    """A server that marks the tag of a compressed answer finds its own tag again, and a change is still seen."""
    url = site.url(f"/mod_deflate/1?alter={alter}")
    first = await fetcher.fetch(ask(url))
    assert isinstance(first, Fetched)
    again = Request(url, host_of(url), etag=first.headers.get("etag"))
    second = await fetcher.fetch(again)
    site.change("/mod_deflate/1")
    third = await fetcher.fetch(again)
    assert [answer.status for answer in (second, third) if isinstance(answer, Fetched)] == [status, 200]


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate", "gzip,gzip", "gzip,br", "zstd,deflate"])
async def test_compressed_bodies_are_read(encoding: str, site: Site, fetcher: HttpFetcher) -> None:
    """Every encoding we accept is decompressed, and fewer bytes came over the wire than the body has."""
    outcome = await fetcher.fetch(ask(site.url(f"/encoded/{encoding}")))
    assert isinstance(outcome, Fetched)
    assert b"<h1>Encoded</h1>" in outcome.body
    assert 0 < outcome.wire_bytes < len(outcome.body)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_answers(status: int, site: Site, fetcher: HttpFetcher) -> None:
    """A redirect is not followed: its target comes back absolute and normalised."""
    outcome = await fetcher.fetch(ask(site.url(f"/redirect?status={status}&to=../a%20b%23part")))
    assert isinstance(outcome, Redirected)
    assert (outcome.status, outcome.location) == (status, site.url("/a%20b"))
    assert len(site.visits()) == 1


@pytest.mark.parametrize("status", [404, 410])
async def test_gone_is_an_answer(status: int, site: Site, fetcher: HttpFetcher) -> None:
    """404 and 410 are answers; whether the page is gone is not for the fetcher to say."""
    outcome = await fetcher.fetch(ask(site.url(f"/status/{status}")))
    assert isinstance(outcome, Fetched)
    assert outcome.status == status


FAULTS = [
    ("/status/429?after=120", Trouble.STATUS, Scope.HOST),
    ("/status/503", Trouble.STATUS, Scope.HOST),
    ("/status/500", Trouble.STATUS, Scope.HOST),
    ("/status/403", Trouble.FORBIDDEN, Scope.PAGE),
    ("/status/202", Trouble.STATUS, Scope.PAGE),
    ("/status/204", Trouble.STATUS, Scope.PAGE),
    ("/status/205", Trouble.STATUS, Scope.PAGE),
    ("/status/206", Trouble.STATUS, Scope.PAGE),
    ("/status/226", Trouble.STATUS, Scope.PAGE),
    ("/always_304", Trouble.PROTOCOL, Scope.PAGE),
    ("/redirect", Trouble.BAD_REDIRECT, Scope.PAGE),
    ("/redirect?to=ftp://example.org/", Trouble.BAD_REDIRECT, Scope.PAGE),
    ("/redirect?to=http://me:secret@example.org/", Trouble.BAD_REDIRECT, Scope.PAGE),
    ("/redirect?to=http://[broken/", Trouble.BAD_REDIRECT, Scope.PAGE),
    ("/hang_up", Trouble.REFUSED, Scope.HOST),
    ("/reset", Trouble.REFUSED, Scope.HOST),
    ("/drop", Trouble.PROTOCOL, Scope.HOST),
    ("/long_length", Trouble.PROTOCOL, Scope.HOST),
    ("/bad_length", Trouble.PROTOCOL, Scope.HOST),
    ("/broken_chunks", Trouble.PROTOCOL, Scope.HOST),
    ("/missing_chunk", Trouble.PROTOCOL, Scope.HOST),
    ("/http09", Trouble.PROTOCOL, Scope.HOST),
    ("/junk", Trouble.PROTOCOL, Scope.HOST),
    ("/huge_headers", Trouble.PROTOCOL, Scope.HOST),
    ("/many_headers", Trouble.PROTOCOL, Scope.HOST),
    ("/endless", Trouble.TOO_LARGE, Scope.PAGE),
    ("/gigabyte", Trouble.TOO_LARGE, Scope.PAGE),
    ("/bomb/gzip", Trouble.TOO_LARGE, Scope.PAGE),
    ("/bomb/br", Trouble.TOO_LARGE, Scope.PAGE),
    ("/bomb/zstd", Trouble.TOO_LARGE, Scope.PAGE),
    ("/encoded/gzip,gzip,gzip", Trouble.ENCODING, Scope.PAGE),
    ("/bad_encoding/gzip", Trouble.ENCODING, Scope.PAGE),
    ("/bad_encoding/br", Trouble.ENCODING, Scope.PAGE),
    ("/bad_encoding/zstd", Trouble.ENCODING, Scope.PAGE),
    ("/empty_members", Trouble.ENCODING, Scope.PAGE),
    ("/cut_encoding/gzip", Trouble.ENCODING, Scope.PAGE),
    ("/cut_encoding/br", Trouble.ENCODING, Scope.PAGE),
    ("/cut_encoding/zstd", Trouble.ENCODING, Scope.PAGE),
    ("/cut_encoding/deflate", Trouble.ENCODING, Scope.PAGE),
    ("/video", Trouble.WRONG_TYPE, Scope.PAGE),
]


@pytest.mark.parametrize(("path", "trouble", "scope"), FAULTS, ids=[path for path, *_ in FAULTS])
async def test_every_fault_has_a_name(
    path: str, trouble: Trouble, scope: Scope, site: Site, fetcher: HttpFetcher
) -> None:
    """What a server does wrong is a value with a name, a scope and a sentence, after exactly one request."""
    outcome = await fetcher.fetch(ask(site.url(path)))
    assert isinstance(outcome, FetchFailed), outcome
    assert (outcome.trouble, outcome.scope) == (trouble, scope), outcome
    assert outcome.detail
    assert len(site.visits()) == 1


@pytest.mark.parametrize("path", ["/silent", "/slow?seconds=30", "/slow_loris", "/slow_headers"])
async def test_no_server_is_waited_for_for_ever(path: str, site: Site, hasty: HttpFetcher) -> None:
    """A server that is silent, or sends a byte now and then, is given up: the host's trouble."""
    outcome = await hasty.fetch(ask(site.url(path)))
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope) == (Trouble.TIMEOUT, Scope.HOST)
    assert outcome.detail
    assert len(site.visits()) == 1


async def test_no_behaviour_raises(site: Site, hasty: HttpFetcher) -> None:
    """Whatever the site can do, a fetch ends with an outcome."""
    skipped = {"bomb", "encoded", "bad_encoding", "cut_encoding", "status"}  # these need a second segment
    for name in BEHAVIOURS.keys() - skipped:
        outcome = await hasty.fetch(ask(site.url(f"/{name}?text=x&to=/ok")))
        assert isinstance(outcome, Outcome)


async def test_203_is_content(site: Site, fetcher: HttpFetcher) -> None:
    """An answer that a proxy has altered is still the page."""
    outcome = await fetcher.fetch(ask(site.url("/status/203")))
    assert isinstance(outcome, Fetched)
    assert (outcome.status, outcome.body) == (203, b"<p>203</p>")


@pytest.mark.parametrize(("purpose", "status"), [(Purpose.ROBOTS, 204), (Purpose.WEBSUB, 202)])
async def test_no_content_is_an_answer_where_nothing_is_compared(
    purpose: Purpose, status: int, site: Site, fetcher: HttpFetcher
) -> None:
    """A robots.txt without content has no rules, and a hub may accept a subscription for later."""
    outcome = await fetcher.fetch(Request(site.url(f"/status/{status}"), site.host(), purpose))
    assert isinstance(outcome, Fetched)
    assert outcome.status == status


async def test_retry_after_is_told(site: Site, fetcher: HttpFetcher) -> None:
    """The wait a busy server asks for comes back in seconds, from seconds or from a date."""
    seconds = await fetcher.fetch(ask(site.url("/status/429?after=120")))
    date = await fetcher.fetch(ask(site.url("/status/503?after=Fri,%2031%20Dec%201999%2023:59:59%20GMT")))
    assert isinstance(seconds, FetchFailed)
    assert isinstance(date, FetchFailed)
    assert (seconds.retry_after, date.retry_after) == (120.0, 0.0)


async def test_the_limit_is_the_requests_own(site: Site, fetcher: HttpFetcher) -> None:
    """A request may bring a limit of its own."""
    outcome = await fetcher.fetch(Request(site.url("/ok"), site.host(), max_bytes=10))
    assert isinstance(outcome, FetchFailed)
    assert outcome.trouble is Trouble.TOO_LARGE


async def test_of_a_long_robots_txt_the_beginning_counts(site: Site, fetcher: HttpFetcher) -> None:
    """A robots.txt beyond its limit is cut there, not refused."""
    site.robots[site.address()] = "Disallow: /x\n" * 100_000
    outcome = await fetcher.fetch(Request(site.url("/robots.txt"), site.host(), Purpose.ROBOTS))
    assert isinstance(outcome, Fetched)
    assert len(outcome.body) == ROBOTS_LIMITS.max_robots


async def test_header_bytes_that_are_not_utf8(site: Site, fetcher: HttpFetcher) -> None:
    """Header values in another charset come back as text that can be stored."""
    site.pages["/odd"] = answer("x", X_Odd="d\xe9j\xe0")
    outcome = await fetcher.fetch(ask(site.url("/odd")))
    assert isinstance(outcome, Fetched)
    assert outcome.headers["x-odd"] == "déjà"


async def test_forms_are_posted(site: Site, fetcher: HttpFetcher) -> None:
    """A request with a form is a POST, as WebSub hubs want to be asked."""
    url = site.url("/ok")
    outcome = await fetcher.fetch(
        Request(url, host_of(url), Purpose.WEBSUB, form=(("hub.mode", "subscribe"), ("x", "a b")))
    )
    assert isinstance(outcome, Fetched)
    [seen] = site.visits()
    assert (seen.method, seen.body) == ("POST", b"hub.mode=subscribe&x=a+b")
    assert seen.headers["content-type"] == "application/x-www-form-urlencoded"


PIECES = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200\r\n", b"HTTP/9.9 999 ?\r\n", b"HTTP/1.1 301 X\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n", b"HTTP/1.1 204 No\r\n",
    b"ICY 200 OK\r\n", b"Content-Length: 5\r\n", b"Content-Length: 5, 6\r\n",
    b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n", b"Content-Encoding: gzip\r\n", b"Content-Encoding: br\r\n",
    b"Location: http://\xff\r\n", b"Location: //\r\n", b"Location: http://a:99999/\r\n",
    b"Content-Type: text/html; charset=\x80\r\n", b"Set-Cookie: a=b; expires=x\r\n", b"ETag: \x01\xff\r\n",
    b"Connection: close\r\n", b"Connection: upgrade\r\n", b": no name\r\n", b" folded\r\n", b"X\r\n", b"\r\n",
    b"\n\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"hello", b"\x1f\x8b\x08",
    b"\0" * 10, b"\xff\xfe",
]  # fmt: skip


async def test_no_answer_raises(site: Site, hasty: HttpFetcher) -> None:
    """Whatever pieces of HTTP a server puts in a row, a fetch ends with an outcome."""
    random = Random(7)
    for number in range(400):
        data = b"".join(random.choices(PIECES, k=random.randint(1, 8)))
        if random.random() < 0.7:
            data = random.choice(PIECES[:6]) + data + random.choice([b"", b"\r\n"])
        site.pages[f"/fuzz/{number}"] = partial(raw, data=data)
        outcome = await hasty.fetch(ask(site.url(f"/fuzz/{number}")))
        assert isinstance(outcome, Outcome), data


async def test_a_kept_connection_that_closes_says_nothing_about_the_host(site: Site, fetcher: HttpFetcher) -> None:
    """A server that closes a kept connection as we use it again troubles the page alone, and is not asked twice."""
    await fetcher.fetch(ask(site.url("/ok")))
    outcome = await fetcher.fetch(ask(site.url("/hang_up")))
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope) == (Trouble.REFUSED, Scope.PAGE)
    assert len(site.visits()) == 2


async def test_a_fetch_that_is_given_up_is_no_timeout(site: Site, fetcher: HttpFetcher) -> None:
    """Who cancels a request from outside gets no answer for it, and others are answered as ever."""
    fetching = asyncio.create_task(fetcher.fetch(ask(site.url("/slow/1?seconds=5"))))
    await asyncio.sleep(0.05)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert isinstance(await fetcher.fetch(ask(site.url("/ok"))), Fetched)
