"""The description of the API and the API are the same thing."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawld.api.v1.endpoints import adapter
from crawld.api.v1.openapi import describe
from crawld.api.v1.routes import ENDPOINTS, add_v1
from tests.integration.test_api_v1 import serving
from tests.site import Site

DESCRIPTION = describe(ENDPOINTS)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation that is described."""
    for path, methods in DESCRIPTION["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_route_is_described_and_every_description_is_a_route() -> None:
    """Nothing is served that is not described but the description itself."""
    app = web.Application()
    add_v1(app, None)  # type: ignore[arg-type]  # no route is asked
    served = {(route.method, route.resource.canonical) for route in app.router.routes() if route.resource is not None}
    served -= {(method, path) for method, path in served if method == "HEAD" or path == "/v1/openapi.json"}
    assert served == {(method, path) for method, path, _ in operations()}


def test_the_description_holds_together() -> None:
    """Every reference leads somewhere, every name is used once, every answer is described in words."""
    named = set(DESCRIPTION["components"]["schemas"])
    assert set(re.findall(r"#/components/schemas/([\w-]+)", json.dumps(DESCRIPTION))) <= named
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    for _, path, operation in operations():
        assert {"200", "400", "401", "403", "421", "429", "503"} <= set(operation["responses"]), path
        assert all(response["description"] for response in operation["responses"].values())
        assert not any("null" in json.dumps(parameter) for parameter in operation.get("parameters", ()))


async def test_answers_are_what_is_described(tmp_path: Path) -> None:
    """What a daemon answers can be read by the models that the description is made of."""
    async with Site() as site, serving(tmp_path, site, "/cue/1", "/ok/2") as (_, session):
        for endpoint in ENDPOINTS:
            if not endpoint.reads or endpoint.answer is None or endpoint.path == "/v1/diff":
                continue
            asks_for_a_page = "url" in endpoint.asked.model_fields and endpoint.asked.model_fields["url"].is_required()
            query = {"url": site.url("/cue/1")} if asks_for_a_page else {}
            async with session.get(endpoint.path, params=query) as answered:
                assert answered.status == 200, endpoint.path
                adapter(endpoint.answer).validate_json(await answered.read())


@pytest.mark.parametrize("path", ["/v1/pages?limit=x", "/v1/copy", "/v1/changes?after=-1", "/v1/changes?wait=61"])
async def test_wrong_questions_are_answered_in_a_sentence(tmp_path: Path, path: str) -> None:
    """400 with what is wrong."""
    async with Site() as site, serving(tmp_path, site, "/ok/1") as (_, session), session.get(path) as answered:
        assert answered.status == 400
        assert (await answered.json())["error"].partition(":")[0] in {"limit", "url", "after", "wait"}
