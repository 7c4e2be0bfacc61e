"""The difference between two versions of a page, word by word."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from crawld.model.difference import BlockEdit, Edit
from crawld.model.errors import CrawldError, InputError, TooCostlyError
from crawld.model.url import normalise_given
from crawld.show.dashboard.rendering import View
from crawld.show.dashboard.sources import Sources
from crawld.store.views import VersionBody

PATH = "/diff"
AROUND = 2
"""Blocks that stayed which are shown before and after a change."""
MOST_BLOCKS = 2_000
"""Shown at the most: a browser that is given more is of no use to anyone."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Blocks that stayed and are not shown."""

    blocks: int


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """What `?to=` did to `?from=`, both numbers of versions; without them the latest two."""
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
        "parts_shown": None if parts is None else parts[:MOST_BLOCKS],
        "cut": parts is not None and len(parts) > MOST_BLOCKS,
        "same": edits is not None and all(edit.edit is Edit.SAME for edit in edits),
        "sentence": sentence,
    }
    return View("difference.html", "Difference", "/pages", sources.now(), context)


async def _version(sources: Sources, url: str, given: str | None, usual: int) -> VersionBody:
    if given and not (given.isascii() and given.isdigit() and len(given) < 19):
        raise InputError(f"{given[:40]!r} is not the number of a version")
    found = await sources.reading.version(url, int(given) if given else usual)
    if found is None:
        raise CrawldError("that version is no longer kept")
    return found


def shortened(edits: Sequence[BlockEdit]) -> Iterator[BlockEdit | Skipped]:
    """What changed with a little of what is around it; how much is left out in between."""
    changed = [at for at, edit in enumerate(edits) if edit.edit is not Edit.SAME]
    near = {place for at in changed for place in range(at - AROUND, at + AROUND + 1)}
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
