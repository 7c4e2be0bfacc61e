"""The parts of a daemon that signals concern, over a real site and a real store."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

from crawld.choose import policies
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.pacer import Pacer
from crawld.choose.scheduler import Scheduler
from crawld.crawl.admission import Admission
from crawld.crawl.polls import Polls
from crawld.fetch.http import HttpFetcher
from crawld.fetch.robots_cache import Allowed, NeedsFetch, RobotsCache
from crawld.model.clock import SystemClock
from crawld.model.fetched import Purpose, Request
from crawld.model.page import Page, Wanted
from crawld.pages.page_set import PageSet
from crawld.pages.pages import Pages
from crawld.signals.poll_signals import PageIndex
from crawld.signals.polled_sources import Discovery, PolledSources, PollResult, PollSettings
from crawld.store.store import SqlStore
from tests.support.in_place import InPlace
from tests.support.process import HANG_SECONDS
from tests.support.site import LOOPBACK, Site

DAY = 86_400.0
AGENT = "crawld-test (+https://example.org/bot)"


class SignalDaemon:
    """Polls a site of which the pages `/ok/0` to `/ok/4` are on the list, each crawled a day ago."""

    def __init__(self, site: Site, database: Path, discovery: Discovery | None = None) -> None:
        self.site = site
        self.clock = SystemClock()
        self.store = SqlStore(f"sqlite:///{database}")
        self.fetcher = HttpFetcher(self.clock, AGENT, allow_private=[LOOPBACK])
        self.gate = HostGate(HostLimits(0.0, 60.0, 1), random.Random(1))
        self.scheduler = Scheduler(policies.choose("greedy-ncis").chooser(bandwidth=10.0, gate=self.gate))
        self.robots = RobotsCache(AGENT)
        self.pages = Pages(discovery.scope if discovery is not None else ())
        self.index = PageIndex()
        pacer = Pacer(10.0, self.clock.monotonic())
        self.admission = Admission(self.gate, self.robots, self.pages, self.scheduler, pacer, self.clock)
        self.page_set = PageSet(self.store, self.pages, self.scheduler, self.gate, self.index)
        settings = PollSettings(discovery=discovery)
        self.sources = PolledSources(self.index, self.scheduler.last_success, settings, self.pages.on_host)
        self.results: list[PollResult] = []
        self.polls = Polls(self.sources, self.store, self.scheduler, self.clock, InPlace(), [self.note])

    async def note(self, result: PollResult) -> None:
        """Keep what a poll led to."""
        self.results.append(result)

    async def start(self) -> None:
        """Take in the pages and what was watched before."""
        await self.store.start()
        now = self.clock.now()
        await self.page_set.restore(now)
        await self.page_set.index()
        wanted = [Wanted(self.site.url(f"/ok/{i}"), 7.0) for i in range(5)]
        await self.page_set.adopt(wanted, origin="list", now=now)
        for page in list(self.pages):
            assert self.scheduler.hold(page.id, now)
            self.scheduler.settle(page.id, now - DAY)
        self.sources.restore(await self.store.sources())

    async def stop(self) -> None:
        """Let go of everything."""
        await self.store.close()
        await self.fetcher.close()

    async def poll(self, later: float = 0.0) -> PollResult:
        """Send the next poll as the crawler would, robots.txt first where that is not known."""
        now = self.clock.now() + later
        chosen = self.polls.choose(now, self.admission)
        assert chosen is not None
        request, verdict = chosen
        if isinstance(verdict, NeedsFetch):
            robots = Request(verdict.url, request.host, Purpose.ROBOTS)
            self.robots.learn(verdict.url, await self.fetcher.fetch(robots), now)
            return await self.poll(later)
        assert isinstance(verdict, Allowed)
        assert self.polls.choose(now, self.admission) is None
        await self.polls.run(request, self.fetcher.fetch, self.fetcher.fetch)
        return self.results[-1]

    async def run_errand(self) -> Request:
        """Send the next request that follows from a push, as the crawler would; which it was."""
        chosen = None
        async with asyncio.timeout(HANG_SECONDS):
            while chosen is None:
                await asyncio.sleep(0)
                chosen = self.polls.choose(self.clock.now(), self.admission)
        request, verdict = chosen
        if isinstance(verdict, NeedsFetch):
            robots = Request(verdict.url, request.host, Purpose.ROBOTS)
            self.robots.learn(verdict.url, await self.fetcher.fetch(robots), self.clock.now())
            return await self.run_errand()
        await self.polls.run(request, self.fetcher.fetch, self.fetcher.fetch)
        return request

    def page(self, path: str) -> Page:
        """The page we hold at that path."""
        (found,) = [page for page in self.pages if page.url == self.site.url(path)]
        return found

    def signals(self, path: str) -> tuple[int, ...]:
        """What the scheduler counted for the page, by source."""
        standing = self.scheduler.standing(self.page(path).id)
        assert standing is not None
        return standing.signals

    def paths(self) -> Sequence[str]:
        """The paths of all pages we hold."""
        return sorted(page.url.removeprefix(self.site.url("")) for page in self.pages)
