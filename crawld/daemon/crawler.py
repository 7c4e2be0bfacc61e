"""The heart of the daemon: every slot becomes a request.

At each slot, in this order: a request that continues something under way (a redirect hop), a page that somebody waits
for, a poll of a signal source within its share, an audit within its share, a first visit to a page that links led to
within its share, and else the page with the highest crawl value, or one that is being read where that is worth more.
What is decided is decided synchronously; awaiting happens after.
"""

import asyncio
import contextlib
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Container, Coroutine, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from crawld.content.page.rules import DigestRule
from crawld.daemon.audits import Audits
from crawld.daemon.crawl.host_frames import Frames
from crawld.daemon.crawl.page_crawl import PageCrawls, log_crawl
from crawld.daemon.crawl.sender import Sender
from crawld.daemon.logs import log_no_memory
from crawld.daemon.pages.page_set import PageSet
from crawld.daemon.pages.pages import Pages
from crawld.daemon.pages.site_links import SiteLinks
from crawld.daemon.polls import Polls
from crawld.daemon.reasons import Reasons
from crawld.daemon.slots.asked_pages import AskedPages, Claim
from crawld.daemon.slots.door import Door, PacedDoor
from crawld.daemon.slots.further_requests import Permits
from crawld.daemon.slots.host_pauses import (
    FORBIDDEN_IN_A_ROW,
    FORBIDDEN_SPACING,
    PAUSE_SLOTS,
    SHORTEST_PAUSE,
    HostPauses,
)
from crawld.daemon.slots.late_requests import LateRequests
from crawld.daemon.slots.outages import Outages
from crawld.daemon.slots.shares import Share
from crawld.daemon.slots.slot_log import SlotLog, page_to_ask, why_idle
from crawld.daemon.slots.stall_watch import StallWatch
from crawld.daemon.slots.unproven_hosts import UnprovenHosts
from crawld.daemon.status import Status
from crawld.errors import UnsentError
from crawld.frontier.politeness import HostGate
from crawld.interfaces import (
    Allowed,
    Clock,
    Disallowed,
    Fetcher,
    NeedsFetch,
    Record,
    Robots,
    RobotsFailure,
    Store,
    Workers,
)
from crawld.model.crawl import Crawl, Verdict
from crawld.model.fetched import Trouble
from crawld.model.page import Page, PageState
from crawld.model.why import Why
from crawld.pacer import Departures, Slots
from crawld.scheduler import Scheduler

log = logging.getLogger("crawld.crawl")

MOST_TRIES = 50
"""Pages looked at in one slot before it is given up, where robots.txt forbids each."""
ROBOTS_WAIT = 1.0
"""Seconds that a page waits while its site's robots.txt is being fetched."""
MOST_SET_ASIDE = 200
"""Hosts that may be set aside in one slot because they are not known to answer; each is a pick in vain, once."""
RELISTED_LOOKED_AT = 20
"""Pages that are gone and listed anew that are looked at in one slot."""
MOST_IN_FLIGHT = 2000
"""Requests that are being sent, answered or read at once; what waits for a permit is counted apart."""
FORGET_PAUSE = 0.1
"""Seconds between two steps of forgetting hosts."""
MOST_AT_ONCE = 16
"""Slots served in one turn of the loop where they come faster than it turns."""

EXPLORING = 0.2
"""The part of the polls' share that files may take whose signals have not yet paid for their polls."""

Work = Coroutine[Any, Any, None]


@dataclass(slots=True)
class Parts:
    """What a crawler is made of."""

    scheduler: Scheduler
    gate: HostGate
    pacer: Slots
    pages: Pages
    page_set: PageSet
    store: Store
    fetcher: Fetcher
    robots: Robots
    clock: Clock
    rule_for: Callable[[str], DigestRule]
    rng: random.Random
    workers: Workers
    polls: Polls | None = None
    poll_share: float = 0.25
    audit_share: float = 0.01
    unconditional_share: float = 0.02
    links: SiteLinks | None = None
    read_share: float = 0.5
    door: Door | None = None  # None: requests leave as far apart as slots are


class Crawler:
    """Serves slots until told to stop."""

    def __init__(self, parts: Parts) -> None:
        self.parts = self._p = p = parts
        self.status = Status(p.clock.now(), p.pacer.rate, last_slot_at=p.clock.monotonic())
        self.audits = Audits()
        self.asked = AskedPages()
        self._unproven_hosts = UnprovenHosts(p.gate, p.pages, lambda: p.pacer.rate)
        self._pauses = HostPauses(p.gate)
        self._permits = Permits(p.gate, p.pages, p.pacer, p.clock, self._unproven_hosts)
        self._permits.shortest = lambda: p.scheduler.chooser.pages.intervals.shortest
        self.reasons = reasons = Reasons(
            p.scheduler, p.gate, p.pages, p.robots, p.store, self._unproven_hosts, self._permits.reservations
        )
        self.slots = SlotLog(lambda now: why_idle(reasons, p.scheduler, p.pages, now))
        self._stall = StallWatch(lambda now: page_to_ask(reasons, p.scheduler, p.pages, now))
        self._late_requests = LateRequests(p.gate)
        outages = Outages(p.scheduler)
        self._sender = Sender(
            p.fetcher,
            p.gate,
            self._permits,
            p.door or PacedDoor(Departures(p.pacer), p.clock),
            p.robots,
            p.store,
            p.clock,
            self.status,
            self._late_requests,
            self._unproven_hosts,
            outages,
            p.pages.asked_on_host,
            p.pages.on_host,
            p.workers,
            p.polls,
        )
        self.poll_share, self.explore_share = Share(p.poll_share), Share(p.poll_share * EXPLORING)
        self.audit_share, self.read_share = Share(p.audit_share), Share(p.read_share)
        self.read_worth = 0.0  # what one fresh read is worth beside crawl values
        self._page_crawls = PageCrawls(
            sender=self._sender,
            gate=p.gate,
            unproven_hosts=self._unproven_hosts,
            outages=outages,
            scheduler=p.scheduler,
            pages=p.pages,
            store=p.store,
            clock=p.clock,
            rule_for=p.rule_for,
            unconditional_share=p.unconditional_share,
            rng=p.rng,
            audits=self.audits,
            audit_share=self.audit_share,
            workers=p.workers,
            status=self.status,
            page_set=p.page_set,
            asked=self.asked,
            polls=p.polls,
            links=p.links,
        )
        self._tasks: set[asyncio.Task[None]] = set()  # each by the name of the host that pays for it
        self._wake = asyncio.Event()
        self._stopping = False
        self._pending_audit: int | None = None
        self._rate_mark = (self.status.started_at, 0)
        self._spent_mark: Counter[tuple[str, str]] = Counter()

    async def run(self) -> None:
        """Serve slots until `stop`."""
        self._p.pacer.begin(self._p.clock.monotonic())
        while not self._stopping:
            await self._sleep_until(self._p.pacer.next_at())
            self._serve_slots(self._p.clock.monotonic(), self._p.clock.now())

    def stop(self) -> None:
        """Take no further slot."""
        self._stopping = True
        self._wake.set()

    async def drain(self, seconds: float) -> int:
        """Wait for what is under way, then give up what has not come; how many were given up."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        late = [task for task in self._tasks if not task.done()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)

    def wake(self) -> None:
        """Ask the pacer anew when the next slot begins."""
        self._wake.set()

    def busy(self, hosts: Container[str]) -> bool:
        """Whether anything is under way that one of these hosts pays for."""
        return any(task.get_name() in hosts for task in self._tasks)

    async def give_up(self, hosts: Container[str]) -> int:
        """Give up what is under way for these hosts: nothing is recorded of it; how many tasks that were."""
        tasks = [task for task in self._tasks if task.get_name() in hosts]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(tasks)

    def change_bandwidth(self, rate: float) -> None:
        """Slots follow the new rate from the next one on; what became of earlier ones says nothing of it."""
        if rate != self.status.bandwidth:
            self.slots.restart()
        self._p.pacer.change_rate(rate, self._p.clock.monotonic())
        self._p.scheduler.change_bandwidth(rate, self._p.clock.now())
        self.status.bandwidth = rate
        self.status.last_slot_at = self._p.clock.monotonic()
        self._wake.set()

    def change_shares(self, polls: float, audits: float, reads: float) -> None:
        """Let polls, audits and reads take up to these shares of the slots from now on."""
        self.poll_share.share, self.explore_share.share = polls, polls * EXPLORING
        self.audit_share.share, self.read_share.share = audits, reads

    def serves_slots(self) -> bool:
        """Whether slots are taken (at a rate above 0 the last one is not long ago) and used where there is a use."""
        spacing = self._p.pacer.spacing
        if self._stall.stuck:
            return False
        return math.isinf(spacing) or self._p.clock.monotonic() - self.status.last_slot_at < 3 * spacing + 10.0

    @property
    def in_flight(self) -> int:
        """Requests that are being sent, answered or read."""
        return len(self._tasks) - self._sender.waiting_in_slots

    @property
    def frames(self) -> Frames:
        """What the pages of hosts share."""
        return self._page_crawls.frames

    def robots_failures(self, now: float) -> Sequence[RobotsFailure]:
        """Every robots.txt that is unavailable, the one that failed most often first."""
        return sorted(self._p.robots.unavailable(now), key=lambda one: (-one.failures, one.origin))

    async def forget_idle_hosts(self) -> None:
        """Forget hosts without pages that nobody asks for any more, and what their robots.txt said when that is old."""
        self._p.gate.begin_round()
        self._p.robots.forget_old(self._p.clock.now())
        while self._p.gate.forget_idle(self._p.clock.now()):  # noqa: ASYNC110 - slots are served in between
            await asyncio.sleep(FORGET_PAUSE)

    def request_rate(self, now: float) -> float:
        """Requests per second since this was asked last."""
        before, count = self._rate_mark
        self._rate_mark = (now, self.status.requests)
        return (self.status.requests - count) / max(now - before, 1e-9)

    def newly_spent(self) -> dict[tuple[str, str], int]:
        """What became of the slots since this was asked last, by use and outcome."""
        spent = self.status.spent()
        news, self._spent_mark = spent - self._spent_mark, spent
        return dict(news)

    async def _sleep_until(self, monotonic: float) -> None:
        """Sleep until the slot, or until the rate changes or we are stopped."""
        self._wake.clear()
        delay = monotonic - self._p.clock.monotonic()
        if self._stopping or delay <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), None if math.isinf(delay) else delay)

    # -- slots ------------------------------------------------------------------------------------------------------

    def _serve_slots(self, monotonic: float, now: float) -> None:
        """Use the slots that have come, up to the first that nobody can use: then the loop sees to answers first."""
        pacer, status, healthy = self._p.pacer, self.status, self._p.store.healthy
        served = 0
        self._late_requests.look(monotonic)
        self._pauses.resume(now)
        while served < MOST_AT_ONCE and pacer.take(monotonic) is not None:
            served += 1
            self.poll_share.tick()
            self.explore_share.tick()
            self.audit_share.tick()
            self.read_share.tick()
            self._permits.share.tick()
            if self._p.links is not None:
                self._p.links.tick()
            self._unproven_hosts.tick()
            full = self.in_flight >= MOST_IN_FLIGHT
            # What is under way goes on where there is no room for more: it makes room.
            if healthy and (self._permits.grant(now) if full else self._use_slot(now)):
                self._stall.used(monotonic)
                continue
            status.idle_slots += 1
            known = Why.TOO_MANY_IN_FLIGHT if full else None
            why = self.slots.idle(monotonic, now, known if healthy else Why.STORE_UNWELL)
            status.idle[why.value] += 1
            self._stall.idle(monotonic, now, self.in_flight)
            break
        if served:
            status.slots += served
            self.slots.count(monotonic, served, pacer.skipped)
            status.last_slot_at = monotonic
            status.skipped_slots = pacer.skipped
            self._count_tasks()

    def _count_tasks(self) -> None:
        sender = self._sender
        self.status.in_flight = self.in_flight
        self.status.waiting = len(self._permits) + sender.waiting_for_robots

    def _use_slot(self, now: float) -> bool:
        return (
            self._permits.grant(now)
            or self._crawl_asked(now, Claim.ORDER)
            or self._crawl_read(now)
            or self._ask_relisted(now)
            or self._poll(now)
            or self._audit(now)
            or self._visit_first(now)
            or self._grant_beyond(now)
            or self._crawl_best(now)
            or self._visit_first(now, spare=True)
            or self._permits.grant_beyond(now)  # nobody else wants the slot
        )

    def _crawl_asked(self, now: float, claim: Claim) -> bool:
        """Crawl the first page of a line that can be asked now, whatever its value and its own waits."""
        return any(self._start_asked(page, now) for page in self.asked.first(now, claim))

    def _crawl_read(self, now: float) -> bool:
        """Crawl a page whose readers insist on a fresh copy, within the share of reads."""
        if not self.read_share.ready or not self._crawl_asked(now, Claim.INSIST):
            return False
        self.read_share.spend()
        return True

    def _start_asked(self, page: Page, now: float) -> bool:
        """Whether the slot is spent on a page that somebody waits for.

        1. It was taken off the list, or robots.txt forbids it: whoever waits is told.
        2. Its host may not be asked yet, or its robots.txt is being fetched: it goes on waiting.
        3. It is being crawled: whoever waits shares that crawl.
        4. Its robots.txt is not known: the slot is spent on that.
        5. Otherwise the slot is spent on it.
        """
        verdict = self._p.robots.verdict(page.url, now)
        if page.id not in self._p.scheduler:
            self.asked.refuse(page, "it was taken off the list")
        elif isinstance(verdict, Disallowed):
            self.asked.refuse(page, verdict.reason)
        elif not self._p.gate.ready(self._p.gate.host(page.host), now):
            return False
        elif isinstance(verdict, NeedsFetch):
            if verdict.url not in self._sender.robots_under_way:
                self._start(page.host, verdict, self._page_crawls.crawl(page), now)
                return True
        else:
            self.asked.begin(page)
            if self._p.scheduler.hold(page.id, now):
                self._start(page.host, verdict, self._page_crawls.crawl(page), now)
                return True
        return False

    def _outbid(self, page_id: int | None, now: float) -> bool:
        """Whether the slot goes to a page that is being read instead of this one, the best by its crawl value.

        A page with n readers who wait is worth V + n(1 − f) reads (docs/method.md). The best of them whose host may be
        asked gets the slot, within the share of reads; readers of pages that are worth less than this one wait in vain
        and are told so.
        """
        bids = self.asked.bids()
        if not bids:
            return False
        value, fresh = self._p.scheduler.worth([bid.page.id for bid in bids], now)
        worth = value + self.read_worth * (1.0 - fresh) * np.array([bid.readers for bid in bids])
        rival = 0.0 if page_id is None else self._p.scheduler.value_of(page_id, now)
        own = np.array([bid.page.id == page_id for bid in bids])
        if own.any():
            rival = float(worth[own][0])
        if self.read_share.ready:
            for at in np.argsort(-worth).tolist():
                if worth[at] > rival and self._start_asked(bids[at].page, now):
                    self.read_share.spend()
                    return True
        for at in np.flatnonzero(worth < rival).tolist():
            if self.asked.in_line(bids[at].page):
                self.asked.refuse(bids[at].page, "the slot is worth more on another page")
        return False

    def _grant_beyond(self, now: float) -> bool:
        share = self._permits.share
        if not share.ready or not self._permits.grant_beyond(now):
            return False
        share.spend()
        return True

    def _poll(self, now: float) -> bool:
        polls = self._p.polls
        # Without pages nothing else could use the slot, and polls may find some.
        alone = len(self._p.scheduler) == 0
        if polls is None or not (self.poll_share.ready or alone):
            return False
        explore = alone or self.explore_share.ready
        chosen = polls.choose(now, self._p.gate, self._p.robots, self._sender.robots_under_way, explore=explore)
        if chosen is None:
            return False
        request, verdict = chosen
        self.poll_share.spend_if_ready()
        if not polls.sources.prefers(request):
            self.explore_share.spend_if_ready()
        self._start(request.host, verdict, polls.run(request, self._sender.follow, self._sender.send), now)
        return True

    def _ask_relisted(self, now: float) -> bool:
        """Ask a page that is gone and that a sitemap, feed or ping has named since, within the share of polls."""
        polls = self._p.polls
        if polls is None or not polls.relisted or not self.poll_share.ready:
            return False
        for page_id in list(islice(polls.relisted, RELISTED_LOOKED_AT)):
            page = self._p.pages.get(page_id)
            del polls.relisted[page_id]
            if page is None or self._p.pages.state(page_id) is not PageState.GONE:
                continue
            polls.relisted[page_id] = None  # behind the others
            due = self._p.pages.relisted_after(page_id, self._p.scheduler.last_success(page_id))
            if due > now or not self._p.gate.ready(self._p.gate.host(page.host), now):
                continue
            verdict = self._p.robots.verdict(page.url, now)
            if isinstance(verdict, NeedsFetch) and verdict.url in self._sender.robots_under_way:
                continue
            if not isinstance(verdict, NeedsFetch):
                del polls.relisted[page_id]
                if isinstance(verdict, Disallowed) or not self._p.scheduler.hold(page_id, now):
                    return False
            self.poll_share.spend()
            self._start(page.host, verdict, self._page_crawls.crawl(page), now)
            return True
        return False

    def _audit(self, now: float) -> bool:
        """Crawl a page drawn by importance; it waits for its host, because another draw would not be by chance."""
        if self._pending_audit is None and self.audit_share.ready:
            self.audit_share.spend()
            self._pending_audit = self._p.scheduler.draw(self._p.rng.random())
        page = None if self._pending_audit is None else self._p.pages.get(self._pending_audit)
        if page is None:
            self._pending_audit = None
            return False
        host = self._p.gate.host(page.host)
        if not self._p.gate.ready(host, now):
            if self._p.gate.far(host, now):  # waiting for it would stop all audits
                self._pending_audit = None
            return False
        verdict = self._p.robots.verdict(page.url, now)
        if isinstance(verdict, Disallowed):
            self._pending_audit = None
            return False
        if isinstance(verdict, NeedsFetch) and verdict.url in self._sender.robots_under_way:
            return False
        if isinstance(verdict, Allowed):
            if not self._p.scheduler.hold(page.id, now):
                return False
            self._pending_audit = None
        self._start(page.host, verdict, self._page_crawls.crawl(page, audit=True), now)
        return True

    def _visit_first(self, now: float, *, spare: bool = False) -> bool:
        """Visit a page that links led to, within the share of first visits or, to spare, beyond it."""
        links = self._p.links
        found = None if links is None else links.choose(now, self._p.gate, self._sender.robots_under_way, spare=spare)
        if found is None:
            return False
        page, verdict = found
        if isinstance(verdict, Allowed) and not self._p.scheduler.hold(page.id, now):
            return False
        self._start(page.host, verdict, self._page_crawls.crawl(page), now)
        return True

    def _crawl_best(self, now: float) -> bool:
        """Crawl the page most worth it; where no page of a host known to answer wants the slot, any other."""
        forbidden: Counter[int] = Counter()  # by host
        tries = asides = 0
        spare = False
        while tries < MOST_TRIES and asides < MOST_SET_ASIDE:
            page_id = self._p.scheduler.pick(now)
            if page_id is None:
                if spare or not self._unproven_hosts.let_in():
                    return self._outbid(None, now)
                spare = True
                continue
            page = self._p.pages[page_id]
            host = self._p.gate.host(page.host)
            if not self._unproven_hosts.admits(host, spare=spare):
                self._p.scheduler.release(page_id)
                self._unproven_hosts.set_aside(host)
                asides += 1
                continue
            tries += 1
            verdict = self._p.robots.verdict(page.url, now)
            if isinstance(verdict, Disallowed):
                self._forbid(page, verdict, now)
                forbidden[host] += 1
                if forbidden[host] >= FORBIDDEN_IN_A_ROW:
                    self._pauses.pause(host, now + max(SHORTEST_PAUSE, PAUSE_SLOTS * self._p.pacer.spacing))
                continue
            if isinstance(verdict, NeedsFetch):
                under_way = verdict.url in self._sender.robots_under_way
                self._p.scheduler.release(page_id, now + ROBOTS_WAIT if under_way else -math.inf, attempted=False)
                if under_way:
                    continue
            if self._outbid(page_id, now):
                if isinstance(verdict, Allowed):
                    self._p.scheduler.release(page_id)
                return True
            self._start(page.host, verdict, self._page_crawls.crawl(page), now)
            return True
        self._stall.used(self._p.clock.monotonic())  # pages were passed over: that comes to an end
        return False

    def _start(self, host: str, verdict: Allowed | NeedsFetch, work: Work, now: float) -> None:
        """Spend the slot on the work, or on robots.txt where that is not known: the work then comes up again."""
        index = self._p.gate.host(host)
        self._p.gate.acquire(index, now)
        self._unproven_hosts.begin(index)
        if isinstance(verdict, NeedsFetch):
            work.close()
            work = self._sender.fetch_robots(verdict.url)
        task = asyncio.get_running_loop().create_task(work, name=host)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _forbid(self, page: Page, verdict: Disallowed, now: float) -> None:
        self._unproven_hosts.judge(self._p.gate.host(page.host), good=verdict.by_rule)
        # Many forbidden pages of a host are looked at again one by one, not all whenever robots.txt was read again.
        crowd = self._p.pages.on_host(page.host) if verdict.by_rule else 0
        self._p.scheduler.release(page.id, max(verdict.until, now + FORBIDDEN_SPACING * crowd))
        if self._p.pages.state(page.id) is PageState.ALIAS:
            return  # it stays another address of a page, which is what it was when it could be asked
        if verdict.by_rule and self._p.pages.change_state(page.id, PageState.DISALLOWED):
            crawl = Crawl(page.id, now, Verdict.FAILED, trouble=Trouble.ROBOTS.value, detail=verdict.reason)
            self._p.store.record(Record(crawl, PageState.DISALLOWED))
            self.status.count(crawl)
            log_crawl(page, crawl)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._count_tasks()
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, UnsentError):
            self.status.faults += 1
            if isinstance(error, MemoryError):
                log_no_memory()
                return
            log.error("internal error in a crawl task; please report it", exc_info=error)
