"""A signal: a hint that a page changed."""

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Where hints come from. Each has its own precision and recall on each host."""

    SITEMAP = "sitemap"
    FEED = "feed"
    PING = "ping"
    WEBSUB = "websub"


SOURCES = tuple(Source)
"""Every source in a fixed order: counts by source are tuples in this order."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A hint from `source` that the page changed: when it became visible, and the time it claims.

    A `stale` signal claims a time before our last successful crawl: kept for statistics, not counted.
    """

    page_id: int
    source: Source
    seen_at: float
    claimed_at: float | None = None
    stale: bool = False
