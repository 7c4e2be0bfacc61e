"""The interface for other programs, on `api.listen`: pings in, copies and status out."""

import asyncio
import errno
import logging
import resource
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from crawld.crawl.pushes import Pushes
from crawld.model.errors import InputError, StoreError
from crawld.show.api.access import (
    LOGIN,
    Access,
    Connection,
    Connections,
    RefusedError,
    Strangers,
    errors_are_sentences,
    guarded_by,
    log_in,
    read_body,
)
from crawld.show.api.copies import copy, place_among
from crawld.show.api.endpoints import PARTS, EndpointParts
from crawld.show.api.listener import BACKLOG, LISTENER, PROOF, Listener, answering, prove
from crawld.show.api.models import AskCopy
from crawld.show.api.routes import add_v1, metrics, versioned


@dataclass(frozen=True)
class PublicLimits:
    """Numbers that bound and tune this module."""

    receive_bytes: int = 16_384
    """The kernel's buffer of a connection, which Linux doubles: what one turn of the loop parses of it at the most."""
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


LIMITS = PublicLimits()


TAKEN = "another program has this port; set api.listen to another one, or to null, and restart"
log = logging.getLogger(__name__)
log.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError)))
"""Keeps the log free of requests that are not HTTP: they are answered 400, and anyone can send them."""
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
    well = request.app[PARTS].control.healthy()
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
    app[INBOX], app[LISTENER] = inbox, listener
    app[READING] = asyncio.Semaphore(LIMITS.max_bodies)
    add_v1(app, parts)
    app.add_routes(
        [
            web.get("/metrics", metrics),
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
        bounds = {
            "lingering_time": 0.2,
            "logger": log,
            "read_bufsize": LIMITS.receive_bytes,
            "max_line_size": LIMITS.max_line,
            "max_field_size": LIMITS.max_header,
            "max_headers": LIMITS.max_headers,
        }
        async with answering(self._app(connections.note), **bounds) as make:
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

    async def _bind(self, protocol: Callable[[], Connection]) -> asyncio.Server | None:
        """Listen; None where another program has the port, which is said and stops nothing."""
        host, _, port = self._listen.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                protocol, host.strip("[]"), int(port), start_serving=False, backlog=BACKLOG
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
