"""An endpoint: what is asked, what is answered, and the models that check and describe both."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Self, get_args, get_type_hints

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
from crawld.store.database import ChangeSignal
from crawld.store.read_model import SqlReadModel
from crawld.store.views import Copies


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
    answer: Any
    media: tuple[str, ...]
    statuses: Mapping[int, str]
    """Statuses besides 200 and those that every endpoint may answer with."""

    @classmethod
    def of(
        cls, method: str, path: str, summary: str, handler: Answerer, *media: str, statuses: Mapping[int, str] = {}
    ) -> Self:
        """The row of a handler, whose annotations say what is asked and answered."""
        _, asked, told = get_type_hints(handler).values()
        kinds = get_args(told) if isinstance(told, UnionType) else (told,)
        answer = next((kind for kind in kinds if kind not in {web.Response, web.StreamResponse}), None)
        return cls(method, path, summary, handler, asked, answer, media or ("application/json",), statuses)

    @property
    def reads(self) -> bool:
        """Tells whether it changes nothing."""
        return self.method == "GET"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Check what was asked, answer it, and say it as JSON."""
        given = _single(request) if self.reads else await read_json(request)
        found = await self.handler(request, self.asked.read(given))
        if isinstance(found, web.StreamResponse):
            return found
        body = adapter(self.answer).dump_json(adapter(self.answer).validate_python(found))
        return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})


def _single(request: web.Request) -> dict[str, str]:
    """The query; InputError where a name comes twice."""
    query = dict(request.query)
    if len(query) != len(request.query):
        raise InputError("each parameter may be given once")
    return query


async def read_json(request: web.Request) -> object:
    """The body of a request, decoded; an empty one is an empty object."""
    try:
        # What is parsed in one go stops the loop for some 10 ms at the most.
        return json.loads(await read_body(request, 2**20) or b"{}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"the request's body is not JSON: {error}") from None
