"""Answers made to cost their reader much: each ends, or is read in turns, and the others are served meanwhile."""

import asyncio
import dataclasses
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import StreamReader

from crawld.fetch import connection
from crawld.fetch import connection as turns
from crawld.fetch.connection import LIMITS as CONNECTION_LIMITS
from crawld.fetch.connection import BoundedConnection, LoopShare
from crawld.fetch.http import HttpFetcher, Timeouts
from crawld.model.clock import SystemClock
from crawld.model.fetched import Fetched, FetchFailed, Redirected, Request, Scope, Trouble
from crawld.model.url import host_of
from tests.support.behaviours import raw
from tests.support.site import LOOPBACK, Site, Visit

AGENT = "crawld-test/1.0 (+https://example.org/bot)"


@pytest.fixture
async def fetcher() -> AsyncIterator[HttpFetcher]:
    """A fetcher that may talk to loopback."""
    opened = HttpFetcher(SystemClock(), AGENT, allow_private=[LOOPBACK], timeouts=Timeouts(5, 5, 20))
    yield opened
    await opened.close()


def ask(url: str) -> Request:
    """A request as the daemon would send it."""
    return Request(url, host_of(url))


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[BoundedConnection]:
    """Every connection that was made, in order."""
    made: list[BoundedConnection] = []
    inner = BoundedConnection.connection_made

    def noted(self: BoundedConnection, transport: asyncio.BaseTransport) -> None:
        made.append(self)
        inner(self, transport)

    monkeypatch.setattr(BoundedConnection, "connection_made", noted)
    return made


async def closed(connection: BoundedConnection) -> None:
    """Wait until a connection has ended."""
    while connection.is_connected():
        await asyncio.sleep(0.01)


BROKEN_OFF = [
    "/interim", "/bare_interim", "/tiny_chunks", "/chunk_extensions", "/endless_extension", "/trailers",
    "/small_headers", "/long_headers", "/long_status", "/cookie_flood",
]  # fmt: skip


@pytest.mark.parametrize("path", BROKEN_OFF)
async def test_a_flood_of_framing_is_broken_off(path: str, site: Site, fetcher: HttpFetcher) -> None:
    """An answer with more framing than an answer may have is not HTTP: it ends long before its time is over."""
    outcome = await fetcher.fetch(ask(site.url(path)))
    assert isinstance(outcome, FetchFailed), outcome
    assert (outcome.trouble, outcome.scope) == (Trouble.PROTOCOL, Scope.HOST), outcome
    assert len(site.visits()) == 1


async def test_a_redirect_is_told_whatever_its_body(site: Site, fetcher: HttpFetcher) -> None:
    """A redirect with a flood for a body leads on: nobody wanted the body."""
    outcome = await fetcher.fetch(ask(site.url("/redirect_flood")))
    assert isinstance(outcome, Redirected)
    assert outcome.location == site.url("/ok")


async def test_honest_answers_are_not_floods(site: Site, fetcher: HttpFetcher) -> None:
    """Interim answers, small chunks, extensions and trailers are read as long as there are not too many of them."""
    chunks = await fetcher.fetch(ask(site.url("/small_honest_chunks")))
    assert isinstance(chunks, Fetched)
    assert chunks.body == b"y" * 100_000
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
    site.pages["/hints"] = partial(raw, data=hint * 3 + head + b"5;name=value\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n")
    hints = await fetcher.fetch(ask(site.url("/hints")))
    assert isinstance(hints, Fetched)
    assert (hints.status, hints.body) == (200, b"hello")


@pytest.mark.parametrize("beyond", [False, True])
async def test_the_budget_of_framing(beyond: bool, site: Site, fetcher: HttpFetcher) -> None:
    """Headers may have 64 KB in all, and no more."""
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 20_000) for number in range(4 if beyond else 3))
    site.pages["/wide"] = partial(raw, data=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + lines + b"\r\nhello")
    outcome = await fetcher.fetch(ask(site.url("/wide")))
    assert isinstance(outcome, FetchFailed if beyond else Fetched), outcome
    assert (len(lines) > CONNECTION_LIMITS.framing_bytes) == beyond


async def test_a_long_body_comes_whole_in_turns(
    site: Site, fetcher: HttpFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that has to wait for turns from its first byte on is the same body, and its end is noticed."""
    monkeypatch.setattr(connection, "LIMITS", dataclasses.replace(connection.LIMITS, free_seconds=-1.0))
    monkeypatch.setattr(connection, "LIMITS", dataclasses.replace(connection.LIMITS, free_seconds_per_byte=0.0))
    # each piece is a step
    monkeypatch.setattr(connection, "LIMITS", dataclasses.replace(connection.LIMITS, step_seconds=1e-9))
    body = bytes(range(256)) * 400

    async def closing(visit: Visit) -> None:
        visit.keep = False
        await visit.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body)

    async def with_length(visit: Visit) -> None:
        await visit.reply(body)

    site.pages["/closing"], site.pages["/length"] = closing, with_length
    monkeypatch.setattr(turns, "LIMITS", dataclasses.replace(turns.LIMITS, min_wait=0.001))
    for path in ("/closing", "/length", "/length"):
        outcome = await fetcher.fetch(ask(site.url(path)))
        assert isinstance(outcome, Fetched), outcome
        assert outcome.body == body


async def test_a_body_broken_off_in_turns_is_broken_off(
    site: Site, fetcher: HttpFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that ends while its bytes wait for a turn ends after them."""
    monkeypatch.setattr(connection, "LIMITS", dataclasses.replace(connection.LIMITS, free_seconds=-1.0))
    outcome = await fetcher.fetch(ask(site.url("/drop")))
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope) == (Trouble.PROTOCOL, Scope.HOST)


async def test_tiny_segments_are_gathered(site: Site, fetcher: HttpFetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body in many small segments is read far less often than they are sent."""
    reads = 0
    inner = BoundedConnection.data_received

    def counted(self: BoundedConnection, data: bytes) -> None:
        nonlocal reads
        reads += bool(data)
        inner(self, data)

    async def segments(visit: Visit) -> None:
        await visit.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3000\r\n\r\n")
        for _ in range(3000):
            await visit.write(b"x")
            await asyncio.sleep(0)

    monkeypatch.setattr(BoundedConnection, "data_received", counted)
    site.pages["/segments"] = segments
    outcome = await fetcher.fetch(ask(site.url("/segments")))
    assert isinstance(outcome, Fetched)
    assert len(outcome.body) == 3000
    assert reads < 1000


async def test_answers_nobody_asked_for_close_the_connection(
    site: Site, fetcher: HttpFetcher, connections: list[BoundedConnection]
) -> None:
    """A server that goes on after its answer loses the connection, and nothing of it is kept."""
    assert isinstance(await fetcher.fetch(ask(site.url("/surplus"))), Fetched)
    await closed(connections[0])
    assert isinstance(await fetcher.fetch(ask(site.url("/ok"))), Fetched)
    assert len({seen.peer for seen in site.visits()}) == 2


@pytest.mark.parametrize(("most", "expected"), [(8, 8), (1, CONNECTION_LIMITS.max_idle_per_host), (1000, 12)])
async def test_few_connections_are_kept(
    site: Site, fetcher: HttpFetcher, monkeypatch: pytest.MonkeyPatch, most: int, expected: int
) -> None:
    """Of many connections that are idle at once a bounded number is used again, and a few to each host at any rate."""
    monkeypatch.setattr(connection, "LIMITS", dataclasses.replace(connection.LIMITS, max_idle=most))
    for _ in range(2):
        await asyncio.gather(*(fetcher.fetch(ask(site.url("/slow?seconds=0.2"))) for _ in range(12)))
    assert len({seen.peer for seen in site.visits()}) == 12 + (12 - expected)


async def test_connections_last_as_long_as_their_server_keeps_them(
    site: Site, fetcher: HttpFetcher, connections: list[BoundedConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that closes an idle connection is asked over a new one from then on, which is not kept for nothing."""
    monkeypatch.setattr(connection, "LIMITS", dataclasses.replace(connection.LIMITS, closing_seconds=0.1))

    async def closed_later(visit: Visit) -> None:
        await visit.reply(b"hello")
        await asyncio.sleep(0.2)
        visit.keep = False

    site.pages["/later"] = closed_later
    assert isinstance(await fetcher.fetch(ask(site.url("/later"))), Fetched)
    await closed(connections[0])
    await asyncio.sleep(0.2)
    assert isinstance(await fetcher.fetch(ask(site.url("/ok"))), Fetched)
    assert not connections[1].is_connected()  # it came round later than connections last
    assert isinstance(await fetcher.fetch(ask(site.url("/ok"))), Fetched)
    assert [one.is_connected() for one in connections] == [False, False, True]
    assert len({seen.peer for seen in site.visits()}) == 3


async def test_what_is_relied_on_of_the_client(
    site: Site, fetcher: HttpFetcher, connections: list[BoundedConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client makes our connections, begins each answer by `set_response_params` and hands over each head."""
    heads: list[tuple[Any, StreamReader]] = []
    begin, take = BoundedConnection.set_response_params, BoundedConnection.feed_data
    begun: list[BoundedConnection] = []

    def began(self: BoundedConnection, **given: Any) -> None:
        begun.append(self)
        begin(self, **given)

    def took(self: BoundedConnection, data: Any, size: int = 0) -> None:
        heads.append(data)
        take(self, data, size)

    monkeypatch.setattr(BoundedConnection, "set_response_params", began)
    monkeypatch.setattr(BoundedConnection, "feed_data", took)
    for asked in (1, 2):
        outcome = await fetcher.fetch(ask(site.url("/ok")))
        assert isinstance(outcome, Fetched)
        assert begun == connections * asked
        assert len(heads) == asked
        message, body = heads[-1]
        assert (message.code, body.total_bytes) == (200, len(outcome.body))
    assert connections[0].host == site.host()


class _Counted:
    """A connection that counts its turns, each of which costs the same."""

    def __init__(self, host: str, line: LoopShare, cost: float) -> None:
        self.host, self.count = host, 0
        self._line, self._cost = line, cost

    def take_turn(self) -> float:
        self.count += 1
        self._line.wait(self)
        return self._cost


async def test_turns_are_shared_by_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with fifty connections gets as many turns as a host with one."""
    monkeypatch.setattr(turns, "LIMITS", dataclasses.replace(turns.LIMITS, min_wait=0.0))
    line = LoopShare()
    many = [_Counted("many", line, 0.0) for _ in range(50)]
    one = _Counted("one", line, 0.0)
    for waiting in (*many, one):
        line.wait(waiting)
    while one.count < 20:
        await asyncio.sleep(0.005)
    line.close()
    assert abs(sum(waiting.count for waiting in many) - one.count) <= 1


_FETCH = """
import asyncio, json, sys
from crawld.model.clock import SystemClock
from crawld.fetch.http import HttpFetcher, Timeouts
from crawld.model.fetched import Request
from crawld.model.url import host_of

async def main():
    fetcher = HttpFetcher(SystemClock(), "t/1 (+https://example.org/bot)", allow_private=["127.0.0.0/8"],
                          timeouts=Timeouts(5, 5, 15), max_bytes=2_000_000)
    for url in sys.argv[1:]:
        outcome = await fetcher.fetch(Request(url, host_of(url)))
        named = getattr(outcome, "trouble", None) or getattr(outcome, "status", None)
        print(json.dumps([str(named), len(getattr(outcome, "body", b"")), getattr(outcome, "detail", "")]))
    await fetcher.close()

asyncio.run(main())
"""


async def test_the_same_holds_under_tls(tmp_path: Path) -> None:
    """Long bodies, floods and servers that never close are read over TLS as without."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key",
         "-out", tmp_path / "certificate"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    paths = ["/ok", "/long", "/tiny_chunks", "/interim", "/small_honest_chunks", "/endless_body", "/ok"]
    async with Site(tls=context) as site:

        async def long(visit: Visit) -> None:
            await visit.reply(b"z" * 1_900_000)

        site.pages["/long"] = long
        running = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _FETCH, *map(site.url, paths), stdout=subprocess.PIPE,
            env={**os.environ, "SSL_CERT_FILE": str(tmp_path / "certificate")},
        )  # fmt: skip
        output, _ = await running.communicate()
    seen = [json.loads(line) for line in output.splitlines()]
    assert [named for named, _, _ in seen] == ["200", "200", "protocol", "protocol", "200", "too_large", "200"], seen
    assert [length for _, length, _ in seen][1] == 1_900_000
