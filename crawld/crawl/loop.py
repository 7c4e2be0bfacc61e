"""The crawl loop: every slot becomes a request.

    pick -> admit -> send -> read -> judge -> record -> settle

1. pick: the use of the slot with the highest claim (`_use_slot` lists them); a page is held from here on.
2. admit: robots.txt, the host and who pays for the request (`admission.py`); its place at the host is taken.
3. send: the request and its redirects, each further one with a slot and a place of its own (`sender.py`).
4. read: the body, in a worker where it may be costly.
5. judge: what the page is now, compared with the last copy (`judge.py`).
6. record: the crawl, in the store's queue.
7. settle: the page is given back to the scheduler with the time before which it is not asked again.

Picking and admitting are one synchronous step, and so are recording and settling. Sending and reading await; judging
does not, but may ask for a second look, which is sent, read and judged in turn.
"""

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Container, Coroutine
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from crawld.choose.pacer import Share, SlotShares
from crawld.crawl.admission import NotNow
from crawld.crawl.asked_pages import AskedPages, ReadClaim
from crawld.crawl.host_frames import Frames
from crawld.crawl.polls import Polls
from crawld.crawl.reasons import Reasons
from crawld.crawl.sender import Sender
from crawld.crawl.site_links import SiteLinks
from crawld.crawl.slot_log import SlotLog, StallWatch, page_to_ask, why_idle
from crawld.crawl.visit import PageCrawls, log_crawl
from crawld.fetch.robots_cache import Allowed, Disallowed, NeedsFetch
from crawld.model.crawl import Crawl, Verdict
from crawld.model.errors import UnsentError
from crawld.model.fetched import Trouble
from crawld.model.logs import log_no_memory
from crawld.model.page import Page, PageState
from crawld.model.why import Why
from crawld.pages.page_set import PageSet
from crawld.pages.status import Audits
from crawld.read.page.rules import DigestRule
from crawld.store.batch import Record

log = logging.getLogger("crawld.crawl")


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    """Bounds of what one slot looks at and of what is under way; times in seconds."""

    in_flight: int = 2000  # requests that are being sent, answered or read; what waits for a slot is counted apart
    slots_at_once: int = 16  # served in one turn of the loop where they come faster than it turns
    idle_pause: float = 0.001  # after an idle slot, before the next look: answers come meanwhile
    tries: int = 50  # pages looked at in one slot before it is given up, where robots.txt forbids each
    set_aside: int = 200  # hosts set aside in one slot because they are not known to answer: each is a pick in vain
    relisted: int = 20  # pages that are gone and listed anew that are looked at in one slot
    robots_wait: float = 1.0  # of a page while its site's robots.txt is being fetched
    forbidden: int = 10  # pages of one host that one slot looks at: the next ones wait for the host's pause to end
    pause: float = 0.2  # of such a host, at least: some fifty forbidden pages of it are looked at in a second
    pause_slots: int = 4  # of such a host, at least: most are free of its forbidden pages, however rare slots are
    forbidden_spacing: float = 0.5  # between looks at a host's forbidden pages: each waits this times the host's pages
    exploring: float = 0.2  # of the polls' share, for files whose signals have not yet paid for their polls


LIMITS = CrawlLimits()
Work = Coroutine[Any, Any, None]


class Crawler:
    """Serves slots until told to stop."""

    def __init__(
        self,
        page_set: PageSet,
        sender: Sender,
        rule_for: Callable[[str], DigestRule],
        rng: random.Random,
        shares: SlotShares,
        links: SiteLinks | None = None,
    ) -> None:
        self.page_set, self.scheduler = page_set, page_set.scheduler
        self.pages, self.store = page_set.in_memory, page_set.store
        self.admission, self.status = sender.admission, sender.status
        self.gate, self.pacer, self.clock = self.admission.gate, self.admission.pacer, self.admission.clock
        self._sender, self._polls, self._links, self._rng = sender, sender.polls, links, rng
        self.audits, self.asked = Audits(shares.audits), AskedPages()
        self.poll_share, self.explore_share = Share(shares.polls), Share(shares.polls * LIMITS.exploring)
        self.read_share = Share(shares.reads)
        polled = (self.poll_share, self.explore_share) if self._polls is not None else ()
        self._shares = (*polled, self.audits.share, self.read_share, self.admission.surplus)
        self.page_crawls = PageCrawls(
            page_set,
            sender,
            self.audits,
            self.asked,
            rule_for,
            lambda: rng.random() < shares.unconditional,
            links,
        )
        self.reasons = reasons = Reasons(page_set, self.admission)
        self.slots = SlotLog(lambda now: why_idle(reasons, self.scheduler, self.pages, now))
        self._stall = StallWatch(lambda now: page_to_ask(reasons, self.scheduler, self.pages, now))
        self._tasks: set[asyncio.Task[None]] = set()  # each by the name of the host that pays for it
        self._wake = asyncio.Event()
        self._stopping = False
        self._pending_audit: int | None = None
        self._rate_mark = (self.status.started_at, 0)
        self._spent_mark: Counter[tuple[str, str]] = Counter()

    async def run(self) -> None:
        """Serve slots until `stop`."""
        self.pacer.begin(self.clock.monotonic())
        pause = 0.0
        while not self._stopping:
            await self._sleep_until(self.pacer.next_at(), pause)
            pause = 0.0 if self._serve_slots(self.clock.monotonic(), self.clock.now()) else LIMITS.idle_pause

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
        """Tells whether anything is under way that one of these hosts pays for."""
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
        self.pacer.change_rate(rate, self.clock.monotonic())
        self.scheduler.change_bandwidth(rate, self.clock.now())
        self.status.bandwidth = rate
        self.status.last_slot_at = self.clock.monotonic()
        self._wake.set()

    def change_shares(self, polls: float, audits: float, reads: float) -> None:
        """Let polls, audits and reads take up to these shares of the slots from now on."""
        self.poll_share.share, self.explore_share.share = polls, polls * LIMITS.exploring
        self.audits.share.share, self.read_share.share = audits, reads

    def serves_slots(self) -> bool:
        """Whether slots are taken (at a rate above 0 the last one is not long ago) and used where there is a use."""
        spacing = self.pacer.spacing
        if self._stall.stuck:
            return False
        return math.isinf(spacing) or self.clock.monotonic() - self.status.last_slot_at < 3 * spacing + 10.0

    @property
    def in_flight(self) -> int:
        """Requests that are being sent, answered or read."""
        return len(self._tasks) - self._sender.waiting_in_slots

    @property
    def frames(self) -> Frames:
        """Returns what the pages of hosts share."""
        return self.page_crawls.frames

    def request_rate(self, now: float) -> float:
        """Requests per second since this was asked last."""
        before, count = self._rate_mark
        self._rate_mark = (now, self.status.requests)
        return (self.status.requests - count) / max(now - before, 1e-9)

    def newly_spent(self) -> dict[tuple[str, str], int]:
        """Returns what became of the slots since this was asked last, by use and outcome."""
        spent = self.status.spent()
        news, self._spent_mark = spent - self._spent_mark, spent
        return dict(news)

    async def _sleep_until(self, monotonic: float, pause: float) -> None:
        """Sleep for a pause and until the slot, or until the rate changes or we are stopped."""
        self._wake.clear()
        delay = max(monotonic - self.clock.monotonic(), pause)
        if self._stopping or delay <= 0:
            await asyncio.sleep(0)
            return
        timer = None if math.isinf(delay) else asyncio.get_running_loop().call_later(delay, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    # -- slots ------------------------------------------------------------------------------------------------------

    def _serve_slots(self, monotonic: float, now: float) -> bool:
        """Use the slots that have come; False where one is idle, and so are those that have come behind it."""
        pacer, status, healthy = self.pacer, self.status, self.store.healthy
        served = idle = 0
        while served < LIMITS.slots_at_once and pacer.take(monotonic):
            served += 1
            Share.tick(self._shares)
            self.admission.tick(monotonic)
            if self._links is not None:
                self._links.tick()
            full = self.in_flight >= LIMITS.in_flight
            # What is under way goes on where there is no room for more: it makes room.
            if healthy and (self.admission.grant(now) if full else self._use_slot(now)):
                self._stall.used(monotonic)
                continue
            known = Why.TOO_MANY_IN_FLIGHT if full else None
            idle = self._idle(monotonic, now, served, known if healthy else Why.STORE_UNWELL)
            served += idle - 1
            break
        if served:
            status.slots += served
            self.slots.count(monotonic, served, pacer.skipped)
            status.last_slot_at = monotonic
            status.skipped_slots = pacer.skipped
            self._count_tasks()
        return not idle

    def _idle(self, monotonic: float, now: float, served: int, known: Why | None) -> int:
        """Counts the slot of this moment as idle, and those that have come behind it; how many."""
        idle = 1
        while served + idle <= LIMITS.slots_at_once and self.pacer.take(monotonic):
            idle += 1
        why = self.slots.idle(monotonic, now, known, idle)
        self.status.idle_slots += idle
        self.status.idle[why.value] += idle
        self._stall.idle(monotonic, now, self.in_flight)
        return idle

    def _count_tasks(self) -> None:
        status, sender = self.status, self._sender
        status.in_flight = len(self._tasks) - sender.waiting_in_slots
        status.waiting = self.admission.waiting + sender.waiting_for_robots

    def _use_slot(self, now: float) -> bool:
        """Tells whether the slot of this moment is used; it goes to the first of these that may be sent now.

        1. A further request of work under way that its payer's credit pays for.
        2. A page that an operator ordered.
        3. A page whose reader insists on a fresh copy, within the share of reads.
        4. A page that is gone and listed anew, within the share of polls.
        5. A poll, within the same share.
        6. An audit, within its share.
        7. A first visit to a page that links led to, within its share.
        8. A further request beyond its payer's credit, within the share of those.
        9. The page with the highest crawl value, or one that is being read where that is worth more.
        10. What cases 7 and 8 would give a slot to beyond their shares, since no other page wants it.
        """
        polls = self._polls
        return (
            self.admission.grant(now)
            or (bool(self.asked.pages) and (self._crawl_asked(now, ReadClaim.ORDER) or self._crawl_read(now)))
            or (polls is not None and bool(polls.relisted) and self._ask_relisted(polls, now))
            or (polls is not None and polls.some_due(now) and self._poll(polls, now))
            or self._audit(now)
            or (self._links is not None and self._visit_first(self._links, now))
            or (self.admission.waiting > 0 and self.admission.grant_surplus(now))
            or self._crawl_best(now)
            or (self._links is not None and self._visit_first(self._links, now, spare=True))
            or (self.admission.waiting > 0 and self.admission.grant_surplus(now, spare=True))
        )

    def _crawl_asked(self, now: float, claim: ReadClaim) -> bool:
        """Crawl the first page of a line that can be asked now, whatever its value and its own waits."""
        return any(self._start_asked(page, now) for page in self.asked.first(now, claim))

    def _crawl_read(self, now: float) -> bool:
        """Crawl a page whose readers insist on a fresh copy, within the share of reads."""
        if not self.read_share.ready or not self._crawl_asked(now, ReadClaim.INSIST):
            return False
        self.read_share.spend()
        return True

    def _start_asked(self, page: Page, now: float) -> bool:
        """Tells whether the slot is spent on a page that is waited for.

        1. It was taken off the list, or robots.txt forbids it: those who wait are told.
        2. Its host may not be asked yet, or its robots.txt is being fetched: it goes on waiting.
        3. Its robots.txt is not known: the slot is spent on that.
        4. It is being crawled: those who wait share that crawl.
        5. Otherwise the slot is spent on it.
        """
        host = self.gate.host(page.host)
        verdict = self.admission.decide(page.url, host, now)
        if page.id not in self.scheduler:
            self.asked.refuse(page, "it was taken off the list")
        elif isinstance(verdict, Disallowed):
            self.asked.refuse(page, verdict.reason)
        elif isinstance(verdict, NeedsFetch):
            return self._fetch_robots(host, verdict, now)
        elif isinstance(verdict, Allowed):
            self.asked.begin(page)
            return self.scheduler.hold(page.id, now) and self._crawl(page, host, now)
        return False

    def _outbid(self, page_id: int | None, now: float) -> bool:
        """Tells whether the slot goes to a page that is being read instead of this one, the best by its crawl value.

        A page with n readers who wait is worth V + n(1 − f) reads (docs/method.md). The best of them whose host may be
        asked gets the slot, within the share of reads; readers of pages that are worth less than this one wait in vain
        and are told so.
        """
        if not (bids := self.asked.bids()):
            return False
        value, fresh = self.scheduler.worth([bid.page.id for bid in bids], now)
        worth = value + self.asked.read_worth * (1.0 - fresh) * np.array([bid.readers for bid in bids])
        rival = 0.0 if page_id is None else self.scheduler.value_of(page_id, now)
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

    def _poll(self, polls: Polls, now: float) -> bool:
        # Without pages nothing else could use the slot, and polls may find some.
        alone = len(self.scheduler) == 0
        if not (self.poll_share.ready or alone):
            return False
        explore = alone or self.explore_share.ready
        chosen = polls.choose(now, self.admission, explore=explore)
        if chosen is None:
            return False
        request, verdict = chosen
        self.poll_share.spend_if_ready()
        if not polls.sources.prefers(request):
            self.explore_share.spend_if_ready()
        host = self.gate.host(request.host)
        if isinstance(verdict, NeedsFetch):
            return self._fetch_robots(host, verdict, now)
        return self._start(host, polls.run(request, self._sender.follow, self._sender.send), now)

    def _ask_relisted(self, polls: Polls, now: float) -> bool:
        """Ask a page that is gone and that a sitemap, feed or ping has named since, within the share of polls."""
        if not self.poll_share.ready:
            return False
        for page_id in list(islice(polls.relisted, LIMITS.relisted)):
            page = self.pages.get(page_id)
            del polls.relisted[page_id]
            if page is None or self.pages.state(page_id) is not PageState.GONE:
                continue
            polls.relisted[page_id] = None  # behind the others
            due = self.pages.relisted_after(page_id, self.scheduler.last_success(page_id))
            host = self.gate.host(page.host)
            if due > now or isinstance(verdict := self.admission.decide(page.url, host, now), NotNow):
                continue
            if isinstance(verdict, NeedsFetch):
                self.poll_share.spend()
                return self._fetch_robots(host, verdict, now)
            if isinstance(verdict, Disallowed) and not verdict.by_rule:
                continue  # it waits until its robots.txt is available
            del polls.relisted[page_id]
            if isinstance(verdict, Allowed) and self.scheduler.hold(page_id, now):
                self.poll_share.spend()
                return self._crawl(page, host, now)
        return False

    def _audit(self, now: float) -> bool:
        """Crawl a page drawn by importance; it waits for its host, because another draw would not be by chance."""
        if self._pending_audit is None and self.audits.share.ready:
            self.audits.share.spend()
            self._pending_audit = self.scheduler.draw(self._rng.random())
        page = None if self._pending_audit is None else self.pages.get(self._pending_audit)
        if page is None:
            self._pending_audit = None
            return False
        host = self.gate.host(page.host)
        verdict = self.admission.decide(page.url, host, now)
        if isinstance(verdict, NeedsFetch):
            return self._fetch_robots(host, verdict, now)
        if isinstance(verdict, Allowed):
            if not self.scheduler.hold(page.id, now):
                return False
            self._pending_audit = None
            return self._crawl(page, host, now, audit=True)
        if isinstance(verdict, Disallowed) or verdict is NotNow.FAR:  # waiting for it would stop all audits
            self._pending_audit = None
        return False

    def _visit_first(self, links: SiteLinks, now: float, *, spare: bool = False) -> bool:
        """Visit a page that links led to, within the share of first visits or, to spare, beyond it."""
        found = links.choose(now, self.admission, spare=spare)
        if found is None:
            return False
        page, verdict = found
        host = self.gate.host(page.host)
        if isinstance(verdict, NeedsFetch):
            return self._fetch_robots(host, verdict, now)
        return self.scheduler.hold(page.id, now) and self._crawl(page, host, now)

    def _crawl_best(self, now: float) -> bool:
        """Crawl the page most worth it; where no page of a host known to answer wants the slot, any other."""
        forbidden: dict[int, int] = {}  # by host
        tries = asides = 0
        spare = False
        while tries < LIMITS.tries and asides < LIMITS.set_aside:
            page_id = self.scheduler.pick(now)
            if page_id is None:
                if spare or not self.admission.let_in():
                    return self._outbid(None, now)
                spare = True
                continue
            page = self.pages[page_id]
            host = self.gate.host(page.host)
            if not self.admission.admits(host, spare=spare):
                self.scheduler.release(page_id)
                self.admission.set_aside(host)
                asides += 1
                continue
            tries += 1
            verdict = self.admission.decide(page.url, host, now)
            if isinstance(verdict, Disallowed):
                self._forbid(page, verdict, now)
                forbidden[host] = forbidden.get(host, 0) + 1
                if forbidden[host] >= LIMITS.forbidden:
                    self.admission.pause(host, now + max(LIMITS.pause, LIMITS.pause_slots * self.pacer.spacing))
            elif isinstance(verdict, NotNow):
                self.scheduler.release(page_id, now + LIMITS.robots_wait, attempted=False)
            elif isinstance(verdict, NeedsFetch):
                self.scheduler.release(page_id, attempted=False)
                return self._outbid(page_id, now) or self._fetch_robots(host, verdict, now)
            elif self.asked.pages and self._outbid(page_id, now):
                self.scheduler.release(page_id)
                return True
            else:
                return self._crawl(page, host, now)
        self._stall.used(self.clock.monotonic())  # pages were passed over: that comes to an end
        return False

    def _crawl(self, page: Page, host: int, now: float, *, audit: bool = False) -> bool:
        """Spend the slot on a page that is held."""
        return self._start(host, self.page_crawls.crawl(page, host, audit=audit), now)

    def _fetch_robots(self, host: int, verdict: NeedsFetch, now: float) -> bool:
        """Spend the slot on a robots.txt that is not known; what it was chosen for comes up again."""
        return self._start(host, self._sender.fetch_robots(verdict.url), now)

    def _start(self, host: int, work: Work, now: float) -> bool:
        """Take a place at the host and let the work begin; True, since the slot is used."""
        self.admission.begin(host, now)
        task = asyncio.get_running_loop().create_task(work, name=self.gate.name(host))
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return True

    def _forbid(self, page: Page, verdict: Disallowed, now: float) -> None:
        self.admission.judge(self.gate.host(page.host), good=verdict.by_rule)
        # Many forbidden pages of a host are looked at again one by one, not all whenever robots.txt was read again.
        crowd = self.pages.on_host(page.host) if verdict.by_rule else 0
        self.scheduler.release(page.id, max(verdict.until, now + LIMITS.forbidden_spacing * crowd))
        if self.pages.state(page.id) is PageState.ALIAS:
            return  # it stays another address of a page, which is what it was when it could be asked
        if verdict.by_rule and self.pages.change_state(page.id, PageState.DISALLOWED):
            crawl = Crawl(page.id, now, Verdict.FAILED, trouble=Trouble.ROBOTS.value, detail=verdict.reason)
            self.store.record(Record(crawl, PageState.DISALLOWED))
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
