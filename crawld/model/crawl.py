"""A crawl: a finished attempt at a page, and its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from crawld.model.usage import Statement

AUDITS_KEPT = 1000
"""So many of the latest audits measure freshness."""


class Verdict(StrEnum):
    """Finding of an attempt at a page."""

    NEW = "new"  # first copy: nothing to compare with
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"  # 404 or 410 where there was content, or at the first visit
    FAILED = "failed"  # says nothing about change

    @property
    def succeeded(self) -> bool:
        """Tells whether the attempt told us what the page is now."""
        return self is not Verdict.FAILED


class ChangeVerdict(StrEnum):
    """Kind of a change, as its followers are told it."""

    NEW = "new"  # first copy
    CHANGED = "changed"
    GONE = "gone"  # 404 or 410
    BACK = "back"  # there again after it was gone or removed, or a page of its own again after it had moved
    MOVED = "moved"  # another address of the page named by `to`, which is kept in its place
    USAGE = "usage"  # what it may be used for is another than before
    REMOVED = "removed"  # no longer kept fresh: taken off by hand, by the list or by a sitemap


@dataclass(frozen=True, slots=True)
class Digest:
    """Digest of a body: its bytes, its visible text, and the blocks of that text, all hashed."""

    raw: bytes
    text: bytes | None = None
    blocks: tuple[int, ...] = ()
    times: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    """Blocks that hold times and counters: index, number of the block without them, moments."""
    scheme: int = 0  # digests of two schemes cannot be compared; 0: by a release that had none
    title: tuple[int, ...] = ()  # words of the document's title, which is the first block; empty where it has none
    in_main: bool = False  # all blocks but the title lie in the page's main element


class Crawl(NamedTuple):  # one is made for every visit: a tuple is the cheapest form
    """A finished attempt. `tau` and `signals` count from the previous successful crawl (none before the first)."""

    page_id: int
    at: float  # when the request left, UTC seconds: our copy is the page as of then
    verdict: Verdict
    status: int | None = None
    trouble: str | None = None  # the name of a Trouble, where it failed
    detail: str | None = None
    tau: float | None = None
    signals: tuple[int, ...] = ()
    bytes: int = 0
    duration: float = 0.0
    magnitude: float | None = None  # 0-1: how much of the text changed
    predicted: float | None = None  # P(fresh) believed just before the crawl
    conditional: bool = False  # validators were sent
    audit: bool = False  # drawn at random to measure freshness
    reverted: bool = False  # back to a version seen before


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of a page that differed, between two blocks that stay: its words, and what was seen of each.

    `common` are the words that every version had, in whatever order; empty where that says nothing.
    """

    left: int  # the block before it
    right: int  # and after it
    blocks: tuple[tuple[int, ...], ...]  # words as `content.words` writes them
    fewest: int  # blocks it ever had; where that varies, `blocks` is one block
    most: int
    common: tuple[int, ...] = ()
    still: int = 0  # visits in a row at which nothing of it differed
    adrift: tuple[int, int] = (0, 0)  # how often the block before it, and after it, did not stay lately
    variants: tuple[int, ...] = ()  # hashes of what stood in it, latest first, bounded
    fresh: int = 0  # how much of what stood in it lately had not been there before
    agreed: int = 0  # pairs of fetches in a row that brought one and the same known variant
    unchecked: int = 0  # differences explained since a pair of fetches was made
    doubt: int = 0  # why its difference at this visit, which is explained, is to be checked by a pair; not stored


@dataclass(frozen=True, slots=True)
class HostNoise:
    """Noise in the same place of many pages of a host: of its templates, learnt once for all pages.

    `blocks` are the numbers of blocks without their times and counters, `places` stretches between shared blocks.
    """

    blocks: frozenset[int] = frozenset()
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the latest copy, to ask conditionally and to tell change from noise."""

    page_id: int
    fetched_at: float
    digest: Digest
    etag: str | None = None
    last_modified: str | None = None
    content_type: str | None = None
    places: tuple[Place, ...] = ()  # where the page differed lately, and what of that is volatile
    streak: int = 0  # successive crawls that all found a change
    seen: tuple[bytes, ...] = ()  # digests of earlier versions, latest first, bounded
    answered: str | None = None  # the address that answered, where it was not the page's own: validators belong to it
    canonical: str | None = None  # the address that the copy says is its own, where that is another
    varying: tuple[int, ...] = ()  # blocks of which only times and counters differ: `crawld.read.change.moments`
    said: tuple[Statement, ...] = ()  # what its site says of its use: `crawld.model.usage`


class Edit(StrEnum):
    """Fate of a word or a block."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"  # of a block: some of its words


@dataclass(frozen=True, slots=True)
class Words:
    """A stretch of words with one fate."""

    edit: Edit
    text: str


@dataclass(frozen=True, slots=True)
class BlockEdit:
    """A block of text and what became of it."""

    edit: Edit
    words: Sequence[Words]
