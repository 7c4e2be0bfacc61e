"""Cursors of lists of pages: opaque to whoever carries them, checked when they come back."""

import base64
import binascii
import json
from dataclasses import dataclass

from crawld.model.errors import InputError
from crawld.store.views import PageQuery

LONGEST_CURSOR = 12_000
"""Characters: a URL of the longest kind, packed."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part of a list ended: the sort's value (None: not known) and id of its last page.

    `at` is the time as of which pages are sorted, where their order changes with time.
    """

    value: str | float | None
    id: int
    at: float | None = None


def pack(query: PageQuery, place: Place) -> str:
    """The place as text that fits into a URL."""
    told = [query.sort.value, query.descending, place.value, place.id, place.at]
    return base64.urlsafe_b64encode(json.dumps(told, ensure_ascii=False).encode()).decode().rstrip("=")


def unpack(query: PageQuery) -> Place | None:
    """The place that the query's cursor names; None without one; InputError where it is not of this list."""
    if query.after is None:
        return None
    wrong = InputError("this cursor is not of this list: begin again without one")
    if len(query.after) > LONGEST_CURSOR:
        raise wrong
    try:
        padded = query.after + "=" * (-len(query.after) % 4)
        sort, descending, value, page_id, at = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise wrong from None
    fits = (sort, descending) == (query.sort.value, query.descending) and _is_int(page_id)
    kind = str if query.sort.value == "url" else float
    if not fits or not (value is None or isinstance(value, kind)) or not (at is None or isinstance(at, float)):
        raise wrong
    return Place(value, page_id, at)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
