"""Steering a whole fleet from any machine: each change is a row, which the workers read with their next beat."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from crawld.choose.host_gate import HostGate
from crawld.crawl.reads import Freshened
from crawld.fleet.status import merged_status
from crawld.fleet.store.fleet_store import SqlFleetStore
from crawld.fleet.store.making import Mail, MailKind
from crawld.fleet.view import FleetView
from crawld.model.crawl import AUDITS_KEPT
from crawld.model.errors import InputError
from crawld.model.host import HostState
from crawld.model.page import BY_HAND, Mark, Page, PageState, Wanted
from crawld.model.shards import shard_of_id
from crawld.model.url import identity
from crawld.model.web import Clock
from crawld.model.why import Reason, Why, most_decisive_first, stored_reasons
from crawld.pages.status import Audits
from crawld.read.page.rules import DigestRules
from crawld.show.actions import Control, Refreshed, Reload, Steered
from crawld.show.control import HeldPage, explain_page, steer, worth_reason
from crawld.show.forecasts import StoredScheduler, Terms
from crawld.show.report import Explanation, ForecastReport, Status
from crawld.store.pages import Adoption
from crawld.store.read_model import SqlReadModel


@dataclass(frozen=True)
class FleetSteeringLimits:
    """Numbers that bound and tune this module."""

    look_seconds: float = 0.5
    """Between two looks whether a page that was asked for has been crawled."""
    read_seconds: float = 10.0
    """For which a reader who insists on a fresh copy waits unless it says how long."""
    kept_seconds: float = 60.0
    """For which one look at the pages serves forecasts: estimates move slowly, and reading them takes a while."""
    max_pages: int = 100_000
    """About so many pages stand for all in a forecast: the process that answers may be a busy worker."""


LIMITS = FleetSteeringLimits()


class FleetSteering(Control):
    """The `Control` of a fleet, on its database alone."""

    def __init__(
        self,
        store: SqlFleetStore,
        terms: Terms,
        clock: Clock,
        rules: DigestRules | None = None,
        *,
        healthy: Callable[[], bool] = lambda: True,
        reload: Callable[[bool], Awaitable[Reload]] | None = None,
    ) -> None:
        """`rules`, `healthy` and `reload` are those of the worker in whose process this answers, where it is one."""
        super().__init__(store, clock, rules or DigestRules())
        self._store: SqlFleetStore = store
        self._terms, self._healthy, self._reload = terms, healthy, reload
        self._one_at_a_time = asyncio.Lock()
        self._read: tuple[float, StoredScheduler, float] | None = None

    async def status(self) -> Status:
        """Returns what the workers are doing now, together."""
        audits = Audits()
        for fresh in await self._store.audits(AUDITS_KEPT):
            audits.record(fresh=fresh)
        intervals = self._terms.intervals
        return merged_status(await self._store.view(), audits.measured(), intervals)

    async def forecast(self, rates: Sequence[float]) -> ForecastReport:
        """Returns the freshness that the bandwidth set and these rates buy in the long run, by the pages stored."""
        view = await self._store.view()
        spent = merged_status(view, None, self._terms.intervals).requests_by_purpose
        async with self._one_at_a_time:
            monotonic, now = self._clock.monotonic(), self._clock.now()
            if self._read is None or monotonic - self._read[0] > LIMITS.kept_seconds:
                self._read = None  # before the next is read: both at once would take twice the memory
                found = await self._store.stored_part(LIMITS.max_pages, now)
                pages = await asyncio.to_thread(
                    StoredScheduler, self._terms, found.pages, found.hosts, found.age_curves
                )
                self._read = monotonic, pages, found.part
            _, pages, part = self._read
            return await asyncio.to_thread(pages.forecast, view.bandwidth, rates, spent, now, part)

    def healthy(self) -> bool:
        """Tells whether the process that answers is well."""
        return self._healthy()

    async def steer_host(
        self, name: str, *, blocked: bool | None = None, delay: float | None = None, drop_delay: bool = False
    ) -> Steered:
        """Block or unblock a known host, give it a delay of its own or drop that."""
        gate = HostGate(self._terms.limits)

        def change(old: HostState) -> HostState:
            gate.restore(old)
            return steer(gate, name, blocked=blocked, delay=delay, drop_delay=drop_delay)

        told = {"blocked": blocked, "delay": delay, "drop_delay": drop_delay}
        state = await self._store.steer_host(name, change, told)
        if state is None:
            raise InputError(f"{name}: no page is on this host")
        return Steered(state, float(gate.delay[gate.host(name)]), kept=True)

    async def add_pages(self, wanted: Sequence[Wanted], *, origin: str = BY_HAND) -> Adoption:
        """Take further pages in beside the list; the holders of their shards are told."""
        return await self._store.adopt(wanted, origin=origin, now=self._clock.now())

    async def remove_pages(self, urls: Sequence[str], *, keep_out: bool = False) -> Sequence[str]:
        """Retire pages of any origin; the holders of their shards are told."""
        return [page.url for page in await self._store.pages.retire(urls, now=self._clock.now(), keep_out=keep_out)]

    async def refresh(self, urls: Sequence[str], *, wait: float = 0.0) -> Sequence[Refreshed]:
        """Ask for pages before all others: the holders of their shards are told, and the database is looked at."""
        known = {identity(one.url): one.id for one in await self._store.listed(urls)}
        done = await asked_for(self._store, self._clock, list(known.values()), wait)
        return [_refreshed(url, known.get(identity(url)), done) for url in urls]

    async def change_marks(self, marks: Sequence[Mark]) -> None:
        """Compare pages without these parts; every worker that holds a shard is told."""
        await super().change_marks(marks)
        await self._store.tell([Mail(shard, MailKind.MARKS, {}) for shard in range(self._store.shards)])

    async def explain(self, page_id: int) -> Explanation | None:
        """Returns what is stored of a page and why it is not crawled just now; None if it is retired or unknown."""
        found = await self._store.stored_page(page_id)
        if found is None:
            return None
        stored, view, now = found.pages, await self._store.view(), self._clock.now()
        page, state = Page(page_id, stored.urls[0], stored.hosts[0]), stored.states[0]
        host = next(iter(found.hosts), HostState(page.host))
        scheduler = StoredScheduler(self._terms, stored, [host], found.age_curves).scheduler
        scheduler.chooser.level = view.level if view.level and math.isfinite(view.level) else 0.0
        reasons = list(self._reasons(state, host, view, now))
        if await self._store.holder(shard_of_id(page_id)) is None and view.live:
            reasons.append(Reason(Why.NOT_LOADED, detail=", as no worker holds its shard"))
        reasons = most_decisive_first(reasons or [worth_reason(scheduler, page_id, view.bandwidth, now)])
        return explain_page(scheduler, HeldPage(page, state, host.blocked_until), reasons, now, now)

    def _reasons(self, state: PageState, host: HostState, view: FleetView, now: float) -> Iterator[Reason]:
        """Every reason but the page's crawl value."""
        if not view.live:
            yield Reason(Why.NOT_RUNNING)
        if view.paused:
            yield Reason(Why.PAUSED)
        elif view.bandwidth == 0:
            yield Reason(Why.NO_BANDWIDTH)
        yield from stored_reasons(
            state, now, blocked=host.blocked, asked_until=host.asked_until, blocked_until=host.blocked_until
        )

    async def reload(self, *, retire: bool = False) -> Reload:
        """Read settings and list again: each worker has its own, so only the one that answers can."""
        if self._reload is None:
            return Reload(
                refused="each worker of a fleet reads its own settings again, at SIGHUP or `systemctl reload`"
            )
        return await self._reload(retire)


async def asked_for(
    store: SqlFleetStore, clock: Clock, ids: Sequence[int], wait: float, *, read: bool = False
) -> dict[int, float]:
    """Have the holders of pages ask for them; when those that were attempted within so many seconds were.

    With `read` somebody waits for the copies.
    """
    now, until = clock.now(), clock.monotonic() + wait
    by_shard: dict[int, list[int]] = {}
    for page_id in ids:
        by_shard.setdefault(shard_of_id(page_id), []).append(page_id)
    body: dict[str, object] = {"read": True} if read else {}
    await store.tell([Mail(shard, MailKind.REFRESH, {"ids": some, **body}) for shard, some in by_shard.items()])
    done: dict[int, float] = {}
    while len(done) < len(ids) and clock.monotonic() < until:
        await asyncio.sleep(LIMITS.look_seconds)
        attempts = await store.attempts(ids)
        done = {page_id: at for page_id, at in attempts.items() if at is not None and at >= now}
    return done


def _refreshed(url: str, page_id: int | None, done: Mapping[int, float]) -> Refreshed:
    if page_id is None:
        return Refreshed(url, "unknown", "it is not on the list: `crawld urls add URL` adds it")
    if page_id in done:
        return Refreshed(url, "crawled", "it was asked for; its page shows what came", at=done[page_id])
    return Refreshed(url, "waiting", "its worker asks for it as soon as its host may be asked")


class FleetReads:
    """Implements `FreshReads` in a fleet: the worker that holds a page is asked by mail.

    Readers who do not insist read the copy at once: what a slot is worth to them is known by the holder alone.
    """

    def __init__(self, store: SqlFleetStore, read: SqlReadModel, clock: Clock) -> None:
        self._store, self._read, self._clock = store, read, clock

    async def freshen(self, url: str, min_freshness: float | None, wait: float | None) -> Freshened:
        """Have the copy of a page be that fresh, for which the reader waits so many seconds at the most."""
        view = await self._read.page(url, crawls=0, signals=0, changes=0)
        if view is None or view.page.state is PageState.RETIRED:
            return Freshened("unknown")
        if view.alias_of is not None:
            return await self.freshen(view.alias_of, min_freshness, wait)
        if min_freshness is None or (view.page.freshness is not None and view.page.freshness >= min_freshness):
            return Freshened("fresh")
        seconds = LIMITS.read_seconds if wait is None else wait
        if seconds <= 0:
            return Freshened("stale", "the reader does not wait")
        if await asked_for(self._store, self._clock, [view.page.id], seconds, read=True):
            return Freshened("crawled")
        return Freshened("stale", f"its worker did not crawl it within {seconds:g} s")

    async def first_copies(self, urls: Sequence[str], wait: float) -> None:
        """Wait until pages have their first copies, or for so many seconds."""
        ids = [one.id for one in await self._store.listed(urls)]
        await asked_for(self._store, self._clock, ids, wait, read=True)
