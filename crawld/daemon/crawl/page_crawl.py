"""A visit to one page: ask, judge, look twice where that tells noise from change, record, give the page back."""

import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from crawld.content.change.frame import HostFrame
from crawld.content.page.cost import is_cheap
from crawld.content.page.digest import Reading, read_again
from crawld.content.page.feed_links import feed_links
from crawld.content.page.rules import DigestRule
from crawld.daemon.audits import Audits
from crawld.daemon.crawl.host_frames import Frames
from crawld.daemon.crawl.judge import (
    Judgement,
    comparable,
    digested_again,
    is_pair,
    is_simple,
    judge,
    learn_from_pair,
    read,
    read_apart,
    wants_second_look,
)
from crawld.daemon.crawl.sender import Sender
from crawld.daemon.pages.pages import Pages
from crawld.daemon.polls import Polls
from crawld.daemon.slots.outages import Outages
from crawld.daemon.slots.request_chain import RequestChain
from crawld.daemon.slots.unproven_hosts import UnprovenHosts
from crawld.daemon.status import Status
from crawld.errors import TooCostlyError, UnsentError
from crawld.frontier.politeness import HostGate
from crawld.interfaces import Clock, Record, Store, Workers
from crawld.model.crawl import Crawl, Memory, Verdict
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Redirected, Request, Scope, Trouble, Use
from crawld.model.page import Page, PageState
from crawld.model.url import host_of
from crawld.scheduler import Scheduler

log = logging.getLogger("crawld.crawl")

HASHED_IN_PLACE = 1_000_000
"""Bytes up to which a body is hashed on the event loop: a millisecond or two."""
DISTRUST_304 = 30 * 86400.0
FAULT_WAIT = 60.0
"""Seconds that a page waits after an internal error: asked again at once, it would keep its host from all others."""
LONGEST_TURN = 3600.0
"""Seconds that a page waits at most where not its own host is down but one that it redirects to."""


@dataclass(slots=True)
class PageCrawls:
    """PageCrawls pages that were picked and whose host's gate is acquired."""

    sender: Sender
    gate: HostGate
    unproven_hosts: UnprovenHosts
    outages: Outages
    scheduler: Scheduler
    pages: Pages
    store: Store
    clock: Clock
    rule_for: Callable[[str], DigestRule]
    unconditional_share: float
    rng: random.Random
    audits: Audits
    workers: Workers
    status: Status
    polls: Polls | None = None
    frames: Frames = field(init=False)

    def __post_init__(self) -> None:
        self.frames = Frames(self.store, self.pages)

    async def crawl(self, page: Page, *, audit: bool = False) -> None:
        """Visit a page; where we are stopped in the middle it is given back as it was, after an error with a wait."""
        sending, chain = False, RequestChain(page.host)
        try:
            # A page never seen has no memory to read, and the request leaves that much closer to its slot.
            seen = not math.isnan(self.scheduler.last_success(page.id))
            recalled = memory = await self.store.recall(page.id) if seen else None
            at, sending = self.clock.now(), True
            request = self._request(page, memory, at, unconditional=audit)
            outcome = await self.sender.follow(request, chain)
            try:
                reading, memory = await self._read(page, at, outcome, memory)
            except TooCostlyError as error:
                reading, outcome = None, FetchFailed(page.url, Trouble.TOO_COSTLY, Scope.PAGE, str(error))
            frame = await self._frame(page, memory, reading)
            judgement = judge(page.id, at, outcome, memory, self.rule_for(page.url), reading, frame)
            if memory is not recalled and judgement.memory is None:
                judgement = replace(judgement, memory=memory)  # digested again: once is enough
            if judgement.verdict is Verdict.CHANGED:
                judgement = await self._second_look(page, at, reading, judgement, chain)
                await self._check_honesty(page, request, memory, judgement, chain)
            self.frames.visited(page, memory, judgement, at)
        except BaseException as error:
            if not sending:
                self.sender.send_nothing(page.host)
            fault = isinstance(error, Exception) and not isinstance(error, UnsentError)
            wait = self.clock.now() + FAULT_WAIT if fault else -math.inf
            self.scheduler.release(page.id, wait)
            raise
        self.scheduler.charge(page.id, chain.requests)
        self._settle(page, at, request, outcome, judgement, audit=audit)

    def _request(self, page: Page, memory: Memory | None, now: float, *, unconditional: bool) -> Request:
        if unconditional:  # an audit
            return Request(page.url, page.host, use=Use.AUDIT)
        if memory is None or self._distrusted(page, now) or self.rng.random() < self.unconditional_share:
            return Request(page.url, page.host)
        return Request(page.url, page.host, etag=memory.etag, last_modified=memory.last_modified)

    def _distrusted(self, page: Page, now: float) -> bool:
        return self.gate.export(self.gate.host(page.host)).distrust_304_until > now

    async def _read(
        self, page: Page, at: float, outcome: Outcome, memory: Memory | None
    ) -> tuple[Reading | None, Memory | None]:
        """The answer's body as read, and what it is to be compared with, digested by the same rule."""
        if not isinstance(outcome, Fetched) or outcome.status >= 300:
            return None, memory
        rule = self.rule_for(page.url)
        if memory is not None and not comparable(memory, rule):
            copy = await self.store.copy(page.id)
            if copy is None or is_cheap(copy):
                memory = digested_again(memory, copy, rule)
            else:
                memory = await self.workers.run(page.host, digested_again, memory, copy, rule)
        return await self._read_body(page, outcome, memory, rule, at), memory

    async def _read_body(
        self, page: Page, outcome: Fetched, memory: Memory | None, rule: DigestRule, at: float
    ) -> Reading:
        """Read a body: in place where it is what it was, or cheap whatever is in it, else in a worker."""
        body, known = outcome.body, memory.digest if memory is not None else None
        if len(body) <= HASHED_IN_PLACE and (same := read_again(body, rule, known)) is not None:
            return same
        if is_cheap(body):
            reading = read(outcome, memory, rule, at)
            if is_simple(reading, memory):
                return reading
        content_type = outcome.headers.get("content-type")
        return await self.workers.run(page.host, read_apart, outcome.url, body, content_type, memory, rule, at)

    async def _frame(self, page: Page, memory: Memory | None, reading: Reading | None) -> HostFrame | None:
        """What the host's pages share, where it could matter: the page is not what it was."""
        if memory is None:
            return None
        before, now = memory.digest.text, reading.digest.text if reading is not None else None
        if before is None or now is None or before == now:
            return self.frames.at_hand(page.host)
        return await self.frames.read(page.host)

    async def _second_look(
        self, page: Page, at: float, reading: Reading | None, judgement: Judgement, chain: RequestChain
    ) -> Judgement:
        """Fetch a page that keeps changing in one place again, to learn whether that is noise."""
        if reading is None or not wants_second_look(judgement):
            return judgement
        # At once, as far as slots and the gate let us: the longer we wait, the more real changes look like noise.
        again = await self.sender.send_again(Request(page.url, page.host, use=Use.SECOND_LOOK), chain)
        if not isinstance(again, Fetched) or again.status >= 300:
            return judgement
        second_at = self.clock.now() - again.duration
        since = at - self.scheduler.last_success(page.id)
        slow = bool(self.gate.export(self.gate.host(page.host)).crawl_delay)
        if not is_pair(second_at - at, since, crawl_delay=slow):
            return judgement
        try:
            second = await self._read_body(page, again, judgement.memory, self.rule_for(page.url), second_at)
        except TooCostlyError:
            return judgement  # what the second fetch would have told stays unknown
        log.info("second look", extra={"url": page.url})
        return learn_from_pair(judgement, reading, second)

    async def _check_honesty(
        self, page: Page, request: Request, memory: Memory | None, judgement: Judgement, chain: RequestChain
    ) -> None:
        """Where asking without conditions found a change, see whether the old validators would have hidden it."""
        if (
            memory is None
            or request.etag is not None
            or request.last_modified is not None
            or judgement.verdict is not Verdict.CHANGED
            or (memory.etag is None and memory.last_modified is None)
            or self._distrusted(page, self.clock.now())
        ):
            return
        conditional = Request(page.url, page.host, etag=memory.etag, last_modified=memory.last_modified, use=Use.CHECK)
        answer = await self.sender.send_again(conditional, chain)
        if isinstance(answer, Fetched) and answer.status == 304:
            gate, now = self.gate, self.clock.now()
            host = gate.host(page.host)
            gate.distrust_304(host, now + DISTRUST_304)
            self.store.record_host(gate.export(host))
            log.warning("server answered 304 for a changed page", extra={"url": page.url, "host": page.host})

    def _settle(
        self, page: Page, at: float, request: Request, outcome: Outcome, judgement: Judgement, *, audit: bool
    ) -> None:
        """Record the crawl and give the page back, in one synchronous step."""
        last, succeeded = self.scheduler.last_success(page.id), judgement.verdict.succeeded
        seen_before = not math.isnan(last)
        dated = seen_before and self.scheduler.dated(page.id, at)
        counted = dated and succeeded
        back = judgement.verdict is Verdict.CHANGED and self.pages.state(page.id) is PageState.GONE
        crawl = Crawl(
            page_id=page.id,
            at=at,
            verdict=judgement.verdict,
            status=None if isinstance(outcome, Redirected) else outcome.status,
            trouble=judgement.trouble,
            detail=judgement.detail,
            tau=at - last if counted else None,
            signals=self.scheduler.heard(page.id) if succeeded else (),
            bytes=outcome.wire_bytes if isinstance(outcome, Fetched) else 0,
            duration=self.clock.now() - at,
            magnitude=judgement.magnitude,
            predicted=self.scheduler.freshness_of(page.id, at) if dated else None,
            conditional=request.etag is not None or request.last_modified is not None,
            audit=audit,
            reverted=judgement.reverted,
        )
        wait = self._wait(page, at, outcome, judgement.state, audit=audit)
        # An answer that brings no page, such as a 403, shows a host that works all the same.
        answered = isinstance(outcome, FetchFailed) and outcome.scope is Scope.PAGE and outcome.status is not None
        self.unproven_hosts.judge(self.gate.host(page.host), good=succeeded or answered)
        state, failures = self.pages.state(page.id), self.pages.failures(page.id)
        self.store.record(Record(crawl, state, failures, judgement.memory, judgement.body))
        if audit and succeeded:
            self.audits.record(fresh=judgement.verdict is Verdict.UNCHANGED)
        if succeeded:
            self.scheduler.settle(page.id, at, wait, gone=judgement.state is PageState.GONE)
        else:
            self.scheduler.release(page.id, wait)
        if judgement.verdict is Verdict.NEW or back:
            self._look_for_feeds(outcome, judgement)
        self.status.count(crawl)
        log_crawl(page, crawl)

    def _wait(self, page: Page, at: float, outcome: Outcome, state: PageState, *, audit: bool) -> float:
        """The time before which the page is not asked again: it is not to blame where its host is down."""
        if not isinstance(outcome, FetchFailed):
            return self.pages.after(page.id, state, at, audit=audit)
        if outcome.trouble is Trouble.HOST_NOT_READY and outcome.retry_after is not None:
            return self.clock.now() + outcome.retry_after  # its turn at the host that it leads to
        gate, name = self.gate, host_of(outcome.url)
        host, now = gate.host(name), self.clock.now()
        if outcome.scope is Scope.HOST and gate.backs_off(host):
            pages = self.pages.asked_on_host(page.host)
            wait = max(gate.export(host).blocked_until - now, 0.0)
            turn = self.outages.turn(name, page.id, at, wait, pages)
            return now + (turn if name == page.host else min(turn, LONGEST_TURN))
        # Its own wait begins when its host may be asked again: it is not the one that is asked first.
        return self.pages.after(page.id, state, max(now, gate.export(host).asked_until), audit=audit)

    def _look_for_feeds(self, outcome: Outcome, judgement: Judgement) -> None:
        """Feeds that a page links to are looked for when it is first seen, and when it comes back.

        Whoever answered names them: a redirect may have led to another host.
        """
        if self.polls is not None and isinstance(outcome, Fetched):
            feeds = judgement.feeds if judgement.feeds is not None else feed_links(outcome.body, outcome.url)
            self.polls.found_feeds(outcome.url, feeds, self.clock.now())


def log_crawl(page: Page, crawl: Crawl) -> None:
    """One line per crawl."""
    if not log.isEnabledFor(logging.INFO):
        return
    log.info(
        "crawl",
        extra={
            "url": page.url,
            "verdict": crawl.verdict.value,
            "status": crawl.status,
            "trouble": crawl.trouble,
            "detail": crawl.detail,
            "bytes": crawl.bytes,
            "ms": round(crawl.duration * 1000),
            "fresh": None if crawl.predicted is None else round(crawl.predicted, 4),
        },
    )
