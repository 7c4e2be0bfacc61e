"""The real daemon, and hosts that abuse what it listens to: floods of sitemaps, and redirects to a stranger's."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from crawld.signals.schedule import LIMITS as SCHEDULE_LIMITS
from tests.support.behaviours import answer
from tests.support.process import daemon, settings
from tests.support.site import Behaviour, Site, Visit

EVIL, HONEST, FRESH = 1, 2, range(3, 63)


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    """What the daemon's database answers."""
    connection = sqlite3.connect(folder / "x.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def listing_later(*urls: str) -> Behaviour:
    """A sitemap whose entries claim to have changed after whatever crawl there was."""

    async def reply(visit: Visit) -> None:
        at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        entries = "".join(f"<url><loc>{url}</loc><lastmod>{at}</lastmod></url>" for url in urls)
        await answer(f"<urlset>{entries}</urlset>", content_type="application/xml")(visit)

    return reply


async def test_a_flood_of_sitemaps_takes_no_turns_of_others(tmp_path: Path) -> None:
    """One host plants on a few others at most, through robots.txt and indexes alike, and honest files are polled."""
    async with Site(hosts=FRESH.stop - 1) as site:
        flood = [site.url(f"/flood/{i}.xml", i) for i in FRESH]
        site.robots[site.address(EVIL)] = "".join(f"Sitemap: {url}\n" for url in flood)
        children = "".join(f"<sitemap><loc>{site.url(f'/more/{i}.xml', i)}</loc></sitemap>" for i in FRESH)
        for i in FRESH:
            site.pages[f"/flood/{i}.xml"] = answer(f"<sitemapindex>{children}</sitemapindex>")
        site.pages["/honest.xml"] = listing_later(site.url("/ok/1", HONEST))
        site.robots[site.address(HONEST)] = f"Sitemap: {site.url('/honest.xml', HONEST)}\n"
        pages = [site.url("/ok/1", EVIL), site.url("/ok/1", HONEST)]
        file = settings(tmp_path, pages, bandwidth="40/s", signals={"share": 0.2})
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            await running.until_logged("/honest.xml")
            await running.until_logged("/more/")
            assert await running.end() == 0
        planted = {str(host) for (host,) in rows(tmp_path, "SELECT DISTINCT host FROM sources")}
        assert len(planted - {site.host(EVIL), site.host(HONEST)}) <= SCHEDULE_LIMITS.max_other_hosts
        polls = [seen.path for seen in site.visits() if seen.path.endswith(".xml")]
        assert "/honest.xml" in polls[: 2 * SCHEDULE_LIMITS.max_other_hosts]


async def test_a_redirect_gives_a_stranger_no_word(tmp_path: Path) -> None:
    """A sitemap that redirects to another host signals no page of the host that was asked."""
    async with Site(hosts=2) as site:
        victim = site.url("/ok/1", HONEST)

        async def go(visit: Visit) -> None:
            location = site.url("/evil.xml", EVIL)
            await answer(status=302, Location=location)(visit)

        site.pages["/go"] = go
        site.pages["/evil.xml"] = listing_later(victim)
        site.robots[site.address(HONEST)] = f"Sitemap: {site.url('/go', HONEST)}\n"
        file = settings(tmp_path, [victim], bandwidth="20/s", signals={"share": 0.2}, min_interval=0.1)
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            assert "foreign=1" in await running.until_logged("summary=")
            assert await running.end() == 0
        assert site.visits("/evil.xml")
        assert rows(tmp_path, "SELECT count(*) FROM signals") == [(0,)]
