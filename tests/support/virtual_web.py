"""The real crawler over hours within a second: a loop whose time jumps to its next timer, and a web in memory."""

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from crawld.choose import policies
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.pacer import Pacer, SlotShares
from crawld.choose.page_table import Intervals
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.crawl.admission import Admission
from crawld.crawl.loop import Crawler
from crawld.crawl.sender import Sender
from crawld.fetch.robots_cache import RobotsCache
from crawld.model.crawl import Memory
from crawld.model.errors import StoreError
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Request, RobotsState, Scope, Trouble
from crawld.model.host import HostState
from crawld.model.page import Page
from crawld.model.url import host_of
from crawld.pages.aliases import Aliases
from crawld.pages.page_set import PageSet
from crawld.pages.pages import Pages
from crawld.read.page.rules import DigestRule
from crawld.signals.poll_signals import PageIndex
from crawld.store.batch import Record
from crawld.store.store import SqlStore
from tests.support.in_place import InPlace

EPOCH = 1_700_000_000.0
HOST = "example.org"
ROBOTS = f"https://{HOST}/robots.txt"
Answer = Callable[[Request], Outcome]


class _Jump(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Skip the time in which nothing happens."""
        assert timeout is not None, "nothing will ever happen"
        self.now += timeout + 1e-6 if timeout > 0 else 0.0  # beyond any rounding
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """The virtual time."""
        return self._jump.now


def in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end; sleeping takes no time."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(work)


class VirtualClock:
    """The loop's time, on the wall and monotonic."""

    def now(self) -> float:
        """UTC seconds."""
        return EPOCH + self.monotonic()

    def monotonic(self) -> float:
        """Seconds since the loop began."""
        return asyncio.get_running_loop().time()

    async def sleep_until(self, monotonic: float) -> None:
        """Sleep until that moment."""
        await asyncio.sleep(max(monotonic - self.monotonic(), 0.0))


def well(request: Request) -> Outcome:
    """A page that never changes; there is no robots.txt."""
    return Fetched(request.url, 404 if request.url.endswith("/robots.txt") else 200, b"<p>text</p>", duration=0.05)


def status(code: int, retry_after: float | None = None) -> Answer:
    """An answer without a page, as the fetcher tells it."""

    def answer(request: Request) -> Outcome:
        scope = Scope.HOST if code == 429 or code >= 500 else Scope.PAGE
        return FetchFailed(request.url, Trouble.STATUS, scope, f"status {code}", code, retry_after, 0.05)

    return answer


def refused(request: Request) -> Outcome:
    """No connection."""
    return FetchFailed(request.url, Trouble.REFUSED, Scope.HOST, "connection refused")


def silent(request: Request) -> Outcome:
    """No answer in time."""
    return FetchFailed(request.url, Trouble.TIMEOUT, Scope.HOST, "no bytes in time", duration=30.0)


@dataclass
class Web:
    """What a URL answers now: its own behaviour where it has one, else that of all."""

    everywhere: Answer = well
    own: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[float, str]] = field(default_factory=list)  # when, and which URL
    under_way: int = 0
    most_under_way: int = 0

    async def fetch(self, request: Request) -> Outcome:
        """Answer after the time that takes."""
        outcome = self.own.get(request.url, self.everywhere)(request)
        self.asked.append((asyncio.get_running_loop().time(), request.url))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(max(outcome.duration, 0.001))
        finally:
            self.under_way -= 1
        return outcome

    async def close(self) -> None:
        """Nothing to let go of."""

    def between(self, start: float, end: float) -> list[str]:
        """The URLs asked in a span of time."""
        return [url for at, url in self.asked if start <= at < end]


@dataclass
class _Memory:
    """A store that keeps what the crawler reads back."""

    healthy: bool = True
    trouble: str | None = None
    trouble_since: float | None = None
    hosts: dict[str, HostState] = field(default_factory=dict)
    memories: dict[int, Memory] = field(default_factory=dict)
    to_fail: int = 0  # so many of the next recalls
    failed: int = 0

    async def recall(self, page_id: int) -> Memory | None:
        if self.to_fail:
            self.to_fail -= 1
            self.failed += 1
            raise StoreError("the database cannot be read")
        return self.memories.get(page_id)

    def record(self, record: Record) -> None:
        if record.memory is not None:
            self.memories[record.crawl.page_id] = record.memory

    async def flush(self) -> None:
        """Everything is kept at once."""

    def record_robots(self, robots: RobotsState) -> None:
        """Queue what is known of a robots.txt: nobody asks for it here."""

    def record_host(self, host: HostState) -> None:
        self.hosts[host.name] = host


def page_url(number: int) -> str:
    """The URL of a page of the host."""
    return f"https://{HOST}/{number}"


class Crawling:
    """The daemon's crawler at work on one host of the virtual web, or on the URLs given."""

    def __init__(
        self,
        web: Web,
        pages: int | Sequence[str],
        *,
        rate: float = 2.0,
        per_host: int = 1,
        shortest: float = 1.0,
        spacing: float | None = None,
        rule_for: Callable[[str], DigestRule] = lambda _: DigestRule(),
        policy: str = "greedy-ncis",
        read_share: float = 0.5,
        audit_share: float = 0.0,
    ) -> None:
        self.web, self.clock, self.pages = web, VirtualClock(), Pages()
        self.store = _Memory()
        self.robots = RobotsCache("crawld", pages_on=self.pages.on_host, hosts=self.pages.count_hosts)
        urls = [page_url(number) for number in range(pages)] if isinstance(pages, int) else pages
        manners = HostLimits(spacing=1 / rate if spacing is None else spacing, per_host=per_host, max_delay=60.0)
        self.gate = HostGate(manners, random.Random(1))
        intervals = Intervals(shortest=shortest)
        chooser = policies.choose(policy).chooser(bandwidth=rate, gate=self.gate, intervals=intervals)
        self.scheduler = Scheduler(chooser)
        self.add(urls)
        index = PageIndex()
        index.put(list(self.pages))
        aliases = Aliases(self.pages, self.scheduler, index, merges=False)
        store = cast("SqlStore", self.store)
        pacer = Pacer(rate, self.clock.monotonic())
        admission = Admission(self.gate, self.robots, self.pages, self.scheduler, pacer, self.clock)
        page_set = PageSet(store, self.pages, self.scheduler, self.gate, index, aliases)
        sender = Sender(web, admission, store, InPlace())
        shares = SlotShares(audits=audit_share, reads=read_share)
        self.crawler = Crawler(page_set, sender, rule_for, random.Random(2), shares)

    def add(self, urls: Sequence[str]) -> None:
        """Take further pages in."""
        first, many = len(self.pages), len(urls)
        for number, url in enumerate(urls, first):
            self.pages.put(Page(number, url, host_of(url), 1.0))
        self.scheduler.add(
            Arrivals(
                ids=np.arange(first, first + many),
                hosts=np.array([self.gate.host_of_pages(host_of(url)) for url in urls]),
                importance=np.ones(many),
                last=np.full(many, np.nan),
            )
        )

    async def __aenter__(self) -> "Crawling":
        self._task = asyncio.create_task(self.crawler.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.crawler.stop()
        await self._task
        await self.crawler.drain(60.0)
        assert self.crawler.status.faults == self.store.failed
