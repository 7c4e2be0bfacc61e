"""What one host may hold of the fetcher: time at every stage, memory for bodies, lookups, and work on packed bytes."""

import asyncio
import dataclasses
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from crawld.fetch import body, http
from crawld.fetch import body as room
from crawld.fetch.body import LIMITS as BODY_LIMITS
from crawld.fetch.body import BodyMemory, unpack_body
from crawld.fetch.exchange import Deadlines
from crawld.fetch.guard import LIMITS as GUARD_LIMITS
from crawld.fetch.guard import AddressGuard, BoundedResolver, ThreadResolver
from crawld.fetch.http import HttpFetcher, Timeouts
from crawld.model.errors import TooCostlyError
from crawld.model.fetched import Fetched, FetchFailed, Request, Scope, Trouble
from crawld.model.url import host_of
from tests.support.in_place import InPlace
from tests.support.process import HANG_SECONDS
from tests.support.site import Site, Visit

MakeFetcher = Callable[..., HttpFetcher]


class Recorded(InPlace):
    """Workers that note what they are given, and do it here or refuse it."""

    def __init__(self, costly: bool = False) -> None:
        self.given: list[tuple[str, Callable[..., Any]]] = []
        self._costly = costly

    async def run(self, payer: str, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Do the work at once."""
        self.given.append((payer, work))
        if self._costly:
            raise TooCostlyError("more than 5 s")
        return work(*given, **named)


def ask(url: str) -> Request:
    """A request as the daemon would send it."""
    return Request(url, host_of(url))


@pytest.fixture
def hasty(make_fetcher: MakeFetcher) -> HttpFetcher:
    """A fetcher with little patience."""
    return make_fetcher(timeouts=Timeouts(0.3, 0.3, 1.0))


async def _trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send bytes one by one, then the last one for ever."""
    try:
        for byte in data:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
        while not writer.is_closing():
            writer.write(data[-1:])
            await asyncio.sleep(0.02)
    except ConnectionError:
        pass
    finally:
        writer.close()


STAGES = {
    "handshake": ("https", b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb"),
    "status": ("http", b"HTTP/1.1 200 OK"),
    "headers": ("http", b"HTTP/1.1 200 OK\r\nX: y"),
    "interim": ("http", b"HTTP/1.1 103 Early\r\nX: y"),
    "body": ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nx"),
    "chunk size": ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x"),
    "trailers": ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: y"),
}


@pytest.mark.parametrize("stage", STAGES)
async def test_a_trickle_ends_at_every_stage(stage: str, hasty: HttpFetcher) -> None:
    """A server that sends a byte now and then, whatever it is sending, is given up in time."""
    scheme, data = STAGES[stage]
    server = await asyncio.start_server(lambda r, w: _trickle(r, w, data), "127.0.0.1", 0)
    url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        outcome = await hasty.fetch(ask(url))
    finally:
        server.close()
    assert isinstance(outcome, FetchFailed), outcome
    assert (outcome.trouble, outcome.scope) == (Trouble.TIMEOUT, Scope.HOST), outcome


async def test_a_body_nobody_wants_is_not_waited_for(
    site: Site, hasty: HttpFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of a 404 is told although its body trickles on for ever, and its connection is let go."""
    monkeypatch.setattr(body, "LIMITS", dataclasses.replace(body.LIMITS, drain_seconds=0.2))
    closed = asyncio.Event()

    async def trickling(visit: Visit) -> None:
        visit.keep = False
        try:
            await visit.write(b"HTTP/1.1 404 X\r\nContent-Length: 99999\r\n\r\n")
            while True:
                await visit.write(b"x")
                await asyncio.sleep(0.02)
        except ConnectionError:
            closed.set()
            raise

    site.pages["/trickling"] = trickling
    outcome = await hasty.fetch(ask(site.url("/trickling")))
    assert isinstance(outcome, Fetched)
    assert outcome.status == 404
    await asyncio.wait_for(closed.wait(), HANG_SECONDS)


async def test_a_body_that_grows_long_is_unpacked_by_the_workers(
    site: Site, make_fetcher: MakeFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What unpacks to little is unpacked in place, what unpacks to much by the workers; the body is the same."""
    # No machine is so fast that it unpacks a body in one step.
    monkeypatch.setattr(body, "LIMITS", dataclasses.replace(body.LIMITS, step_seconds=-1.0))
    workers = Recorded()
    fetcher = make_fetcher(workers=workers)
    for encoding in ("gzip", "zstd", "deflate"):
        small = await fetcher.fetch(ask(site.url(f"/encoded/{encoding}")))
        assert isinstance(small, Fetched)
        assert workers.given == []
    for number, encoding in enumerate(("gzip", "zstd", "deflate"), 1):
        long = await fetcher.fetch(ask(site.url(f"/inflates/{encoding}")))
        assert isinstance(long, Fetched)
        assert len(long.body) == 9_900_000
        assert workers.given == [(site.host(), unpack_body)] * number


async def test_a_body_too_costly_to_unpack_is_its_pages_trouble(site: Site, make_fetcher: MakeFetcher) -> None:
    """Where the workers give up, so does the page, and nobody else."""
    fetcher = make_fetcher(workers=Recorded(costly=True))
    outcome = await fetcher.fetch(ask(site.url("/inflates/gzip")))
    assert isinstance(outcome, FetchFailed)
    assert (outcome.trouble, outcome.scope) == (Trouble.TOO_COSTLY, Scope.PAGE)


async def test_unpacking_lets_the_loop_go_on(
    site: Site, make_fetcher: MakeFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without workers a long body is unpacked in many steps, between which others are served."""
    monkeypatch.setattr(body, "LIMITS", dataclasses.replace(body.LIMITS, step_seconds=-1.0))
    fetcher = make_fetcher()
    await fetcher.fetch(ask(site.url("/inflates/gzip")))
    long = asyncio.create_task(fetcher.fetch(ask(site.url("/inflates/gzip"))))
    turns = 0
    while not long.done():
        await asyncio.sleep(0)
        turns += 1
    outcome = await long
    assert isinstance(outcome, Fetched)
    assert len(outcome.body) == 9_900_000
    assert turns > 5


async def _room(most: int, of_one_host: int) -> tuple[BodyMemory, Callable[[str], room.BodyRoom]]:
    deadlines = Deadlines(60.0)
    made = BodyMemory(deadlines, most, of_one_host)
    return made, lambda host: made.begin(host, deadlines.begin())


async def test_small_bodies_always_fit() -> None:
    """A small body needs no room, however full it is."""
    made, share = await _room(200_000, 200_000)
    await made.grow(share("a"), 200_000)
    await made.grow(share("b"), BODY_LIMITS.small_body)
    assert made.held == 200_000


async def test_large_bodies_wait_for_room() -> None:
    """A body that does not fit waits until another one is done; the oldest never waits."""
    made, share = await _room(300_000, 300_000)
    first, second = share("a"), share("b")
    await made.grow(first, 100_000)
    await made.grow(second, 100_000)
    waiting = asyncio.create_task(made.grow(second, 250_000))
    await asyncio.sleep(0)
    assert not waiting.done()
    await made.grow(first, 400_000)
    made.end(first)
    await waiting
    assert (made.held, second.held) == (250_000, 250_000)
    made.end(second)
    made.close()
    assert made.held == 0


async def test_one_host_does_not_hold_all_room() -> None:
    """The second large body of a host waits although there is room, and another host's does not."""
    made, share = await _room(1_000_000, 250_000)
    first, second, other = share("a"), share("a"), share("b")
    await made.grow(first, 200_000)
    waiting = asyncio.create_task(made.grow(second, 200_000))
    await made.grow(other, 400_000)
    assert not waiting.done()
    made.end(first)
    await waiting
    made.end(second)
    made.end(other)
    made.close()
    assert made.held == 0


async def test_who_gives_up_waiting_leaves_nothing() -> None:
    """A body that is given up while it waits holds nothing afterwards, and is no longer in the queue."""
    made, share = await _room(200_000, 200_000)
    first, second, third = share("a"), share("b"), share("c")
    await made.grow(first, 200_000)
    waiting = asyncio.create_task(made.grow(second, 100_000))
    behind = asyncio.create_task(made.grow(third, 200_000))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    made.end(second)
    made.end(first)
    await asyncio.wait_for(behind, HANG_SECONDS)
    assert (made.held, third.held) == (200_000, 200_000)
    made.end(third)
    made.close()
    assert made.held == 0


async def test_a_body_that_hardly_arrives_makes_room(
    site: Site, monkeypatch: pytest.MonkeyPatch, make_fetcher: MakeFetcher
) -> None:
    """A server that sends a long body and stalls loses its place as soon as another body needs the room."""
    monkeypatch.setattr(room, "LIMITS", dataclasses.replace(room.LIMITS, grace_seconds=0.5))
    monkeypatch.setattr(room, "LIMITS", dataclasses.replace(room.LIMITS, slowest=1_000_000_000))
    memories: list[BodyMemory] = []

    def small(deadlines: Deadlines) -> BodyMemory:
        memories.append(BodyMemory(deadlines, most=200_000))
        return memories[-1]

    monkeypatch.setattr(http, "BodyMemory", small)

    async def stalling(visit: Visit) -> None:
        visit.keep = False
        await visit.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 150_000)
        await asyncio.sleep(30)

    async def long(visit: Visit) -> None:
        await visit.reply(b"y" * 400_000)

    site.pages["/stalling"], site.pages["/long"] = stalling, long
    fetcher = make_fetcher()
    stalled = asyncio.create_task(fetcher.fetch(ask(site.url("/stalling"))))
    while not memories[0].held:
        await asyncio.sleep(0.01)
    outcome = await fetcher.fetch(ask(site.url("/long", host=2)))
    assert isinstance(outcome, Fetched)
    given_up = await stalled
    assert isinstance(given_up, FetchFailed)
    assert given_up.trouble is Trouble.TIMEOUT
    assert [memory.held for memory in memories] == [0]


class Fixed(AbstractResolver):
    """Names with the addresses a test gives them, after some seconds."""

    def __init__(self, addresses: list[str], seconds: float = 0.0) -> None:
        self._addresses, self._seconds = addresses, seconds
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses, whatever the name."""
        self.asked.append(host)
        await asyncio.sleep(self._seconds)
        kinds = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in self._addresses]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=0)
            for address, kind in zip(self._addresses, kinds, strict=True)
        ]

    async def close(self) -> None:
        """Nothing to close."""


async def test_few_addresses_of_a_name_are_tried() -> None:
    """Of thousands of addresses a few remain, of both families, in the order they came."""
    six, four = [f"2001:db8::{n:x}" for n in range(3000)], [f"192.0.2.{n}" for n in range(3)]
    found = await BoundedResolver(Fixed(six + four)).resolve("many.test", 80)
    assert [one["host"] for one in found] == six[: GUARD_LIMITS.max_addresses - 3] + four
    fewer = await BoundedResolver(Fixed(four)).resolve("few.test", 80)
    assert [one["host"] for one in fewer] == four


async def test_a_name_server_that_is_silent() -> None:
    """A lookup ends by itself, also where nobody waits for it any more: trouble of the name."""
    with pytest.raises(OSError, match="did not answer in time"):
        await BoundedResolver(Fixed(["192.0.2.1"], seconds=30), seconds=0.05).resolve("slow.test", 80)


async def test_a_name_with_many_refused_addresses(make_fetcher: MakeFetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose addresses are all refused is refused, after as many looks at them as a name may cost."""
    refused: list[str] = []
    fetcher = make_fetcher(allow_private=(), resolver=Fixed([f"10.0.0.{n}" for n in range(200)]))
    inner = AddressGuard.refusal

    def counted(self: AddressGuard, text: str) -> str | None:
        refused.append(text)
        return inner(self, text)

    monkeypatch.setattr(AddressGuard, "refusal", counted)
    outcome = await fetcher.fetch(ask("http://inside.test/"))
    assert isinstance(outcome, FetchFailed)
    assert outcome.trouble is Trouble.FORBIDDEN_ADDRESS
    assert (
        0 < len(refused) <= GUARD_LIMITS.max_addresses * (GUARD_LIMITS.max_addresses + 1) // 2
    )  # the client tries again without the first


async def test_the_name_cache_is_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch, make_fetcher: MakeFetcher
) -> None:
    """Names seen once are forgotten."""
    monkeypatch.setattr(http, "GUARD_LIMITS", dataclasses.replace(GUARD_LIMITS, cached_names=5))
    resolver = Fixed(["127.0.0.1"])
    fetcher = make_fetcher(resolver=resolver)
    names = [f"name{number}.test" for number in range(20)]
    for name in [*names, *names[-5:], names[0]]:
        await fetcher.fetch(ask(f"http://{name}:{site.port}/hang_up"))
    assert resolver.asked == [*names, names[0]]


async def test_lookups_in_threads_take_none_of_the_loops_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups that hang fill their own threads; work in the loop's executor goes on."""
    hanging = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: hanging.wait(20) and [])
    threads = ThreadResolver()
    resolver = BoundedResolver(threads, seconds=0.2)
    lookups = [asyncio.create_task(resolver.resolve(f"{n}.test", 80)) for n in range(40)]
    assert await asyncio.to_thread(lambda: 42) == 42
    outcomes = await asyncio.gather(*lookups, return_exceptions=True)
    hanging.set()
    await threads.close()
    assert all(isinstance(outcome, OSError) for outcome in outcomes)
