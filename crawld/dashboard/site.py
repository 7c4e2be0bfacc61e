"""The routes of the dashboard: views as HTML under headers that let nothing but our own files in."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

from aiohttp import web

from crawld.dashboard import calibration, changes, difference, forecast, hosts, overview, page, pages
from crawld.dashboard.rendering import Renderer, View
from crawld.dashboard.sources import Sources
from crawld.errors import CrawldError, StoreError

Show = Callable[[Sources, Mapping[str, str]], Awaitable[View]]
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without a referrer a browser names no origin in our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every page: no inline script or style, nothing of another site, nobody's frame, and no copy in a cache."""
LONGEST_FORM = 1_000
"""Bytes that are read of a form: a rate."""
FOREVER = "private, max-age=31536000, immutable"
"""A file's name changes with its content."""
SHOWN: Mapping[str, Show] = {
    "/": overview.show,
    "/pages": pages.show,
    "/page": page.show,
    "/diff": difference.show,
    "/changes": changes.show,
    "/changes/new": changes.show_new,
    "/hosts": hosts.show,
    "/forecast": forecast.show,
    "/forecast/bandwidth": forecast.confirm,
    "/calibration": calibration.show,
}


class Dashboard:
    """The site over one daemon."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._renderer = Renderer()
        self._files = {asset.path: asset for asset in self._renderer.assets.values()}

    def routes(self) -> list[web.RouteDef]:
        """What the listener serves for browsers."""
        return [
            *(web.get(path, self._shown(show)) for path, show in SHOWN.items()),
            web.post("/forecast/bandwidth", self._change_bandwidth),
            web.get("/static/{name}", self._static),
        ]

    def _shown(self, show: Show) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            return await self._answer(await self._view(show, request.query))

        return handle

    async def _view(self, show: Show, query: Mapping[str, str]) -> View:
        """The view, or a sentence about why there is none."""
        try:
            return await show(self._sources, query)
        except CrawldError as error:
            return self._sentence(error)

    def _sentence(self, error: CrawldError) -> View:
        trouble = isinstance(error, StoreError)
        status, title = (503, "The database is in trouble") if trouble else (400, "This cannot be shown")
        context = {"sentence": f"{error}", "hint": ""}
        return View("message.html", title, "", self._sources.now(), context, status)

    async def _answer(self, view: View) -> web.Response:
        text = await asyncio.to_thread(self._renderer.html, view)
        return web.Response(text=text, status=view.status, content_type="text/html", headers=HEADERS)

    async def _change_bandwidth(self, request: web.Request) -> web.Response:
        body = await request.content.read(LONGEST_FORM)
        form = dict(parse_qsl(body.decode("utf-8", "replace")))
        try:
            target = await forecast.change(self._sources, form)
        except CrawldError as error:
            return await self._answer(self._sentence(error))
        return web.Response(status=303, headers=HEADERS | {"Location": target})

    async def _static(self, request: web.Request) -> web.Response:
        asset = self._files.get(request.path)
        if asset is None:
            raise web.HTTPNotFound
        headers = HEADERS | {"Cache-Control": FOREVER}
        return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers)
