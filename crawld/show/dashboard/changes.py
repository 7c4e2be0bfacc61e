"""Changes, newest first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from crawld.model.crawl import BlockEdit, ChangeVerdict, Edit
from crawld.model.errors import CrawldError, InputError, TooCostlyError
from crawld.model.units import is_number
from crawld.model.url import normalise_given
from crawld.show.dashboard.rendering import Sources, View, link
from crawld.store.views import VersionBody

PATH = "/changes"
ROWS = 50
MAX_BLOCKS = 2_000
"""Of a difference that are shown: a browser that is given more is of no use to anyone."""
KINDS: Mapping[str, tuple[str, Sequence[ChangeVerdict]]] = {
    "": ("everything", ()),
    "again": ("without first copies", [verdict for verdict in ChangeVerdict if verdict is not ChangeVerdict.NEW]),
    **{verdict.value: (f"{verdict.value} alone", [verdict]) for verdict in ChangeVerdict},
}
"""Choices of the list by the word of the query: their names and verdicts."""


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
    if not is_number(given):
        raise InputError(f"?{name}= is the number of a change, not {given[:40]!r}")
    return int(given)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Blocks that stayed and are not shown."""

    blocks: int


async def show_difference(sources: Sources, query: Mapping[str, str]) -> View:
    """Returns what `?to=` did to `?from=`, both numbers of versions; without them the latest two."""
    url = normalise_given(query.get("url", ""))
    versions = await sources.reading.versions(url)
    if not versions:
        raise InputError(f"no version of {url} is kept")
    newest = [version.id for version in versions]
    before = await _version(sources, url, query.get("from"), newest[min(1, len(newest) - 1)])
    after = await _version(sources, url, query.get("to"), newest[0])
    try:
        edits, sentence = await sources.texts.difference(before, after), "Neither or only one of them has a text."
    except TooCostlyError as error:
        edits, sentence = None, f"The difference cannot be shown: {error}."
    parts = None if edits is None else list(shortened(edits))
    context = {
        "url": url,
        "before": before.version,
        "after": after.version,
        "versions": versions,
        "parts_shown": None if parts is None else parts[:MAX_BLOCKS],
        "cut": parts is not None and len(parts) > MAX_BLOCKS,
        "same": edits is not None and all(edit.edit is Edit.SAME for edit in edits),
        "sentence": sentence,
    }
    return View("difference.html", "Difference", "/pages", sources.now(), context)


async def _version(sources: Sources, url: str, given: str | None, usual: int) -> VersionBody:
    if given and not is_number(given):
        raise InputError(f"{given[:40]!r} is not the number of a version")
    found = await sources.reading.version(url, int(given) if given else usual)
    if found is None:
        raise CrawldError("that version is no longer kept")
    return found


def shortened(edits: Sequence[BlockEdit], around: int = 2) -> Iterator[BlockEdit | Skipped]:
    """Yields what changed with so many blocks around it; how many are left out in between."""
    changed = [at for at, edit in enumerate(edits) if edit.edit is not Edit.SAME]
    near = {place for at in changed for place in range(at - around, at + around + 1)}
    skipped = 0
    for at, edit in enumerate(edits):
        if at in near:
            if skipped:
                yield Skipped(skipped)
            skipped = 0
            yield edit
        else:
            skipped += 1
    if skipped:
        yield Skipped(skipped)
