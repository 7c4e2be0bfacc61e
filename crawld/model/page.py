"""A page: a URL kept fresh, with its importance."""

import math
from dataclasses import dataclass
from enum import StrEnum

from crawld.errors import InputError

BY_HAND, FROM_LIST = "operator", "list"
"""Who has a page kept fresh; any other name is that of a file it was discovered in."""


class PageState(StrEnum):
    """Where a page stands. Only `retired` pages are never asked."""

    WAITING = "waiting"  # on the list, never crawled with success
    LIVE = "live"  # we hold a copy
    FAILING = "failing"  # the last attempts failed; the copy, if any, is kept
    DISALLOWED = "disallowed"  # robots.txt forbids it
    GONE = "gone"  # 404 or 410; asked again now and then
    RETIRED = "retired"  # taken off the list; its history is kept


@dataclass(frozen=True, slots=True)
class Page:
    """A URL kept fresh. `url` is what is sent, `host` is who is asked, `importance` is μ."""

    id: int
    url: str
    host: str
    importance: float = 1.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of a URL list: the target of a URL and its importance."""

    url: str
    importance: float = 1.0


def check_importance(value: object) -> float:
    """The importance of a page from what was given; InputError unless it is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InputError(f"importance {value!r} must be a positive and finite number")
    return float(value)


def authority(origin: str) -> int:
    """Whose word counts for a page that several list: one by hand over the list, the list over what was discovered."""
    return {BY_HAND: 2, FROM_LIST: 1}.get(origin, 0)
