"""Changes, newest first."""

from collections.abc import Mapping, Sequence

from crawld.model.crawl import ChangeVerdict
from crawld.model.errors import InputError
from crawld.show.dashboard.rendering import View
from crawld.show.dashboard.sources import Sources
from crawld.show.dashboard.words import link

PATH = "/changes"
ROWS = 50
KINDS: Mapping[str, tuple[str, Sequence[ChangeVerdict]]] = {
    "": ("everything", ()),
    "again": ("without first copies", [verdict for verdict in ChangeVerdict if verdict is not ChangeVerdict.NEW]),
    **{verdict.value: (f"{verdict.value} alone", [verdict]) for verdict in ChangeVerdict},
}
"""What can be shown: the word of the query, its name, and the verdicts."""


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """The newest changes, or those before `?before=`."""
    before, kind = _number(query, "before"), query.get("kind", "")
    if kind not in KINDS:
        raise InputError(f"?kind= is one of {', '.join(filter(None, KINDS))}, not {kind[:40]!r}")
    found = await sources.reading.latest_changes(before, ROWS, verdicts=KINDS[kind][1])
    older = found.changes[-1].id if len(found.changes) == ROWS and found.changes[-1].id > found.first else None
    read_until = await sources.control.actions.read_until()
    context = {
        "changes": found.changes,
        "cursor": found.cursor,
        "live": before is None and not kind,
        "older": older and link(PATH, before=older, kind=kind),
        "newest": link(PATH, kind=kind),
        "kind": kind,
        "kinds": [(value, name) for value, (name, _) in KINDS.items()],
        "read_until": read_until,
        "unread": found.unread(read_until),
        "feed": link("/v1/feed", key=sources.feed_key),
    }
    return View("changes.html", "Changes", PATH, sources.now(), context)


async def show_new(sources: Sources, query: Mapping[str, str]) -> View:
    """The rows after `?after=` alone, newest first: what the live list puts before those it has."""
    found = await sources.reading.changes(_number(query, "after") or 0, ROWS)
    read_until = await sources.control.actions.read_until()
    context = {"changes": list(found.changes)[::-1], "cursor": found.cursor, "read_until": read_until}
    return View("changes_new.html", "Changes", PATH, sources.now(), context)


def _number(query: Mapping[str, str], name: str) -> int | None:
    given = query.get(name, "")
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise InputError(f"?{name}= is the number of a change, not {given[:40]!r}")
    return int(given)
