"""Answers to the command line, alike for a daemon, over its control socket, and for a fleet, by its database."""

from dataclasses import asdict
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote

from crawld.model.errors import InputError
from crawld.model.page import check_importance
from crawld.show.actions import Control
from crawld.show.api.access import RefusedError
from crawld.show.api.models import LIMITS, SetHost
from crawld.show.api.reading import rates_of
from crawld.show.api.steering import host_answer, host_order, spelt

MAX_UNDONE = 100
"""Pages of a request of the command line that can be undone: of a list of a million, what undoes it is not kept."""


async def answer(
    control: Control, who: str, method: str, asked: SplitResult, body: dict[str, object]
) -> dict[str, Any]:
    """The answer to a command; InputError where it is not one, RefusedError where it cannot be done."""
    query = parse_qs(asked.query)
    match method, asked.path:
        case "POST", "/urls":
            wanted = await _wanted(body)
            what = {"wanted": wanted, "undoable": len(wanted) <= MAX_UNDONE}
            adoption = (await control.actions.act(who, "add", what)).result
            return {"added": len(adoption.added) + len(adoption.returned), "reweighted": len(adoption.reweighted)}
        case "DELETE", "/urls":  # who listed pages is told: they come back from there unless they are kept out
            urls = [url for url, _ in await _wanted(body)]
            what = {"urls": urls, "keep_out": _flag(body, "keep_out"), "undoable": len(urls) <= MAX_UNDONE}
            removed = (await control.actions.act(who, "remove", what)).result
            return {"removed": removed, "origins": dict(await control.origins(removed))}
        case "POST", "/urls/readmit":
            urls = [url for url, _ in await _wanted(body)]
            return {"readmitted": list(await control.readmit_pages(urls))}
        case "GET", "/explain":
            if not (given := query.get("id", [""])[-1]).isdecimal():
                raise InputError("give ?id=…, the number of a page")
            if (explained := await control.explain(int(given))) is None:
                raise RefusedError(404, "no such page")
            return explained.document()
        case "GET", "/forecast":
            return (await control.forecast(rates_of(",".join(query.get("bandwidth", []))))).document()
        case "POST", "/reload":
            result = await control.reload(retire=_flag(body, "retire"))
            if result.refused is not None:
                raise RefusedError(409, result.sentence)
            listed = None if result.listed is None else asdict(result.listed)
            settings = {"applied": list(result.applied), "waiting": list(result.waiting)}
            return {"reloaded": result.sentence, **settings, "list": listed}
        case "PUT", place if place.startswith("/hosts/"):
            order = SetHost.read(body | {"host": unquote(place.removeprefix("/hosts/"))})
            done = await control.actions.act(who, "host", host_order(order))
            return asdict(host_answer(done.result))
    raise InputError(f"a fleet cannot be asked for {method} {asked.path}")  # a daemon has a route for each command


def _flag(given: dict[str, object], name: str) -> bool:
    if not isinstance(wanted := given.get(name, False), bool):
        raise InputError(f"`{name}` must be true or false")
    return wanted


async def _wanted(body: dict[str, object]) -> list[tuple[str, float]]:
    """The pages that a request names, with their weights."""
    given = body.get("urls")
    if not isinstance(given, list):
        raise InputError('give {"urls": ["https://…", …]}')
    if len(given) > LIMITS.max_urls:
        raise InputError(f"{len(given)} URLs are too many for one request: send at most {LIMITS.max_urls} at a time")
    urls, weights = [], []
    for item in given:
        url, importance = (item.get("url"), item.get("importance", 1.0)) if isinstance(item, dict) else (item, 1.0)
        if not isinstance(url, str):
            raise InputError(f"{item!r} is not a URL, nor an object with a url")
        urls.append(url)
        weights.append(check_importance(importance))
    return list(zip(await spelt(urls), weights, strict=True))
