"""What following the links of whole sites needs of the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawld.model.page import Page


@dataclass(frozen=True, slots=True)
class SitePage:
    """A page of a followed site, as kept over a restart."""

    page: Page
    depth: int  # links from a page that a list, a sitemap or the settings name
    by_links: bool  # whether links alone have it kept fresh
    visited: bool  # whether it was ever crawled with success
    attempted_at: float | None
    novel: bool | None  # whether its text was new among addresses of its shape; None before its first visit
    deferred: bool  # whether links of it wait for room
    refused: str | None
    retired: bool


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """A page that links lead to: `refused_at` is when it was found that it is not to be kept."""

    page_id: int
    retired: bool
    by_links: bool
    refused_at: float | None


@dataclass(frozen=True, slots=True)
class Linked:
    """How many pages link to one, with the addresses of a few."""

    count: int = 0
    sources: Sequence[str] = ()
    depth: int | None = None  # links from a page that a list, a sitemap or the settings name; None: not followed
    refused: str | None = None  # why it is not kept although it is linked


class LinkStore(Protocol):
    """The links between pages. A link counts while the page that it is on is kept and not gone."""

    async def site_pages(self) -> Sequence[SitePage]:
        """Every page that following links knows of."""

    async def look_up(self, identities: Sequence[str]) -> Mapping[str, LinkTarget]:
        """Those of the pages with these identities that were ever known, by identity."""

    async def depth_of(self, page_id: int) -> int:
        """How many links a page is from one that a list, a sitemap or the settings name; 0 for such a page itself."""

    async def write(self, source: int, targets: Sequence[int], depths: Mapping[int, int], *, deferred: bool) -> bool:
        """Let a page link to these pages and no others, and keep the depths of pages found there; whether any is new.

        A page that is found nearer than before has the smaller depth from now on.
        """

    async def visited(self, page_id: int, *, novel: bool) -> None:
        """Keep whether the text of a page found by links was new."""

    async def refuse(self, page_id: int, why: str, now: float) -> None:
        """Keep why a page is not kept although it is linked."""

    async def unlinked(self, limit: int) -> Sequence[str]:
        """URLs of pages that links alone had kept and that no page links to any longer."""

    async def forget(self, page_ids: Sequence[int]) -> None:
        """Forget what following links knows of these pages."""
