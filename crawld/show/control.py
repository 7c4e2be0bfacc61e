"""Steering while running: each change takes effect from the next slot and is kept over a restart."""

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crawld.choose.host_gate import HostGate
from crawld.choose.scheduler import Scheduler
from crawld.crawl.asked_pages import Answer, ReadClaim
from crawld.crawl.loop import Crawler
from crawld.crawl.slot_log import bottleneck
from crawld.model.errors import InputError
from crawld.model.host import (
    MAX_NAMED,
    HostsInTrouble,
    HostState,
    RobotsFailure,
    sum_up_troubled,
    sum_up_turned_away,
)
from crawld.model.metrics import HookStanding, MeasuredFreshness
from crawld.model.page import BY_HAND, Mark, Page, PageState, Wanted
from crawld.model.signal import SOURCES
from crawld.model.units import format_rate, parse_rate
from crawld.model.url import host_of, identity
from crawld.model.why import LASTING, Reason, Why, most_decisive_first
from crawld.pages.page_set import PageSet
from crawld.read.page.rules import DigestRules
from crawld.show.actions import BANDWIDTH, PAUSED, Control, Refreshed, Reload, Steered
from crawld.show.forecasts import Forecasts
from crawld.show.report import Explanation, ForecastReport, RobotsUnavailable, Status, StoreStatus
from crawld.store.pages import Adoption
from crawld.store.store import SqlStore

log = logging.getLogger("crawld")
OWN_WAITS = frozenset({Why.GONE, Why.FAILING, Why.MIN_INTERVAL})
"""Waits of a page that a request for it now skips."""


class Steering(Control):
    """The `Control` of a daemon."""

    def __init__(
        self,
        crawler: Crawler,
        page_set: PageSet,
        forecasts: Forecasts,
        rules: DigestRules,
        hooks: Callable[[], Sequence[HookStanding]],
        reload: Callable[[bool], Awaitable[Reload]],
    ) -> None:
        super().__init__(crawler.store, crawler.clock, rules)
        self._store: SqlStore = crawler.store
        self._crawler, self._scheduler, self._gate = crawler, crawler.scheduler, crawler.gate
        self._pages, self._page_set, self._forecasts = crawler.pages, page_set, forecasts
        self._rate = crawler.status.bandwidth
        self._paused = False
        self._hooks, self._reload = hooks, reload

    async def restore(self, configured: float, *, insist: bool) -> None:
        """Take over what was steered before a restart; with `insist` the configured bandwidth wins and is kept."""
        kept = None if insist else await self._store.setting(BANDWIDTH)
        self._rate = configured
        if kept is not None:
            try:
                self._rate = parse_rate(float(kept))
            except (InputError, ValueError):
                log.warning(
                    "the bandwidth kept from an earlier run cannot be used: the configured one holds instead",
                    extra={"kept": kept, "bandwidth": format_rate(configured)},
                )
                insist = True
        if insist:
            await self._store.change_setting(BANDWIDTH, None, now=self._clock.now())
        self._paused = await self._store.setting(PAUSED) == "yes"
        await self.restore_marks()
        self._apply()

    async def restore_marks(self) -> None:
        """Take over what operators have marked, as it is kept."""
        self._rules.change_marks(await super().marks())

    async def status(self) -> Status:
        """Returns what the daemon is doing now."""
        return self.status_now()

    def status_now(self) -> Status:
        """Returns the same without waiting."""
        status, now = self._crawler.status, self._clock.now()
        measured, chooser = self._crawler.audits.measured(), self._scheduler.chooser
        store, robots = self._store, self._crawler.admission.robots.unavailable(now)
        slots = self._crawler.slots.report(self._clock.monotonic())
        return Status(
            pages=self._scheduler.documents,
            bandwidth=self._rate,
            paused=self._paused,
            requests=status.requests,
            requests_by_purpose=status.by_purpose(),
            requests_by_outcome=status.by_outcome(),
            slots_served=status.slots - status.idle_slots,
            slots_by_use=_by_use(status.spent()),
            verdicts=dict(status.verdicts),
            troubles=dict(status.troubles),
            in_flight=status.in_flight,
            waiting=status.waiting,
            idle_slots=status.idle_slots,
            idle_because=dict(status.idle),
            skipped_slots=status.skipped_slots,
            bytes=status.bytes,
            uptime_seconds=now - status.started_at,
            predicted_freshness=self._forecasts.freshness.predicted(),
            measured_freshness=None if measured is None else MeasuredFreshness(*measured),
            level=chooser.level,
            active_pages=chooser.active,
            evaluations=chooser.pages.evaluations,
            picks=chooser.picks,
            faults=status.faults,
            starting=status.starting,
            reload_refused=status.reload_refused,
            list_held_back=status.list_held_back,
            pid=os.getpid(),
            min_interval_seconds=chooser.pages.intervals.shortest,
            max_interval_seconds=chooser.pages.intervals.longest,
            hooks=self._hooks(),
            store=StoreStatus(store.healthy, store.trouble, store.trouble_since, store.backlog, store.lost),
            hosts=self._hosts_in_trouble(now),
            robots_unavailable=RobotsUnavailable(len(robots), [self._tried_again(one) for one in robots[:MAX_NAMED]]),
            turned_away=sum_up_turned_away(self._pages.turned_away()),
            slots=replace(slots, bottleneck=bottleneck(self._scheduler, self._gate, self._pages, self._rate)),
        )

    def _hosts_in_trouble(self, now: float) -> HostsInTrouble:
        """Sums up the hosts with pages that are blocked by the operator, asked us to wait, or are in back-off."""
        waiting = map(self._gate.export, np.flatnonzero(self._gate.earliest[: self._gate.size] > now).tolist())
        return sum_up_troubled(((state, self._pages.on_host(state.name)) for state in waiting), now)

    async def forecast(self, rates: Sequence[float]) -> ForecastReport:
        """Returns what the bandwidth set and these rates buy in the long run, by what is believed of the pages now."""
        return await self._forecasts.report(self._rate, rates, self._crawler.explore_share.share)

    def healthy(self) -> bool:
        """Tells whether slots are served and the store takes what is recorded."""
        return self._crawler.serves_slots() and self._store.healthy

    def _tried_again(self, failure: RobotsFailure) -> RobotsFailure:
        """Returns the failure with the time of the next try, which is not before its host may be asked."""
        host = host_of(failure.origin)
        waits = self._gate.export(self._gate.host(host)).blocked_until if self._gate.knows(host) else 0.0
        return replace(failure, until=max(failure.until, waits))

    async def change_bandwidth(self, rate: float) -> None:
        """Let so many requests a second leave from the next slot on."""
        self._rate = rate
        self._apply()
        await super().change_bandwidth(rate)

    async def pause(self, *, paused: bool) -> None:
        """Pause, or go on."""
        self._paused = paused
        self._apply()
        await super().pause(paused=paused)

    def _apply(self) -> None:
        self._crawler.change_bandwidth(0.0 if self._paused else self._rate)

    async def steer_host(
        self, name: str, *, blocked: bool | None = None, delay: float | None = None, drop_delay: bool = False
    ) -> Steered:
        """Block or unblock a known host, give it a delay of its own or drop that."""
        if not self._gate.knows(name):
            raise InputError(f"{name}: no page is on this host")
        state = steer(self._gate, name, blocked=blocked, delay=delay, drop_delay=drop_delay)
        self._store.record_host(state)
        return Steered(state, float(self._gate.delay[self._gate.host(name)]), kept=await self._kept())

    async def _kept(self) -> bool:
        """Tells whether what was recorded is in the database; not so where that takes long or cannot be written now."""
        if not self._store.healthy:
            return False
        try:
            async with asyncio.timeout(5.0):
                await self._store.flush()
        except TimeoutError:
            return False
        return True

    async def add_pages(self, wanted: Sequence[Wanted], *, origin: str = BY_HAND) -> Adoption:
        """Take further pages in beside the list."""
        return await self._page_set.adopt(wanted, origin=origin, now=self._clock.now(), complete=False)

    async def remove_pages(self, urls: Sequence[str], *, keep_out: bool = False) -> Sequence[str]:
        """Retire pages, whatever listed them."""
        return await self._page_set.retire(urls, now=self._clock.now(), keep_out=keep_out)

    async def refresh(self, urls: Sequence[str], *, wait: float = 0.0) -> Sequence[Refreshed]:
        """Ask for pages before all others; what became of them after so many seconds at the most."""
        known = {identity(one.url): one.id for one in await self._store.listed(urls)}
        answers = {url: self.ask_now(known.get(identity(url), -1)) for url in urls}
        asked = [answer for answer in answers.values() if answer is not None]
        if asked and wait > 0:
            await asyncio.wait(asked, timeout=wait)
            await self._kept()  # the next read sees what came
        return [self._refreshed(url, known.get(identity(url), -1), answer) for url, answer in answers.items()]

    def ask_now(self, page_id: int, claim: ReadClaim = ReadClaim.ORDER) -> "asyncio.Future[Answer] | None":
        """Have a page crawled before all others; what that brings, or None where it is not here."""
        page = self._pages.get(page_id)
        if page is None:
            return None
        asked = self._crawler.asked.ask(page, self._clock.now(), under_way=self._scheduler.held(page_id), claim=claim)
        self._crawler.wake()
        return asked

    def _refreshed(self, url: str, page_id: int, answer: "asyncio.Future[Answer] | None") -> Refreshed:
        if answer is None:
            return Refreshed(url, "unknown", "it is not on the list: `crawld urls add URL` adds it")
        if not answer.done():
            reasons = self._reasons(self._pages[page_id], self._clock.now())
            return Refreshed(url, "waiting", reasons[0].sentence(self._clock.now()))
        if isinstance(found := answer.result(), str):
            return Refreshed(url, "refused", found)
        trouble = f" ({found.trouble})" if found.trouble else ""
        sentence = f"{found.verdict.value}{trouble}"
        return Refreshed(url, "crawled", sentence, found.verdict.value, found.at, found.status, found.trouble)

    async def marks(self) -> Sequence[Mark]:
        """The parts of pages that operators have marked as not to be compared."""
        return self._rules.marks

    async def change_marks(self, marks: Sequence[Mark]) -> None:
        """Compare pages without these parts, from the next crawl on."""
        self._rules.change_marks(marks)
        await super().change_marks(marks)

    async def explain(self, page_id: int) -> Explanation | None:
        """Returns what is held in memory of a page and why it is not crawled just now; None if it is not here."""
        return self.explain_now(page_id)

    def explain_now(self, page_id: int) -> Explanation | None:
        """Returns the same without waiting."""
        page, standing = self._pages.get(page_id), self._scheduler.standing(page_id)
        if page is None or standing is None:
            return None
        now, host = self._clock.now(), self._gate.host(page.host)
        held = HeldPage(page, self._pages.state(page_id), float(self._gate.ready_at[host]))
        found = explain_page(self._scheduler, held, self._reasons(page, now), float(self._gate.earliest[host]), now)
        return replace(found, significance=standing.significance)

    def _reasons(self, page: Page, now: float) -> list[Reason]:
        """Every reason why the page is not crawled now, the most decisive first; there is always one."""
        found = self._crawler.reasons.of(page, now)
        asked = page.id in self._crawler.asked
        if asked:  # neither its own waits nor its value keep it back
            found = [reason for reason in found if reason.why not in OWN_WAITS]
        if self._paused:
            found.append(Reason(Why.PAUSED))
        elif self._rate == 0:
            found.append(Reason(Why.NO_BANDWIDTH))
        if asked and not found:
            return [Reason(Why.NEXT)]
        if not any(reason.why is not Why.ROBOTS_UNKNOWN for reason in found):
            worth = worth_reason(self._scheduler, page.id, self._rate, now)
            found = [worth] if worth.why is Why.NOT_WORTH_IT else found or [worth]
        return most_decisive_first(found)

    async def reload(self, *, retire: bool = False) -> Reload:
        """Read the settings and the URL list again."""
        return await self._reload(retire)


@dataclass(frozen=True, slots=True)
class HeldPage:
    """A page to explain, with its state and when its host may be asked."""

    page: Page
    state: PageState
    host_ready_at: float


def explain_page(
    scheduler: Scheduler, held: HeldPage, reasons: Sequence[Reason], earliest: float, now: float
) -> Explanation:
    """Puts an explanation together: of a page in memory, or of one that was read from the database."""
    page_id, standing = held.page.id, scheduler.standing(held.page.id)
    if standing is None:
        raise KeyError(page_id)
    seen = not math.isnan(standing.last)
    expected = _expected_at(scheduler, page_id, reasons, earliest, now)
    return Explanation(
        url=held.page.url,
        host=held.page.host,
        state=held.state,
        importance=standing.importance,
        last_crawl_at=standing.last if seen else None,
        signals_since=dict(zip(SOURCES, standing.signals, strict=True)),
        freshness=scheduler.freshness_of(page_id, now),
        value=scheduler.value_of(page_id, now) if seen else None,
        level=scheduler.chooser.level,
        host_ready_in_seconds=_finite(max(0.0, held.host_ready_at - now)),
        expected_in_seconds=None if expected is None else expected - now,
        reason=reasons[0].why,
        why_not_now=reasons[0].sentence(now),
        reasons=[reason.told(now) for reason in reasons],
    )


def worth_reason(scheduler: Scheduler, page_id: int, rate: float, now: float) -> Reason:
    """Tells whether the page's turn has come, where nothing but its crawl value decides."""
    value, level = scheduler.value_of(page_id, now), scheduler.chooser.level
    if value >= level:
        return Reason(Why.NEXT)
    text = f": its crawl value {value:.3g} is below the level {level:.3g} picked at {format_rate(rate)}"
    return Reason(Why.NOT_WORTH_IT, scheduler.expected_at(page_id, now), text)


def _expected_at(
    scheduler: Scheduler, page_id: int, reasons: Sequence[Reason], earliest: float, now: float
) -> float | None:
    """Returns when the page is crawled if the level stays and no signal comes; None while that is not known."""
    if any(reason.why in LASTING or reason.why is Why.NOT_RUNNING for reason in reasons):
        return None
    if scheduler.held(page_id):
        return now
    waits = (reason.until for reason in reasons if reason.until is not None)
    return _finite(max(scheduler.expected_at(page_id, now), earliest, *waits, now))


def steer(
    gate: HostGate, name: str, *, blocked: bool | None = None, delay: float | None = None, drop_delay: bool = False
) -> HostState:
    """Change what the operator said of a host; what is to be remembered of it now."""
    host = gate.host(name)
    if delay is not None or drop_delay:
        gate.set_delay(host, None if drop_delay else delay)
    if blocked is not None:
        (gate.block if blocked else gate.unblock)(host)
    return gate.export(host)


def _by_use(spent: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Returns what became of the slots so far as JSON: counts by outcome, by use."""
    found: dict[str, dict[str, int]] = {}
    for (use, outcome), count in spent.items():
        found.setdefault(use, {})[outcome] = count
    return found


def _finite(seconds: float) -> float | None:
    """A time as JSON can say it: None for one that does not come by itself."""
    return seconds if math.isfinite(seconds) else None
