"""Reports on a crawl: its status, its troubles, forecasts, and why a page is not crawled just now.

Made by the daemon or from the database, and rendered by the commands, the API, the dashboard and the metrics. Field
names are the keys of the JSON. Last come their figures as people read them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Self

from pydantic import Field, TypeAdapter

from crawld.model.host import HostsInTrouble, RobotsFailure, SitesTurningAway
from crawld.model.metrics import HistoryPoint, HookStanding, MeasuredFreshness, RecentSlots
from crawld.model.page import OverduePages, PageState
from crawld.model.signal import Source
from crawld.model.units import format_date, format_duration, format_moment, format_number, format_rate, unit_of
from crawld.model.units import many as _many
from crawld.model.why import IDLE, ToldReason, Why
from crawld.store.views import AuditFigures, FollowedLine, Linked


@dataclass(frozen=True)
class TroublesLimits:
    """Numbers that bound and tune this module."""

    idle_share: float = 0.1
    skipped_share: float = 0.01
    """Shares of the slots of the last minutes from which on idle and skipped slots are mentioned."""
    min_slots: int = 5
    min_skipped_spans: int = 2
    """Spans of some seconds that slots must have been skipped in: one pause of the machine is not a busy machine."""
    long_ago: float = 600.0
    """Seconds without a crawl that are too many, whatever the rate."""
    hook_seconds: float = 60.0
    """For which a hook must have failed: now and then a receiver is restarted."""


LIMITS = TroublesLimits()


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Returns what checks, writes and describes values of a type."""
    return TypeAdapter(kind)


class JsonReport:
    """A dataclass that is read from JSON and written as such; unknown keys are ignored."""

    __slots__ = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Reads a decoded JSON object."""
        kind: Any = cls
        found: Self = adapter(kind).validate_python(document)
        return found

    def document(self) -> dict[str, Any]:
        """Returns the object for JSON, without keys that do not apply."""
        kind: Any = type(self)
        found: dict[str, Any] = adapter(kind).dump_python(self, mode="json")
        return found


def _is_none(value: object) -> bool:
    return value is None


WhereApplies = Field(exclude_if=_is_none)
"""A key that is left out where it does not apply."""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """State of the store's writer, and what waits for it."""

    healthy: bool = True
    trouble: str | None = None
    since: float | None = None
    backlog: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class RobotsUnavailable:
    """Sites whose robots.txt is unavailable: how many, and the worst of them."""

    count: int = 0
    worst: Sequence[RobotsFailure] = ()


@dataclass(frozen=True, slots=True)
class ListenerStatus:
    """Address of the dashboard and API, or why they do not answer."""

    address: str | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(JsonReport):
    """State of the daemon, or of the workers of a fleet together."""

    pages: int = 0
    bandwidth: float = 0.0
    paused: bool = False
    requests: int = 0
    requests_by_purpose: Mapping[str, int] = field(default_factory=dict)
    requests_by_outcome: Mapping[str, int] = field(default_factory=dict)
    slots_served: int = 0
    slots_by_use: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    verdicts: Mapping[str, int] = field(default_factory=dict)
    troubles: Mapping[str, int] = field(default_factory=dict)
    in_flight: int = 0
    waiting: int = 0
    idle_slots: int = 0
    idle_because: Mapping[str, int] = field(default_factory=dict)
    skipped_slots: int = 0
    bytes: int = 0
    uptime_seconds: float = 0.0
    predicted_freshness: float | None = None
    measured_freshness: MeasuredFreshness | None = None
    level: float = 0.0
    active_pages: int = 0
    evaluations: int = 0
    picks: int = 0
    faults: int = 0
    starting: str | None = None
    reload_refused: str | None = None
    list_held_back: str | None = None
    pid: int | None = None
    min_interval_seconds: float = 0.0
    max_interval_seconds: float = 0.0
    hooks: Sequence[HookStanding] = ()
    store: StoreStatus = StoreStatus()
    hosts: HostsInTrouble = field(default_factory=HostsInTrouble)
    robots_unavailable: RobotsUnavailable = RobotsUnavailable()
    turned_away: Mapping[str, SitesTurningAway] = field(default_factory=dict)
    slots: RecentSlots = field(default_factory=RecentSlots)
    request_rate: Annotated[float | None, WhereApplies] = None
    workers: Annotated[int | None, WhereApplies] = None
    fleet_troubles: Annotated[Sequence[tuple[str, str]] | None, WhereApplies] = None
    listener: Annotated[ListenerStatus | None, WhereApplies] = None

    @property
    def served_by(self) -> str:
        """Returns what serves the slots: a process, or the workers of a fleet."""
        return f"pid {self.pid}" if self.workers is None else _many(self.workers, "worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(JsonReport):
    """State of a page in the daemon, or in the database of a fleet, and why it is not crawled just now."""

    url: str
    host: str
    state: PageState
    importance: float
    significance: Annotated[float | None, WhereApplies] = None
    last_crawl_at: float | None
    signals_since: Mapping[Source, int]
    freshness: float | None
    value: float | None
    level: float
    host_ready_in_seconds: float | None
    expected_in_seconds: float | None
    reason: Why
    why_not_now: str
    reasons: Sequence[ToldReason]


@dataclass(frozen=True, slots=True)
class SlowHost:
    """A host whose politeness allows fewer requests per second than its pages are worth, and what that costs."""

    host: str
    pages: int
    allowed: float
    wanted: float
    freshness: float
    costs: float  # of the freshness of all pages


@dataclass(frozen=True, slots=True)
class ForecastPoint:
    """Expectation at one bandwidth in the long run."""

    bandwidth: float
    freshness: float
    round_robin: float
    used: float
    level: float | None  # None where there is only time for what is overdue
    given_up: int
    limited_hosts: int
    lost_to_politeness: float
    hosts: Sequence[SlowHost]  # the costliest of those that are limited


@dataclass(frozen=True, slots=True)
class NextTenth:
    """Gain of a tenth more bandwidth."""

    bandwidth: float
    freshness: float
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastReport(JsonReport):
    """Freshness that the bandwidth set, a tenth more and others buy; without pages nothing is expected."""

    bandwidth: float
    pages: int
    sampled_pages: int
    page_share: float
    freshness_now: float | None
    headline: str
    expected: ForecastPoint | None = None
    next_tenth: NextTenth | None = None
    points: Sequence[ForecastPoint] = ()


@dataclass(frozen=True, slots=True)
class DaemonState:
    """State of the daemon: running, not_running or not_answering."""

    state: str = "running"
    pid: int | None = None


TURNED_AWAY_SENTENCES = {
    "bot_wall": (
        "keeps bots out with a challenge",
        "sign requests and tell the site who you are (docs/identity.md), or take its pages off the list",
    ),
    "payment_required": ("asks to be paid (402)", "agree with its owner, or take its pages off the list"),
    "login_required": ("asks for a login", "give or renew its `credentials` and `crawld reload` (docs/credentials.md)"),
    "forbidden": ("forbids its pages (403)", "ask its owner to let your user agent in, or take its pages off the list"),
    "geo_blocked": (
        "refuses its pages here for legal reasons (451)",
        "take them off the list, or crawl where it may be",
    ),
}
"""By trouble, what a site does that turns us away, and what to do about it."""


@dataclass(frozen=True, slots=True)
class TroubleReport:
    """Something that is wrong: a word for programs, a sentence for people."""

    kind: str
    sentence: str

    @property
    def severe(self) -> bool:
        """Tells whether crawling has stopped or something is lost."""
        return self.kind in {
            "not_running", "not_answering", "store", "lost", "internal_errors", "no_crawls", "no_worker", "no_round"
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(JsonReport):
    """Summary of a crawl from the database and, where it answers, the daemon: what `crawld stats` shows."""

    trouble: Sequence[TroubleReport] = ()
    pages: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    crawls: int = 0
    changes: int = 0
    failures: int = 0
    last_crawl_at: float | None = None
    hosts: int = 0
    freshness: float | None = None
    latest: HistoryPoint | None = None
    database_bytes: int = 0
    free_bytes: int | None = None
    hosts_in_trouble: HostsInTrouble = field(default_factory=HostsInTrouble)
    turned_away: Mapping[str, SitesTurningAway] = field(default_factory=dict)
    overdue: OverduePages = field(default_factory=OverduePages)
    audits: AuditFigures = field(default_factory=AuditFigures)
    followed_sites: Sequence[FollowedLine] = ()
    daemon: Status | None = None
    daemon_state: DaemonState = DaemonState()
    max_interval_seconds: float = 0.0


def troubles(summary: Summary, now: float) -> list[TroubleReport]:
    """Everything that is wrong, from what the database and, where it answers, the daemon say."""
    return [
        *_daemon(summary, now), *_hosts(summary, now), *_turned_away(summary), *_pages(summary, now), *_slots(summary),
        *_hooks(summary, now),
    ]  # fmt: skip


def _daemon(summary: Summary, now: float) -> Iterator[TroubleReport]:
    daemon, state = summary.daemon, summary.daemon_state
    if state.state == "not_running":
        yield TroubleReport("not_running", f"crawld is not running; {_last_crawl(summary, now)}")
    elif state.state == "not_answering":
        process = "" if state.pid is None else f" (pid {state.pid})"
        text = f"the daemon does not answer{process}; figures are from the database"
        yield TroubleReport("not_answering", f"{text}; {_last_crawl(summary, now)}")
    if daemon is None:
        return
    for kind, sentence in daemon.fleet_troubles or ():
        yield TroubleReport(kind, sentence)
    store = daemon.store
    if not store.healthy:
        since = "" if store.since is None else f" since {format_moment(store.since, now)}"
        why = store.trouble or "its queue is full"
        waiting = f"{_many(store.backlog, 'record waits', 'records wait')} in memory"
        yield TroubleReport("store", f"the store cannot write{since}: {why}; {waiting} and no page is crawled")
    if store.lost:
        yield TroubleReport(
            "lost", f"{_many(store.lost, 'record was', 'records were')} lost: the database refused them, see the log"
        )
    if daemon.faults:
        yield TroubleReport(
            "internal_errors", f"{_many(daemon.faults, 'crawl')} ended in an internal error; see the log"
        )
    if daemon.listener is not None and daemon.listener.trouble:
        yield TroubleReport("no_listener", daemon.listener.trouble)
    if daemon.list_held_back:
        yield TroubleReport("list_held_back", daemon.list_held_back)
    if daemon.reload_refused:
        yield TroubleReport("reload_refused", daemon.reload_refused)
    if daemon.paused:
        yield TroubleReport("paused", "crawld is paused; `crawld resume` resumes crawling")
    elif daemon.bandwidth == 0:
        yield TroubleReport("no_bandwidth", "the bandwidth is 0: nothing is crawled")
    elif summary.pages and _long_ago(summary, daemon, now):
        late = "" if summary.last_crawl_at is None else "no page was crawled of late; "
        yield TroubleReport("no_crawls", f"{late}{_last_crawl(summary, now)}")


def _last_crawl(summary: Summary, now: float) -> str:
    at = summary.last_crawl_at
    return "no page has been crawled yet" if at is None else f"the last crawl was {format_moment(at, now)}"


def _long_ago(summary: Summary, daemon: Status, now: float) -> bool:
    at, patience = (
        summary.last_crawl_at,
        max(LIMITS.long_ago, 20 / daemon.bandwidth, 2 * daemon.min_interval_seconds),
    )
    return bool(daemon.uptime_seconds > patience and (at is None or now - at > patience))


def _hosts(summary: Summary, now: float) -> Iterator[TroubleReport]:
    hosts = summary.hosts_in_trouble if summary.daemon is None else summary.daemon.hosts
    for kind, what, found in (
        ("host_backoff", "in back-off", hosts.backoff),
        ("host_asked_to_wait", "asked us to wait (Retry-After)", hosts.asked_to_wait),
        ("host_blocked", "blocked by the operator", hosts.blocked),
    ):
        if found.count:
            worst = found.worst[0]
            until = "" if found is hosts.blocked else f", until {format_moment(worst.until, now)}"
            named = _named(worst.host, f"{_many(worst.pages, 'page')}{until}", found.count)
            yield TroubleReport(kind, f"{_many(found.count, 'host')} {what}: {named}")
    robots = RobotsUnavailable() if summary.daemon is None else summary.daemon.robots_unavailable
    if robots.count:
        failure = robots.worst[0]
        until = format_moment(failure.until, now) if failure.until > now else "as soon as its host may be asked"
        named = _named(failure.origin, f"{failure.reason}, tried again {until}", robots.count)
        yield TroubleReport("robots_unavailable", f"robots.txt of {_many(robots.count, 'site')} unavailable: {named}")


def _turned_away(summary: Summary) -> Iterator[TroubleReport]:
    """One sentence for each origin that turns us away, with what to do about it."""
    told = summary.turned_away if summary.daemon is None else summary.daemon.turned_away
    for kind, found in told.items():
        says, advice = TURNED_AWAY_SENTENCES.get(kind, ("turns us away", "`crawld stats --pages` names the pages"))
        for worst in found.worst:
            yield TroubleReport(kind, f"{worst.origin} {says} ({_many(worst.pages, 'page')}): {advice}")
        if (more := found.count - len(found.worst)) > 0:
            yield TroubleReport(kind, f"{_many(more, 'more site')} {'does' if more == 1 else 'do'} the same ({kind})")


def _named(worst: str, facts: str, count: int) -> str:
    return f"{worst} ({facts})" + (f" and {count - 1} more" if count > 1 else "")


def _pages(summary: Summary, now: float) -> Iterator[TroubleReport]:
    overdue = summary.overdue
    if overdue.oldest_crawl_at is not None:
        pages, longest = _many(overdue.count, "page"), format_duration(summary.max_interval_seconds)
        oldest = format_moment(overdue.oldest_crawl_at, now)
        yield TroubleReport("overdue", f"{pages} overdue beyond max_interval {longest}; the oldest copy is of {oldest}")
    if failing := summary.states.get("failing"):
        yield TroubleReport("failing", f"{_many(failing, 'page')} failing: `crawld stats --pages` names them")


def _slots(summary: Summary) -> Iterator[TroubleReport]:
    daemon = summary.daemon
    if daemon is None or daemon.slots.slots < LIMITS.min_slots:
        return
    slots = daemon.slots
    many_idle = slots.idle >= LIMITS.idle_share * slots.slots
    # Slots that are idle for these reasons are not needed: every page is as fresh as the settings allow.
    if many_idle and Why(next(iter(slots.idle_because))) not in {Why.MIN_INTERVAL, Why.NOT_WORTH_IT}:
        yield TroubleReport("idle_slots", idle(daemon))
    lasting = slots.skipped_spans >= LIMITS.min_skipped_spans
    if slots.skipped > LIMITS.skipped_share * slots.slots and lasting:
        text = f"{_many(slots.skipped, 'slot')} skipped in the last {format_duration(slots.seconds)}"
        yield TroubleReport("skipped_slots", f"{text}: the machine is too busy for {format_rate(daemon.bandwidth)}")


def _hooks(summary: Summary, now: float) -> Iterator[TroubleReport]:
    for hook in () if summary.daemon is None else summary.daemon.hooks:
        if hook.trouble_since is not None and now - hook.trouble_since > LIMITS.hook_seconds:
            waiting = f"{_many(hook.waiting, 'change waits', 'changes wait')}, `crawld hooks` shows them"
            since = format_moment(hook.trouble_since, now)
            yield TroubleReport("hook_failing", f"hook {hook.name} fails since {since}: {hook.trouble}; {waiting}")


def idle(daemon: Status) -> str:
    """The share of slots that were idle of late, and why: the most frequent reason, and what sets the limit."""
    slots = daemon.slots
    if not slots.slots:
        return "none in the last minutes"
    idle_share = f"{slots.idle / slots.slots:.0%} of slots idle in the last {format_duration(slots.seconds)}"
    if not slots.idle:
        return idle_share
    why = Why(next(iter(slots.idle_because)))
    limits = why in {Why.HOST_BUSY, Why.MIN_INTERVAL, Why.ROBOTS_UNKNOWN, Why.CRAWLING}
    return f"{idle_share}: {slots.bottleneck if limits and slots.bottleneck else IDLE[why]}"


def uses_in_words(usage: Mapping[str, Any]) -> str:
    """Returns what a page may be used for, as its site says."""
    uses = [f"{use}: {usage[use] or 'open'}" for use in ("search", "ai-input", "ai-train")]
    return ", ".join([*uses, *(name for name in ("noarchive", "nosnippet") if usage[name])])


def linkers_in_words(linked: Linked) -> str:
    """Returns which pages link to a page: some by name, and how many others."""
    others = linked.count - len(linked.sources)
    return ", ".join([*linked.sources, *([f"{others} others"] if others > 0 else [])]) or "no page"


NOTHING = "–"


def share(value: float | None) -> str:
    """`87 %`; near the ends with a decimal: all and nothing are said only where they are meant."""
    if value is None:
        return NOTHING
    inner = 0.01 <= value < 0.99 or value in {0, 1}
    return f"{100 * value:.0f} %" if inner else f"{min(max(100 * value, 0.1), 99.9):.1f} %"


def count(value: int | None) -> str:
    """`1,000,000`."""
    return NOTHING if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """`2/s`."""
    return NOTHING if value is None else format_rate(float(f"{value:.3g}"))


def duration(value: float | None) -> str:
    """`3.2 h`, `37 min`: two digits are enough to read in passing."""
    if value is None or not math.isfinite(value):
        return NOTHING if value is None else "never"
    unit, length = unit_of(value)
    number = value / length
    return f"{number:.0f} {unit}" if number >= 9.95 else f"{number:.2g} {unit}"


def age(at: float | None, now: float) -> str:
    """`3 min ago`, or `in 3 min` for a moment to come."""
    if at is None or not math.isfinite(at):
        return NOTHING if at is None else "never"
    if abs(now - at) < 1:
        return "now"
    return f"{duration(now - at)} ago" if at <= now else f"in {duration(at - now)}"


def date(at: float | None) -> str:
    """`2026-11-17 02:40 UTC`."""
    return NOTHING if at is None else f"{format_date(at)} UTC"


def iso(at: float) -> str:
    """The time as programs read it; a time that no calendar has is the end of the last year that one has."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return "9999-12-31T23:59:59+00:00"


def figure(value: float | None) -> str:
    """Three digits that matter; very small ones with an exponent."""
    if value is None:
        return NOTHING
    return format_number(value) if value == 0 or abs(value) >= 1e-3 else f"{value:.2e}"


def size(value: int) -> str:
    """`12.3 kB`."""
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= bytes_of:
            return f"{value / bytes_of:.3g} {unit}"
    return f"{value} B"


def stamp(at: float) -> str:
    """`2026-11-17 02:40:12`: apart even where several are of one minute."""
    return iso(at).replace("T", " ").removesuffix("+00:00")
