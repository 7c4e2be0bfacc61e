"""An endpoint: what is asked, what is answered, and the models that check and describe both."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from crawld.crawl.reads import FreshReads
from crawld.model.errors import InputError
from crawld.model.metrics import Metrics
from crawld.model.mistakes import mistakes
from crawld.model.web import Clock
from crawld.pages.documents import StoredTexts
from crawld.show.actions import Control
from crawld.show.api.refusals import read_body
from crawld.store.changes import ChangeSignal
from crawld.store.read_model import SqlReadModel
from crawld.store.views import Copies

BODY_BYTES = 2**20
"""Of a request: what is parsed in one go stops the loop for some 10 ms at the most."""


class RequestModel(BaseModel):
    """What a request brings; anything that is not named is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class EndpointParts:
    """What endpoints answer from."""

    read: SqlReadModel
    control: Control
    copies: Copies
    fresh: FreshReads
    texts: StoredTexts
    events: ChangeSignal
    clock: Clock
    metrics: Metrics


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
        """Whether it changes nothing."""
        return self.method == "GET"

    @property
    def streams(self) -> bool:
        """Whether its answer goes on as long as somebody reads it."""
        return "text/event-stream" in self.media

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Check what was asked, answer it, and say it as JSON."""
        found = await self.handler(request, await self._ask(request))
        if isinstance(found, web.StreamResponse):
            return found
        body = adapter(self.answer).dump_json(adapter(self.answer).validate_python(found))
        return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})

    async def _ask(self, request: web.Request) -> RequestModel:
        try:
            if self.reads:
                return self.asked.model_validate(_single(request))
            body = await read_body(request, BODY_BYTES)
            return self.asked.model_validate(_decoded(body))
        except ValidationError as error:
            raise InputError(refusal(error, self.asked)) from None


@lru_cache
def adapter(answer: Any) -> TypeAdapter[Any]:
    """What checks, writes and describes an answer."""
    return TypeAdapter(answer)


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


def refusal(error: ValidationError, asked: type[RequestModel]) -> str:
    """What is wrong with a request, of the first few mistakes."""
    return "; ".join(f"{one.place or 'the request'}: {one.sentence}" for one in mistakes(error, asked, {})[:3])
