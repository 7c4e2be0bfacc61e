"""The description of the API and the API are the same thing."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawld.model.errors import InputError
from crawld.model.mistakes import UNNAMED
from crawld.show.api.endpoints import Endpoint
from crawld.show.api.models import AskChanges
from crawld.show.api.routes import ENDPOINTS, add_v1, describe
from crawld.show.report import adapter
from tests.support.daemon import serving
from tests.support.library_words import FOREIGN
from tests.support.site import Site

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
    async with Site() as site, serving(tmp_path, site, "/cue/1", "/ok/2", search=True) as (_, session):
        for endpoint in ENDPOINTS:
            if not endpoint.reads or endpoint.answer is None or endpoint.path == "/v1/diff":
                continue
            asks_for_a_page = "url" in endpoint.asked.model_fields and endpoint.asked.model_fields["url"].is_required()
            query = {"url": site.url("/cue/1")} if asks_for_a_page else {}
            query |= {"q": "page"} if endpoint.path == "/v1/search" else {}
            async with session.get(endpoint.path, params=query) as answered:
                assert answered.status == 200, endpoint.path
                adapter(endpoint.answer).validate_json(await answered.read())


WRONG: tuple[object, ...] = (
    "",
    "x",
    "-1",
    "1e30",
    "nan",
    "0.5",
    "null",
    "nwo",
    None,
    True,
    -1,
    2**70,
    [],
    ["x"],
    {},
    {"url": 3},
    [{"url": 3}],
)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_no_wrong_parameter_is_answered_in_the_librarys_words(endpoint: Endpoint) -> None:
    """Every parameter of every endpoint with every kind of value is taken, or refused in a sentence of ours."""
    for name in [*(field.alias or name for name, field in endpoint.asked.model_fields.items()), "nonsense"]:
        for wrong in WRONG:
            said = _refusal(endpoint, {name: wrong})
            assert not FOREIGN.search(said), said
            assert UNNAMED not in said, said


def _refusal(endpoint: Endpoint, given: dict[str, object]) -> str:
    try:
        endpoint.asked.read(given)
    except InputError as error:
        return str(error)
    return ""


def test_a_misspelt_cursor_is_answered_with_what_to_write() -> None:
    """`after` takes a number or `now`, and both are named."""
    with pytest.raises(InputError) as caught:
        AskChanges.read({"after": "nwo", "limt": 3})
    assert (
        str(caught.value) == "after: write a whole number, 0 or more, or now; limt: no such name: did you mean limit?"
    )


@pytest.mark.parametrize("path", ["/v1/pages?limit=x", "/v1/copy", "/v1/changes?after=-1", "/v1/changes?wait=61"])
async def test_wrong_questions_are_answered_in_a_sentence(tmp_path: Path, path: str) -> None:
    """400 with what is wrong."""
    async with Site() as site, serving(tmp_path, site, "/ok/1") as (_, session), session.get(path) as answered:
        assert answered.status == 400
        assert (await answered.json())["error"].partition(":")[0] in {"limit", "url", "after", "wait"}
