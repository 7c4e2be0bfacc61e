"""Choosing parts of a page that are no longer compared."""

from collections.abc import Mapping, Sequence

from crawld.model.errors import InputError, TooCostlyError
from crawld.model.page import PagePart
from crawld.model.url import host_of, normalise_given
from crawld.show.dashboard.rendering import View
from crawld.show.dashboard.sources import Sources

MAX_FOUND = 200
"""Characters of a part's text that are known (`crawld.read.page.blocks`)."""


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """The parts of a page's latest copy with a box before each; `?find=` is the text of one that is ticked."""
    url = normalise_given(query.get("url", ""))
    version = await sources.reading.version(url)
    if version is None:
        raise InputError(f"no version of {url} is kept")
    try:
        parts: Sequence[PagePart] = await sources.texts.parts(version)
        sentence = "Its bytes are compared, or it has no text: there is nothing to choose."
    except TooCostlyError as error:
        parts, sentence = [], f"The copy cannot be read: {error}."
    context = {
        "url": url,
        "host": host_of(url),
        "parts_shown": parts,
        "chosen": _chosen(parts, " ".join(query.get("find", "").split())),
        "sentence": sentence,
    }
    return View("ignore.html", "Ignore a part", "/pages", sources.now(), context)


def _chosen(parts: Sequence[PagePart], text: str) -> str | None:
    """The selector of the innermost part that has this text."""
    fitting = [
        part for part in parts if text and part.text == text[: len(part.text)] and len(part.text) >= len(text[:200])
    ]
    return max(fitting, key=lambda part: part.depth).selector if fitting else None
