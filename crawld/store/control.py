"""What the API needs of the daemon."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from crawld.model.host import HostState
from crawld.model.page import BY_HAND, Mark, Wanted
from crawld.model.usage import NOTHING_SAID, Usage
from crawld.store.contract import ActionLog, Adoption


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


class Control(Protocol):
    """What an operator can ask of a running daemon. Answers are plain data, ready for JSON.

    Whoever changes something in somebody's name does it by `actions`.
    """

    @property
    def actions(self) -> ActionLog:
        """What was done to the crawl, and by whom."""

    async def status(self) -> dict[str, object]:
        """What the daemon is doing now."""

    async def forecast(self, rates: Sequence[float]) -> dict[str, object]:
        """What the bandwidth set and these rates buy in the long run, by what is believed of the pages now."""

    def healthy(self) -> bool:
        """Whether slots are served and the store takes what is recorded."""

    async def change_bandwidth(self, rate: float) -> None:
        """Let so many requests a second leave from the next slot on; kept over a restart."""

    async def pause(self, *, paused: bool) -> None:
        """Pause, or go on; kept over a restart."""

    async def steer_host(
        self, name: str, *, blocked: bool | None = None, delay: float | None = None, drop_delay: bool = False
    ) -> Steered:
        """Block or unblock a known host, give it a delay of its own or drop that; kept over a restart."""

    async def add_pages(self, wanted: Sequence[Wanted], *, origin: str = BY_HAND) -> Adoption:
        """Take further pages in."""

    async def remove_pages(self, urls: Sequence[str], *, keep_out: bool = False) -> Sequence[str]:
        """Retire pages; the URLs of those that were here. With `keep_out` no list and no sitemap brings them back."""

    async def readmit_pages(self, urls: Sequence[str]) -> Sequence[str]:
        """Keep these pages out no longer; the URLs of those that were."""

    async def origins(self, urls: Sequence[str]) -> Mapping[str, str]:
        """Who listed these pages, by URL: those that are removed come back from there, unless they are kept out."""

    async def refresh(self, urls: Sequence[str], *, wait: float = 0.0) -> Sequence[Refreshed]:
        """Ask for pages before all others, at the next slots that their hosts and robots.txt allow.

        Those who ask for a page meanwhile share one request. The answer comes when all pages are crawled, or after
        so many seconds.
        """

    async def marks(self) -> Sequence[Mark]:
        """The parts of pages that the operator has marked as not to be compared."""

    async def change_marks(self, marks: Sequence[Mark]) -> None:
        """Compare pages without these parts, from the next crawl on; kept over a restart."""

    def rule_of(self, url: str) -> Mapping[str, Any]:
        """What of a page counts as a change: the rule of the settings, without what is marked."""

    async def explain(self, page_id: int) -> dict[str, object] | None:
        """What is held in memory of a page and why it is not crawled just now; None if it is not here."""

    async def reload(self, *, retire: bool = False) -> Reload:
        """Read the settings and the URL list again; with `retire` however many pages the list no longer names go."""


class Inbox(Protocol):
    """What other programs may push: answers are an HTTP status and a body."""

    async def post_signals(self, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """Pings: a JSON list of URLs that changed."""

    async def get_indexnow(self, query: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        """IndexNow's GET."""

    async def post_indexnow(self, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """IndexNow's POST."""

    async def confirm(self, token: str, query: Mapping[str, str]) -> tuple[int, str]:
        """A WebSub hub asks whether we meant it."""

    async def deliver(self, token: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
        """A WebSub hub delivers a feed."""


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
