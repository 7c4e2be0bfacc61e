"""A signal: a hint that a page changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from crawld.model.fetched import Purpose, Request
from crawld.model.url import host_of


@dataclass(frozen=True)
class SignalLimits:
    """Numbers that bound and tune this module."""

    alone_share: float = 0.01
    """A signal that came with this share of the listed pages at most came alone."""
    few_share: float = 0.05
    """And with at most this share, with a few; more is one event of the whole site: a build, a new template."""
    few_pages: int = 3
    """So many pages are a few on the smallest site."""


LIMITS = SignalLimits()


class Crowd(StrEnum):
    """Share of a site's listed pages that moved in the same poll; each kind is trusted by itself."""

    ALONE = "alone"
    FEW = "few"
    BULK = "bulk"


CROWDS = tuple(Crowd)
"""Every kind in a fixed order."""


def crowd_of(moved: int, listed: int) -> Crowd:
    """The kind of a signal that came with `moved` pages in all, itself included, out of `listed` ones."""
    if moved <= max(1.0, LIMITS.alone_share * listed):
        return Crowd.ALONE
    return Crowd.FEW if moved <= max(LIMITS.few_pages, LIMITS.few_share * listed) else Crowd.BULK


class Source(StrEnum):
    """Source of a hint, by how many came with it. Each has its own precision and recall on each host.

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
    """Trust in the signals of a source on a host, and its evidence.

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
    """Gain of crawls after believed signals of a source on a host, against a crawler that ignores signals.

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
    """Says what a source has bought by so many crawls: "saved 340 requests, +0.040 freshness"."""
    if not crawls:
        return "nothing yet"
    requests = f"{abs(saved):,.0f} request{'' if abs(round(saved)) == 1 else 's'}"
    gain = "" if freshness_gain is None else f", {freshness_gain:+.3f} freshness"
    return f"{'saved' if saved >= 0 else 'cost'} {requests}{gain}"


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """A key that has to be fetched before the pings signed with it count."""

    host: str
    key: str
    location: str

    @property
    def request(self) -> Request:
        """The request that settles it."""
        return Request(self.location, host_of(self.location), Purpose.PING, max_bytes=1024)


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """Answer to a push, the signals that came of it, the key to check first, and what others may know more of."""

    status: int
    body: Mapping[str, Any]
    signals: Sequence[Signal] = ()
    check: KeyCheck | None = None
    unknown: Sequence[tuple[str, float | None]] = ()  # URLs of pages that are not held here, and the times they claim
