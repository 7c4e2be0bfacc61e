"""Importance by requests: what readers ask for gets heavier, and stays so over a restart."""

import sqlite3
import time
from pathlib import Path

import aiohttp
import pytest

from crawld.main.supervisor import Daemon
from tests.support.daemon import rows, running, until
from tests.support.process import command, daemon, free_port, settings
from tests.support.site import Site

SELDOM: dict[str, object] = {"min_interval": 600, "max_interval": 1200}


def weights(daemon: Daemon) -> dict[str, float]:
    """What each page weighs in the scheduler."""
    pages = daemon.page_set.pages()
    held = daemon.scheduler.importance_of([page.id for page in pages])
    return {page.url.rpartition("/")[2]: float(weight) for page, weight in zip(pages, held, strict=True)}


async def ask(port: int, url: str, times: int) -> None:
    """Read a copy so often."""
    async with aiohttp.ClientSession() as session:
        for _ in range(times):
            async with session.get(f"http://127.0.0.1:{port}/copy", params={"url": url}) as answered:
                assert answered.status == 200


async def test_pages_that_are_asked_for_weigh_more(tmp_path: Path) -> None:
    """Five requests make six of a weight of one; the list's weight is not touched; a restart forgets nothing."""
    port = free_port()
    given = SELDOM | {"importance": "requests", "api": {"listen": f"127.0.0.1:{port}", "open_reading": True}}
    async with Site() as site:
        urls = [site.url("/ok/1"), site.url("/ok/2") + " 3"]
        async with running(tmp_path, urls, **given) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 2)
            await daemon.store.flush()
            await ask(port, site.url("/ok/1"), 5)
            await until(lambda: weights(daemon)["1"] > 5.9)
            assert weights(daemon) == pytest.approx({"1": 6.0, "2": 3.0}, rel=0.01)
            await ask(port, site.url("/ok/%31"), 4)  # the same page; counted when the daemon stops, if not before
        assert rows(tmp_path, "SELECT page_id, round(requests, 2) FROM demand") == [(1, 9.0)]
        async with running(tmp_path, urls, **given) as daemon:
            await until(lambda: weights(daemon)["1"] > 9.9)
            assert weights(daemon) == pytest.approx({"1": 10.0, "2": 3.0}, rel=0.01)
    assert rows(tmp_path, "SELECT importance FROM pages ORDER BY id") == [(1.0,), (3.0,)]


async def test_interest_that_has_waned_is_forgotten(tmp_path: Path) -> None:
    """Requests of a week ago count half after a restart; without the setting they do not count at all."""
    counting = SELDOM | {"importance": "requests", "api": {"listen": f"127.0.0.1:{free_port()}"}}
    async with Site() as site:
        async with running(tmp_path, [site.url("/ok/1")], **SELDOM) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
        with sqlite3.connect(tmp_path / "x.db") as db:
            db.execute("INSERT INTO demand VALUES (1, 40, 2, ?)", (time.time() - 7 * 86400,))
        async with running(tmp_path, [site.url("/ok/1")], **SELDOM) as daemon:
            assert weights(daemon) == {"1": 1.0}
        async with running(tmp_path, [site.url("/ok/1")], **counting) as daemon:
            await until(lambda: weights(daemon)["1"] > 1.0)
            assert weights(daemon)["1"] == pytest.approx((1 + 20) / (1 + 1), rel=0.01)


async def test_a_new_weight_on_the_list_is_a_new_prior(tmp_path: Path) -> None:
    """What was learnt of the page stays; its weight on the list adds to it."""
    port = free_port()
    given = SELDOM | {"importance": "requests", "api": {"listen": f"127.0.0.1:{port}", "open_reading": True}}
    async with Site() as site, running(tmp_path, [site.url("/ok/1")], **given) as daemon:
        await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
        await daemon.store.flush()
        await ask(port, site.url("/ok/1"), 3)
        await until(lambda: weights(daemon)["1"] > 3.9)
        (tmp_path / "urls.txt").write_text(site.url("/ok/1") + " 20\n")
        await daemon.reload()
        await until(lambda: weights(daemon)["1"] > 22)
        assert weights(daemon)["1"] == pytest.approx(23.0, rel=0.01)


async def test_explain_tells_both_weights(tmp_path: Path) -> None:
    """The list's and what requests have made of it."""
    async with Site() as site:
        url = site.url("/ok/1")
        file = settings(tmp_path, [url], importance="requests", api={"listen": f"127.0.0.1:{free_port()}"})
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as first:
            await first.until_logged("verdict=new")
            assert await first.end() == 0
        with sqlite3.connect(tmp_path / "x.db") as db:
            db.execute("INSERT INTO demand VALUES (1, 7, 0, ?)", (time.time(),))
        async with daemon(*given, cwd=tmp_path) as second:
            await second.until_logged("ready")
            told = (await command("explain", url, *given, cwd=tmp_path)).out
            assert "importance 1 on the list, 8 by requests" in told
