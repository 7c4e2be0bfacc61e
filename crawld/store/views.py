"""What is read for people and programs: pages, changes, versions, hosts, signals and figures over time.

The API, the dashboard and the command line read through this. Lists are read by keyset: a cursor says where the next
part begins, so that the last of a million rows costs what the first does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import ConfigDict, Field

from crawld.model.crawl import ChangeVerdict, Verdict
from crawld.model.estimate import Floats, Ints
from crawld.model.host import HostsInTrouble, SitesTurningAway
from crawld.model.metrics import HistoryPoint
from crawld.model.page import OverduePages, PageState
from crawld.model.signal import Source, bought_in_words
from crawld.model.usage import NOTHING_SAID, PageUse, Usage
from crawld.store.batch import FreshnessPoint


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


class Copies(Protocol):
    """Source of the copies that are kept."""

    async def copy(self, url: str, *, even_gone: bool = False) -> Copy | Gone | None:
        """The latest copy of a page; None where there is none.

        Of a page that is gone there is a copy only with `even_gone`: the last one held.
        """


@dataclass(frozen=True, slots=True)
class Linked:
    """How many pages link to one, with the addresses of a few."""

    count: int = 0
    sources: Sequence[str] = ()
    depth: int | None = None  # links from a page that a list, a sitemap or the settings name; None: not followed
    refused: str | None = None  # why it is not kept although it is linked


class PageSort(StrEnum):
    """What a list of pages can be sorted by; pages of which it is not known come last either way.

    By the last two only the running daemon can sort, and by the next crawl only a few thousand pages.
    """

    URL = "url"
    IMPORTANCE = "importance"
    LAST_CRAWL = "last_crawl"
    LAST_CHANGE = "last_change"
    FRESHNESS = "freshness"
    NEXT_CRAWL = "next_crawl"


ANY_TROUBLE = "any"


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which pages are wanted, in which order, and from where on."""

    sort: PageSort = PageSort.URL
    descending: bool = False
    host: str | None = None
    state: PageState | None = None  # None: every page that is kept, neither retired nor another address of one
    trouble: str | None = None  # of the last crawl of pages that fail or are forbidden; ANY_TROUBLE: whatever it is
    search: str | None = None  # a part of the URL, in any case of letters
    use: PageUse | None = None  # pages whose site denies it are left out
    after: str | None = None  # the cursor that the part before ended with
    limit: int = 50


@dataclass(frozen=True, slots=True)
class PageLine:
    """A page in a list."""

    id: int
    url: str
    host: str
    state: PageState
    importance: float
    crawls: int
    changes: int
    failures: int
    added_at: float
    last_crawl_at: float | None
    last_change_at: float | None
    gone_since: float | None
    freshness: float | None
    next_crawl_at: float | None  # as expected now; None where it is not known, or no daemon runs
    title: str | None = None  # of the latest copy
    trouble: str | None = None  # of the last crawl, where the page fails or is forbidden
    usage: Mapping[str, Any] | None = None  # what it may be used for; None where its site says nothing
    version: int | None = None  # the change that brought the latest copy, while that is kept
    language: str | None = None  # of the latest copy
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class PageLines:
    """A part of a list of pages, and the cursor of the next part; None at the end."""

    pages: Sequence[PageLine]
    next: str | None


@dataclass(frozen=True, slots=True)
class CrawlLine:
    """One finished attempt at a page."""

    at: float
    verdict: Verdict
    status: int | None
    trouble: str | None
    detail: str | None
    bytes: int
    duration: float
    magnitude: float | None
    predicted: float | None
    audit: bool
    signals: Mapping[Source, int]


@dataclass(frozen=True, slots=True)
class SignalLine:
    """One signal for a page."""

    source: Source
    seen_at: float
    claimed_at: float | None
    stale: bool


@dataclass(frozen=True, slots=True)
class EstimateLine:
    """What is believed of a page, and the evidence it rests on."""

    at: float
    shape: float
    rate: float
    alpha_se: float | None
    crawls: int
    changes: int
    kappa: Mapping[Source, float | None]  # None: infinite, its signals never lie
    gamma: Mapping[Source, float]
    signals: Mapping[Source, int]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a page. Its number is its place in the order of commits, and a cursor."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(serialize_by_alias=True, validate_by_name=True)
    id: int
    page_id: int
    url: str
    at: float
    verdict: ChangeVerdict
    magnitude: float | None  # 0-1: how much of the text changed
    version: int | None  # the version it brought, while that is kept
    previous: int | None  # the version before, while that is kept
    title: str | None = None  # of the latest copy, as are the next two
    language: str | None = None
    content_type: str | None = None
    moved_from: Annotated[str | None, Field(alias="from")] = None  # where it was and
    moved_to: Annotated[str | None, Field(alias="to")] = None  # where it is, of one that moved
    usage: Mapping[str, Any] | None = None  # what the page may be used for; None where its site says nothing
    text: str | None = None  # of the version, where it was asked for
    markdown: str | None = None

    def document(self) -> dict[str, Any]:
        """The change as others are told it, in JSON."""
        told = asdict(self)
        del told["text"], told["markdown"]
        return told | {"from": told.pop("moved_from"), "to": told.pop("moved_to")}


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes in the order of commits, and the cursor to go on from."""

    changes: Sequence[Change]
    cursor: int
    missed: bool  # changes after the cursor asked for are no longer kept
    first: int  # the oldest change that is kept, 0 where there is none

    def unread(self, until: int) -> int:
        """Where the cursor is the newest change: how many that are kept came after this one; numbers have no gaps."""
        return max(self.cursor - max(until, self.first - 1), 0)


@dataclass(frozen=True, slots=True)
class Version:
    """A kept copy of a page: the one that change brought, as it was last seen at `at`."""

    id: int
    at: float
    content_type: str | None
    size: int


@dataclass(frozen=True, slots=True)
class VersionBody:
    """A kept copy with its bytes."""

    version: Version
    url: str
    host: str
    body: bytes


@dataclass(frozen=True, slots=True)
class PageView:
    """One page with its timeline, newest first."""

    page: PageLine
    origin: str
    retired_at: float | None
    last_attempt_at: float | None
    successive_failures: int
    pending_signals: Mapping[Source, int]
    estimate: EstimateLine | None
    crawls: Sequence[CrawlLine]
    signals: Sequence[SignalLine]
    changes: Sequence[Change]
    versions: Sequence[Version]
    alias_of: str | None = None  # the page that this is another address of,
    alias_why: str | None = None  # how that was proved,
    aliases: Sequence[str] = ()  # and the other addresses of this page
    linked_from: Linked = field(default_factory=Linked)  # pages of a followed site that link to it


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A page whose text holds what was searched for."""

    url: str
    title: str | None
    snippet: str
    marks: Sequence[tuple[int, int]]  # where in the snippet the words are
    score: float  # higher is better; two searches cannot be compared
    version: int
    freshness: float | None
    language: str | None
    host: str


@dataclass(frozen=True, slots=True)
class HostLine:
    """How a host is asked, and how many pages it has."""

    host: str
    pages: int
    blocked: bool
    blocked_until: float
    asked_until: float
    successive_failures: int
    delay_seconds: float | None
    crawl_delay_seconds: float | None
    turned_away: Mapping[str, int] = field(default_factory=dict)  # pages whose site turned us away, by trouble


@dataclass(frozen=True, slots=True)
class SourceLine:
    """What the signals of a host and source were worth, and how far they are heard (None: not known yet) and why."""

    host: str
    source: Source
    polls: int
    signals: int
    stale: int
    site_events: int
    precision: float | None
    recall: float | None
    heard: bool | None = None
    heard_since: float | None = None
    weight: float | None = None
    score: float | None = None
    why: str | None = None
    confirmed: int = 0  # crawls after believed signals that found a change
    in_vain: int = 0  # and that found none
    saved: float = 0.0  # requests, against a crawler that ignores signals; polls are taken off
    freshness_gain: float | None = None  # of the host's copies since the first of them was made

    @property
    def bought(self) -> str:
        """What the source has bought, in words."""
        return bought_in_words(self.confirmed + self.in_vain, self.saved, self.freshness_gain)


@dataclass(frozen=True, slots=True)
class SourceFileLine:
    """A sitemap or feed that is polled."""

    url: str
    source: Source
    host: str
    next_poll_at: float


@dataclass(frozen=True, slots=True)
class FollowedLine:
    """What following links has found on a host."""

    host: str
    pages: int
    found: int  # kept because of links alone
    waiting: int  # of those, not yet visited
    refused: int  # linked, but not to be kept
    deferred: int  # pages with links that wait for room
    depth: int | None


@dataclass(frozen=True, slots=True)
class SlotLine:
    """What slots of a stretch of time were spent on: a use and what came of it, or idle or skipped and why."""

    at: float
    use: str
    outcome: str
    slots: int


@dataclass(frozen=True, slots=True)
class CalibrationLine:
    """A tenth of the predicted freshness against what was seen."""

    bin: int
    predicted_low: float
    predicted_high: float
    crawls: int
    predicted: float
    seen: float

    @property
    def gap(self) -> float:
        """By how much more was seen than predicted."""
        return self.seen - self.predicted


@dataclass(frozen=True, slots=True)
class PageStats:
    """A page's row of the view `page_stats`."""

    url: str
    host: str
    importance: float
    state: str
    crawls: int
    changes: int
    failures: int
    signals: int
    last_crawl_at: float | None
    last_change_at: float | None
    change_rate: float | None
    alpha: float | None
    beta_seconds: float | None
    kappa: float | None
    gamma: float | None
    precision: float | None
    recall: float | None
    staleness: float | None
    freshness: float
    weight: float
    gone_since: float | None


@dataclass(frozen=True, slots=True)
class RememberedCopy:
    """Memory of the latest copy: its validators, its blocks, and what is left out of the comparison."""

    fetched_at: float
    etag: str | None
    last_modified: str | None
    content_type: str | None
    blocks: int
    volatile_places: int
    frame_blocks: int
    streak: int
    versions_seen: int


@dataclass(frozen=True, slots=True)
class HostWaits:
    """Reasons of a host not to be asked."""

    blocked: bool
    blocked_until: float
    asked_until: float
    failures: int


@dataclass(frozen=True, slots=True)
class TrustLine:
    """How far signals of a source are heard on a page's host, and why."""

    source: str
    heard: bool | None
    weight: float | None
    score: float | None
    intervals: int
    why: str | None


@dataclass(frozen=True, slots=True)
class StoredEstimate:
    """Estimate of a page as it is stored, by source where signals are concerned."""

    at: float
    shape: float
    rate: float
    alpha_se: float | None
    crawls: int
    changes: int
    kappa: Mapping[str, float]
    gamma: Mapping[str, float]
    kappa_se: Mapping[str, float | None]
    signals: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PastCrawl:
    """One finished attempt at a page, with all that is stored of it."""

    at: float
    verdict: str
    status: int | None
    trouble: str | None
    detail: str | None
    tau: float | None
    bytes: int
    duration: float
    magnitude: float | None
    predicted: float | None
    conditional: bool
    audit: bool
    reverted: bool
    signals: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFacts(PageStats):
    """Everything known of a page: its statistics, estimate, memory, and last crawls and signals."""

    id: int
    origin: str
    added_at: float
    retired_at: float | None
    last_attempt: float | None
    successive_failures: int
    alias_why: str | None
    alias_of: str | None
    aliases: Sequence[str]
    linked_from: Linked
    memory: RememberedCopy | None
    usage: Mapping[str, Any] | None
    host_in_trouble: HostWaits
    pending_signals: Mapping[str, int]
    signal_trust: Sequence[TrustLine]
    estimate: StoredEstimate | None
    last_crawls: Sequence[PastCrawl]
    last_signals: Sequence[SignalLine]


@dataclass(frozen=True, slots=True)
class HostStats:
    """A host's row of the view `host_stats`, with the number of changes of its frame."""

    host: str
    pages: int
    copies: int
    crawls: int
    changes: int
    failures: int
    signals: int
    last_crawl_at: float | None
    last_change_at: float | None
    change_rate: float | None
    freshness: float | None
    blocked: bool
    blocked_until: float
    successive_failures: int
    delay_seconds: float | None
    crawl_delay_seconds: float | None
    frame_changes: int


@dataclass(frozen=True, slots=True)
class RatePosterior:
    """RatePosterior of a page's change rate, and how many revisits it rests on."""

    shape: float
    rate: float
    evidence: int


@dataclass(frozen=True, slots=True)
class ExcludedPage:
    """A page that is kept out, and since when."""

    url: str
    at: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Figures of all pages, from the database alone."""

    pages: int
    states: Mapping[str, int]
    crawls: int
    changes: int
    failures: int
    last_crawl_at: float | None
    hosts: int
    freshness: float | None  # weighted by importance
    latest: HistoryPoint | None
    database_bytes: int
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class AuditFigures:
    """Audits that the measured freshness rests on: how many, and over which time."""

    count: int = 0
    first_at: float | None = None
    last_at: float | None = None


@dataclass(frozen=True, slots=True)
class StoredTroubles:
    """Hosts that may not be asked or turn us away, pages that are overdue, and the latest audits."""

    hosts_in_trouble: HostsInTrouble
    turned_away: Mapping[str, SitesTurningAway]
    overdue: OverduePages
    audits: AuditFigures


@dataclass(frozen=True, slots=True)
class Overview:
    """How all pages stand."""

    pages: int  # that are kept: neither retired nor other addresses of a page
    states: Mapping[PageState, int]
    hosts: int
    latest: FreshnessPoint | None
    last_change: int  # the number of the newest change, 0 where there is none
    last_crawl_at: float | None  # of the latest success
    database_bytes: int
    free_bytes: int | None = None  # on the disk of the database; None where that is a server's business


class LivePages(Protocol):
    """What the running daemon holds in memory of its pages; it may be asked in any thread."""

    @property
    def whole(self) -> bool:
        """Whether that is all pages there are; a worker of a fleet holds a part."""

    def standings(self, page_ids: Sequence[int], at: float) -> Mapping[int, tuple[float, float | None]]:
        """By page, its freshness and when it is expected to be crawled next; pages that are not here are left out."""

    def freshness(self, at: float) -> tuple[Ints, Floats]:
        """The ids of all pages with their freshness, as of that time or a few seconds from it; not to be written to."""
