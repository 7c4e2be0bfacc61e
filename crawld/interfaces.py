"""What the drivers need of the doors, so that neither knows the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crawld.model.crawl import Crawl, Memory
from crawld.model.estimate import Estimate
from crawld.model.fetched import Outcome, Request
from crawld.model.host import HostState
from crawld.model.page import Page, PageState, Wanted
from crawld.model.push import KeyCheck, PushAnswer
from crawld.model.signal import SOURCES, Signal, Source

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Clock(Protocol):
    """Time as the drivers see it: real in the daemon, turned by hand in tests."""

    def now(self) -> float:
        """UTC seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds on a clock that is never set."""

    async def sleep_until(self, monotonic: float) -> None:
        """Sleep until that moment of the monotonic clock."""


class Fetcher(Protocol):
    """Sends one request and never raises for what a server does; redirects are answers, not followed."""

    async def fetch(self, request: Request) -> Outcome:
        """Send the request and read its answer to the end or to its limit."""

    async def close(self) -> None:
        """Let go of every connection."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """What taking over a URL list did."""

    added: Sequence[Page]
    returned: Sequence[Page]  # retired before, wanted again
    reweighted: Sequence[Page]
    retired: Sequence[Page]


@dataclass(frozen=True, slots=True)
class StoredPages:
    """Every page that is not retired, as columns of equal length: what a restart needs."""

    ids: Ints
    urls: Sequence[str]
    hosts: Sequence[str]
    states: Sequence[PageState]
    importance: Floats
    last_success: Floats  # time of the last successful crawl, nan before the first
    last_attempt: Floats  # nan before the first
    failures: Ints  # successive page-scope failures
    signals: Ints  # (pages, sources): counted signals since the last successful crawl
    shape: Floats  # the estimate's columns, nan where there is none yet
    rate: Floats
    kappa: Floats  # (pages, sources)
    gamma: Floats  # (pages, sources)


@dataclass(frozen=True, slots=True)
class StoredDemand:
    """Requests for copies of pages and the days they were watched for, both faded as of `at`, as columns."""

    page_ids: Ints
    requests: Floats
    days: Floats
    at: Floats


@dataclass(frozen=True, slots=True)
class Histories:
    """The observations of several pages, ragged: page i owns rows offsets[i]:offsets[i+1], oldest first.

    Each row is one successful crawl after the first: the time and the signals (by source) since the one before,
    and whether the content had changed.
    """

    page_ids: Ints
    offsets: Ints
    at: Floats
    tau: Floats
    signals: Ints  # (rows, sources)
    changed: NDArray[np.bool_]
    hosts: Sequence[str]
    first_success: Floats  # by page: when watching began, for γ
    signal_counts: Ints  # (pages, sources): all counted signals since then


@dataclass(frozen=True, slots=True)
class FreshnessPoint:
    """One minute of the freshness history."""

    at: float
    bandwidth: float
    request_rate: float
    predicted: float | None
    measured: float | None
    measured_low: float | None
    measured_high: float | None
    level: float | None
    pages: int
    changed_share: float | None
    skipped_slots: int


@dataclass(frozen=True, slots=True)
class Record:
    """Everything one finished attempt leaves behind; committed as one, or not at all."""

    crawl: Crawl
    state: PageState
    failures: int = 0  # the page's own successive failures, this one included
    memory: Memory | None = None  # None leaves what is remembered as it is
    body: bytes | None = None  # the new copy, where it is to be kept
    host: HostState | None = None  # where the attempt changed what is known of the host


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that signals are read from, as kept over a restart; `state` is the poller's own, kept compressed."""

    url: str
    source: Source
    host: str
    next_poll: float
    state: bytes


@dataclass(frozen=True, slots=True)
class Poll:
    """What became of a source file: polled, found (0 polls), or all its dates moved at once (a site event)."""

    file: SourceFile
    polls: int = 1
    site_events: int = 0


class Store(Protocol):
    """The truth. Writes are queued and committed in batches at most 200 ms apart; reads see what is committed."""

    async def start(self) -> None:
        """Open, migrate and lock the database; StoreError in a sentence where that cannot be."""

    async def close(self) -> None:
        """Commit what is queued and let go."""

    async def flush(self) -> None:
        """Return once everything queued so far is committed."""

    async def adopt(self, wanted: Sequence[Wanted], *, origin: str, now: float, complete: bool = True) -> Adoption:
        """Take over a URL list: add, re-weight, bring back; with `complete`, retire what `origin` no longer lists.

        A page belongs to the origin that listed it first; while it is not retired, other origins leave it as it is.
        """

    async def retire(self, urls: Sequence[str], *, now: float) -> Sequence[Page]:
        """Retire these pages whoever listed them; those unknown or retired already are passed over."""

    async def restore(self) -> StoredPages:
        """Everything a start needs to know of the pages."""

    async def hosts(self) -> Sequence[HostState]:
        """What is remembered of every host."""

    async def recall(self, page_id: int) -> Memory | None:
        """What is remembered of the latest copy of a page."""

    def record(self, record: Record) -> None:
        """Queue a finished attempt."""

    def record_signals(self, signals: Sequence[Signal]) -> None:
        """Queue signals."""

    def record_host(self, host: HostState) -> None:
        """Queue what is now known of a host."""

    def record_freshness(self, point: FreshnessPoint) -> None:
        """Queue one point of the freshness history."""

    def record_poll(self, poll: Poll) -> None:
        """Queue what is now known of a source file."""

    async def sources(self) -> Sequence[SourceFile]:
        """Every source file that was ever recorded and not forgotten."""

    async def forget_sources(self, urls: Sequence[str]) -> None:
        """Forget source files; what their host's signals were worth is kept."""

    async def prune(self) -> int:
        """Delete a little of what retention no longer keeps; 0 when there is nothing to do."""

    @property
    def healthy(self) -> bool:
        """Whether commits succeed and the queue has room; pause while it is not."""

    @property
    def backlog(self) -> int:
        """How many queued things wait to be committed."""

    async def audits(self, limit: int) -> Sequence[bool]:
        """Whether each of the latest audits found our copy fresh, oldest first: so that a restart forgets none."""

    async def dirty_pages(self, limit: int) -> Ints:
        """Pages with a successful crawl newer than their estimate, longest waiting first."""

    async def histories(self, page_ids: Ints, *, most_per_page: int = 200) -> Histories:
        """The latest observations of each page, at most that many."""

    async def save_estimates(self, estimates: Sequence[Estimate]) -> None:
        """Write new estimates over the old ones."""

    async def demand(self) -> StoredDemand:
        """How often copies were asked for."""

    async def save_demand(self, news: StoredDemand) -> None:
        """Write over what was kept of these pages' demand."""

    async def setting(self, name: str) -> str | None:
        """A setting changed while running and kept over a restart."""

    async def change_setting(self, name: str, value: str | None, *, now: float) -> None:
        """Keep a setting (None forgets it) and note the change."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """robots.txt lets us ask for the URL."""


@dataclass(frozen=True, slots=True)
class Disallowed:
    """robots.txt forbids the URL (`by_rule`), or could not be had, which forbids everything for a while."""

    reason: str
    until: float  # UTC seconds: no use in asking again before
    by_rule: bool = True


@dataclass(frozen=True, slots=True)
class NeedsFetch:
    """robots.txt is not known, or too old: fetch it from `url` first."""

    url: str


class Robots(Protocol):
    """What each site's robots.txt says, as far as it is known. Fetching is the driver's business."""

    def verdict(self, url: str, now: float) -> Allowed | Disallowed | NeedsFetch:
        """Whether the URL may be asked for now."""

    def learn(self, robots_url: str, outcome: Outcome, now: float) -> None:
        """Take over what fetching that robots.txt (redirects followed) brought."""

    def crawl_delay(self, url: str) -> float | None:
        """The Crawl-delay for us at the URL's site, where its robots.txt names one."""

    def sitemaps(self, url: str) -> Sequence[str]:
        """The Sitemap lines of the robots.txt at the URL's site."""


@dataclass(frozen=True, slots=True)
class Discoveries:
    """What a file lists within the scope of discovery, where that has changed."""

    urls: Sequence[str]  # no pages of ours yet
    listed: Sequence[int]  # pages of ours
    complete: bool  # what was found in this file before and is listed no more has left


@dataclass(frozen=True, slots=True)
class PollResult:
    """What a poll decided: for the store `polls` and `signals`, for the scheduler `counted`."""

    polls: Sequence[Poll]  # the file itself, then those it led to
    signals: Sequence[Signal] = ()
    removed: Sequence[str] = ()  # files no longer watched, to be forgotten
    discoveries: Discoveries | None = None  # None: discovery is off, or nothing came or went
    hubs: Sequence[str] = ()  # WebSub hubs that would push this feed
    topic: str | None = None
    summary: str = ""

    @property
    def counted(self) -> Sequence[tuple[int, int]]:
        """Page id and source index of every signal that counts."""
        return [(signal.page_id, SOURCES.index(signal.source)) for signal in self.signals if not signal.stale]


class SignalSources(Protocol):
    """Signal sources: what to poll next, and what the answers mean. No verb awaits."""

    def due(self, now: float) -> Sequence[Request]:
        """Polls to send now, most urgent first; several, since the first one's host may not be ready."""

    def begin(self, request: Request) -> None:
        """The poll is under way: it is not due again until `finish`."""

    def release(self, request: Request, not_before: float) -> None:
        """Give up a poll that was not sent, or whose answer never came; it is due again from then on."""

    def read(self, request: Request, outcome: Outcome, now: float) -> Any:
        """Read an answer, for `finish` alone; touches nothing that changes, so a large one may be read off the loop."""

    def finish(self, request: Request, reading: Any, now: float) -> PollResult:
        """Decide what the answer means in the light of the last one."""

    def found(self, robots_url: str, sitemaps: Sequence[str], now: float) -> Sequence[Poll]:
        """robots.txt of a site was read; these are its Sitemap lines. The files that are watched from now on."""

    def found_feeds(self, page_url: str, feeds: Sequence[str], now: float) -> Sequence[Poll]:
        """A page links to these feeds in its head. The files that are watched from now on."""

    def appraise(self, host: str, source: Source, precision: float) -> None:
        """Signals of this host and source proved right this often: poll them as often as that is worth."""


class Pings(Protocol):
    """Takes what is pushed: bodies in, answers and signals out."""

    def post_signals(self, body: bytes, now: float) -> PushAnswer:
        """`POST /signals`."""

    def get_indexnow(self, query: Mapping[str, str], now: float) -> PushAnswer:
        """IndexNow's GET."""

    def post_indexnow(self, body: bytes, now: float) -> PushAnswer:
        """IndexNow's POST."""

    def key_checked(self, check: KeyCheck, outcome: Outcome, now: float) -> Sequence[Signal]:
        """Asking the host for a key brought this: the signals that waited for it."""


class Hubs(Protocol):
    """WebSub: asks hubs to push feeds, and takes what they send."""

    def subscribe(self, url: str, hubs: Sequence[str], topic: str | None, now: float) -> Request | None:
        """The request to send where a poll of the feed at `url` found hubs."""

    def renewals(self, now: float) -> Sequence[Request]:
        """Requests for leases that are about to end."""

    def confirm(self, token: str, query: Mapping[str, str], now: float) -> tuple[int, str]:
        """Status and text to answer a hub that asks whether we meant it."""

    def deliver(
        self, token: str, body: bytes, headers: Mapping[str, str], now: float
    ) -> tuple[int, str, PollResult | None]:
        """Status and text to answer a delivery, and what it decided."""


class Control(Protocol):
    """What an operator can ask of a running daemon. Answers are plain data, ready for JSON."""

    def status(self) -> dict[str, object]:
        """What the daemon is doing now."""

    async def change_bandwidth(self, rate: float) -> None:
        """Let so many requests a second leave from the next slot on; kept over a restart."""

    async def pause(self, *, paused: bool) -> None:
        """Stand still, or go on; kept over a restart."""

    async def steer_host(self, name: str, *, blocked: bool | None = None, delay: float | None = None) -> HostState:
        """Block or unblock a host, or give it a spacing of its own; kept over a restart."""

    async def add_pages(self, wanted: Sequence[Wanted]) -> Adoption:
        """Take further pages in."""

    async def remove_pages(self, urls: Sequence[str]) -> Sequence[str]:
        """Retire pages; the URLs of those that were here."""

    def explain(self, url: str) -> dict[str, object] | None:
        """What is held in memory of a page and why it is not crawled just now; None if it is not here."""

    async def reload(self) -> str:
        """Read the settings and the URL list again; what came of it, in a sentence."""


class Inbox(Protocol):
    """What other programs may push: answers are an HTTP status and a body."""

    def post_signals(self, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """Pings: a JSON list of URLs that changed."""

    def get_indexnow(self, query: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        """IndexNow's GET."""

    def post_indexnow(self, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """IndexNow's POST."""

    def confirm(self, token: str, query: Mapping[str, str]) -> tuple[int, str]:
        """A WebSub hub asks whether we meant it."""

    def deliver(self, token: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
        """A WebSub hub delivers a feed."""


class Copies(Protocol):
    """The copies that are kept, for whoever reads them."""

    async def copy(self, url: str) -> tuple[bytes, Mapping[str, str]] | None:
        """The latest copy of a page with its headers (type, age, freshness); None where there is none."""
