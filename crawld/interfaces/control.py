"""What the API needs of the daemon."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from crawld.interfaces.store import Adoption
from crawld.model.host import HostState
from crawld.model.page import Wanted


@dataclass(frozen=True, slots=True)
class Reload:
    """What came of reading the settings and the URL list again."""

    applied: Sequence[str] = ()  # settings that took effect
    waiting: Sequence[str] = ()  # settings that wait for a restart
    refused: str | None = None  # why everything stayed as it was

    @property
    def sentence(self) -> str:
        """The same for people."""
        if self.refused is not None:
            return f"kept the old settings: {self.refused}"
        applied = ", ".join(self.applied) or "nothing changed"
        return f"took over the settings: {applied}" + (
            f"; after a restart: {', '.join(self.waiting)}" if self.waiting else ""
        )


@dataclass(frozen=True, slots=True)
class Steered:
    """A host after it was steered."""

    state: HostState
    spacing: float  # seconds between two requests, whoever set it
    kept: bool  # whether it is in the database; otherwise it is written once the store can write


class Control(Protocol):
    """What an operator can ask of a running daemon. Answers are plain data, ready for JSON."""

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

    async def add_pages(self, wanted: Sequence[Wanted]) -> Adoption:
        """Take further pages in."""

    async def remove_pages(self, urls: Sequence[str]) -> Sequence[str]:
        """Retire pages; the URLs of those that were here."""

    async def explain(self, page_id: int) -> dict[str, object] | None:
        """What is held in memory of a page and why it is not crawled just now; None if it is not here."""

    async def reload(self) -> Reload:
        """Read the settings and the URL list again."""


class Inbox(Protocol):
    """What other programs may push: answers are an HTTP status and a body."""

    async def post_signals(self, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """Pings: a JSON list of URLs that changed."""

    async def get_indexnow(self, query: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        """IndexNow's GET."""

    async def post_indexnow(self, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """IndexNow's POST."""

    def confirm(self, token: str, query: Mapping[str, str]) -> tuple[int, str]:
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


class Copies(Protocol):
    """The copies that are kept, for whoever reads them."""

    async def copy(self, url: str, *, even_gone: bool = False) -> Copy | Gone | None:
        """The latest copy of a page; None where there is none.

        Of a page that is gone there is a copy only with `even_gone`: the last one held.
        """
