"""The routes of the dashboard: views as HTML under headers that let nothing but our own files in."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qs

from aiohttp import web

from crawld.model.errors import CrawldError, InputError, StoreError
from crawld.model.units import is_number
from crawld.show.api.access import actor_of
from crawld.show.dashboard import acting, changes, forecast, hosts, overview, page, pages
from crawld.show.dashboard.rendering import Renderer, Sources, View
from crawld.store.settings import Action

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
"""Of every page: no inline script or style, nothing of another site, no frame, and no copy in a cache."""
SHOWN: Mapping[str, Show] = {
    "/": overview.show,
    "/pages": pages.show,
    "/search": pages.show_search,
    "/page": page.show,
    "/diff": changes.show_difference,
    "/changes": changes.show,
    "/changes/new": changes.show_new,
    "/hosts": hosts.show,
    "/forecast": forecast.show,
    "/forecast/bandwidth": forecast.confirm,
    "/calibration": forecast.show_calibration,
    "/page/parts": acting.show,
    "/actions": acting.show_log,
}


class Dashboard:
    """The site over one daemon."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._renderer = Renderer()
        self._files = {asset.path: asset for asset in self._renderer.assets.values()}

    def routes(self) -> list[web.RouteDef]:
        """Returns what the listener serves for browsers."""
        return [
            *(web.get(path, self._shown(show)) for path, show in SHOWN.items()),
            web.post("/forecast/bandwidth", self._change_bandwidth),
            web.post("/act/{name}", self._act),
            web.get("/static/{name}", self._static),
        ]

    def _shown(self, show: Show) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            view = await self._view(show, request.query)
            back = str(request.rel_url.without_query_params("action", "set"))
            return await self._answer(replace(view, notice=await self._notice(request), back=back))

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

    async def _notice(self, request: web.Request) -> Action | None:
        """Returns what was just done, where the address says so and it was done a moment ago."""
        number = request.query.get("action", "")
        if not is_number(number):
            return None
        try:
            done = await self._sources.control.actions.get(int(number))
        except CrawldError:
            return None  # the view itself says what is wrong
        return done if done is not None and self._sources.now() - done.at < 600.0 else None

    async def _change_bandwidth(self, request: web.Request) -> web.Response:
        return await self._done(partial(forecast.change, self._sources), request)

    async def _act(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in acting.DEEDS and name != "undo":
            raise web.HTTPNotFound
        return await self._done(lambda who, form: acting.act(self._sources, who, name, form), request)

    async def _done(
        self, do: Callable[[str, acting.Form], Awaitable[View | str]], request: web.Request
    ) -> web.Response:
        """Do what a form asks for, and lead on to where that is shown: reloading that does nothing again."""
        try:
            found = await do(actor_of(request), await _form(request))
        except CrawldError as error:
            found = self._sentence(error)
        if isinstance(found, View):
            return await self._answer(found)
        return web.Response(status=303, headers=HEADERS | {"Location": found})

    async def _static(self, request: web.Request) -> web.Response:
        asset = self._files.get(request.path)
        if asset is None:
            raise web.HTTPNotFound
        headers = HEADERS | {"Cache-Control": "private, max-age=31536000, immutable"}  # its name goes with its content
        return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers)


async def _form(request: web.Request) -> acting.Form:
    """The fields of a form; InputError where they are longer than a form's limit."""
    body = bytearray()
    async for some in request.content.iter_any():
        body += some
        if len(body) > 2**20:  # a list of some thousand pages
            raise InputError("the form is too long: `crawld urls import FILE` takes lists of any length")
    return parse_qs(body.decode("utf-8", "replace"), max_num_fields=10_000)
