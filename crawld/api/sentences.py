"""What both HTTP interfaces share: mistakes are answered in a sentence."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from crawld.errors import CrawldError
from crawld.interfaces import Control

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CONTROL = web.AppKey("control", Control)


@web.middleware
async def errors_are_sentences(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What crawld raises on purpose becomes status 400 with its own words."""
    try:
        return await handler(request)
    except CrawldError as error:
        return web.json_response({"error": str(error)}, status=400)


async def status(request: web.Request) -> web.Response:
    """What the daemon is doing now."""
    return web.json_response(request.app[CONTROL].status())
