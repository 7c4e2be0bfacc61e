"""Bounds of the listener: how many connections and requests may come, how large they are, and how a refusal reads."""

import asyncio
import html
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, cast

from aiohttp import web

from crawld.model.errors import CrawldError, StoreError
from crawld.model.usage import PageUse
from crawld.show.actions import Control


@dataclass(frozen=True)
class RefusalsLimits:
    """Numbers that bound and tune this module."""

    max_connections: int = 256
    """Open at once: few of the 1,024 files of the smallest limit, and more than programs on one machine need."""
    max_per_address: int = 64
    """Of one address: a proxy in front of the listener comes from one address and needs no more."""
    max_readers: int = 2_048
    """Open at once where files are plenty: readers who wait for a fresh copy keep their connections."""
    files_share: float = 0.25
    loopback_share: float = 0.75
    """Of the files that the system allows, what connections may take; of those, what programs on this machine may."""
    head_seconds: float = 15.0
    """From the opening of a connection, or the last answer, until a request's headers are whole."""
    grace_seconds: float = 1.0
    """For which a connection may be idle where its address has more than strangers may have."""
    send_seconds: float = 60.0
    """For which a client may take an answer out of the buffers."""
    sweep_seconds: float = 1.0
    """Between two looks at all connections."""
    parsing_share: float = 0.1
    """Of the loop's time that all connections together may take to parse: bytes can be sent that cost much."""
    parsing_credit: float = 0.05
    """Seconds of waiting that are forgiven: ordinary requests never come near it."""
    max_pause: float = 5.0
    """Seconds for which a connection is not read at the most; others wait behind it less."""
    body_seconds: float = 30.0
    """In which a request's body has to arrive: megabytes over a slow line, and no place held for longer."""
    strangers_rate: float = 20.0
    strangers_burst: float = 40.0
    """Requests a second, and at once, of one address without the token: a hub or a site that publishes sends far
    fewer."""
    all_rate: float = 100.0
    all_burst: float = 200.0
    """The same of all addresses together: at a fifth of a millisecond each they cost the loop a fiftieth of its
    time."""
    max_addresses: int = 4096
    """Addresses whose requests are counted; beyond it the one that was silent longest is forgotten (some 1 MB)."""
    refused_seconds: float = 1.0
    """Until a request too many is answered: a connection that floods gets one answer a second."""


LIMITS = RefusalsLimits()


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CONTROL = web.AppKey("control", Control)


@web.middleware
async def errors_are_sentences(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns errors into a status with their own words: 400, or 503 where the database is in trouble.

    What was refused unread closes its connection, with the rest of what was sent.
    """
    try:
        return await handler(request)
    except RefusedError as error:
        if shows_pages(request):
            refused = web.Response(text=_page(str(error)), content_type="text/html", **error.answer)
        else:
            refused = web.json_response({"error": str(error)}, **error.answer)
        refused.force_close()
        return refused
    except web.HTTPException as error:  # what aiohttp itself answers, such as 404 and 405
        if error.status < 400:
            raise
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        sentence = f"{error.reason}: {request.method} {request.path}"
        return web.json_response({"error": sentence}, status=error.status, headers=headers)
    except StoreError as error:
        return web.json_response({"error": str(error)}, status=503)
    except CrawldError as error:
        return web.json_response({"error": str(error)}, status=400)


def actor_of(request: web.Request) -> str:
    """In whose name a request acts: how it proved itself, and where it came from."""
    if not request.remote:
        return "control socket"
    return f"{'token' if 'Authorization' in request.headers else 'browser'} at {request.remote}"


def shows_pages(request: web.Request) -> bool:
    """Tells whether a person waits for the answer in a browser, rather than a program."""
    return request.method == "GET" and "text/html" in request.headers.get("Accept", "")


def _page(sentence: str) -> str:
    """A page that says the sentence, words between backquotes as code."""
    parts = html.escape(sentence).split("`")
    said = "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
    return f'<!doctype html><html lang="en"><title>crawld</title><h1>crawld</h1><p>{said}.</p></html>\n'


class RefusedError(CrawldError):
    """A request that is answered with a status and a sentence, after which its connection is closed."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def answer(self) -> dict[str, Any]:
        """Status and headers, as a response takes them."""
        return {"status": self.status, "headers": self.headers}


def use_denied(use: PageUse) -> RefusedError:
    """The refusal of a page to a consumer whose use its site denies."""
    return RefusedError(403, f"its site denies the use of this page for {use.value} (docs/usage.md)")


async def read_body(request: web.Request, most: int, *, in_chunks: bool = True) -> bytes:
    """The body of a request; RefusedError where it is longer than `most` bytes, compressed, or too slow.

    Without `in_chunks` it has to say its length: chunks of a byte each cost the loop a thousand times their size.
    """
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise RefusedError(415, "send the body without Content-Encoding")
    if request.content_length is None and not in_chunks:
        raise RefusedError(411, "say the length of the body with Content-Length")
    too_large = RefusedError(413, f"the body is larger than the {most:,} bytes that are taken here: send it in parts")
    if request.content_length is not None and request.content_length > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(LIMITS.body_seconds):
            async for some in request.content.iter_any():
                body += some
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {LIMITS.body_seconds:g} s") from None
    return bytes(body)


@dataclass(slots=True)
class _Bucket:
    """Requests that may still come now, as of a time."""

    left: float
    at: float

    def take(self, now: float, rate: float, burst: float) -> bool:
        """Count one request; False where it is one too many."""
        self.left = min(burst, self.left + (now - self.at) * rate)
        self.at = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


@dataclass(slots=True)
class Strangers:
    """Counts requests that come without the token, by address (of IPv6 the /64 network) and in all."""

    monotonic: Callable[[], float]
    _all: _Bucket = field(default_factory=lambda: _Bucket(LIMITS.all_burst, 0.0))
    _by_address: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._by_address)

    def admit(self, address: str) -> bool:
        """Tells whether one more request of this address is answered."""
        now, network = self.monotonic(), network_of(address)
        bucket = self._by_address.setdefault(network, _Bucket(LIMITS.strangers_burst, now))
        self._by_address.move_to_end(network)
        if len(self._by_address) > LIMITS.max_addresses:
            self._by_address.popitem(last=False)
        return bucket.take(now, LIMITS.strangers_rate, LIMITS.strangers_burst) and self._all.take(
            now, LIMITS.all_rate, LIMITS.all_burst
        )


def network_of(address: str) -> str:
    """Returns whom an address belongs to: of IPv6 the /64, which one machine may have whole."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else parsed.exploded[:19]


LOOPBACK = frozenset({network_of("127.0.0.1"), network_of("::1")})


class Connection(asyncio.Protocol):
    """Stands between the transport and aiohttp's protocol, and knows since when no request is being answered."""

    def __init__(self, inner: asyncio.Protocol, among: "Connections") -> None:
        self._inner = inner
        self._among = among
        self._admitted = False
        self.transport: asyncio.Transport | None = None
        self.address = ""
        self.since = 0.0
        self.busy = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Find a place, or close."""
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = network_of(str(peer[0])) if isinstance(peer, tuple) else ""
        self._admitted = self._among.admit(self)
        if self._admitted:
            self._inner.connection_made(transport)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        if self._admitted:
            self._among.forget(self)
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand on, and read no more for a while where parsing has cost more than its share."""
        if not self._admitted:
            return
        began = self._among.monotonic()
        self._inner.data_received(data)
        pause = self._among.parsed(began, self._among.monotonic())
        if pause > 0 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(pause, self._read_on)

    def _read_on(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def eof_received(self) -> bool | None:
        """Hand on."""
        return self._inner.eof_received() if self._admitted else None

    def pause_writing(self) -> None:
        """Hand on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Hand on."""
        self._inner.resume_writing()


@dataclass(slots=True)
class Connections:
    """Every connection of one listener."""

    monotonic: Callable[[], float]
    most: int = LIMITS.max_connections
    most_per_address: int = LIMITS.max_per_address
    most_here: int = LIMITS.max_per_address  # of a loopback address
    _paid_until: float = 0.0  # when what was parsed has had its share of the time
    _open: dict[asyncio.BaseTransport, Connection] = field(default_factory=dict)
    _by_address: Counter[str] = field(default_factory=Counter)

    @classmethod
    def by_files(cls, monotonic: Callable[[], float], files: int) -> "Connections":
        """As many as a process with so many files can spare; programs on this machine may have most of them."""
        most = max(LIMITS.max_connections, min(int(LIMITS.files_share * files), LIMITS.max_readers))
        here = int(LIMITS.loopback_share * most) if most > LIMITS.max_connections else LIMITS.max_per_address
        return cls(monotonic, most, most_here=here)

    def __len__(self) -> int:
        return len(self._open)

    def _most_of(self, address: str) -> int:
        return self.most_here if address in LOOPBACK else self.most_per_address

    def admit(self, new: Connection) -> bool:
        """Give a connection a place, where need be that of the one that has waited longest without a request."""
        held = self._by_address[new.address]
        own = [one for one in self._open.values() if one.address == new.address]
        if held >= self._most_of(new.address):
            room = self._close_idlest(own)
        else:
            if held >= self.most_per_address:
                self._close_idlest(own, LIMITS.grace_seconds)
            room = len(self._open) < self.most or self._close_idlest(list(self._open.values()))
        if not room or new.transport is None:
            return False
        new.since = self.monotonic()
        self._open[new.transport] = new
        self._by_address[new.address] += 1
        return True

    def forget(self, gone: Connection) -> None:
        """A connection has ended, or is being ended."""
        if gone.transport is not None and self._open.pop(gone.transport, None) is not None:
            self._by_address[gone.address] -= 1
            if not self._by_address[gone.address]:
                del self._by_address[gone.address]

    def parsed(self, began: float, ended: float) -> float:
        """Count time spent parsing; for how many seconds whose bytes they were is not to be read."""
        self._paid_until = max(self._paid_until, began) + (ended - began) / LIMITS.parsing_share
        pause = self._paid_until - ended
        return min(pause, LIMITS.max_pause) if pause > LIMITS.parsing_credit else 0.0

    def _close_idlest(self, among: list[Connection], seconds: float = 0.0) -> bool:
        """Close the one that has waited longest without a request, for at least so long; False where there is none."""
        before = self.monotonic() - seconds
        idle = min(
            (one for one in among if not one.busy and one.since <= before), key=lambda one: one.since, default=None
        )
        if idle is None:
            return False
        self._abort(idle)
        return True

    def _abort(self, one: Connection) -> None:
        if one.transport is not None:
            one.transport.abort()
        self.forget(one)

    def sweep(self) -> None:
        """Close what has waited too long."""
        now = self.monotonic()
        for transport, one in list(self._open.items()):
            waited = now - one.since
            sending = one.transport is not None and one.transport.get_write_buffer_size() > 0
            if not one.busy and waited > (LIMITS.send_seconds if sending else LIMITS.head_seconds):
                assert transport is one.transport  # noqa: S101 - that is its key
                self._abort(one)
            elif (
                self._by_address[one.address] > self.most_per_address and not one.busy and waited > LIMITS.grace_seconds
            ):
                self._abort(one)

    async def keep_sweeping(self) -> None:
        """Do so until cancelled."""
        while True:
            await asyncio.sleep(LIMITS.sweep_seconds)
            self.sweep()

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware that tells when a request is being answered."""
        one = None if request.transport is None else self._open.get(request.transport)
        if one is None:
            return await handler(request)
        one.busy += 1
        try:
            return await handler(request)
        finally:
            one.busy -= 1
            one.since = self.monotonic()
