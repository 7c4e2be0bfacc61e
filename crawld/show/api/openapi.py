"""The OpenAPI 3.1 description, made from the models that check requests and write answers."""

from collections.abc import Sequence
from typing import Any

from crawld import __version__
from crawld.show.api.endpoints import Asked, Endpoint, adapter
from crawld.show.api.models import Problem

SCHEMAS = "#/components/schemas/{model}"
TOKEN = {"type": "http", "scheme": "bearer", "description": "What `crawld token` prints"}
COMMON = {
    400: "Something in the request is wrong",
    401: "The token is missing or wrong",
    403: "A page of another site may not ask this",
    421: "This host name is not answered for here",
    429: "Too many requests without the token",
    503: "The database cannot be read or written now, or too many requests wait",
}
NOT_HTTP = {"text/plain": {"schema": {"type": "string"}}}
"""What is too long to be read, or is not HTTP, is refused before anybody here sees it."""
WITH_BODY = {408: "The body came too slowly", 413: "The body is too large", 415: "The body is compressed"}


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description of these endpoints."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    _collect(Problem, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "crawld", "version": __version__, "description": "Reads and steers a running crawld."},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": TOKEN}},
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
    found: dict[str, Any] = {"200": {"description": endpoint.summary, "content": good}}
    every = COMMON | ({} if endpoint.reads else WITH_BODY) | dict(endpoint.statuses)
    for status, words in sorted(every.items()):
        content = {} if status == 304 else problem | (NOT_HTTP if status == 400 else {})
        found[str(status)] = {"description": words} | ({"content": content} if content else {})
    return found


def _parameters(asked: type[Asked], schemas: dict[str, Any]) -> list[dict[str, Any]]:
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
