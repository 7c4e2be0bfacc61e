"""Reasons why a page is not crawled at this moment: every state by name, in one table.

`Why` is the word for programs, `Reason` adds what belongs to it and makes the sentence for people. The table is in
order of weight: what holds for everything first, then what somebody decided, then what ends by itself.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from crawld.model.page import PageState
from crawld.model.units import format_moment


class Why(StrEnum):
    """Every reason, the most decisive first."""

    RETIRED = "retired"
    NOT_RUNNING = "not_running"
    NOT_ANSWERING = "not_answering"
    NOT_LOADED = "not_loaded"
    CRAWLING = "crawling"
    PAUSED = "paused"
    NO_BANDWIDTH = "no_bandwidth"
    STORE_UNWELL = "store_unwell"
    HOST_BLOCKED = "host_blocked"
    DISALLOWED = "disallowed"
    ROBOTS_UNAVAILABLE = "robots_unavailable"
    GONE = "gone"
    ALIAS = "alias"
    HOST_ASKED_TO_WAIT = "host_asked_to_wait"
    HOST_BACKOFF = "host_backoff"
    TARGET_NOT_READY = "target_not_ready"
    FAILING = "failing"
    FIRST_VISIT = "first_visit"
    MIN_INTERVAL = "min_interval"
    ROBOTS_UNKNOWN = "robots_unknown"
    HOST_BUSY = "host_busy"
    HOST_UNPROVEN = "host_unproven"
    TOO_MANY_IN_FLIGHT = "too_many_in_flight"
    NOT_WORTH_IT = "not_worth_it"
    NEXT = "next"
    NO_PAGES = "no_pages"  # of slots alone


SENTENCES = {
    Why.RETIRED: "it was taken off the list{detail}",
    Why.NOT_RUNNING: "crawld is not running",
    Why.NOT_ANSWERING: "crawld does not answer{detail}",
    Why.NOT_LOADED: "the running crawld has not loaded it{detail}: it is still reading its pages",
    Why.CRAWLING: "it is being crawled at this moment",
    Why.PAUSED: "crawld is paused",
    Why.NO_BANDWIDTH: "the bandwidth is 0",
    Why.STORE_UNWELL: "the store cannot write{detail}; no page is crawled until it can",
    Why.HOST_BLOCKED: "its host is blocked by the operator",
    Why.DISALLOWED: "robots.txt forbids it; crawld looks at robots.txt again {when}",
    Why.ROBOTS_UNAVAILABLE: "robots.txt is unavailable{detail}, which forbids the whole site; it is tried again {when}",
    Why.GONE: "the page is gone (404 or 410){detail}; it is asked again {when}",
    Why.ALIAS: "it is another address of a page that is kept{detail}; it is asked again {when} whether it still is",
    Why.HOST_ASKED_TO_WAIT: "its host asked us to wait (Retry-After){detail}; it may be asked again {when}",
    Why.HOST_BACKOFF: "its host is in back-off{detail}; it may be asked again {when}",
    Why.TARGET_NOT_READY: "it redirects to a host{detail} that could not be asked; it has a turn there {when}",
    Why.FAILING: "the page itself failed{detail}; it is tried again {when}",
    Why.FIRST_VISIT: "links led to it, and it waits for its first visit within the share of its site (discover)",
    Why.MIN_INTERVAL: "min_interval{detail} is not over; it may be crawled again {when}",
    Why.ROBOTS_UNKNOWN: "robots.txt of its site is not known yet and is fetched first",
    Why.HOST_BUSY: "its host is busy{detail}",
    Why.HOST_UNPROVEN: "its host is not known to answer; such hosts share few requests while other pages want them",
    Why.TOO_MANY_IN_FLIGHT: "too many requests are in flight",
    Why.NOT_WORTH_IT: "it is not yet worth it{detail}; it is expected {when}",
    Why.NEXT: "it is about to be crawled: its turn comes with one of the next slots",
    Why.NO_PAGES: "there are no pages",
}
IDLE = {
    Why.NO_PAGES: "there are no pages",
    Why.CRAWLING: "every page is being crawled",
    Why.STORE_UNWELL: "the store cannot write",
    Why.HOST_BLOCKED: "the hosts are blocked by the operator",
    Why.DISALLOWED: "robots.txt forbids the pages",
    Why.ROBOTS_UNAVAILABLE: "robots.txt is unavailable",
    Why.GONE: "the pages are gone",
    Why.ALIAS: "the pages are other addresses of pages that are kept",
    Why.HOST_ASKED_TO_WAIT: "the hosts asked us to wait (Retry-After)",
    Why.HOST_BACKOFF: "the hosts are in back-off",
    Why.TARGET_NOT_READY: "the hosts that the pages redirect to cannot be asked",
    Why.FAILING: "the pages fail",
    Why.FIRST_VISIT: "the pages wait for their first visits",
    Why.MIN_INTERVAL: "every page was crawled within min_interval",
    Why.ROBOTS_UNKNOWN: "robots.txt is being fetched",
    Why.HOST_BUSY: "the hosts are busy",
    Why.HOST_UNPROVEN: "the hosts are not known to answer",
    Why.TOO_MANY_IN_FLIGHT: "too many requests are in flight",
    Why.NOT_WORTH_IT: "no page is worth a crawl yet",
}
"""Why slots are idle, in words."""
PASSING = frozenset(
    {
        Why.ROBOTS_UNAVAILABLE, Why.GONE, Why.ALIAS, Why.HOST_ASKED_TO_WAIT, Why.HOST_BACKOFF,
        Why.TARGET_NOT_READY, Why.FAILING, Why.MIN_INTERVAL, Why.ROBOTS_UNKNOWN, Why.HOST_BUSY, Why.HOST_UNPROVEN,
        Why.TOO_MANY_IN_FLIGHT,
    }
)  # fmt: skip
"""Reasons that end by themselves: where several hold, the one that ends last decides."""
LASTING = frozenset({Why.PAUSED, Why.NO_BANDWIDTH, Why.STORE_UNWELL, Why.HOST_BLOCKED, Why.DISALLOWED, Why.FIRST_VISIT})
"""Reasons without a known end: no crawl is expected while one of them holds."""
_ORDER = {why: at for at, why in enumerate(Why)}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason; `until` is when it ends (UTC seconds), `detail` continues the sentence where something is to add."""

    why: Why
    until: float | None = None
    detail: str = ""

    def sentence(self, now: float) -> str:
        """The reason as a person reads it."""
        when = "later" if self.until is None else format_moment(self.until, now)
        return SENTENCES[self.why].format(detail=self.detail, when=when)

    def told(self, now: float) -> "ToldReason":
        """Returns the reason in words."""
        until = self.until if self.until is not None and math.isfinite(self.until) else None
        return ToldReason(self.why, self.sentence(now), until)


@dataclass(frozen=True, slots=True)
class ToldReason:
    """A reason as it is told: a word for programs, a sentence for people, and when it ends."""

    reason: Why
    sentence: str
    until: float | None


BY_STATE = {
    PageState.DISALLOWED: Why.DISALLOWED,
    PageState.GONE: Why.GONE,
    PageState.ALIAS: Why.ALIAS,
    PageState.FAILING: Why.FAILING,
}


def stored_reasons(
    state: PageState, now: float, *, blocked: bool, asked_until: float, blocked_until: float
) -> Iterator[Reason]:
    """Reasons that the rows of the page and its host give."""
    if blocked:
        yield Reason(Why.HOST_BLOCKED)
    elif asked_until > now:
        yield Reason(Why.HOST_ASKED_TO_WAIT, blocked_until)
    elif blocked_until > now:
        yield Reason(Why.HOST_BACKOFF, blocked_until)
    if state in BY_STATE:
        yield Reason(BY_STATE[state])


def most_decisive_first(reasons: Iterable[Reason]) -> list[Reason]:
    """In the order of the table, but of those that end by themselves the one that ends last comes first."""
    return sorted(reasons, key=_rank)


def _rank(reason: Reason) -> tuple[int, float, int]:
    order = _ORDER[reason.why]
    if reason.why in PASSING:
        return _ORDER[Why.ROBOTS_UNAVAILABLE], -(reason.until or 0.0), order
    return order, 0.0, order
