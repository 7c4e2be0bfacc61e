"""An endpoint: what is asked, what is answered, and the models that check and describe both."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from crawld.crawl.reads import FreshReads
from crawld.model.errors import InputError
from crawld.model.mistakes import mistakes
from crawld.model.web import Clock
from crawld.pages.documents import StoredTexts
from crawld.show.actions import Control
from crawld.show.api.access import read_body
from crawld.show.metrics import DaemonMetrics
from crawld.show.report import adapter
from crawld.store.changes import ChangeSignal
from crawld.store.read_model import SqlReadModel
from crawld.store.views import Copies

BODY_BYTES = 2**20
"""Of a request: what is parsed in one go stops the loop for some 10 ms at the most."""


class RequestModel(BaseModel):
    """Parameters of a request; anything that is not named is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, given: object) -> Self:
        """Checks what was given; InputError names its first mistakes."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            found = mistakes(error, cls, {})[:3]
            raise InputError("; ".join(f"{one.place or 'the request'}: {one.sentence}" for one in found)) from None


@dataclass(frozen=True, slots=True)
class EndpointParts:
    """Parts of the daemon that endpoints answer from."""

    read: SqlReadModel
    control: Control
    copies: Copies
    fresh: FreshReads
    texts: StoredTexts
    events: ChangeSignal
    clock: Clock
    metrics: DaemonMetrics


PARTS = web.AppKey("v1", EndpointParts)
Answerer = Callable[[web.Request, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the table. `answer` None: the handler makes the response itself, of one of `media`."""

    method: str
    path: str
    summary: str
    handler: Answerer
    asked: type[RequestModel]
    answer: Any = None
    media: tuple[str, ...] = ("application/json",)
    statuses: Mapping[int, str] = field(default_factory=dict)
    """Statuses besides 200 and those that every endpoint may answer with."""

    @property
    def reads(self) -> bool:
        """Tells whether it changes nothing."""
        return self.method == "GET"

    @property
    def streams(self) -> bool:
        """Tells whether its answer goes on as long as it is read."""
        return "text/event-stream" in self.media

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Check what was asked, answer it, and say it as JSON."""
        found = await self.handler(request, await self._ask(request))
        if isinstance(found, web.StreamResponse):
            return found
        body = adapter(self.answer).dump_json(adapter(self.answer).validate_python(found))
        return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})

    async def _ask(self, request: web.Request) -> RequestModel:
        return self.asked.read(_single(request) if self.reads else _decoded(await read_body(request, BODY_BYTES)))


def add_routes(app: web.Application, endpoints: tuple[Endpoint, ...], parts: EndpointParts) -> None:
    """Let an application answer the endpoints."""
    app[PARTS] = parts
    for endpoint in endpoints:
        serve = partial(Endpoint.serve, endpoint)
        app.router.add_route(endpoint.method, endpoint.path, serve)
        if endpoint.reads and not endpoint.streams:
            app.router.add_head(endpoint.path, serve)


def _single(request: web.Request) -> dict[str, str]:
    """The query; InputError where a name comes twice."""
    query = dict(request.query)
    if len(query) != len(request.query):
        raise InputError("each parameter may be given once")
    return query


def _decoded(body: bytes) -> object:
    try:
        return json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"the request's body is not JSON: {error}") from None
