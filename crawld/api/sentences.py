"""What both HTTP interfaces share: mistakes are answered in a sentence."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from crawld.api.refusals import RefusedError
from crawld.errors import CrawldError, StoreError
from crawld.interfaces import Control

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CONTROL = web.AppKey("control", Control)


@web.middleware
async def errors_are_sentences(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What crawld raises on purpose becomes a status with its own words: 400, or 503 where the database is in trouble.

    What was refused unread closes its connection: the rest of it is nobody's.
    """
    try:
        return await handler(request)
    except RefusedError as error:
        refused = web.json_response({"error": str(error)}, status=error.status, headers=error.headers)
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


async def status(request: web.Request) -> web.Response:
    """What the daemon is doing now."""
    return web.json_response(request.app[CONTROL].status())
