"""What is queued, folded into the few bulk statements that one transaction runs. Pure: nothing here awaits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from crawld.model.crawl import ChangeVerdict, Crawl, Memory, Verdict
from crawld.model.fetched import TURNED_AWAY, RobotsState
from crawld.model.host import FrameChange, HostState
from crawld.model.metrics import HistoryPoint
from crawld.model.page import Alias, PageState
from crawld.model.signal import SOURCES, Signal, SignalGain
from crawld.model.usage import usage_of
from crawld.store.bulk import known, storable
from crawld.store.sources import Poll
from crawld.store.tables import by_source

if TYPE_CHECKING:
    from crawld.store.commit_queue import QueuedItem


@dataclass(frozen=True, slots=True)
class FreshnessPoint(HistoryPoint):
    """One minute of the freshness history, with what became of its slots."""

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


Item = Record | Signal | HostState | FreshnessPoint | Poll | FrameChange | RobotsState | SignalGain
Fields = tuple[Any, ...]
CHANGES = frozenset({Verdict.CHANGED, Verdict.GONE})
TOLD = frozenset({Verdict.NEW, Verdict.CHANGED, Verdict.GONE})
"""Verdicts that followers of the changes are told of."""
EVERY = 1 << 40  # more signals than any page has
_INDEX = {source: i for i, source in enumerate(SOURCES)}
CRAWL = (
    "page_id", "at", "verdict", "status", "trouble", "detail", "tau", "bytes", "duration", "magnitude", "predicted",
    "conditional", "audit", "reverted", *by_source("signals"),
)  # fmt: skip
"""The columns of a row of `crawls`."""
SIGNAL = ("page_id", "source", "seen_at", "claimed_at", "stale")
"""The columns of a row of `signals`."""
CHANGE = ("page_id", "at", "verdict", "magnitude", "moved_to")
"""The columns of a row of `changes`, but for its number."""


def _none() -> list[int]:
    return [0] * len(SOURCES)


@dataclass(slots=True)
class SignalChange:
    """What a batch does to the counts of one page's signals, by source."""

    every: list[int] = field(default_factory=_none)
    since_first: list[int] = field(default_factory=_none)  # after the batch's first success
    # Signals not yet answered by a crawl become max(floor, before + shift): a success takes away those it knew of,
    # and those seen while it was under way stay.
    floor: list[int] = field(default_factory=_none)
    shift: list[int] = field(default_factory=_none)

    def answered(self, known: tuple[int, ...]) -> None:
        """A success took away the signals that it knew of."""
        self.shift = [shift - n for shift, n in zip(self.shift, known, strict=True)]
        self.floor = [max(0, floor - n) for floor, n in zip(self.floor, known, strict=True)]

    def came(self, source: int, *, first_seen: bool) -> None:
        """A signal came, of the source at this index; `first_seen`: after the batch's first success."""
        self.every[source] += 1
        self.shift[source] += 1
        self.floor[source] += 1
        self.since_first[source] += first_seen


@dataclass(slots=True)
class PageChange:
    """What a batch does to one page's row."""

    state: PageState | None = None
    attempt: float | None = None
    success: float | None = None
    first_success: float | None = None
    change: float | None = None
    still: bool = True  # no crawl found the page newly gone or there: `gone_since` stays as it is
    gone_since: float | None = None
    failures: int = 0
    crawls: int = 0
    changes: int = 0
    failed: int = 0
    title: str | None = None
    language: str | None = None
    content_type: str | None = None
    turned_away: str | None = None  # by the latest crawl
    signals: "SignalChange | None" = None  # None: none came, no crawl answered one, and none was the first success

    def crawled(self, record: Record) -> None:
        """Take in a finished attempt."""
        crawl = record.crawl
        self.state, self.attempt, self.failures = record.state, crawl.at, record.failures
        self.turned_away = crawl.trouble if crawl.trouble in TURNED_AWAY else None
        self.crawls += 1
        if crawl.verdict is Verdict.FAILED:
            self.failed += 1
            return
        self.success = crawl.at
        self.title, self.language = storable(record.title) or self.title, storable(record.language) or self.language
        if record.memory is not None:
            self.content_type = storable(record.memory.content_type) or self.content_type
        if self.first_success is None:
            self.first_success = crawl.at
        if crawl.tau is None or not crawl.signals or any(crawl.signals):
            self.signals = self.signals or SignalChange()
            self.signals.answered(crawl.signals or (EVERY,) * len(SOURCES))
        if crawl.verdict is Verdict.GONE:
            self.still, self.gone_since = False, crawl.at
        elif record.state is not PageState.GONE:
            self.still, self.gone_since = False, None
        if crawl.verdict is Verdict.CHANGED or (crawl.verdict is Verdict.GONE and crawl.tau is not None):
            self.changes += 1
            self.change = crawl.at

    def signalled(self, signal: Signal) -> None:
        """Take in a signal; a stale one is not counted."""
        if signal.stale:
            return
        self.signals = self.signals or SignalChange()
        self.signals.came(_INDEX[signal.source], first_seen=self.first_success is not None)


@dataclass(frozen=True, slots=True)
class Body:
    """A copy of a page; where it `renews`, it takes the place of the copy before."""

    page_id: int
    at: float
    content_type: str | None
    body: bytes
    renews: bool = False
    change: int | None = None  # the change that brought it, as an index of the batch's `changes`


@dataclass(slots=True)
class Batch:
    """One transaction's worth of rows, in the order they were queued."""

    pages: dict[int, PageChange] = field(default_factory=dict)
    crawls: list[Fields] = field(default_factory=list)  # in the order of `CRAWL`
    changes: list[Fields] = field(default_factory=list)  # in the order of `CHANGE`
    signals: list[Fields] = field(default_factory=list)  # in the order of `SIGNAL`
    aliases: dict[int, Alias] = field(default_factory=dict)  # by page
    memories: dict[int, Memory] = field(default_factory=dict)
    bodies: list[Body] = field(default_factory=list)
    latest_body: dict[int, int] = field(default_factory=dict)  # of each page, as an index of `bodies`
    hosts: dict[str, HostState] = field(default_factory=dict)
    robots: dict[str, RobotsState] = field(default_factory=dict)  # by origin
    points: dict[float, FreshnessPoint] = field(default_factory=dict)
    polls: list[Poll] = field(default_factory=list)
    frame_changes: dict[tuple[str, float], FrameChange] = field(default_factory=dict)
    gains: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # sums by host and source
    calibration: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    unarchived: set[int] = field(default_factory=set)  # pages of which no earlier versions are to be kept
    others: bool = False  # whether there is more than crawls, copies and counts of the day

    def add(self, item: Item) -> None:
        """Fold in one queued thing that is no record."""
        self.others = True
        match item:
            case Signal():
                self.pages.setdefault(item.page_id, PageChange()).signalled(item)
                self.signals.append(signal_row(item))
            case HostState():
                self.hosts[item.name] = item
            case RobotsState():
                self.robots[item.origin] = item
            case FreshnessPoint():
                self.points[item.at] = item
            case Poll():
                self.polls.append(item)
            case FrameChange():
                self.frame_changes[item.host, item.first_at] = item
            case SignalGain():
                sums = self.gains.setdefault((item.host, item.source.value), [0, 0, 0.0, 0.0])
                for at, number in enumerate((item.confirmed, item.in_vain, item.gain, item.saved)):
                    sums[at] += number

    def add_record(self, record: Record) -> None:
        """Fold in a finished attempt."""
        crawl = record.crawl
        self.pages.setdefault(crawl.page_id, PageChange()).crawled(record)
        self.crawls.append(crawl_row(crawl))
        told = crawl.verdict in TOLD
        if told:
            self.changes.append(change_row(crawl))
        if record.alias is not None:
            self._add_alias(crawl, record.alias, told=told)
        self._calibrate(crawl)
        if record.memory is not None:
            self.memories[crawl.page_id] = record.memory
        if record.body is not None:
            content_type = record.memory.content_type if record.memory else None
            moved = record.alias is not None and record.alias.of is not None  # told after the change itself
            renews, change = crawl.verdict is Verdict.UNCHANGED, len(self.changes) - 1 - moved if told else None
            self._add_body(Body(crawl.page_id, crawl.at, storable(content_type), record.body, renews, change))
        if record.usage:
            self.changes.append((crawl.page_id, crawl.at, ChangeVerdict.USAGE.value, None, None))
        if record.memory is not None and usage_of(record.memory.said).noarchive:
            self.unarchived.add(crawl.page_id)
        if record.host is not None:
            self.hosts[record.host.name] = record.host
            self.others = True

    def _add_alias(self, crawl: Crawl, alias: Alias, *, told: bool) -> None:
        """Take in that a page moved, or is a page of its own again: also where it is what it was, that is told."""
        self.aliases[crawl.page_id], self.others = alias, True
        if alias.of is not None:
            self.changes.append((crawl.page_id, crawl.at, ChangeVerdict.MOVED.value, None, alias.url))
        elif not told or crawl.verdict is Verdict.CHANGED:
            page, at, _, *rest = self.changes.pop() if told else change_row(crawl)
            self.changes.append((page, at, ChangeVerdict.BACK.value, *rest))

    def _add_body(self, body: "Body") -> None:
        """Take in a copy; one that renews another copy of the batch takes its place."""
        earlier = self.latest_body.get(body.page_id)
        if body.renews and earlier is not None:
            self.bodies[earlier] = replace(body, renews=self.bodies[earlier].renews, change=self.bodies[earlier].change)
        else:
            self.latest_body[body.page_id] = len(self.bodies)
            self.bodies.append(body)

    def _calibrate(self, crawl: Crawl) -> None:
        predicted = known(crawl.predicted)
        if predicted is None or crawl.verdict not in {Verdict.CHANGED, Verdict.UNCHANGED, Verdict.GONE}:
            return
        tenth = min(9, max(0, int(predicted * 10)))
        sums = self.calibration.setdefault((int(crawl.at // 86_400), tenth), [0, 0, 0.0])
        sums[0] += 1
        sums[1] += crawl.verdict is Verdict.UNCHANGED
        sums[2] += predicted


def fold(queued: "Iterable[QueuedItem]") -> Batch:
    """The batch that does what the items say, in their order."""
    batch = Batch()
    for _, item, _ in queued:
        if isinstance(item, Record):
            batch.add_record(item)
        else:
            batch.add(item)
    return batch


def crawl_row(crawl: Crawl) -> Fields:
    """The row of `crawls`."""
    return (
        crawl.page_id,
        crawl.at,
        crawl.verdict.value,
        crawl.status,
        crawl.trouble and storable(crawl.trouble),
        crawl.detail and storable(crawl.detail),
        known(crawl.tau),
        crawl.bytes,
        crawl.duration,
        known(crawl.magnitude),
        known(crawl.predicted),
        crawl.conditional,
        crawl.audit,
        crawl.reverted,
        *(crawl.signals or (0,) * len(SOURCES)),
    )


def change_row(crawl: Crawl) -> Fields:
    """The row of `changes`, but for its number."""
    return crawl.page_id, crawl.at, crawl.verdict.value, known(crawl.magnitude), None


def signal_row(signal: Signal) -> Fields:
    """The row of `signals`."""
    return signal.page_id, signal.source.value, signal.seen_at, signal.claimed_at, signal.stale
