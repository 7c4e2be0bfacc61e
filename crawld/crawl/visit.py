"""A visit to one page: ask, judge, look twice where that tells noise from change, record, give the page back."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from crawld.crawl.admission import RequestChain, Sent
from crawld.crawl.asked_pages import AskedPages
from crawld.crawl.duplicates import Duplicates
from crawld.crawl.host_frames import Frames
from crawld.crawl.judge import (
    GONE_DIGEST,
    Judgement,
    comparable,
    digested_again,
    is_check,
    is_pair,
    judge,
    learn_from_pair,
    wants_second_look,
)
from crawld.crawl.readings import Readings
from crawld.crawl.sender import Sender
from crawld.crawl.site_links import SiteLinks
from crawld.model.crawl import Crawl, HostNoise, Memory, Verdict
from crawld.model.errors import TooCostlyError, UnsentError
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Purpose, Request, Scope, Trouble, Use, Validators
from crawld.model.logs import level_of
from crawld.model.page import Alias, Page, PageState
from crawld.model.url import host_of, identity
from crawld.model.usage import LIMITS as USAGE_LIMITS
from crawld.model.usage import Statement, usage_of
from crawld.pages.page_set import PageSet
from crawld.pages.status import Audits
from crawld.read.change.comparison import NO_NOISE
from crawld.read.change.frame import HostFrame
from crawld.read.page.cost import is_cheap
from crawld.read.page.digest import Reading
from crawld.read.page.head import Head, canonical_in_header, read_head, said_in_head, said_in_headers
from crawld.read.page.markup import page_language, page_title
from crawld.read.page.rules import DEFAULT_RULE, DigestRule
from crawld.store.batch import Record


@dataclass(frozen=True)
class VisitLimits:
    """Numbers that bound and tune this module."""

    distrust_304: float = 30 * 86400.0
    fault_wait: float = 60.0
    """Seconds that a page waits after an internal error: asked again at once, it would keep its host from all
    others."""


LIMITS = VisitLimits()


log = logging.getLogger("crawld.crawl")


class _Visit(NamedTuple):
    """What came of asking a page."""

    at: float
    outcome: Outcome
    judgement: Judgement
    head: Head | None
    alias: Alias | None
    usage: bool = False  # whether the page may be used for other things than before
    refusal: Trouble | None = None  # why a page that links led to is not kept


class PageCrawls:
    """Crawls pages that were picked and have a place at their host."""

    def __init__(
        self,
        page_set: PageSet,
        sender: Sender,
        audits: Audits,
        asked: AskedPages,
        rule_for: Callable[[str], DigestRule],
        unconditional: Callable[[], bool],
        links: SiteLinks | None,
    ) -> None:
        """`unconditional` draws whether the next crawl is sent without conditions, to catch wrong answers of 304."""
        self.rule_for = rule_for
        self._page_set, self._sender, self._audits, self._asked = page_set, sender, audits, asked
        self._unconditional, self._links, self._polls = unconditional, links, sender.polls
        self._store, self._pages, self._scheduler = page_set.store, page_set.in_memory, page_set.scheduler
        self._admission, self._clock, self._workers = sender.admission, sender.clock, sender.workers
        self.frames, self._readings = Frames(self._store, self._pages), Readings(sender.workers)
        self._duplicates = Duplicates(page_set, sender)

    async def crawl(self, page: Page, host: int, *, audit: bool = False) -> None:
        """Visit a page; where we are stopped in the middle it is given back as it was, after an error with a wait."""
        chain, before = RequestChain(page.host), self._pages.state(page.id)
        sending = False
        try:
            # A page never seen has no memory to read, and the request leaves that much closer to its slot.
            seen = not math.isnan(self._scheduler.last_success(page.id))
            memory = await self._store.recall(page.id) if seen else None
            sending = True
            visit = await self._visit(page, host, memory, chain, is_alias=before is PageState.ALIAS, audit=audit)
        except BaseException as error:
            if not sending:
                self._admission.abandon(Sent(host))
            fault = isinstance(error, Exception) and not isinstance(error, UnsentError)
            wait = self._clock.now() + LIMITS.fault_wait if fault else -math.inf
            self._scheduler.release(page.id, wait)
            if self._links is not None:
                self._links.given_back(page.id, wait, 1, self._clock.now())
            self._asked.crawled(page.id, "the request was given up")
            raise
        self._scheduler.charge(page.id, chain.requests)
        self._settle(page, host, visit, chain, audit=audit)
        verdict = visit.judgement.verdict
        if verdict is Verdict.NEW or (before is PageState.GONE and verdict is Verdict.CHANGED):
            self._look_for_feeds(visit.outcome, visit.head)
        if self._links is not None and visit.refusal is not None:
            await self._links.refuse(page, visit.refusal.value, self._clock.now())
        if self._page_set.aliases.left:
            await self._page_set.retire_left(self._clock.now())

    async def _visit(
        self, page: Page, host: int, memory: Memory | None, chain: RequestChain, *, is_alias: bool, audit: bool
    ) -> _Visit:
        """Ask a page, read and judge the answer, and look again where that tells more; nothing is recorded yet."""
        at = self._clock.now()
        if is_alias and (kept := self._page_set.aliases.of(page.id)) is not None:
            chain.known = kept.url
        request = self._request(page, host, None if is_alias else memory, at, chain, audit=audit)
        outcome = await self._sender.follow(request, chain)
        recalled, reading, frame, noise = memory, None, self.frames.at_hand(page.host), None
        rule = DEFAULT_RULE
        if isinstance(outcome, Fetched) and outcome.status < 300:
            rule, noise = self.rule_for(page.url), NO_NOISE if frame is None else frame.noise
            try:
                reading, memory = await self._read(page, at, outcome, memory, rule, noise)
                frame = await self._frame(page, memory, reading)
            except TooCostlyError as error:
                outcome = FetchFailed(page.url, Trouble.TOO_COSTLY, Scope.PAGE, str(error))
        given = noise if reading is not None and reading.prepared is not None else None
        judgement = judge(page.id, at, outcome, memory, rule, reading, frame, given)
        if memory is not recalled and judgement.memory is None:
            judgement = judgement._replace(memory=memory)  # digested again: once is enough
        head = None if reading is None else _head(memory, judgement, reading, outcome)
        if isinstance(outcome, Fetched) and judgement.verdict is not Verdict.FAILED:
            judgement = _addressed(page, memory, judgement, outcome, head)
            judgement = self._permitted(memory, judgement, outcome, head)
        if is_alias:
            judgement, alias = await self._check_alias(page, outcome, memory, judgement, chain)
            return _Visit(at, outcome, judgement, head, alias)
        if self._links is not None:  # followed before the crawl is recorded: a kill loses both or none
            refusal = await self._links.refusal(page, outcome, head)
            await self._links.read(page, outcome, memory, judgement.memory, head, self._clock.now())
            if refusal is not None:
                why, sentence = refusal
                refused = Judgement(Verdict.FAILED, PageState.FAILING, trouble=why.value, detail=sentence)
                return _Visit(at, outcome, refused, head, None, refusal=why)
        usage = judgement.memory is not None and _new_terms(memory, judgement.memory)
        if reading is not None and judgement.memory is not None and wants_second_look(judgement):
            judgement = await self._second_look(page, at, reading, judgement, chain)
        if judgement.verdict is Verdict.CHANGED and memory is not None and chain.validators is None:
            await self._check_honesty(page, memory, chain)
        alias, seen = None, judgement.memory or memory
        if judgement.state is PageState.LIVE and seen is not None:
            claim = self._duplicates.claim(page, seen, chain)
            if claim is not None:
                same, now = partial(self._same, page, seen), self._clock.now()
                alias = await self._duplicates.prove(claim, page, seen, chain, same, now)
        self.frames.visited(page, memory, judgement, at)
        return _Visit(at, outcome, judgement, head, alias, usage)

    def _request(
        self, page: Page, host: int, memory: Memory | None, now: float, chain: RequestChain, *, audit: bool
    ) -> Request:
        """The first request of a visit; conditions go to the address that answered last time, here or as a hop."""
        tag = date = None
        if not (audit or memory is None or (memory.etag is None and memory.last_modified is None)):
            gate, answered = self._admission.gate, memory.answered
            asked = host if answered is None else gate.host(host_of(answered))
            if not (gate.export(asked).distrust_304_until > now or self._unconditional()):
                chain.validators = Validators(answered or page.url, memory.etag, memory.last_modified)
                if answered is None:
                    tag, date = memory.etag, memory.last_modified
        use, copy = Use.AUDIT if audit else None, None if memory is None else memory.digest.raw
        return Request(page.url, page.host, Purpose.PAGE, tag, date, use=use, copy=copy)

    async def _check_alias(
        self, page: Page, outcome: Outcome, memory: Memory | None, judgement: Judgement, chain: RequestChain
    ) -> tuple[Judgement, Alias | None]:
        """Returns what the check of an alias tells: that it still is one, or what it is now."""
        seen = judgement.memory or memory
        same = partial(self._same, page, seen) if seen is not None else _never
        if not await self._duplicates.still(page, seen, outcome, chain, same):
            return judgement, Alias(None)
        if isinstance(outcome, FetchFailed):
            return judgement._replace(state=PageState.ALIAS), None
        return Judgement(Verdict.UNCHANGED, PageState.ALIAS), None

    async def _same(self, page: Page, seen: Memory, answer: Fetched) -> bool:
        """Tells whether an answer has the text that was seen of a page, but for what varies there by itself."""
        rule, at = self.rule_for(page.url), self._clock.now() - answer.duration
        if not comparable(seen, rule) or seen.digest == GONE_DIGEST:
            return False
        try:
            reading = await self._readings.read(page.host, answer, seen, rule, at)
        except TooCostlyError:
            return False
        return judge(page.id, at, answer, seen, rule, reading).verdict is Verdict.UNCHANGED

    async def _read(
        self, page: Page, at: float, outcome: Fetched, memory: Memory | None, rule: DigestRule, noise: HostNoise
    ) -> tuple[Reading, Memory | None]:
        """The answer's body as read, and what it is to be compared with, digested by the same rule."""
        if memory is not None and not comparable(memory, rule):
            copy = await self._store.copy(page.id)
            if copy is None or is_cheap(copy):
                memory = digested_again(memory, copy, rule)
            else:
                memory = await self._workers.run(page.host, digested_again, memory, copy, rule)
        return await self._readings.read(page.host, outcome, memory, rule, at, noise), memory

    async def _frame(self, page: Page, memory: Memory | None, reading: Reading) -> HostFrame | None:
        """Returns what the host's pages share, where it could matter: the page is not what it was."""
        if memory is None:
            return None
        before, now = memory.digest.text, reading.digest.text
        if before is None or now is None or before == now:
            return self.frames.at_hand(page.host)
        return await self.frames.read(page.host)

    async def _second_look(
        self, page: Page, at: float, reading: Reading, judgement: Judgement, chain: RequestChain
    ) -> Judgement:
        """Fetch a page that keeps changing in one place again, to learn whether that is noise, or still is.

        What was explained is checked now and then; such a check is one of the audits.
        """
        if is_check(judgement):
            if not self._audits.share.ready:
                return judgement
            self._audits.share.spend()
        # At once, as far as slots and the gate let us: the longer we wait, the more real changes look like noise.
        url = page.url if judgement.memory is None else judgement.memory.answered or page.url
        second_look = Request(url, host_of(url), use=Use.SECOND_LOOK, bare=chain.bare)
        again = await self._sender.send_again(second_look, chain)
        if not isinstance(again, Fetched) or again.status >= 300:
            return judgement
        second_at = self._clock.now() - again.duration
        since = at - self._scheduler.last_success(page.id)
        gate = self._admission.gate
        slow = bool(gate.export(gate.host(page.host)).crawl_delay)
        if not is_pair(second_at - at, since, crawl_delay=slow):
            return judgement
        try:
            rule = self.rule_for(page.url)
            second = await self._readings.read(page.host, again, judgement.memory, rule, second_at)
        except TooCostlyError:
            return judgement  # what the second fetch would have told stays unknown
        log.log(level_of(news=False), "second look", extra={"url": page.url})
        return learn_from_pair(judgement, reading, second)

    async def _check_honesty(self, page: Page, memory: Memory, chain: RequestChain) -> None:
        """Where asking without conditions found a change, see whether the old validators would have hidden it."""
        url = memory.answered or page.url
        name, now = host_of(url), self._clock.now()
        if (memory.etag is None and memory.last_modified is None) or self._admission.distrusts_304(name, now):
            return
        tag, date = memory.etag, memory.last_modified
        conditional = Request(url, name, etag=tag, last_modified=date, use=Use.CHECK, bare=chain.bare)
        answer = await self._sender.send_again(conditional, chain)
        if isinstance(answer, Fetched) and answer.status == 304:
            self._store.record_host(self._admission.distrust_304(name, self._clock.now() + LIMITS.distrust_304))
            log.warning("server answered 304 for a changed page", extra={"url": page.url, "host": name})

    def _settle(self, page: Page, own: int, visit: _Visit, chain: RequestChain, *, audit: bool) -> None:
        """Record the crawl and give the page back, in one synchronous step."""
        at, outcome, judgement, alias = visit.at, visit.outcome, visit.judgement, visit.alias
        checked = judgement.state is PageState.ALIAS  # of a copy of its own nothing is said
        if alias is not None:
            alias = None if page.id not in self._scheduler else alias  # retired meanwhile
        if alias is not None:
            judgement = self._take_alias(page, judgement, alias)
        succeeded = judgement.verdict is not Verdict.FAILED
        last, fresh, signals = self._scheduler.before_crawl(page.id, at)
        fresh = None if checked else fresh
        crawl = Crawl(
            page.id,
            at,
            judgement.verdict,
            outcome.status,
            judgement.trouble,
            judgement.detail,
            tau=at - last if succeeded and fresh is not None else None,
            signals=signals if succeeded else (),
            bytes=outcome.wire_bytes if isinstance(outcome, Fetched) else 0,
            duration=self._clock.now() - at,
            magnitude=judgement.magnitude,
            predicted=fresh,
            conditional=chain.validators is not None,
            audit=audit,
            reverted=judgement.reverted,
        )
        if isinstance(outcome, FetchFailed):
            wait = self._wait(page, own, at, outcome, judgement.state, audit=audit)
        else:
            wait = self._pages.after(page.id, judgement.state, at, audit=audit)
        # An answer that brings no page, such as a 403, shows a host that works all the same.
        answered = isinstance(outcome, FetchFailed) and outcome.scope is Scope.PAGE and outcome.status is not None
        self._admission.judge(own, good=succeeded or answered)
        state, failures = self._pages.state(page.id), self._pages.failures(page.id)
        title, language = (None, None) if judgement.body is None else _title(judgement)
        kept = judgement.memory, judgement.body
        self._store.record(Record(crawl, state, failures, *kept, None, title, visit.usage, language, alias))
        if audit and succeeded:
            self._audits.record(fresh=judgement.verdict is Verdict.UNCHANGED)
        if succeeded:
            if self._polls is not None and page.id in self._polls.gains.heard:
                self._polls.gains.settle(page.host, crawl, last)
            self._scheduler.settle(page.id, at, wait, gone=judgement.state is PageState.GONE)
        else:
            self._scheduler.release(page.id, wait)
        if self._links is not None:
            self._links.given_back(page.id, wait, chain.requests, self._clock.now())
        self._sender.status.count(crawl)
        if page.id in self._asked.pages:
            self._asked.crawled(page.id, crawl)
        log_crawl(page, crawl)

    def _permitted(self, memory: Memory | None, judgement: Judgement, outcome: Fetched, head: Head | None) -> Judgement:
        """The judgement, with what the site says of the use of the page; what an answer leaves out is as it was."""
        kept = judgement.memory or memory
        if kept is None or judgement.state is not PageState.LIVE:
            return judgement
        before, agent = () if memory is None else memory.said, self._sender.robots.token
        in_headers = said_in_headers(outcome.headers, outcome.url, agent)
        if before and outcome.status == 304 and not in_headers:
            in_headers = tuple(one for one in before if one[0].in_headers)
        in_head: tuple[Statement, ...] = ()
        if head is not None:
            in_head = said_in_head(head, agent)
        elif before:
            in_head = tuple(one for one in before if one[0].in_head)
        said = (*self._sender.robots.said(outcome.url), *in_headers, *in_head)[: USAGE_LIMITS.max_statements]
        return judgement if said == kept.said else judgement._replace(memory=replace(kept, said=said))

    def _take_alias(self, page: Page, judgement: Judgement, alias: Alias) -> Judgement:
        """Let a page be another address of one, or a page of its own again."""
        aliases = self._page_set.aliases
        if alias.of is None:
            aliases.end(page.id)
            self._pages.forgive(page.id)
            log.info("page of its own again", extra={"url": page.url})
            return judgement
        aliases.put(page.id, alias.of)
        self.frames.forget(page.host)  # its blocks count once
        log.info("same page", extra={"url": page.url, "of": alias.url, "why": alias.why})
        return judgement._replace(state=PageState.ALIAS)

    def _wait(self, page: Page, own: int, at: float, outcome: FetchFailed, state: PageState, *, audit: bool) -> float:
        """The time before which the page is not asked again: it is not to blame where its host is down."""
        if outcome.trouble is Trouble.HOST_NOT_READY and outcome.retry_after is not None:
            return self._clock.now() + outcome.retry_after  # its turn at the host that it leads to
        gate, now = self._admission.gate, self._clock.now()
        host = gate.host(host_of(outcome.url))
        if outcome.scope is Scope.HOST:
            wait = self._admission.wait_for_host(host, page.id, own, at)
            if wait is not None:
                return wait
        # Its own wait begins when its host may be asked again: it is not the one that is asked first.
        begins = max(now, gate.export(host).asked_until)
        return self._pages.after(page.id, state, begins, audit=audit, trouble=outcome.trouble)

    def _look_for_feeds(self, outcome: Outcome, head: Head | None) -> None:
        """Feeds that a page links to are looked for when it is first seen, and when it comes back.

        The host that answered names them: a redirect may have led to another host.
        """
        if self._polls is not None and isinstance(outcome, Fetched) and head is not None:
            self._polls.found_feeds(outcome.url, head.feeds, self._clock.now())


async def _never(_: Fetched) -> bool:
    return False


def _head(memory: Memory | None, judgement: Judgement, reading: Reading, outcome: Outcome) -> Head | None:
    """Returns what the head of a page says; None where it is the copy that we had, or no page."""
    if not isinstance(outcome, Fetched) or judgement.seen is None:
        return None
    if reading.head is not None or (memory is not None and reading.digest is memory.digest):
        return reading.head
    return read_head(outcome.body, outcome.url)


def _addressed(
    page: Page, memory: Memory | None, judgement: Judgement, outcome: Fetched, head: Head | None
) -> Judgement:
    """The judgement, with the address that answered, and the one that the page says is its own."""
    kept = judgement.memory or memory
    if kept is None:
        return judgement
    at_home = outcome.url == page.url or identity(outcome.url) == identity(page.url)
    answered = None if at_home else outcome.url
    link = outcome.headers.get("link")
    canonical = None if link is None else canonical_in_header(link, outcome.url)
    if head is not None:
        canonical = canonical or head.canonical
    elif outcome.status == 304 or judgement.seen is not None:
        canonical = canonical or kept.canonical
    if (answered, canonical) == (kept.answered, kept.canonical):
        return judgement
    return judgement._replace(memory=replace(kept, answered=answered, canonical=canonical))


def _new_terms(memory: Memory | None, now: Memory) -> bool:
    """Tells whether the page may be used for other things than before."""
    if memory is None or memory.said == now.said or memory.digest == GONE_DIGEST:
        return False
    return usage_of(memory.said).terms != usage_of(now.said).terms


def _title(judgement: Judgement) -> tuple[str | None, str | None]:
    """The title and the language of a copy that is new."""
    kind, body = judgement.memory.content_type if judgement.memory is not None else None, judgement.body or b""
    return page_title(body, kind), page_language(body, kind)


def log_crawl(page: Page, crawl: Crawl) -> None:
    """One line per crawl: at info where it found a change or failed."""
    level = level_of(news=crawl.verdict is not Verdict.UNCHANGED and crawl.verdict is not Verdict.NEW)
    if not log.isEnabledFor(level):
        return
    log.log(
        level,
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
