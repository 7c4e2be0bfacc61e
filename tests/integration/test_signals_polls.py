"""Polls over real HTTP into a real store: what a site announces reaches scheduler and database, over restarts too."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crawld.model.estimate import Estimate
from crawld.model.fetched import Fetched, Outcome, Purpose, Request
from crawld.model.page import Page
from crawld.model.signal import Source
from crawld.pages.pages import Pages
from tests.support.signal_daemon import DAY, SignalDaemon
from tests.support.site import Site, Visit
from tests.support.store_builders import by_source


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
    daemon = SignalDaemon(site, tmp_path / "c.db")
    await daemon.start()
    daemon.polls.found(site.url("/robots.txt"), [], daemon.clock.now())
    assert (await daemon.poll()).summary == "entries=5 ours=5"
    assert (await daemon.poll(later=DAY)).summary == "not modified"
    site.versions["/ok/3"] = 99
    site.versions["padding"] = 200_000  # large enough to be read off the loop
    assert (await daemon.poll(later=2 * DAY)).summary == "entries=5 ours=5 moved=1 signals=1"
    assert (daemon.signals("/ok/3"), daemon.signals("/ok/2")) == (by_source(sitemap=1), by_source())
    await daemon.store.flush()
    assert (await daemon.store.restore()).signals[:, 0].sum() == 1
    assert len(site.visits("/sitemap.xml")) == 3
    await daemon.stop()


async def test_a_restart_remembers_what_was_listed(site: Site, tmp_path: Path) -> None:
    """After a restart the next change is told from what the last run saw; nothing is signalled twice."""
    first = SignalDaemon(site, tmp_path / "c.db")
    await first.start()
    first.polls.found(site.url("/robots.txt"), [site.url("/sitemap.xml")], first.clock.now())
    await first.poll()
    await first.stop()
    site.versions["/ok/1"] = 99
    second = SignalDaemon(site, tmp_path / "c.db")
    await second.start()
    assert [signal.stale for signal in (await second.poll(later=DAY)).signals] == [False]
    assert (await second.poll(later=2 * DAY)).summary == "not modified"
    await second.stop()


async def test_a_disallowed_sitemap_is_not_asked(site: Site, tmp_path: Path) -> None:
    """robots.txt holds for sitemaps too: the file fades without a request."""
    site.robots["127.0.0.1"] = "User-agent: *\nDisallow: /sitemap.xml\n"
    daemon = SignalDaemon(site, tmp_path / "c.db")
    await daemon.start()
    daemon.polls.found(site.url("/robots.txt"), [site.url("/sitemap.xml")], daemon.clock.now())
    robots = Request(site.url("/robots.txt"), site.host(), Purpose.ROBOTS)
    daemon.robots.learn(robots.url, await daemon.fetcher.fetch(robots), daemon.clock.now())
    assert daemon.polls.choose(daemon.clock.now(), daemon.admission) is None
    file = daemon.sources.schedule.get(site.url("/sitemap.xml"))
    assert file is not None
    assert (file.failures, file.trouble is not None and file.trouble.startswith("robots")) == (1, True)
    assert not site.visits("/sitemap.xml")
    await daemon.stop()


async def test_a_poll_that_breaks_off_is_due_again(site: Site, tmp_path: Path) -> None:
    """A poll whose sending fails by a fault of our own comes up again later."""
    daemon = SignalDaemon(site, tmp_path / "c.db")
    await daemon.start()
    daemon.polls.found(site.url("/robots.txt"), [site.url("/sitemap.xml")], daemon.clock.now())
    daemon.robots.learn(site.url("/robots.txt"), Fetched(site.url("/robots.txt"), 404), daemon.clock.now())
    chosen = daemon.polls.choose(daemon.clock.now(), daemon.admission)
    assert chosen is not None

    async def broken(request: Request) -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await daemon.polls.run(chosen[0], broken, broken)
    assert daemon.polls.choose(daemon.clock.now(), daemon.admission) is None
    assert (await daemon.poll(later=DAY)).summary == "entries=5 ours=5"
    await daemon.stop()


async def test_estimates_teach_what_signals_are_worth(site: Site, tmp_path: Path) -> None:
    """Many signals that proved worthless lower a host's worth, few at a time or all at once; a few do not yet."""
    daemon, few = SignalDaemon(site, tmp_path / "c.db"), SignalDaemon(site, tmp_path / "c.db")
    pages = Pages()
    pages.put(Page(1, site.url("/ok/1"), site.host()))
    for one in (daemon, few):
        one.pages.put(Page(1, site.url("/ok/1"), site.host()))
        assert one.sources.found(site.url("/robots.txt"), [], one.clock.now())
    worth = daemon.sources.precision
    for count, low, high in ((4, 0.9, 1.0), (10_000, 0.0, 0.1)):
        known = Estimate(1, 0.0, 1.0, 1.0, by_source(sitemap=0.05), signals=by_source(sitemap=count))
        daemon.polls.learn([known, Estimate(2, 0.0, 1.0, 1.0)], pages)
        assert low < worth[site.host(), Source.SITEMAP] < high
    assert len(worth) == 1
    for _ in range(200):
        few.polls.learn([Estimate(1, 0.0, 1.0, 1.0, by_source(sitemap=0.05), signals=by_source(sitemap=20))], pages)
    assert few.sources.precision[site.host(), Source.SITEMAP] < 0.15
    await few.fetcher.close()
    await daemon.fetcher.close()
