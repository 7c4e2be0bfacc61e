"""What the drivers need of the store."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crawld.model.crawl import Crawl, Memory
from crawld.model.estimate import AgeCurve, Estimate, Histories
from crawld.model.fetched import RobotsState, Trouble
from crawld.model.host import FrameChange, HostPage, HostState
from crawld.model.page import Alias, Document, ListedPages, Page, PageState, Wanted
from crawld.model.signal import SOURCES, Signal, SignalGain, SignalTrust, Source

# What people and programs do to a crawl.


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody did: who, the verb, the sentence that tells it, and the action that undoes it, if one does."""

    id: int
    at: float
    who: str
    verb: str
    sentence: str
    undo: Mapping[str, Any] | None = None  # {"verb": …, "what": {…}}
    undone_at: float | None = None
    result: Any = field(default=None, compare=False)  # what came of it, told to whoever did it and not kept

    @property
    def undoable(self) -> bool:
        """Whether it can still be undone."""
        return self.undo is not None and self.undone_at is None


class ActionLog(Protocol):
    """Everything that people and programs do to a crawl: done, logged, kept, and undone."""

    async def act(self, who: str, verb: str, what: Mapping[str, Any]) -> Action:
        """Do something in somebody's name; InputError where it cannot be done.

        | verb | what | result |
        |---|---|---|
        | add | wanted: [[url, importance], …], origin (by hand unless given) | Adoption |
        | remove | urls | the URLs of pages that were here |
        | refresh | urls, wait (seconds) | a Refreshed for each |
        | host | host, and any of blocked, delay, drop_delay | Steered |
        | bandwidth | rate | None |
        | pause, resume | | None |
        | ignore | url, selectors, host (whether on all pages of the host) | the Marks made |
        | compare | marks (numbers) | None: these parts are compared again |
        | read | until (a change) | None: changes up to it were seen |
        """

    async def undo(self, who: str, number: int) -> Action:
        """Undo an action; InputError where it is unknown, cannot be undone or was undone already."""

    async def latest(self, limit: int = 100) -> Sequence[Action]:
        """The latest actions, newest first."""

    async def get(self, number: int) -> Action | None:
        """One action."""

    async def read_until(self) -> int:
        """The newest change that the operator has marked as read, 0 before the first mark."""


# What hooks need of the store and of whoever carries a change to its receiver.


@dataclass(frozen=True, slots=True)
class Waiting:
    """A change that waits for a hook. Its number is its place in the order of commits."""

    change: int
    page_id: int
    added_at: float


@dataclass(frozen=True, slots=True)
class HookDelivery:
    """A change as it is sent: its number, and what receivers are told of it, as JSON."""

    change: int
    document: str


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """Why a sending failed, in a sentence, and the seconds after which the receiver wants to be asked again."""

    detail: str
    retry_after: float | None = None


class Transport(Protocol):
    """Carries changes to a receiver. What goes wrong there is a value, never an exception."""

    @property
    def at_once(self) -> int:
        """How many changes one sending may carry."""

    async def send(self, deliveries: Sequence[HookDelivery]) -> NotDelivered | None:
        """Send the changes together; None where they were taken."""

    async def close(self) -> None:
        """Let go of every connection."""


@dataclass(frozen=True, slots=True)
class NewChange:
    """A change that no hook was asked about yet."""

    change: int
    page_id: int
    url: str
    verdict: str
    document: str
    denies: frozenset[str] = frozenset()  # uses of the page that its site denies


@dataclass(frozen=True, slots=True)
class News:
    """Changes after a number, the number to go on from, and how many changes are no longer kept."""

    changes: Sequence[NewChange]
    cursor: int
    missed: int = 0


@dataclass(frozen=True, slots=True)
class HookFigures:
    """What became of a hook's changes so far, as kept over restarts."""

    cursor: int = 0  # the last change that it was asked about
    delivered: int = 0
    dropped: int = 0
    delivered_at: float | None = None  # the last one
    trouble: str | None = None  # why the last sending failed, None where it did not
    trouble_since: float | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    """A new change for a hook, as it is written to the queue."""

    hook: str
    change: NewChange
    added_at: float


@dataclass(frozen=True, slots=True)
class QueueWrites:
    """What one transaction does to the queue: what comes, what was delivered, and up to which number the oldest go."""

    added: Sequence[Queued] = ()
    delivered: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by hook
    dropped_to: Mapping[str, int] = field(default_factory=dict)  # by hook


class HookStore(Protocol):
    """The queue of the hooks, in the store. Reads see what is committed; a write is one transaction."""

    async def open_hooks(self, names: Sequence[str]) -> Mapping[str, HookFigures]:
        """Keep these hooks and forget others with all that waits for them; a new one begins with the next change."""

    async def waiting(self, hook: str) -> Sequence[Waiting]:
        """Everything that waits for a hook, oldest first."""

    async def news(self, after: int, limit: int) -> News:
        """The changes after a number, oldest first."""

    async def documents(self, hook: str, changes: Sequence[int]) -> Sequence[HookDelivery]:
        """What is to be sent of these changes; those that were dropped meanwhile are left out."""

    async def write(self, writes: QueueWrites, figures: Mapping[str, HookFigures]) -> None:
        """Write to the queue and the hooks' figures, all or nothing."""

    def committed(self) -> asyncio.Event:
        """An event that is set when changes are committed: take it before looking for news."""


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


MayRetire = Callable[[int, int], bool]
"""Whether so many pages may be retired, of so many that were listed before."""


def always(_retired: int, _listed: int) -> bool:
    """Retire whatever is no longer listed."""
    return True


@dataclass(frozen=True, slots=True)
class Adoption:
    """What taking over a URL list, or some lines of it, did."""

    added: Sequence[Page] = ()
    returned: Sequence[Page] = ()  # retired before, wanted again
    reweighted: Sequence[Page] = ()
    retired: Sequence[Page] = ()
    lines: int = 0
    respelt: Sequence[Page] = ()  # the same page under another spelling of its URL
    held_back: int = 0  # pages no longer listed that stay, because too many at once would go
    excluded: int = 0  # lines passed over: their pages are kept out
    listed: Sequence[int] = ()  # pages that links alone had kept, and that are listed now

    @classmethod
    def of(cls, parts: Sequence["Adoption"]) -> "Adoption":
        """What the parts did together."""
        return cls(
            added=[page for part in parts for page in part.added],
            returned=[page for part in parts for page in part.returned],
            reweighted=[page for part in parts for page in part.reweighted],
            retired=[page for part in parts for page in part.retired],
            lines=sum(part.lines for part in parts),
            respelt=tuple(page for part in parts for page in part.respelt),
            held_back=sum(part.held_back for part in parts),
            excluded=sum(part.excluded for part in parts),
            listed=tuple(page_id for part in parts for page_id in part.listed),
        )


@dataclass(frozen=True, slots=True)
class StoredPages:
    """Pages that are not retired, as columns of equal length: what a restart needs."""

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
    mixed: Floats  # (pages, 3): heard, deaf_alpha, deaf_shape
    gone: NDArray[np.bool_]  # whether the last successful crawl found the page gone
    alias_of: Sequence[int | None]  # the page that this is another address of
    turned_away: Mapping[int, Trouble] = field(default_factory=dict)  # by id, where the site turned us away last time

    @classmethod
    def of(cls, parts: Sequence["StoredPages"]) -> "StoredPages":
        """The pages of all parts in their order."""
        none, some = np.zeros(0), len(SOURCES)

        def joined(name: str, empty: NDArray[Any] = none) -> NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in parts] or [empty])

        return cls(
            ids=joined("ids", none.astype(np.int64)),
            urls=[url for part in parts for url in part.urls],
            hosts=[host for part in parts for host in part.hosts],
            states=[state for part in parts for state in part.states],
            importance=joined("importance"),
            last_success=joined("last_success"),
            last_attempt=joined("last_attempt"),
            failures=joined("failures", none.astype(np.int64)),
            signals=joined("signals", np.zeros((0, some), np.int64)),
            shape=joined("shape"),
            rate=joined("rate"),
            kappa=joined("kappa", np.zeros((0, some))),
            gamma=joined("gamma", np.zeros((0, some))),
            mixed=joined("mixed", np.zeros((0, 3))),
            gone=joined("gone", none.astype(np.bool_)),
            alias_of=[of for part in parts for of in part.alias_of],
            turned_away={page: trouble for part in parts for page, trouble in part.turned_away.items()},
        )

    def part(self, which: slice | NDArray[np.bool_]) -> "StoredPages":
        """Some of the pages: a slice of them, or those marked."""
        order = np.arange(len(self.ids))[which].tolist()
        return StoredPages(
            ids=self.ids[which],
            urls=[self.urls[i] for i in order],
            hosts=[self.hosts[i] for i in order],
            states=[self.states[i] for i in order],
            importance=self.importance[which],
            last_success=self.last_success[which],
            last_attempt=self.last_attempt[which],
            failures=self.failures[which],
            signals=self.signals[which],
            shape=self.shape[which],
            rate=self.rate[which],
            kappa=self.kappa[which],
            gamma=self.gamma[which],
            mixed=self.mixed[which],
            gone=self.gone[which],
            alias_of=[self.alias_of[i] for i in order],
            turned_away={page: self.turned_away[page] for page in self.ids[which].tolist() if page in self.turned_away},
        )


@dataclass(frozen=True, slots=True)
class StoredDemand:
    """Requests for copies of pages and the days they were watched for, both faded as of `at`, as columns."""

    page_ids: Ints
    requests: Floats
    days: Floats
    at: Floats
    weight: Floats | None = None  # what the pages weigh because of that; None where it was read


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
    slots: Mapping[tuple[str, str], int] = field(default_factory=dict)  # since the point before, by use and outcome


class Record(NamedTuple):
    """Everything one finished attempt leaves behind; committed as one, or not at all."""

    crawl: Crawl
    state: PageState
    failures: int = 0  # the page's own successive failures, this one included
    memory: Memory | None = None  # None leaves what is remembered as it is
    body: bytes | None = None  # the new copy, where it is to be kept
    host: HostState | None = None  # where the attempt changed what is known of the host
    title: str | None = None  # of the new copy; None leaves the title as it is
    usage: bool = False  # whether what the page may be used for is another than before
    language: str | None = None  # that the new copy says it is in; None leaves it as it is
    alias: Alias | None = None  # where it turned out to be another address of a page, or no longer to be one


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


@dataclass(frozen=True, slots=True)
class Listed:
    """A page that is kept fresh, and whose word that is."""

    id: int
    url: str
    importance: float
    origin: str


@dataclass(frozen=True, slots=True)
class PendingCopy:
    """A copy that is to become a document; without bytes where it has, or is no longer kept."""

    number: int  # of the change that brought it, or of the page where pages are walked
    page_id: int
    version: int
    url: str
    host: str
    content_type: str | None
    body: bytes | None


class DocumentStore(Protocol):
    """Keeps the documents that copies became."""

    async def prepare_documents(self, *, search: bool) -> int | None:
        """Make or drop the index; the number of the last change whose copy was looked at, None at first."""

    async def pending_copies(self, after: int, *, by_page: bool) -> Sequence[PendingCopy]:
        """The next copies to read beyond the number of a change, or with `by_page` beyond a page."""

    async def save_documents(
        self, documents: Sequence[tuple[PendingCopy, Document]], cursor: int | None, *, search: bool
    ) -> None:
        """Keep documents in place of earlier ones, and with a cursor how far changes were read."""

    async def tidy_documents(self, *, search: bool) -> int:
        """Forget some documents of pages that are no longer kept, and index some that are not; how many these were."""

    async def newest_change(self) -> int:
        """The number of the newest change, 0 where there is none."""


class Store(Protocol):
    """The truth. Writes are queued and committed in batches at most 200 ms apart; reads see what is committed."""

    async def start(self) -> None:
        """Open, migrate and lock the database; StoreError in a sentence where that cannot be."""

    async def close(self) -> None:
        """Commit what is queued and let go."""

    async def flush(self) -> None:
        """Return once everything queued so far is committed."""

    async def watch(self) -> None:
        """Wait until the database is found damaged, by whatever was read or written, and raise DamagedError."""

    async def adopt(self, wanted: Sequence[Wanted], *, origin: str, now: float, complete: bool = True) -> Adoption:
        """Take over a URL list: add, re-weight, bring back; with `complete`, retire what `origin` no longer lists.

        A page belongs to the origin that listed it first; while it is not retired, other origins leave it as it is.
        One that is kept out is passed over, unless it is wanted by hand, which ends that.
        """

    def adopting(
        self,
        wanted: Sequence[Wanted],
        *,
        origin: str,
        now: float,
        complete: bool = True,
        kept: Ints | None = None,
        may_retire: MayRetire = always,
    ) -> AsyncGenerator[Adoption, None]:
        """The same a piece at a time; what the list no longer names is retired only where `may_retire` says so.

        `kept` are ids of pages that the list names as they are.
        """

    async def listed_pages(self, origin: str) -> ListedPages:
        """The pages that are not retired and that the origin lists."""

    async def retire(self, urls: Sequence[str], *, now: float, keep_out: bool = False) -> Sequence[Page]:
        """Retire the pages of these URLs, in any spelling; those unknown or retired already are passed over.

        With `keep_out` no list and no sitemap brings any of them back.
        """

    async def readmit(self, urls: Sequence[str]) -> Sequence[str]:
        """Keep these pages out no longer; the URLs of those that were."""

    async def origins(self, urls: Sequence[str]) -> Mapping[str, str]:
        """Who listed the pages of these URLs, retired ones too, by their URL; pages that are kept out are left out."""

    async def retire_moved(self, page_ids: Sequence[int], *, now: float) -> Sequence[Page]:
        """Retire those of these pages that are kept only because others moved there."""

    async def listed(self, urls: Sequence[str]) -> Sequence[Listed]:
        """The pages of these URLs, in any spelling, that are not retired."""

    async def restore(self, page_ids: Sequence[int] | None = None) -> StoredPages:
        """Everything a start needs to know of the pages, or of these."""

    async def count_pages(self) -> int:
        """How many pages `restoring` yields, about."""

    def restoring(self) -> AsyncGenerator[StoredPages, None]:
        """The same of all pages, some at a time, by their ids."""

    async def age_curves(self) -> Mapping[str, AgeCurve]:
        """By host, how its copies age; hosts that go by plain time are left out."""

    async def save_age_curves(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """Keep how the copies of these hosts age; None: by plain time."""

    async def save_signal_trust(self, trust: Sequence[SignalTrust]) -> None:
        """Keep which sources are heard, for reports: a start decides anew. Unknown hosts are left out."""

    async def hosts(self) -> Sequence[HostState]:
        """What is remembered of every host that has pages, and of others of which something still matters."""

    async def robots(self) -> Sequence[RobotsState]:
        """What is known of each robots.txt of hosts that have pages, the latest last."""

    async def recall(self, page_id: int) -> Memory | None:
        """What is remembered of the latest copy of a page."""

    async def copy(self, page_id: int) -> bytes | None:
        """The latest copy of a page, where one is kept."""

    async def recent_pages(self, host: str, limit: int) -> Sequence[HostPage]:
        """What is remembered of the pages of a host that were fetched most recently, oldest first."""

    def record(self, record: Record) -> None:
        """Queue a finished attempt."""

    def record_signals(self, signals: Sequence[Signal]) -> None:
        """Queue signals."""

    def record_host(self, host: HostState) -> None:
        """Queue what is now known of a host."""

    def record_robots(self, robots: RobotsState) -> None:
        """Queue what is now known of a robots.txt."""

    def record_frame_change(self, change: FrameChange) -> None:
        """Queue a change of a host's frame; one that began at the same time is overwritten."""

    def record_freshness(self, point: FreshnessPoint) -> None:
        """Queue one point of the freshness history."""

    def record_poll(self, poll: Poll) -> None:
        """Queue what is now known of a source file."""

    def record_signal_gain(self, gain: SignalGain) -> None:
        """Queue what signals before a crawl gained, to be added to the account of their host and source."""

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

    @property
    def lag(self) -> float:
        """Seconds that the oldest queued thing waits to be committed."""

    @property
    def trouble(self) -> str | None:
        """Why the last commit failed, None while all is well."""

    @property
    def trouble_since(self) -> float | None:
        """When commits began to fail (UTC seconds), None while all is well."""

    @property
    def lost(self) -> int:
        """How many queued things were given up for good."""

    async def audits(self, limit: int) -> Sequence[bool]:
        """Whether each of the latest audits found our copy fresh, oldest first: so that a restart forgets none."""

    async def dirty_pages(self, limit: int) -> Ints:
        """Pages with a successful crawl newer than their estimate, longest waiting first."""

    async def crawled_pages(self, after: int, limit: int) -> Ints:
        """The first pages, by id, beyond that id that have been crawled with success and are not retired."""

    async def histories(self, page_ids: Ints, *, most_per_page: int = 200, most: int = 20_000) -> Histories:
        """The latest observations of each page, at most that many; of the first pages only, until `most` are read."""

    async def save_estimates(self, estimates: Sequence[Estimate]) -> None:
        """Write new estimates over the old ones."""

    async def demand(self) -> StoredDemand:
        """How often copies were asked for."""

    async def save_demand(self, news: StoredDemand) -> None:
        """Write over what was kept of these pages' demand, and what they weigh by it."""

    async def forget_weights(self) -> None:
        """Let every page weigh what the list says, as it does in the memory of a daemon that has just started."""

    async def setting(self, name: str) -> str | None:
        """A setting changed while running and kept over a restart."""

    async def change_setting(self, name: str, value: str | None, *, now: float) -> None:
        """Keep a setting (None forgets it) and note the change."""

    async def add_action(self, action: Action) -> int:
        """Keep what an operator did; its number."""

    async def actions(self, limit: int, number: int | None = None) -> Sequence[Action]:
        """The latest actions, newest first; with a number that one alone."""

    async def mark_undone(self, number: int, at: float) -> bool:
        """Note that an action was undone; False where it was already, or is not kept."""
