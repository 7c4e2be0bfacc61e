"""What became of the slots of the last minutes, and why those that were idle were idle.

Slots come faster than reasons change: they are counted one by one, and at most once a second the reason is looked
for, which is then taken for all idle slots since the last look.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crawld.choose.host_gate import HostGate
from crawld.choose.scheduler import Scheduler
from crawld.crawl.reasons import Reasons, delay_of
from crawld.model.metrics import RecentSlots
from crawld.model.page import Page
from crawld.model.units import format_duration, format_rate
from crawld.model.why import Why, most_decisive_first
from crawld.pages.pages import Pages


@dataclass(frozen=True)
class SlotLogLimits:
    """Numbers that bound and tune this module."""

    span_seconds: float = 10.0
    spans: int = 12
    look_seconds: float = 1.0
    many_hosts: int = 1000
    settling_seconds: float = 20.0
    """After a start or a change of rate, in which slots that are skipped do not show a machine that is too busy."""
    pages_asked: int = 20
    """Pages whose reason is looked for: the most frequent one speaks for all."""
    stall_seconds: float = 300.0
    """Seconds without a used slot after which the daemon is stuck: longer than any request or wait may take."""
    stall_looks: int = 20
    """Looks within that time that must each have found a page to ask: one might be by chance."""
    stall_look_seconds: float = 5.0


LIMITS = SlotLogLimits()


log = logging.getLogger("crawld.crawl")


@dataclass(slots=True)
class _Span:
    """The slots of a few seconds."""

    begin: float
    slots: int = 0
    skipped: int = 0
    idle: Counter[Why] = field(default_factory=Counter)


class SlotLog:
    """Counts slots as they are served; `look` finds out why none could be used."""

    def __init__(self, look: Callable[[float], Why]) -> None:
        self._look = look
        self._spans: deque[_Span] = deque(maxlen=LIMITS.spans)
        self._why = Why.NOT_WORTH_IT
        self._looked_at = -LIMITS.look_seconds
        self._skipped = 0
        self._began: float | None = None

    def restart(self) -> None:
        """Forget the slots so far: others come at another rate."""
        self._spans.clear()
        self._began = None

    def count(self, monotonic: float, slots: int, skipped: int) -> None:
        """Note slots that came and how many were skipped since the start."""
        span = self._span(monotonic)
        span.slots += slots
        if self._began is None:
            self._began = monotonic
        if monotonic - self._began >= LIMITS.settling_seconds:
            span.skipped += skipped - self._skipped
        self._skipped = skipped

    def idle(self, monotonic: float, now: float, why: Why | None = None, slots: int = 1) -> Why:
        """Note that slots of this moment were idle, with the reason where that is known; the reason they count as."""
        if why is None:
            if monotonic - self._looked_at >= LIMITS.look_seconds:
                self._why, self._looked_at = self._look(now), monotonic
            why = self._why
        self._span(monotonic).idle[why] += slots
        return why

    def report(self, monotonic: float) -> RecentSlots:
        """Sums up the slots of the last minutes."""
        spans = [span for span in self._spans if span.begin > monotonic - LIMITS.span_seconds * (LIMITS.spans + 1)]
        idle: Counter[Why] = Counter()
        for span in spans:
            idle.update(span.idle)
        return RecentSlots(
            monotonic - spans[0].begin if spans else 0.0,
            sum(span.slots for span in spans),
            sum(span.skipped for span in spans),
            sum(span.skipped > 0 for span in spans),
            idle.total(),
            {why.value: count for why, count in idle.most_common()},
        )

    def _span(self, monotonic: float) -> _Span:
        if not self._spans or monotonic >= self._spans[-1].begin + LIMITS.span_seconds:
            self._spans.append(_Span(monotonic))
        return self._spans[-1]


class StallWatch:
    """Notices a daemon that uses no slot although there is a page to ask: an error that a restart may end."""

    def __init__(self, page_to_ask: Callable[[float], Page | None]) -> None:
        self._page_to_ask = page_to_ask
        self._since: float | None = None  # the first of the looks in a row that found a page
        self._looks = 0
        self._looked_at = -LIMITS.stall_look_seconds
        self.stuck = False

    def used(self, monotonic: float) -> None:
        """A slot was used, or pages were passed over as they must be."""
        self._looked_at = monotonic
        if self._looks:
            self._clear()

    def idle(self, monotonic: float, now: float, in_flight: int) -> None:
        """A slot was idle."""
        if monotonic - self._looked_at < LIMITS.stall_look_seconds:
            return
        self._looked_at = monotonic
        page = self._page_to_ask(now)
        if page is None:
            self._clear()
            return
        self._looks += 1
        self._since = monotonic if self._since is None else self._since
        seconds = monotonic - self._since
        if not self.stuck and seconds >= LIMITS.stall_seconds and self._looks >= LIMITS.stall_looks:
            self.stuck = True
            log.error(
                "no slot is used although pages are due and their hosts may be asked; the watchdog is no longer fed",
                extra={"seconds": round(seconds), "in_flight": in_flight, "url": page.url},
            )

    def _clear(self) -> None:
        self._since, self._looks, self.stuck = None, 0, False


def why_idle(reasons: Reasons, scheduler: Scheduler, pages: Pages, now: float) -> Why:
    """The reason of most pages that could have had the slot."""
    found: Counter[Why] = Counter()
    for page_id in scheduler.some_waiting(now, LIMITS.pages_asked):
        page = pages.get(page_id)
        if page is not None:
            why = [reason.why for reason in most_decisive_first(reasons.of(page, now))]
            found[why[0] if why else Why.NOT_WORTH_IT] += 1
    if len(found) > 1:
        del found[Why.ALIAS]  # other addresses of pages wait whether slots are idle or not
    if not found:
        return Why.CRAWLING if len(scheduler) else Why.NO_PAGES
    return found.most_common(1)[0][0]


def page_to_ask(reasons: Reasons, scheduler: Scheduler, pages: Pages, now: float) -> Page | None:
    """A page that nothing keeps from being crawled now, of some that are looked at."""
    for page_id in scheduler.some_waiting(now, LIMITS.pages_asked):
        page = pages.get(page_id)
        if page is not None and not reasons.of(page, now) and scheduler.value_of(page_id, now) > 0:
            return page
    return None


def bottleneck(scheduler: Scheduler, gate: HostGate, pages: Pages, bandwidth: float) -> str | None:
    """What allows fewer requests than the bandwidth by itself: the hosts' delays, or min_interval; None if neither."""
    shortest = scheduler.chooser.pages.intervals.shortest
    return _by_delays(gate, pages.hosts(), bandwidth) or _by_interval(scheduler.documents, shortest, bandwidth)


def _by_delays(gate: HostGate, names: Sequence[str], bandwidth: float) -> str | None:
    longest = float(gate.delay[: gate.size].max(initial=0.0))
    if len(names) > LIMITS.many_hosts and len(names) >= 2 * longest * bandwidth:
        return None  # enough hosts, even if half of them were blocked: no need to look at each
    hosts = [gate.host(name) for name in names]
    free = [host for host in hosts if not gate.export(host).blocked]
    delays = [float(gate.delay[host]) for host in free]
    if not free or min(delays) <= 0:
        return None
    allowed = sum(1 / delay for delay in delays)
    if allowed >= bandwidth * 0.999:
        return None
    rates = f"{format_rate(allowed)} of {format_rate(bandwidth)}"
    many = "one host" if len(free) == 1 else f"{len(free)} hosts"
    if max(delays) == min(delays):
        return f"{many}, {delay_of(gate, free[0])} allows {rates}"
    return f"{many}, delays of {_compact(min(delays))} to {_compact(max(delays))} allow {rates}"


def _by_interval(pages: int, shortest: float, bandwidth: float) -> str | None:
    if shortest <= 0 or pages == 0 or pages / shortest >= bandwidth * 0.999:
        return None
    many = "one page" if pages == 1 else f"{pages} pages"
    allowed = format_rate(pages / shortest)
    return f"{many}, min_interval {_compact(shortest)} allows {allowed} of {format_rate(bandwidth)}"


def _compact(seconds: float) -> str:
    """A duration as the settings have it: `1s`."""
    return format_duration(seconds).replace(" ", "")
