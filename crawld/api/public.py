"""The interface for other programs, on `api.listen`: pings in, copies and status out."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from crawld.api.access import Access, guarded_by
from crawld.api.connections import RECEIVE_BYTES, Connection, Connections
from crawld.api.refusals import RefusedError, Strangers, read_body
from crawld.api.sentences import CONTROL, errors_are_sentences, status
from crawld.errors import InputError, StoreError
from crawld.interfaces import Control, Copies, Gone, Inbox
from crawld.model.url import normalise_given

SIGNALS_BYTES = 5 * 2**20
"""Of a ping, which brings the token: some 50,000 addresses."""
INDEXNOW_BYTES = 2 * 2**20
"""Of an IndexNow submission: its 10,000 addresses of 200 characters."""
DELIVERY_BYTES = 5 * 2**20
"""Of a WebSub delivery, a feed."""
MOST_BODIES = 4
"""Bodies without the token that are read at once: 20 MB at the most. Others wait unread."""
MOST_COPIES = 4
"""Copies served at once, each up to `fetch.max_bytes` in memory until its reader has it."""
WAIT_SECONDS = 10.0
"""For which a request waits for its place among those; then it is told to come again."""
COPY_SECONDS = 60.0
"""In which a reader has to take a copy."""
PIECE_BYTES = 65_536
"""Written of a copy at once: the rest waits until the reader has taken it."""
LONGEST_LINE, LONGEST_HEADER, MOST_HEADERS = 8_190, 4_096, 64
"""Of a request: an address in a query takes 6,000 characters at the most, and no client sends more headers."""
EVEN_GONE = "X-Include-Gone"
"""The request header that asks for the last copy of a page even where the page is gone."""
COPY_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
"""A copy is somebody else's page: shown in a browser it runs nothing, loads nothing and has no origin."""
log = logging.getLogger(__name__)
log.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError)))
"""What is not HTTP is answered 400; anyone can send it, so it does not fill the log."""
INBOX = web.AppKey("inbox", Inbox)
COPIES = web.AppKey("copies", Copies)
SERVED = web.AppKey("served", asyncio.Semaphore)
READING = web.AppKey("reading", asyncio.Semaphore)


@asynccontextmanager
async def _place(places: asyncio.Semaphore) -> AsyncIterator[None]:
    """One of a few places; RefusedError where none becomes free in time."""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await places.acquire()
    except TimeoutError:
        raise RefusedError(503, "too many requests at once: try again later", Retry_After="10") from None
    try:
        yield
    finally:
        places.release()


async def _signals(request: web.Request) -> web.Response:
    body = await read_body(request, SIGNALS_BYTES)
    status, said = await request.app[INBOX].post_signals(body)
    return web.json_response(dict(said), status=status)


async def _get_indexnow(request: web.Request) -> web.Response:
    status, said = await request.app[INBOX].get_indexnow(request.query)
    return web.json_response(dict(said), status=status)


async def _post_indexnow(request: web.Request) -> web.Response:
    async with _place(request.app[READING]):
        body = await read_body(request, INDEXNOW_BYTES, in_chunks=False)
        status, said = await request.app[INBOX].post_indexnow(body)
    return web.json_response(dict(said), status=status)


async def _confirm(request: web.Request) -> web.Response:
    status, text = request.app[INBOX].confirm(request.match_info["token"], request.query)
    return web.Response(status=status, text=text)


async def _deliver(request: web.Request) -> web.Response:
    headers = {name.lower(): value for name, value in request.headers.items()}
    async with _place(request.app[READING]):
        body = await read_body(request, DELIVERY_BYTES, in_chunks=False)
        status, text = await request.app[INBOX].deliver(request.match_info["token"], body, headers)
    return web.Response(status=status, text=text)


async def _copy(request: web.Request) -> web.StreamResponse:
    even_gone = request.headers.get(EVEN_GONE, "").strip().lower() in {"1", "true", "yes"}
    if not (url := request.query.get("url", "")):
        raise InputError("give ?url=…, the page whose copy is wanted")
    async with _place(request.app[SERVED]):
        found = await request.app[COPIES].copy(normalise_given(url), even_gone=even_gone)
        if found is None:
            return web.json_response({"error": "there is no copy of that page"}, status=404)
        if isinstance(found, Gone):
            return _gone(found)
        body, headers = found
        response = web.StreamResponse(headers=dict(headers) | COPY_HEADERS)
        response.content_length = len(body)
        try:
            async with asyncio.timeout(COPY_SECONDS):
                await _send(request, response, body)
        except TimeoutError:
            response.force_close()
            if request.transport is not None:
                request.transport.abort()
    return response


async def _send(request: web.Request, response: web.StreamResponse, body: bytes) -> None:
    await response.prepare(request)
    if request.method != "HEAD":
        for start in range(0, len(body), PIECE_BYTES):
            await response.write(body[start : start + PIECE_BYTES])
    await response.write_eof()


def _gone(found: Gone) -> web.Response:
    since = formatdate(found.since, usegmt=True)
    status = f" ({found.status})" if found.status else ""
    what = f"the last copy comes with the request header {EVEN_GONE}: 1" if found.held else "no copy is held"
    said = {"error": f"gone since {since}{status}; {what}", "gone_since": found.since, "status": found.status}
    return web.json_response(said, status=410, headers={"X-Gone-Since": since})


async def _health(request: web.Request) -> web.Response:
    well = request.app[CONTROL].healthy()
    return web.Response(text="ok" if well else "not ok", status=200 if well else 503)


def public_app(inbox: Inbox, copies: Copies, control: Control, access: Access, *outer: Middleware) -> web.Application:
    """The routes; nothing here steers the daemon but pings. `outer` come before every other middleware."""
    guard = guarded_by(access, Strangers(time.monotonic))
    app = web.Application(middlewares=[*outer, errors_are_sentences, guard])
    app[INBOX], app[COPIES], app[CONTROL] = inbox, copies, control
    app[SERVED], app[READING] = asyncio.Semaphore(MOST_COPIES), asyncio.Semaphore(MOST_BODIES)
    app.add_routes(
        [
            web.get("/healthz", _health),
            web.get("/status", status),
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

    def __init__(self, app: Callable[[Middleware], web.Application], listen: str) -> None:
        """Take what makes the application, given the middleware that comes first."""
        self._app = app
        self._listen = listen

    async def run(self) -> None:
        """Listen and answer."""
        connections = Connections(time.monotonic)
        runner = web.AppRunner(
            self._app(connections.note),
            access_log=None,
            shutdown_timeout=1.0,
            lingering_time=0.2,
            logger=log,
            read_bufsize=RECEIVE_BYTES,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_HEADER,
            max_headers=MOST_HEADERS,
            auto_decompress=False,  # a packed body would be unpacked on the loop
        )
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - made by setup
        make = runner.server
        server = await self._bind(lambda: Connection(make(), connections))
        try:
            await connections.keep_sweeping()
        finally:
            server.close()
            await runner.cleanup()

    async def _bind(self, protocol: Callable[[], Connection]) -> asyncio.Server:
        host, _, port = self._listen.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(protocol, host.strip("[]"), int(port), start_serving=False)
            for sock in server.sockets:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)  # connections inherit it
            await server.start_serving()
        except OSError as error:
            raise StoreError(f"api.listen {self._listen}: {error.strerror}. Choose another address.") from None
        return server
