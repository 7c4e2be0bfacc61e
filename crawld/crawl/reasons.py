"""Why a page is not crawled just now, from what the daemon holds in memory."""

import math

from crawld.choose.host_gate import HostGate, NotReady
from crawld.crawl.admission import Admission
from crawld.fetch.robots_cache import Allowed, Disallowed, NeedsFetch
from crawld.model.page import Page, PageState
from crawld.model.units import format_duration, in_a_row
from crawld.model.why import Reason, Why
from crawld.pages.page_set import PageSet
from crawld.store.store import SqlStore

Verdict = Allowed | Disallowed | NeedsFetch
TURN_SKEW = 5.0
"""Seconds between a turn and the end of a page's wait within which the page waits for its turn."""


class Reasons:
    """Looks at the parts that can keep a page from being crawled; each gives at most one reason."""

    def __init__(self, page_set: PageSet, admission: Admission) -> None:
        self._scheduler, self._pages, self._store = page_set.scheduler, page_set.in_memory, page_set.store
        self._admission, self._gate, self._robots = admission, admission.gate, admission.robots

    def of(self, page: Page, now: float) -> list[Reason]:
        """Everything that keeps the page from being crawled now, but for its crawl value; in the table's order."""
        if self._scheduler.held(page.id):
            return [Reason(Why.CRAWLING)]
        verdict = self._robots.verdict(page.url, now)
        found = (
            store_reason(self._store, now),
            self._host_reason(self._gate.host(page.host), now),
            self._robots_reason(page, verdict, now),
            self._page_reason(page, verdict, now),
        )
        return [reason for reason in found if reason is not None]

    def _host_reason(self, host: int, now: float) -> Reason | None:
        """Returns what keeps the page's host from being asked, or that it waits because it is not known to answer."""
        if self._admission.is_set_aside(host) and self._gate.earliest[host] <= now:
            return Reason(Why.HOST_UNPROVEN, now)
        return host_reason(self._gate, host, now)

    def _robots_reason(self, page: Page, verdict: Verdict, now: float) -> Reason | None:
        if isinstance(verdict, Disallowed):
            if verdict.by_rule:
                return Reason(Why.DISALLOWED, verdict.until)
            cause = verdict.reason.partition(": ")[2]
            return Reason(Why.ROBOTS_UNAVAILABLE, verdict.until, f" ({cause})" if cause else "")
        if isinstance(verdict, NeedsFetch):
            # It is fetched as soon as its host may be asked.
            until = max(now, float(self._gate.earliest[self._gate.host(page.host)]))
            forbade = self._pages.state(page.id) is PageState.DISALLOWED  # when it was read last
            return Reason(Why.DISALLOWED if forbade else Why.ROBOTS_UNKNOWN, until)
        return None

    def _page_reason(self, page: Page, verdict: Verdict, now: float) -> Reason | None:
        """Returns what the page itself waits for: its own failures, being gone, or its least interval."""
        until = self._scheduler.waits_until(page.id)
        if until <= now or isinstance(verdict, Disallowed):  # a forbidden page waits for robots.txt alone
            return None
        if math.isinf(until):
            return Reason(Why.FIRST_VISIT)
        state, failures = self._pages.state(page.id), self._pages.failures(page.id)
        if (turn := self._admission.turn_of(page.url)) is not None and abs(turn.at - until) < TURN_SKEW:
            return Reason(Why.TARGET_NOT_READY, until, f", {turn.target},")
        if state is PageState.GONE:
            return Reason(Why.GONE, until)
        if state is PageState.ALIAS:
            of = self._pages.get(self._scheduler.alias_of(page.id) or 0)
            return Reason(Why.ALIAS, until, "" if of is None else f", {of.url}")
        why = self._gate.not_ready(self._gate.host(page.host), now)
        if failures < 2 and why in {NotReady.ASKED_TO_WAIT, NotReady.BACKING_OFF}:
            return None  # it waits with its host
        if state is PageState.FAILING and failures:
            return Reason(Why.FAILING, until, f" {in_a_row(failures)}")
        shortest = self._scheduler.chooser.pages.intervals.shortest
        last = self._scheduler.last_success(page.id)
        if (not math.isnan(last) and until <= last + shortest + 1.0) or until <= now + shortest:
            return Reason(Why.MIN_INTERVAL, until, f" ({format_duration(shortest)})")
        # Only robots.txt makes a page wait longer that neither failed nor was crawled; it allows the page by now.
        if state is PageState.DISALLOWED:
            return Reason(Why.DISALLOWED, until)
        return Reason(Why.ROBOTS_UNAVAILABLE, until)


def store_reason(store: SqlStore, now: float) -> Reason | None:
    """That nothing is crawled while it could not be recorded."""
    if store.healthy:
        return None
    since = "" if store.trouble_since is None else f" for {format_duration(round(now - store.trouble_since, 1))}"
    return Reason(Why.STORE_UNWELL, None, f"{since}: {store.trouble or 'its queue is full'}")


def host_reason(gate: HostGate, host: int, now: float) -> Reason | None:
    """What keeps a host from being asked: the operator, its own wish, its failures, or requests to it just now."""
    reason, state = gate.not_ready(host, now), gate.export(host)
    if reason is None:
        return None
    if reason is NotReady.BLOCKED:
        return Reason(Why.HOST_BLOCKED)
    if reason is NotReady.ASKED_TO_WAIT:
        return Reason(Why.HOST_ASKED_TO_WAIT, state.blocked_until)  # a back-off may last longer
    if reason is NotReady.BACKING_OFF:
        return Reason(Why.HOST_BACKOFF, state.blocked_until, f" after {failures(state.failures)}")
    if reason is NotReady.BUSY:
        text = f": {gate.in_flight[host]} in flight, as many as politeness.per_host allows"
        return Reason(Why.HOST_BUSY, now, text)
    text = f": it was asked a moment ago, and {delay_of(gate, host)} is between requests"
    return Reason(Why.HOST_BUSY, float(gate.earliest[host]), text)


def delay_of(gate: HostGate, host: int) -> str:
    """The spacing of a host with who set it: `politeness.delay 1s`."""
    state, seconds = gate.export(host), float(gate.delay[host])
    by = "politeness.delay"
    if state.delay is not None:
        by = "the operator's delay"
    elif state.crawl_delay is not None and seconds > gate.spacing:
        by = "Crawl-delay"
    return f"{by} {format_duration(seconds).replace(' ', '')}"


def failures(count: int) -> str:
    """`1 failure`, `3 failures in a row`."""
    return "1 failure" if count == 1 else f"{count} failures in a row"
