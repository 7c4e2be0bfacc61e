"""The real process and robots.txt: what is known of it survives a restart, and none stops the daemon."""

import asyncio
import sqlite3
from pathlib import Path

from tests.support.behaviours import answer
from tests.support.process import HANG_SECONDS, daemon, settings
from tests.support.site import Site

HOSTILE = b"".join(
    [
        *(b"User-agent: agent%d\n" % number for number in range(5_000)),
        b"User-agent: *\nCrawl-delay: 0\n",
        *(b"Disallow: /x/%d/*a*a*a*$\n" % number for number in range(900)),
        *(b"Disallow: /y/%x\n" % number for number in range(15_000)),
        *(b"Sitemap: http://[%d\n" % number for number in range(5_000)),
    ]
)


async def test_a_fresh_robots_txt_is_not_asked_for_again_after_a_restart(tmp_path: Path) -> None:
    """A daemon that starts again obeys the rules it had, without asking for them."""
    async with Site(hosts=2) as site:
        site.robots[site.address()] = "User-agent: *\nDisallow: /ok/secret\nAllow: /"
        pages = [site.url("/ok/open"), site.url("/ok/secret"), site.url("/ok/other", host=2)]
        file = settings(tmp_path, pages, signals={"sitemaps": [], "feeds": []}, min_interval=0.1)
        for _ in range(2):
            async with daemon("--config", str(file), "--bandwidth", "20/s", cwd=tmp_path) as running:
                await running.until_logged("ready")
                before = len(site.visits("/ok/open"))
                while len(site.visits("/ok/open")) < before + 3:
                    await asyncio.sleep(0.05)
                assert await asyncio.wait_for(running.end(), HANG_SECONDS) == 0
        assert len(site.visits("/robots.txt")) == 2  # one of each host
        assert not site.visits("/ok/secret")
    with sqlite3.connect(tmp_path / "x.db") as db:
        kept = db.execute("SELECT origin, agent, rules IS NULL FROM robots ORDER BY origin").fetchall()
    assert [row[1:] for row in kept] == [("crawld", 0), ("crawld", 1)]


async def test_hostile_robots_txt_stops_nothing(tmp_path: Path) -> None:
    """While many agents, rules and sitemaps are read the other host's pages are crawled, and the rules are obeyed."""
    async with Site(hosts=2) as site:
        site.robots[site.address(2)] = answer(HOSTILE, content_type="text/plain")
        pages = [site.url(f"/ok/{number}") for number in range(5)]
        pages += [site.url("/x/7/bacada", host=2), site.url("/y/7f", host=2), site.url("/ok/z", host=2)]
        file = settings(tmp_path, pages, signals={"sitemaps": [], "feeds": []}, min_interval=0.1)
        async with daemon("--config", str(file), "--bandwidth", "20/s", cwd=tmp_path) as running:
            await running.until_logged("ready")
            async with asyncio.timeout(HANG_SECONDS):
                while not site.visits("/ok/z") or len(site.visits("/ok/1")) < 3:
                    await asyncio.sleep(0.05)
            assert await asyncio.wait_for(running.end(), HANG_SECONDS) == 0
        assert not site.visits("/x/7/bacada")
        assert not site.visits("/y/7f")
    assert not any("internal error" in line for line in running.log)
