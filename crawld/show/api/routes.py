"""Every endpoint of version 1, once."""

import asyncio
import json
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from crawld import __version__
from crawld.show.api import copies, following, reading, steering
from crawld.show.api.access import Handler
from crawld.show.api.endpoints import PARTS, Endpoint, EndpointParts, RequestModel
from crawld.show.api.models import Problem
from crawld.show.metrics import exposition
from crawld.show.report import adapter

SCHEMAS = "#/components/schemas/{model}"
COMMON = {
    400: "Something in the request is wrong",
    401: "The token is missing or wrong",
    403: "A page of another site may not ask this",
    421: "This host name is not answered for here",
    429: "Too many requests without the token",
    503: "The database cannot be read or written now, or too many requests wait",
}
WITH_BODY = {408: "The body came too slowly", 413: "The body is too large", 415: "The body is compressed"}


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description of these endpoints."""
    token = {"type": "http", "scheme": "bearer", "description": "What `crawld token` prints"}
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    _collect(Problem, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "crawld", "version": __version__, "description": "Reads and steers a running crawld."},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": token}},
        "security": [{"token": []}],
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}_{endpoint.path.rpartition('/')[2]}",
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.reads:
        operation["parameters"] = _parameters(endpoint.asked, schemas)
    else:
        asked = _collect(endpoint.asked, schemas)
        operation["requestBody"] = {"required": False, "content": {"application/json": {"schema": asked}}}
    return operation


def _responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {media: {"schema": {"type": "string"}} for media in endpoint.media}
    if endpoint.answer is not None:
        good["application/json"] = {"schema": _collect(endpoint.answer, schemas)}
    problem = {"application/json": {"schema": {"$ref": SCHEMAS.format(model="Problem")}}}
    plain = {"text/plain": {"schema": {"type": "string"}}}  # what is not HTTP is refused before it is routed
    found: dict[str, Any] = {"200": {"description": endpoint.summary, "content": good}}
    every = COMMON | ({} if endpoint.reads else WITH_BODY) | dict(endpoint.statuses)
    for status, words in sorted(every.items()):
        content = {} if status == 304 else problem | (plain if status == 400 else {})
        found[str(status)] = {"description": words} | ({"content": content} if content else {})
    return found


def _parameters(asked: type[RequestModel], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    schema = asked.model_json_schema(ref_template=SCHEMAS)
    schemas.update(schema.pop("$defs", {}))
    required = set(schema.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(about)}
        for name, about in schema.get("properties", {}).items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter's schema: one that is not given is left out, never null."""
    rest = {name: value for name, value in schema.items() if name not in {"title", "anyOf"}}
    if rest.get("default", 0) is None:
        del rest["default"]
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if len(kinds) == 1:
        return {**kinds[0], **rest}
    return {**rest, "anyOf": kinds} if kinds else rest


def _collect(answer: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer, its parts moved to the components."""
    schema = adapter(answer).json_schema(ref_template=SCHEMAS, mode="serialization")
    schemas.update(schema.pop("$defs", {}))
    name = schema.get("title")
    if isinstance(name, str) and schema.get("type") == "object":
        schemas[name] = schema
        return {"$ref": SCHEMAS.format(model=name)}
    return schema


NO_PAGE = {404: "The page is not on the list"}
get, post = partial(Endpoint.of, "GET"), partial(Endpoint.of, "POST")

ENDPOINTS: tuple[Endpoint, ...] = (
    get("/v1/status", "What the daemon is doing", reading.status),
    get("/v1/pages", "Pages, part by part", reading.pages),
    get("/v1/page", "One page, its timeline, and why it is not crawled now", reading.page, statuses=NO_PAGE),
    get("/v1/versions", "The kept versions of a page", reading.versions, statuses=NO_PAGE),
    get(
        "/v1/diff", "The difference between two versions", reading.diff, "application/json", "text/plain",
        statuses={404: "The page is not on the list, or has no such versions", 422: "There is no text to compare"},
    ),
    get("/v1/search", "Pages whose text holds words, best first", reading.search),
    get(
        "/v1/copy", "The copy of a page, its text or its Markdown", copies.copy, "*/*",
        statuses={
            304: "The copy is the one that was named",
            404: "There is no copy, or that version is not kept",
            406: "The copy has no form that was asked for",
            410: "The page is gone; the header X-Include-Gone: 1 asks for the last copy",
            422: "Its text takes too much to read",
        },
    ),
    get("/v1/changes", "Changes after a cursor", following.changes),
    get("/v1/events", "Changes as they come, as server-sent events", following.events, "text/event-stream"),
    get("/v1/hosts", "How hosts are asked", reading.hosts),
    get("/v1/signals", "What signals were worth", reading.signals),
    get("/v1/freshness", "Freshness over time", reading.freshness),
    get("/v1/calibration", "Predicted against seen freshness", reading.calibration),
    get("/v1/slots", "What slots were spent on", reading.slots),
    get("/v1/forecast", "What bandwidths buy", reading.forecast),
    post("/v1/bandwidth", "Change the request rate", steering.bandwidth),
    post("/v1/pause", "Pause", steering.pause),
    post("/v1/resume", "Go on", steering.resume),
    post("/v1/host", "Block or slow down a host", steering.host),
    post("/v1/urls", "Add and remove pages", steering.urls),
    post("/v1/pages", "Keep pages, and wait for their first copies", steering.add_pages),
    post("/v1/refresh", "Crawl pages now, before all others", steering.refresh),
    get(
        "/v1/parts", "The parts of a page that can be ignored", reading.page_parts,
        statuses={404: "There is no copy of the page", 422: "Its copy takes too much to read"},
    ),
    get("/v1/rules", "What of pages is compared", reading.rules),
    post("/v1/rules", "Ignore parts of pages, or compare them again", steering.rules),
    get("/v1/read", "Which changes were read", reading.read),
    post("/v1/read", "Mark changes as read", steering.mark_read),
    get("/v1/actions", "What was done to the crawl, and by whom", reading.actions),
    post("/v1/undo", "Undo an action", steering.undo),
    get("/v1/feed", "The newest changes as an Atom feed", following.feed, "application/atom+xml", statuses=NO_PAGE),
)  # fmt: skip


def versioned(method: str, path: str) -> Handler:
    """Returns the handler of an endpoint of version 1, for a route without a version that answers the same."""
    (found,) = (one for one in ENDPOINTS if (one.method, one.path) == (method, path))
    return found.serve


def add_v1(app: web.Application, parts: EndpointParts) -> None:
    """Let an application answer version 1, with its description."""
    app[following.FOLLOWERS] = asyncio.Semaphore(following.LIMITS.max_followers)
    app[copies.SERVED] = asyncio.Semaphore(copies.LIMITS.max_copies)
    app[PARTS] = parts
    for endpoint in ENDPOINTS:
        app.router.add_route(endpoint.method, endpoint.path, endpoint.serve)
        if endpoint.reads and "text/event-stream" not in endpoint.media:  # a stream would go on without being read
            app.router.add_head(endpoint.path, endpoint.serve)
    app.router.add_get("/v1/openapi.json", _openapi)


async def metrics(request: web.Request) -> web.Response:
    """The daemon's figures as Prometheus reads them."""
    body = exposition(await request.app[PARTS].metrics.figures())
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _openapi(_: web.Request) -> web.Response:
    return web.Response(body=await asyncio.to_thread(_description), content_type="application/json")


@cache
def _description() -> bytes:
    """The description of all endpoints, made once it is asked for: that takes 50 ms."""
    return json.dumps(describe(ENDPOINTS)).encode()
