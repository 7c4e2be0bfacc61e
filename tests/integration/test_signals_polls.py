"""Polls over real HTTP into a real store: what a site announces reaches scheduler and database, over restarts too."""

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from crawld.clock import SystemClock
from crawld.daemon.listener import Polls
from crawld.daemon.pages import Pages
from crawld.fetch.http import HttpFetcher
from crawld.fetch.robots_cache import RobotsCache
from crawld.interfaces import Allowed, NeedsFetch, PollResult
from crawld.model.estimate import Estimate
from crawld.model.fetched import Fetched, Outcome, Purpose, Request
from crawld.model.page import Page, Wanted
from crawld.model.signal import Source
from crawld.scheduler import policies
from crawld.scheduler.politeness import HostGate, Manners
from crawld.scheduler.scheduler import Arrivals, Scheduler
from crawld.signals.listener import Listener, Listening
from crawld.signals.matching import PageIndex, keys_of
from crawld.store import SqlStore
from tests.site import LOOPBACK, Site, Visit

DAY = 86_400.0
AGENT = "crawld-test (+https://example.org/bot)"


class Daemon:
    """The parts of a daemon that polls concern, over one site of five pages."""

    def __init__(self, site: Site, database: Path) -> None:
        self.site = site
        self.clock = SystemClock()
        self.store = SqlStore(f"sqlite:///{database}")
        self.fetcher = HttpFetcher(self.clock, AGENT, allow_private=[LOOPBACK])
        self.gate = HostGate(Manners(0.0, 60.0, 1), random.Random(1))
        policy = policies.choose("greedy-ncis")
        self.scheduler = Scheduler(policy.chooser(bandwidth=10.0, gate=self.gate))
        self.robots = RobotsCache(AGENT)
        self.index = PageIndex()
        self.listener = Listener(self.index, self.last_success, Listening())
        self.results: list[PollResult] = []
        self.polls = Polls(self.listener, self.store, self.scheduler, self.clock, [self.note])

    def last_success(self, page_id: int) -> float:
        """When the scheduler last knew the page."""
        standing = self.scheduler.standing(page_id)
        return np.nan if standing is None else standing.last

    async def note(self, result: PollResult) -> None:
        """Keep what a poll led to."""
        self.results.append(result)

    async def start(self) -> None:
        """Take in the pages, each crawled a day ago, and what was watched before."""
        await self.store.start()
        wanted = [Wanted(self.site.url(f"/ok/{i}")) for i in range(5)]
        await self.store.adopt(wanted, origin="list", now=self.clock.now())
        stored = await self.store.restore()
        hosts = np.array([self.gate.host(host) for host in stored.hosts])
        last = np.full(len(stored.ids), self.clock.now() - DAY)
        self.scheduler.add(Arrivals(stored.ids, hosts, stored.importance, last))
        self.index.put([Page(int(i), url, "") for i, url in zip(stored.ids, stored.urls, strict=True)])
        self.listener.restore(await self.store.sources())

    async def stop(self) -> None:
        """Let go of everything."""
        await self.store.close()
        await self.fetcher.close()

    async def poll(self, later: float = 0.0) -> PollResult:
        """Send the next poll as the crawler would, robots.txt first where that is not known."""
        now = self.clock.now() + later
        chosen = self.polls.choose(now, self.gate, self.robots)
        assert chosen is not None
        request, verdict = chosen
        if isinstance(verdict, NeedsFetch):
            robots = Request(verdict.url, request.host, Purpose.ROBOTS)
            self.robots.learn(verdict.url, await self.fetcher.fetch(robots), now)
            return await self.poll(later)
        assert isinstance(verdict, Allowed)
        assert self.polls.choose(now, self.gate, self.robots) is None
        await self.polls.run(request, self.fetcher.fetch)
        return self.results[-1]

    def signals(self, page: int) -> tuple[int, ...]:
        """What the scheduler counted for page `/ok/<page>`."""
        (_,), (page_id,) = self.index.find(self._key(page))
        standing = self.scheduler.standing(int(page_id))
        assert standing is not None
        return standing.signals

    def _key(self, page: int) -> np.ndarray:
        return keys_of([self.site.url(f"/ok/{page}/").replace("http:", "https:")])


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site with a sitemap that lists its pages with the lastmods in `site.versions`, as days of January 2020."""
    async with Site() as site:

        async def sitemap(visit: Visit) -> None:
            rows = []
            for i in range(5):
                version = site.versions.get(f"/ok/{i}", 0)
                at = datetime.now(UTC).isoformat() if version == 99 else f"2020-01-{version + 1:02d}"
                rows.append(f"<url><loc>{site.url(f'/ok/{i}')}</loc><lastmod>{at}</lastmod></url>")
            padding = f"<!-- {'x' * site.versions.get('padding', 0)} -->"
            await visit.reply_cached(f"<urlset>{padding}{''.join(rows)}</urlset>", f'"{site.versions}"')

        site.pages["/sitemap.xml"] = sitemap
        yield site


async def test_a_change_of_lastmod_reaches_scheduler_and_store(site: Site, tmp_path: Path) -> None:
    """The first poll is a baseline, the second a 304, the third signals the one page that changed."""
    daemon = Daemon(site, tmp_path / "c.db")
    await daemon.start()
    daemon.polls.found(site.url("/robots.txt"), [], daemon.clock.now())
    assert (await daemon.poll()).summary == "entries=5 ours=5"
    assert (await daemon.poll(later=DAY)).summary == "not modified"
    site.versions["/ok/3"] = 99
    site.versions["padding"] = 200_000  # large enough to be read off the loop
    assert (await daemon.poll(later=2 * DAY)).summary == "entries=5 ours=5 moved=1 signals=1"
    assert (daemon.signals(3), daemon.signals(2)) == ((1, 0, 0, 0), (0, 0, 0, 0))
    await daemon.store.flush()
    assert (await daemon.store.restore()).signals[:, 0].sum() == 1
    assert len(site.visits("/sitemap.xml")) == 3
    await daemon.stop()


async def test_a_restart_remembers_what_was_listed(site: Site, tmp_path: Path) -> None:
    """After a restart the next change is told from what the last run saw; nothing is signalled twice."""
    first = Daemon(site, tmp_path / "c.db")
    await first.start()
    first.polls.found(site.url("/robots.txt"), [site.url("/sitemap.xml")], first.clock.now())
    await first.poll()
    await first.stop()
    site.versions["/ok/1"] = 99
    second = Daemon(site, tmp_path / "c.db")
    await second.start()
    assert [signal.stale for signal in (await second.poll(later=DAY)).signals] == [False]
    assert (await second.poll(later=2 * DAY)).summary == "not modified"
    await second.stop()


async def test_a_disallowed_sitemap_is_not_asked(site: Site, tmp_path: Path) -> None:
    """robots.txt holds for sitemaps too: the file fades without a request."""
    site.robots["127.0.0.1"] = "User-agent: *\nDisallow: /sitemap.xml\n"
    daemon = Daemon(site, tmp_path / "c.db")
    await daemon.start()
    daemon.polls.found(site.url("/robots.txt"), [site.url("/sitemap.xml")], daemon.clock.now())
    robots = Request(site.url("/robots.txt"), site.host(), Purpose.ROBOTS)
    daemon.robots.learn(robots.url, await daemon.fetcher.fetch(robots), daemon.clock.now())
    assert daemon.polls.choose(daemon.clock.now(), daemon.gate, daemon.robots) is None
    file = daemon.listener.schedule.get(site.url("/sitemap.xml"))
    assert file is not None
    assert (file.failures, file.trouble is not None and file.trouble.startswith("robots")) == (1, True)
    assert not site.visits("/sitemap.xml")
    await daemon.stop()


async def test_a_poll_that_breaks_off_is_due_again(site: Site, tmp_path: Path) -> None:
    """A poll whose sending fails by a fault of our own comes up again later."""
    daemon = Daemon(site, tmp_path / "c.db")
    await daemon.start()
    daemon.polls.found(site.url("/robots.txt"), [site.url("/sitemap.xml")], daemon.clock.now())
    daemon.robots.learn(site.url("/robots.txt"), Fetched(site.url("/robots.txt"), 404), daemon.clock.now())
    chosen = daemon.polls.choose(daemon.clock.now(), daemon.gate, daemon.robots)
    assert chosen is not None

    async def broken(request: Request) -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await daemon.polls.run(chosen[0], broken)
    assert daemon.polls.choose(daemon.clock.now(), daemon.gate, daemon.robots) is None
    assert (await daemon.poll(later=DAY)).summary == "entries=5 ours=5"
    await daemon.stop()


async def test_estimates_teach_what_signals_are_worth(site: Site, tmp_path: Path) -> None:
    """Many signals that proved worthless lower a host's worth; a few do not yet."""
    daemon = Daemon(site, tmp_path / "c.db")
    pages = Pages()
    pages.put(Page(1, site.url("/ok/1"), site.host()))
    worth = daemon.listener._precision
    for count, low, high in ((4, 0.9, 1.0), (10_000, 0.0, 0.1)):
        known = Estimate(1, 0.0, 1.0, 1.0, (0.05, 0.0, 0.0, 0.0), signals=(count, 0, 0, 0))
        daemon.polls.learn([known, Estimate(2, 0.0, 1.0, 1.0)], pages)
        assert low < worth[site.host(), Source.SITEMAP] < high
    assert len(worth) == 1
    await daemon.fetcher.close()
