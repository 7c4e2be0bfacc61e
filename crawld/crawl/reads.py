"""Reading through: a page is fetched at the moment it is read, where its copy is not fresh enough.

A reader who insists on a freshness gets a slot before all others, within the share of reads. A reader who can wait gets
one where that is the best use of it: the crawl value V counts the fresh reads that a request buys later, and a reader
who waits now adds 1 − f (docs/method.md, "Reads"). Everyone else reads the copy at once.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from crawld.crawl.asked_pages import ReadClaim
from crawld.crawl.loop import Crawler
from crawld.model.crawl import Crawl, Verdict
from crawld.model.errors import StoreError
from crawld.model.page import Page, PageState
from crawld.pages.demand import DAY


@dataclass(frozen=True, slots=True)
class Freshened:
    """What was done so that a copy is fresh when it is read.

    `state` is fresh (the copy is as fresh as was asked for), crawled (it was fetched for this read, or for one that
    came before), stale (it is older than was asked for: `reason` says why) or unknown (the page is not kept).
    """

    state: str
    reason: str | None = None


class FreshReads(Protocol):
    """Fetches pages at the moment they are read."""

    async def freshen(self, url: str, min_freshness: float | None, wait: float | None) -> Freshened:
        """Have the copy of a page be that fresh, for which the reader waits so many seconds at the most.

        Without `min_freshness` the page is fetched where that is the best use of the next slot.
        """

    async def first_copies(self, urls: Sequence[str], wait: float) -> None:
        """Wait until pages have their first copies, or for so many seconds."""


@dataclass(frozen=True)
class ReadsLimits:
    """Numbers that bound and tune this module."""

    wait_seconds: float = 10.0
    """For which a reader who insists waits unless it says how long."""
    memory_seconds: float = 3600.0
    """In which a read counts for less and less: how often pages are read differs by the hour."""
    min_copied: float = 0.05
    """The share of reads that crawl values are taken to serve at least."""
    weigh_seconds: float = 10.0
    """For which the importance of all pages together is taken to stay."""


LIMITS = ReadsLimits()


class ReadRate:
    """How often copies are read, of all pages together, lately; and how many of the readers took the copy as it was."""

    def __init__(self, now: float) -> None:
        self._at, self._reads, self._fetched, self._seconds = now, 0.0, 0.0, 0.0

    def count(self, now: float) -> None:
        """One more read."""
        gone = max(now - self._at, 0.0)
        kept = math.exp(-gone / LIMITS.memory_seconds)
        self._at, self._reads, self._fetched = now, self._reads * kept + 1.0, self._fetched * kept
        self._seconds = self._seconds * kept + LIMITS.memory_seconds * (1.0 - kept)

    def fetched(self) -> None:
        """A read was answered by a fetch."""
        self._fetched += 1.0

    @property
    def per_second(self) -> float:
        """Reads a second."""
        return self._reads / max(self._seconds, 1.0)

    @property
    def copied(self) -> float:
        """The share of readers who took the copy as it was."""
        return max(1.0 - self._fetched / max(self._reads, 1.0), LIMITS.min_copied)


class Reads:
    """Freshens pages through the crawler of this process.

    With `by_requests` importance is in requests a day already. Where crawl values do not count fresh reads
    (`in_reads` false) nothing can be weighed against them, and only those who insist are fetched for.
    """

    def __init__(self, crawler: Crawler, *, by_requests: bool, in_reads: bool) -> None:
        self._crawler = crawler
        self._by_requests, self._in_reads = by_requests, in_reads
        self._rate = ReadRate(self._crawler.clock.now())
        self._weight, self._weighed_at = 0.0, -math.inf

    async def freshen(self, url: str, min_freshness: float | None, wait: float | None) -> Freshened:
        """Have the copy of a page be that fresh, for which the reader waits so many seconds at the most.

        1. The page is not kept: there is nothing to ask for.
        2. The copy is as fresh as the reader insists on, or the reader insists on nothing and does not wait.
        3. The page cannot be asked for this read, or not in time.
        4. The reader insists: the page goes before all others.
        5. The reader waits: the page gets a slot if its worth with this reader reaches the level of other pages.
        """
        now = self._crawler.clock.now()
        self._rate.count(now)
        worth = self._read_worth(now)
        self._crawler.asked.weigh_reads(worth)
        page = self._find(url)
        if page is None:
            return Freshened("unknown")
        fresh = self._crawler.scheduler.freshness_of(page.id, now)
        if min_freshness is None:
            if not wait or not self._in_reads:
                return Freshened("fresh")
        elif fresh >= min_freshness:
            return Freshened("fresh")
        seconds = LIMITS.wait_seconds if wait is None else wait
        claim = ReadClaim.BID if min_freshness is None else ReadClaim.INSIST
        reason = self._refusal(page, claim, seconds, now)
        if reason is None and claim is ReadClaim.BID and not self._worth_it(page, worth * (1.0 - fresh), now):
            reason = "the slot is worth more on another page"
        return Freshened("stale", reason) if reason is not None else await self._wait(page, claim, seconds, now)

    async def first_copies(self, urls: Sequence[str], wait: float) -> None:
        """Wait until pages have their first copies, or for so many seconds."""
        scheduler, now = self._crawler.scheduler, self._crawler.clock.now()
        pages = [page for url in urls if (page := self._find(url)) is not None]
        new = [page for page in pages if math.isnan(scheduler.last_success(page.id))]
        await asyncio.gather(*(self._read(page, ReadClaim.INSIST, wait, now) for page in new))
        await self._commit(wait)  # of those that were crawled before we looked, too

    def _find(self, url: str) -> Page | None:
        """The page that the URL is an address of, if the scheduler has it."""
        aliases = self._crawler.page_set.aliases
        found = aliases.find(url)
        page = found if found is None else aliases.of(found.id) or found
        return page if page is not None and page.id in self._crawler.scheduler else None

    def _read_worth(self, now: float) -> float:
        """What one fresh read is worth in the unit of crawl values: the inverse of reads a second by importance.

        Crawl values buy fresh reads for those who take the copy as it is: others are fetched for, and do not count.
        """
        if abs(now - self._weighed_at) > LIMITS.weigh_seconds:
            self._weight, self._weighed_at = self._crawler.scheduler.total_weight(), now
        scale = DAY if self._by_requests else self._weight / self._rate.per_second
        return scale / self._rate.copied

    def _worth_it(self, page: Page, worth: float, now: float) -> bool:
        scheduler = self._crawler.scheduler
        return worth > 0 and scheduler.value_of(page.id, now) + worth >= scheduler.chooser.level

    def _refusal(self, page: Page, claim: ReadClaim, wait: float, now: float) -> str | None:
        """Returns why the page is not asked for this reader; None where it is."""
        crawler = self._crawler
        if wait <= 0:
            return "the reader does not wait"
        if page.id in crawler.asked or crawler.scheduler.held(page.id):
            return None
        if crawler.pages.state(page.id) is PageState.FAILING and crawler.scheduler.waits_until(page.id) > now:
            return "its last crawl failed, and it is not asked again yet"
        rate = crawler.pacer.rate * crawler.read_share.share
        if rate <= 0:
            return (
                "crawling is paused" if crawler.pacer.rate <= 0 else "no slots are given to reads (read_through.share)"
            )
        if claim is ReadClaim.INSIST and crawler.asked.waiting(ReadClaim.INSIST) >= max(rate * wait, 1.0):
            return "the share of slots for reads is used up (read_through.share)"
        return None

    async def _read(self, page: Page, claim: ReadClaim, wait: float, now: float) -> Crawl | str | None:
        under_way = self._crawler.scheduler.held(page.id)
        self._crawler.wake()
        return await self._crawler.asked.read(page, now, wait, under_way=under_way, claim=claim)

    async def _wait(self, page: Page, claim: ReadClaim, wait: float, now: float) -> Freshened:
        answer = await self._read(page, claim, wait, now)
        if answer is None:
            return Freshened("stale", self._why_late(page, wait))
        if isinstance(answer, str):
            return Freshened("stale", answer)
        if answer.verdict is Verdict.FAILED:
            return Freshened("stale", f"the page could not be fetched: {answer.trouble}")
        left = wait - (self._crawler.clock.now() - now)
        if not await self._commit(max(left, 1.0)):
            return Freshened("stale", "what was fetched is not written yet")
        self._rate.fetched()
        return Freshened("crawled")

    async def _commit(self, seconds: float) -> bool:
        """Tells whether what was crawled is in the database."""
        try:
            async with asyncio.timeout(seconds):
                await self._crawler.store.flush()
        except (TimeoutError, StoreError):
            return False
        return True

    def _why_late(self, page: Page, wait: float) -> str:
        """Returns why a page that was waited for did not come in time."""
        crawler, now = self._crawler, self._crawler.clock.now()
        if page.id in crawler.scheduler and crawler.scheduler.held(page.id):
            return f"the request is under way and took longer than {wait:g} s"
        if not crawler.gate.ready(crawler.gate.host(page.host), now):
            return f"its host could not be asked within {wait:g} s"
        return f"no slot came within {wait:g} s in the share of reads (read_through.share)"
