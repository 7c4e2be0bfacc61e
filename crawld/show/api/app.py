"""The control interface: HTTP with JSON on a Unix socket that only the daemon's own user may open."""

import asyncio
import errno
import json
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Middleware

from crawld.model.access import shared_with_group, socket_path
from crawld.model.errors import InputError, StoreError
from crawld.model.page import Wanted, check_importance
from crawld.model.url import normalise
from crawld.show.api import reading, steering
from crawld.show.api.access import CONTROL, Handler, actor_of, errors_are_sentences, read_body
from crawld.show.api.endpoints import PARTS, EndpointParts
from crawld.show.api.listener import LISTENER, PROOF, Listener, vouch
from crawld.show.api.metrics import add_metrics
from crawld.show.api.models import AskCopy, AskForecast, SetHost
from crawld.show.api.routes import add_v1, versioned
from crawld.store.settings import Action


@dataclass(frozen=True)
class AppLimits:
    """Numbers that bound and tune this module."""

    control_bytes: int = 2**20
    """Of a request's body: what is parsed in one go stops the loop for some 10 ms at the most."""
    max_urls: int = 5_000
    """Of a request: taken over in one go, and more than a body of the size above usually holds."""
    max_undone: int = 100
    """Pages of a request of the command line that can be undone: of a list of a million, what undoes it is not kept."""
    backlog: int = 1_024
    """Connections that the system keeps until they are looked at: many readers may come at once."""
    urls_at_once: int = 200
    """Addresses read before others get their turn: some 5 ms."""


LIMITS = AppLimits()


async def _body(request: web.Request) -> dict[str, object]:
    try:
        given = json.loads(await read_body(request, LIMITS.control_bytes) or b"{}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"the request's body is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise InputError("the request's body must be a JSON object")
    return given


async def _act(request: web.Request, verb: str, **what: object) -> Action:
    return await request.app[CONTROL].actions.act(actor_of(request), verb, what)


async def _host(request: web.Request) -> web.Response:
    asked = SetHost.read(await _body(request) | {"host": request.match_info["name"]})
    return web.json_response(asdict(await steering.host(request, asked)))


async def _wanted(body: dict[str, object]) -> list[Wanted]:
    given = body.get("urls")
    if not isinstance(given, list):
        raise InputError('give {"urls": ["https://…", …]}')
    if len(given) > LIMITS.max_urls:
        raise InputError(f"{len(given)} URLs are too many for one request: send at most {LIMITS.max_urls} at a time")
    pages = []
    for number, item in enumerate(given):
        if number % LIMITS.urls_at_once == 0:
            await asyncio.sleep(0)
        url, importance = (item.get("url"), item.get("importance", 1.0)) if isinstance(item, dict) else (item, 1.0)
        if not isinstance(url, str):
            raise InputError(f"{item!r} is not a URL, nor an object with a url")
        pages.append(Wanted(normalise(url), check_importance(importance)))
    return pages


async def _add(request: web.Request) -> web.Response:
    wanted = [(page.url, page.importance) for page in await _wanted(await _body(request))]
    adoption = (await _act(request, "add", wanted=wanted, undoable=len(wanted) <= LIMITS.max_undone)).result
    return web.json_response(
        {"added": len(adoption.added) + len(adoption.returned), "reweighted": len(adoption.reweighted)}
    )


async def _remove(request: web.Request) -> web.Response:
    """Remove pages, and say who listed them, who brings them back unless they are kept out."""
    given = await _body(request)
    urls, keep_out = [page.url for page in await _wanted(given)], given.get("keep_out", False)
    if not isinstance(keep_out, bool):
        raise InputError("`keep_out` must be true or false")
    done = await _act(request, "remove", urls=urls, keep_out=keep_out, undoable=len(urls) <= LIMITS.max_undone)
    origins = await request.app[CONTROL].origins(done.result)
    return web.json_response({"removed": done.result, "origins": dict(origins)})


async def _readmit(request: web.Request) -> web.Response:
    urls = [page.url for page in await _wanted(await _body(request))]
    return web.json_response({"readmitted": list(await request.app[CONTROL].readmit_pages(urls))})


async def _explain(request: web.Request) -> web.Response:
    given = request.query.get("id", "")
    if not given.isdecimal():
        raise InputError("give ?id=…, the number of a page")
    found = await request.app[CONTROL].explain(int(given))
    return web.json_response(found.document()) if found else web.json_response({"error": "no such page"}, status=404)


async def _freshen(request: web.Request) -> web.Response:
    """Fetch a page now where its copy is not fresh enough, for a reader who takes the copy from the database."""
    asked = AskCopy.read(await _body(request))
    found = await request.app[PARTS].fresh.freshen(asked.url, asked.min_freshness, asked.wait)
    return web.json_response(asdict(found))


async def _forecast(request: web.Request) -> web.Response:
    asked = AskForecast(bandwidth=",".join(request.query.getall("bandwidth", [])))
    return web.json_response((await reading.forecast(request, asked)).document())


async def _reload(request: web.Request) -> web.Response:
    retire = (await _body(request)).get("retire", False)
    if not isinstance(retire, bool):
        raise InputError("`retire` must be true or false")
    result = await request.app[CONTROL].reload(retire=retire)
    if result.refused is not None:
        return web.json_response({"error": result.sentence}, status=409)
    return web.json_response(
        {
            "reloaded": result.sentence,
            "applied": list(result.applied),
            "waiting": list(result.waiting),
            "list": None if result.listed is None else asdict(result.listed),
        }
    )


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
    app[CONTROL], app[LISTENER] = parts.control, listener
    add_v1(app, parts)
    add_metrics(app, parts.metrics)
    app.add_routes(
        [
            web.get("/status", versioned("GET", "/v1/status")),
            web.get(PROOF, vouch),
            web.put("/bandwidth", versioned("POST", "/v1/bandwidth")),
            web.post("/pause", versioned("POST", "/v1/pause")),
            web.post("/resume", versioned("POST", "/v1/resume")),
            web.put("/hosts/{name}", _host),
            web.post("/urls", _add),
            web.delete("/urls", _remove),
            web.post("/urls/readmit", _readmit),
            web.get("/explain", _explain),
            web.post("/freshen", _freshen),
            web.get("/forecast", _forecast),
            web.post("/reload", _reload),
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
        app = control_app(self._parts, self._listener, self._starting)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, auto_decompress=False)
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - made by setup
        make, loop = runner.server, asyncio.get_running_loop()
        inode = None
        try:
            sock = unix_socket(self.path)
            inode = self.path.lstat().st_ino
            server = await loop.create_server(make, sock=sock, start_serving=False, backlog=LIMITS.backlog)
            try:
                await server.start_serving()  # it may be cancelled when it already listens
                self._listener.control_is_open()
                await asyncio.Event().wait()
            finally:
                server.close()
        finally:
            await runner.cleanup()
            if inode is not None:
                _unlink_own(self.path, inode)
