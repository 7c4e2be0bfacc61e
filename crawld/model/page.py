"""A page: a URL kept fresh, with its importance, and the parts of it that count."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from crawld.model.errors import InputError

BY_HAND, FROM_LIST, FROM_MOVE, FROM_LINKS = "operator", "list", "moved", "links"
"""Who has a page kept fresh: a page that moved there, or links to it. Other names are of files it was discovered in."""


class PageState(StrEnum):
    """State of a page. Only `retired` pages are never asked."""

    WAITING = "waiting"  # on the list, never crawled with success
    LIVE = "live"  # we hold a copy
    FAILING = "failing"  # the last attempts failed; the copy, if any, is kept
    DISALLOWED = "disallowed"  # robots.txt forbids it
    GONE = "gone"  # 404 or 410; asked again now and then
    ALIAS = "alias"  # another address of a page that is kept; asked now and then whether it still is
    RETIRED = "retired"  # taken off the list; its history is kept


MAX_IMPORTANCE = 1e15
"""Sums over millions of pages, and their squares, stay finite."""
NOT_LISTED = (PageState.RETIRED, PageState.ALIAS)
"""States of pages that lists, counts and consumers leave out."""


class Page(NamedTuple):  # one is made whenever a page is looked up: a tuple is the cheapest form
    """A URL kept fresh. `url` is what is sent, `host` is who is asked, `importance` is μ."""

    id: int
    url: str
    host: str
    importance: float = 1.0


@dataclass(frozen=True, slots=True)
class Alias:
    """The page that another is an address of, and how that was proved; `of` is None where it is no longer."""

    of: int | None
    url: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of a URL list: the target of a URL and its importance."""

    url: str
    importance: float = 1.0


@dataclass(frozen=True, slots=True)
class PagePart:
    """An element with text: the selector that finds it, the beginning of its text, and how deep it lies in others."""

    selector: str
    text: str
    depth: int
    ignored: bool  # whether it is left out of what is compared


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of pages that an operator has marked as not to be compared: a digest rule kept in the database."""

    id: int
    url: str | None  # the page, or None where all pages of the host are meant
    host: str
    selector: str  # CSS
    at: float

    @property
    def pattern(self) -> str:
        """The pages that it is for, as the pattern of a digest rule."""
        return f"{self.host}/*" if self.url is None else self.url


def check_importance(value: object) -> float:
    """The importance of a page from what was given; InputError unless it is a positive number within the bound."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_IMPORTANCE:
        raise InputError(f"importance {value!r} must be a positive number, at most {MAX_IMPORTANCE:g}")
    return float(value)


def authority(origin: str) -> int:
    """Whose word counts for a page that several list: by hand, then the list, then a file that lists it, then links."""
    return {BY_HAND: 2, FROM_LIST: 1, FROM_LINKS: -1}.get(origin, 0)


@dataclass(frozen=True, slots=True)
class Document:
    """A copy of a page as a reader has it: its text, a block a line, and the same as Markdown."""

    text: str
    markdown: str
    title: str | None = None
    language: str | None = None
    canonical: str | None = None


@dataclass(frozen=True, slots=True)
class OverduePages:
    """Pages that could be asked but were not crawled with success for long, and when the oldest copy was made."""

    count: int = 0
    oldest_crawl_at: float | None = None
