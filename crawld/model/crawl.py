"""A crawl: a finished attempt at a page, and its verdict."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What an attempt found out about the page."""

    NEW = "new"  # first copy: nothing to compare with
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"  # 404 or 410 where there was content, or at the first visit
    FAILED = "failed"  # says nothing about change

    @property
    def succeeded(self) -> bool:
        """Whether the attempt told us what the page is now."""
        return self is not Verdict.FAILED


@dataclass(frozen=True, slots=True)
class Digest:
    """What a body was: its bytes, its visible text, and the blocks of that text, all hashed."""

    raw: bytes
    text: bytes | None = None
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Crawl:
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
class Memory:
    """What is remembered of the latest copy, to ask conditionally and to tell change from noise."""

    page_id: int
    fetched_at: float
    digest: Digest
    etag: str | None = None
    last_modified: str | None = None
    content_type: str | None = None
    volatile: tuple[int, ...] = ()  # blocks known to differ at every fetch, left out of the comparison
    streak: int = 0  # successive crawls that all found a change
    seen: tuple[bytes, ...] = ()  # digests of earlier versions, latest first, bounded
