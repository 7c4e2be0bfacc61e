"""Changes, newest first."""

from collections.abc import Mapping

from crawld.dashboard.rendering import View
from crawld.dashboard.sources import Sources
from crawld.dashboard.words import link
from crawld.errors import InputError

PATH = "/changes"
ROWS = 50


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """The newest changes, or those before `?before=`."""
    before = _number(query, "before")
    found = await sources.reading.latest_changes(before, ROWS)
    older = found.changes[-1].id if len(found.changes) == ROWS and found.changes[-1].id > found.first else None
    context = {
        "changes": found.changes,
        "cursor": found.cursor,
        "live": before is None,
        "older": older and link(PATH, before=older),
    }
    return View("changes.html", "Changes", PATH, sources.now(), context)


async def show_new(sources: Sources, query: Mapping[str, str]) -> View:
    """The rows after `?after=` alone, newest first: what the live list puts before those it has."""
    found = await sources.reading.changes(_number(query, "after") or 0, ROWS)
    context = {"changes": list(found.changes)[::-1], "cursor": found.cursor}
    return View("changes_new.html", "Changes", PATH, sources.now(), context)


def _number(query: Mapping[str, str], name: str) -> int | None:
    given = query.get(name, "")
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise InputError(f"?{name}= is the number of a change, not {given[:40]!r}")
    return int(given)
