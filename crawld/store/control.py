"""Answers of a running daemon, and what pushes and reads ask of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from crawld.model.host import HostState
from crawld.model.usage import NOTHING_SAID, Usage


@dataclass(frozen=True, slots=True)
class Reload:
    """What came of reading the settings and the URL list again."""

    applied: Sequence[str] = ()  # settings that took effect
    waiting: Sequence[str] = ()  # settings that wait for a restart
    refused: str | None = None  # why everything stayed as it was
    listed: "ListNews | None" = None  # what the list did; None where there is none

    @property
    def sentence(self) -> str:
        """The same for people."""
        if self.refused is not None:
            return f"kept the old settings: {self.refused}"
        applied = ", ".join(self.applied) or "nothing changed"
        parts = [f"took over the settings: {applied}"]
        if self.waiting:
            parts.append(f"after a restart: {', '.join(self.waiting)}")
        if self.listed is not None:
            parts.append(f"list: {self.listed.sentence}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class ListNews:
    """What the URL list did since the last reload, or the start."""

    added: int = 0
    removed: int = 0
    held_back: str | None = None  # why pages that the list no longer names stay

    @property
    def sentence(self) -> str:
        """The same for people."""
        told = (
            f"{self.added} added, {self.removed} removed" if self.added or self.removed else "nothing added or removed"
        )
        return told if self.held_back is None else f"{told}; {self.held_back}"


@dataclass(frozen=True, slots=True)
class Steered:
    """A host after it was steered."""

    state: HostState
    spacing: float  # seconds between two requests, whoever set it
    kept: bool  # whether it is in the database; otherwise it is written once the store can write


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What became of a page that was asked for now.

    `state` is crawled, waiting (it is asked as soon as its host may be), refused (robots.txt forbids it), or unknown
    (it is not on the list); `sentence` says so to people.
    """

    url: str
    state: str
    sentence: str
    verdict: str | None = None
    at: float | None = None  # when the request left
    status: int | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """A page answered 404 or 410 when it was last asked for: the first time at `since`, the last time with `status`."""

    since: float
    status: int | None = None  # None where the history no longer has that crawl
    held: bool = True  # whether there is a last copy


@dataclass(frozen=True, slots=True)
class Copy:
    """The latest copy of a page: fetched at `fetched_at`, known to be what the page was at `checked_at`."""

    url: str
    host: str
    body: bytes
    content_type: str | None
    fetched_at: float
    checked_at: float | None
    freshness: float | None
    version: int | None = None  # the change that brought it
    gone: Gone | None = None  # where the page is gone and this is the last copy
    usage: Usage = NOTHING_SAID  # what the page may be used for


@dataclass(frozen=True, slots=True)
class Freshened:
    """What was done so that a copy is fresh when it is read.

    `state` is fresh (the copy is as fresh as was asked for), crawled (it was fetched for this read, or for one that
    came before), stale (it is older than was asked for: `reason` says why) or unknown (the page is not kept).
    """

    state: str
    reason: str | None = None


class FreshReads(Protocol):
    """Fetches pages at the moment they are read."""

    async def freshen(self, url: str, min_freshness: float | None, wait: float | None) -> Freshened:
        """Have the copy of a page be that fresh, for which the reader waits so many seconds at the most.

        Without `min_freshness` the page is fetched where that is the best use of the next slot.
        """

    async def first_copies(self, urls: Sequence[str], wait: float) -> None:
        """Wait until pages have their first copies, or for so many seconds."""


class Copies(Protocol):
    """The copies that are kept, for whoever reads them."""

    async def copy(self, url: str, *, even_gone: bool = False) -> Copy | Gone | None:
        """The latest copy of a page; None where there is none.

        Of a page that is gone there is a copy only with `even_gone`: the last one held.
        """
