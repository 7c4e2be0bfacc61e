"""The interface for other programs, on `api.listen`: pings in, copies and status out."""

import asyncio
from collections.abc import Callable
from email.utils import formatdate

from aiohttp import web

from crawld.api.sentences import CONTROL, errors_are_sentences, status
from crawld.errors import InputError, StoreError
from crawld.interfaces import Control, Copies, Gone, Inbox
from crawld.model.url import normalise_given

MOST_BYTES = 5 * 2**20
EVEN_GONE = "X-Include-Gone"
"""The request header that asks for the last copy of a page even where the page is gone."""
INBOX = web.AppKey("inbox", Inbox)
COPIES = web.AppKey("copies", Copies)


async def _signals(request: web.Request) -> web.Response:
    status, body = request.app[INBOX].post_signals(await request.read())
    return web.json_response(dict(body), status=status)


async def _indexnow(request: web.Request) -> web.Response:
    inbox = request.app[INBOX]
    if request.method == "POST":
        status, body = inbox.post_indexnow(await request.read())
    else:
        status, body = inbox.get_indexnow(request.query)
    return web.json_response(dict(body), status=status)


async def _hub(request: web.Request) -> web.Response:
    token, inbox = request.match_info["token"], request.app[INBOX]
    if request.method == "GET":
        status, text = inbox.confirm(token, request.query)
    else:
        headers = {name.lower(): value for name, value in request.headers.items()}
        status, text = inbox.deliver(token, await request.read(), headers)
    return web.Response(status=status, text=text)


async def _copy(request: web.Request) -> web.Response:
    even_gone = request.headers.get(EVEN_GONE, "").strip().lower() in {"1", "true", "yes"}
    if not (url := request.query.get("url", "")):
        raise InputError("give ?url=…, the page whose copy is wanted")
    found = await request.app[COPIES].copy(normalise_given(url), even_gone=even_gone)
    if found is None:
        return web.json_response({"error": "there is no copy of that page"}, status=404)
    if isinstance(found, Gone):
        since = formatdate(found.since, usegmt=True)
        status = f" ({found.status})" if found.status else ""
        what = f"the last copy comes with the request header {EVEN_GONE}: 1" if found.held else "no copy is held"
        said = {"error": f"gone since {since}{status}; {what}", "gone_since": found.since, "status": found.status}
        return web.json_response(said, status=410, headers={"X-Gone-Since": since})
    body, headers = found
    return web.Response(body=body, headers=dict(headers))


def public_app(inbox: Inbox, copies: Copies, control: Control) -> web.Application:
    """The routes; nothing here steers the daemon."""
    app = web.Application(middlewares=[errors_are_sentences], client_max_size=MOST_BYTES)
    app[INBOX], app[COPIES], app[CONTROL] = inbox, copies, control
    app.add_routes(
        [
            web.get("/status", status),
            web.get("/copy", _copy),
            web.post("/signals", _signals),
            web.get("/indexnow", _indexnow),
            web.post("/indexnow", _indexnow),
            web.get("/websub/{token}", _hub),
            web.post("/websub/{token}", _hub),
        ]
    )
    return app


class PublicServer:
    """Serves the public interface until cancelled."""

    def __init__(self, app: Callable[[], web.Application], listen: str) -> None:
        self._app = app
        self._listen = listen

    async def run(self) -> None:
        """Listen and answer."""
        host, _, port = self._listen.rpartition(":")
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, host.strip("[]"), int(port)).start()
            except OSError as error:
                raise StoreError(f"api.listen {self._listen}: {error.strerror}. Choose another address.") from None
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()
