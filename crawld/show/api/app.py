"""The control interface: HTTP with JSON on a Unix socket that only the daemon's own user may open."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from crawld.model.access import shared_with_group, socket_path
from crawld.model.errors import InputError, StoreError
from crawld.show.api.access import Handler, actor_of, errors_are_sentences
from crawld.show.api.commands import answer
from crawld.show.api.endpoints import PARTS, EndpointParts, read_json
from crawld.show.api.listener import BACKLOG, LISTENER, PROOF, Listener, answering, vouch
from crawld.show.api.models import AskCopy
from crawld.show.api.routes import add_v1, metrics, versioned


async def _body(request: web.Request) -> dict[str, object]:
    given = await read_json(request)
    if not isinstance(given, dict):
        raise InputError("the request's body must be a JSON object")
    return given


async def _command(request: web.Request) -> web.Response:
    body = {} if request.method == "GET" else await _body(request)
    asked, control = urlsplit(str(request.rel_url)), request.app[PARTS].control
    return web.json_response(await answer(control, actor_of(request), request.method, asked, body))


async def _freshen(request: web.Request) -> web.Response:
    """Fetch a page now where its copy is not fresh enough, for a reader who takes the copy from the database."""
    asked = AskCopy.read(await _body(request))
    found = await request.app[PARTS].fresh.freshen(asked.url, asked.min_freshness, asked.wait)
    return web.json_response(asdict(found))


def _refuse_while(starting: Callable[[], str | None]) -> Middleware:
    """Answers nothing but the status while the daemon starts: there is nothing to steer or to read yet."""

    @web.middleware
    async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
        if (how_far := starting()) is not None and request.path not in {"/status", "/v1/status", PROOF}:
            return web.json_response({"error": f"crawld is starting ({how_far}): try again in a moment"}, status=503)
        return await handler(request)

    return refuse


def control_app(
    parts: EndpointParts, listener: Listener, starting: Callable[[], str | None] = lambda: None
) -> web.Application:
    """The routes over a daemon's control, and version 1 of the API."""
    app = web.Application(middlewares=[errors_are_sentences, _refuse_while(starting)])
    app[LISTENER] = listener
    add_v1(app, parts)
    app.add_routes(
        [
            web.get("/status", versioned("GET", "/v1/status")),
            web.get("/metrics", metrics),
            web.get(PROOF, vouch),
            web.put("/bandwidth", versioned("POST", "/v1/bandwidth")),
            web.post("/pause", versioned("POST", "/v1/pause")),
            web.post("/resume", versioned("POST", "/v1/resume")),
            web.put("/hosts/{name}", _command),
            web.post("/urls", _command),
            web.delete("/urls", _command),
            web.post("/urls/readmit", _command),
            web.get("/explain", _command),
            web.post("/freshen", _freshen),
            web.get("/forecast", _command),
            web.post("/reload", _command),
        ]
    )
    return app


def unix_socket(path: Path) -> socket.socket:
    """A socket that only we may open, and the group that its directory is shared with.

    One left behind by a dead daemon is replaced (the database lock says it is dead).
    In a folder that others may write to, a socket of another user is neither used nor removed.
    """
    what = "Set `api.socket` to a path in a directory that can be written"
    if not _free_for_us(path):
        raise StoreError(f"control socket {path}: there is something that is not a socket of this user. {what}.")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)
    try:
        path.unlink(missing_ok=True)
        with socket_path(path) as place:
            sock.bind(place)
        if shared_with_group(path.parent):
            path.chmod(0o660)
    except OSError as error:
        sock.close()
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            what = "Free some space"
        raise StoreError(f"control socket {path}: {error.strerror or error}. {what}.") from None
    finally:
        os.umask(old)
    return sock


def _free_for_us(path: Path) -> bool:
    """Tells whether there is nothing at the path, or a socket of our own; a link is never followed."""
    try:
        about = path.lstat()
    except OSError:
        return True  # where it cannot even be looked at, binding says why
    return stat.S_ISSOCK(about.st_mode) and about.st_uid == os.geteuid()


def _unlink_own(path: Path, inode: int) -> None:
    """Remove the socket, unless another has taken its place."""
    try:
        if path.lstat().st_ino == inode:
            path.unlink()
    except FileNotFoundError:
        return


class ControlServer:
    """Serves the control interface until cancelled."""

    def __init__(
        self, parts: EndpointParts, path: Path, listener: Listener, starting: Callable[[], str | None] = lambda: None
    ) -> None:
        """`starting` says how far a start is, None once slots are served."""
        self._parts, self._listener, self._starting = parts, listener, starting
        self.path = path

    async def run(self) -> None:
        """Open the socket and answer; the socket goes when we go."""
        loop, inode = asyncio.get_running_loop(), None
        try:
            async with answering(control_app(self._parts, self._listener, self._starting)) as make:
                sock = unix_socket(self.path)
                inode = self.path.lstat().st_ino
                server = await loop.create_server(make, sock=sock, start_serving=False, backlog=BACKLOG)
                try:
                    await server.start_serving()  # it may be cancelled when it already listens
                    self._listener.control_is_open()
                    await asyncio.Event().wait()
                finally:
                    server.close()
        finally:
            if inode is not None:
                _unlink_own(self.path, inode)
