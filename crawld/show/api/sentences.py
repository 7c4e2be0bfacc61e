"""What both HTTP interfaces share: mistakes are answered in a sentence."""

import html
from collections.abc import Awaitable, Callable

from aiohttp import web

from crawld.model.errors import CrawldError, StoreError
from crawld.show.api.listener import LISTENER
from crawld.show.api.refusals import RefusedError
from crawld.store.control import Control

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
        if shows_pages(request):
            refused = web.Response(text=_page(str(error)), content_type="text/html", **error.answer)
        else:
            refused = web.json_response({"error": str(error)}, **error.answer)
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


def actor_of(request: web.Request) -> str:
    """In whose name a request acts: how it proved itself, and where it came from."""
    if not request.remote:
        return "control socket"
    return f"{'token' if 'Authorization' in request.headers else 'browser'} at {request.remote}"


def shows_pages(request: web.Request) -> bool:
    """Whether a person waits for the answer in a browser, rather than a program."""
    return request.method == "GET" and "text/html" in request.headers.get("Accept", "")


def _page(sentence: str) -> str:
    """A page that says the sentence, words between backquotes as code."""
    parts = html.escape(sentence).split("`")
    said = "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
    return f'<!doctype html><html lang="en"><title>crawld</title><h1>crawld</h1><p>{said}.</p></html>\n'


async def status(request: web.Request) -> web.Response:
    """What the daemon is doing now, and where its dashboard is."""
    return web.json_response(await request.app[CONTROL].status() | {"listener": request.app[LISTENER].standing()})
