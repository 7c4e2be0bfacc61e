"""A signal: a hint that a page changed."""

from dataclasses import dataclass
from enum import StrEnum

from crawld.model.crowd import CROWDS, crowd_of


class Source(StrEnum):
    """Where hints come from, and how many came with them. Each has its own precision and recall on each host.

    Lastmods of a sitemap that move alone, with a few others, or with a large part of the site are three sources: a page
    edited by hand and a build that stamps every page are worth different trust.
    """

    SITEMAP = "sitemap"
    SITEMAP_FEW = "sitemap_few"
    SITEMAP_BULK = "sitemap_bulk"
    FEED = "feed"
    PING = "ping"
    WEBSUB = "websub"

    @property
    def kind(self) -> "Source":
        """The source without regard to how many hints came at once: what is polled, and counted together."""
        return Source.SITEMAP if self in SITEMAPS else self


SITEMAPS = (Source.SITEMAP, Source.SITEMAP_FEW, Source.SITEMAP_BULK)
"""A sitemap's sources, in the order of `CROWDS`."""


def sitemap_source(moved: int, listed: int) -> Source:
    """The source of signals of a sitemap of which so many entries moved at once."""
    return SITEMAPS[CROWDS.index(crowd_of(moved, listed))]


SOURCES = tuple(Source)
"""Every source in a fixed order: counts by source are tuples in this order."""
Claimed = tuple[str, Source, float | None]
"""A URL that is said to have changed, by which source, and the time that it claims."""


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


@dataclass(frozen=True, slots=True)
class SignalTrust:
    """How far signals of a source are heard on a host, and by what evidence.

    `score` is by how much predictions that listened to the source are ahead of those that did not, as a sum of log
    scores, and `intervals` those between crawls in which it spoke; `why` says it in a sentence. `weight` is the part of
    a page's value that listens to the source, 0 where it is not `heard`.
    """

    host: str
    source: Source
    heard: bool
    score: float
    intervals: int
    why: str
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class SignalGain:
    """What crawls after believed signals of a source gained on a host, against a crawler that ignores signals.

    `confirmed` crawls found a change, those `in_vain` none; `gain` is in fresh seconds weighted by importance, `saved`
    in requests: what that freshness would have cost, less the part of a visit that each crawl came early by.
    """

    host: str
    source: Source
    confirmed: int
    in_vain: int
    gain: float
    saved: float


def bought_in_words(crawls: int, saved: float, freshness_gain: float | None) -> str:
    """What a source has bought by so many crawls that its signals led to: "saved 340 requests, +0.040 freshness"."""
    if not crawls:
        return "nothing yet"
    requests = f"{abs(saved):,.0f} request{'' if abs(round(saved)) == 1 else 's'}"
    gain = "" if freshness_gain is None else f", {freshness_gain:+.3f} freshness"
    return f"{'saved' if saved >= 0 else 'cost'} {requests}{gain}"
