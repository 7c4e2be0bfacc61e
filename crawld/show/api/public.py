"""The interface for other programs, on `api.listen`: pings in, copies and status out."""

import asyncio
import errno
import logging
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from crawld.crawl.pushes import Pushes
from crawld.model.errors import InputError, StoreError
from crawld.show.api.access import LOGIN, Access, guarded_by, log_in
from crawld.show.api.copies import copy, place_among
from crawld.show.api.endpoints import EndpointParts
from crawld.show.api.listener import LISTENER, PROOF, Listener, prove
from crawld.show.api.metrics import add_metrics
from crawld.show.api.models import AskCopy
from crawld.show.api.refusals import (
    CONTROL,
    Handler,
    RefusedError,
    Strangers,
    errors_are_sentences,
    network_of,
    read_body,
)
from crawld.show.api.routes import add_v1, versioned


@dataclass(frozen=True)
class PublicLimits:
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
    receive_bytes: int = 16_384
    """The kernel's buffer of a connection, which Linux doubles: what one turn of the loop parses of it at the most."""
    parsing_share: float = 0.1
    """Of the loop's time that all connections together may take to parse: bytes can be sent that cost much."""
    parsing_credit: float = 0.05
    """Seconds of waiting that are forgiven: ordinary requests never come near it."""
    max_pause: float = 5.0
    """Seconds for which a connection is not read at the most; others wait behind it less."""
    signals_bytes: int = 5 * 2**20
    """Of a ping, which brings the token: some 50,000 addresses."""
    indexnow_bytes: int = 2 * 2**20
    """Of an IndexNow submission: its 10,000 addresses of 200 characters."""
    delivery_bytes: int = 5 * 2**20
    """Of a WebSub delivery, a feed."""
    max_bodies: int = 4
    """Bodies without the token that are read at once: 20 MB at the most. Others wait unread."""
    max_line: int = 8_190
    max_header: int = 4_096
    max_headers: int = 64
    """Of a request: an address in a query takes 6,000 characters at the most, and no client sends more headers."""
    backlog: int = 1_024
    """Connections that the system keeps until they are looked at: many readers may come at once."""


LIMITS = PublicLimits()


# The listener's connections: how many there may be, and how long one may say nothing that can be answered.

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


TAKEN = "another program has this port; set api.listen to another one, or to null, and restart"
log = logging.getLogger(__name__)
log.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError)))
"""What is not HTTP is answered 400; anyone can send it, so it does not fill the log."""
INBOX = web.AppKey("inbox", Pushes)
READING = web.AppKey("reading", asyncio.Semaphore)


async def _signals(request: web.Request) -> web.Response:
    body = await read_body(request, LIMITS.signals_bytes)
    status, said = await request.app[INBOX].post_signals(body)
    return web.json_response(dict(said), status=status)


async def _get_indexnow(request: web.Request) -> web.Response:
    status, said = await request.app[INBOX].get_indexnow(request.query)
    return web.json_response(dict(said), status=status)


async def _post_indexnow(request: web.Request) -> web.Response:
    async with place_among(request.app[READING]):
        body = await read_body(request, LIMITS.indexnow_bytes, in_chunks=False)
        status, said = await request.app[INBOX].post_indexnow(body)
    return web.json_response(dict(said), status=status)


async def _confirm(request: web.Request) -> web.Response:
    status, text = await request.app[INBOX].confirm(request.match_info["token"], request.query)
    return web.Response(status=status, text=text)


async def _deliver(request: web.Request) -> web.Response:
    headers = {name.lower(): value for name, value in request.headers.items()}
    async with place_among(request.app[READING]):
        body = await read_body(request, LIMITS.delivery_bytes, in_chunks=False)
        status, text = await request.app[INBOX].deliver(request.match_info["token"], body, headers)
    return web.Response(status=status, text=text)


async def _copy(request: web.Request) -> web.StreamResponse:
    """GET /copy, as it was before there were versions of the API: `url` is all that it looks at."""
    if not (url := request.query.get("url", "")):
        raise InputError("give ?url=…, the page whose copy is wanted")
    return await copy(request, AskCopy(url=url))


async def _health(request: web.Request) -> web.Response:
    well = request.app[CONTROL].healthy()
    return web.Response(text="ok" if well else "not ok", status=200 if well else 503)


async def serve_directory(
    keys: Callable[[str], tuple[str, Mapping[str, str]] | None], request: web.Request
) -> web.Response:
    """The directory of the keys that requests are signed with, signed itself for the authority that was asked."""
    found = keys(request.host)
    if found is None:
        raise RefusedError(404, "requests are not signed here: `signing.agent` is not set")
    return web.Response(body=found[0].encode(), headers=dict(found[1]))


def public_app(
    inbox: Pushes, parts: EndpointParts, access: Access, listener: Listener, *outer: Middleware
) -> web.Application:
    """The routes. `outer` come before every other middleware."""
    guard = guarded_by(access, Strangers(time.monotonic))
    app = web.Application(middlewares=[*outer, errors_are_sentences, guard])
    app[INBOX], app[CONTROL], app[LISTENER] = inbox, parts.control, listener
    app[READING] = asyncio.Semaphore(LIMITS.max_bodies)
    add_v1(app, parts)
    add_metrics(app, parts.metrics)
    app.add_routes(
        [
            web.get("/healthz", _health),
            web.get(PROOF, prove),
            web.get(LOGIN, partial(log_in, access)),
            web.get("/status", versioned("GET", "/v1/status")),
            web.get("/copy", _copy),
            web.post("/signals", _signals),
            web.get("/indexnow", _get_indexnow),
            web.post("/indexnow", _post_indexnow),
            web.get("/websub/{token}", _confirm),
            web.post("/websub/{token}", _deliver),
        ]
    )
    return app


class PublicServer:
    """Serves the public interface until cancelled."""

    def __init__(self, app: Callable[[Middleware], web.Application], listen: str, listener: Listener) -> None:
        """Take what makes the application, given the middleware that comes first, and what is told how it stands."""
        self._app, self._listen, self._listener = app, listen, listener

    async def run(self) -> None:
        """Listen and answer."""
        connections = Connections.by_files(time.monotonic, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        runner = web.AppRunner(
            self._app(connections.note),
            access_log=None,
            shutdown_timeout=1.0,
            lingering_time=0.2,
            logger=log,
            read_bufsize=LIMITS.receive_bytes,
            max_line_size=LIMITS.max_line,
            max_field_size=LIMITS.max_header,
            max_headers=LIMITS.max_headers,
            auto_decompress=False,  # a packed body would be unpacked on the loop
        )
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - made by setup
        make = runner.server
        try:
            server = await self._bind(lambda: Connection(make(), connections))
            if server is None:
                self._listener.closed(f"no dashboard and API at {self._listen}: {TAKEN}")
                await asyncio.Event().wait()
                return
            host, _, port = self._listen.rpartition(":")
            bound = server.sockets[0].getsockname()[1] if port == "0" else port
            self._listener.opened(f"{host}:{bound}")
            try:
                await connections.keep_sweeping()
            finally:
                server.close()
        finally:
            self._listener.closed()
            await runner.cleanup()

    async def _bind(self, protocol: Callable[[], Connection]) -> asyncio.Server | None:
        """Listen; None where another program has the port, which is said and stops nothing."""
        host, _, port = self._listen.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                protocol, host.strip("[]"), int(port), start_serving=False, backlog=LIMITS.backlog
            )
            try:
                for sock in server.sockets:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LIMITS.receive_bytes)  # connections inherit it
                await server.start_serving()
            except BaseException:  # it may be cancelled when it already listens
                server.close()
                raise
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                log.warning("no dashboard and API: %s", TAKEN, extra={"listen": self._listen})
                return None
            raise StoreError(f"api.listen {self._listen}: {error.strerror}. Choose another address.") from None
        return server
