"""The daemon in one process against the real test site: what it records, and how it treats hosts."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from crawld.main.assembly import build
from crawld.main.settings import Settings
from crawld.model.page import BY_HAND, Wanted
from crawld.store.report import Reader
from tests.support.behaviours import BEHAVIOURS, answer
from tests.support.daemon import rows, running, until
from tests.support.site import Behaviour, Site


async def test_changes_are_seen_and_noise_is_not(tmp_path: Path) -> None:
    """A page that changed is found changed once; one whose bytes differ but whose text stays is unchanged."""
    async with Site() as site, running(tmp_path, [site.url("/cue/1"), site.url("/nonce/1")]):
        await until(lambda: len(site.visits("/cue/1")) >= 2 and len(site.visits("/nonce/1")) >= 2)
        site.change("/cue/1")
        seen = len(site.visits("/cue/1"))
        await until(lambda: len(site.visits("/cue/1")) >= seen + 2)
    found = rows(tmp_path, "SELECT sum(verdict = 'changed') FROM crawls GROUP BY page_id ORDER BY page_id")
    assert found == [(1,), (0,)]


async def test_robots_txt_is_asked_first_and_obeyed(tmp_path: Path) -> None:
    """The first request is for robots.txt; a forbidden page is shown as disallowed and never asked."""
    async with Site(robots={"127.0.0.1": "User-agent: *\nDisallow: /ok/secret\n"}) as site:
        async with running(tmp_path, [site.url("/ok/1"), site.url("/ok/secret")]):
            await until(lambda: len(site.visits("/ok/1")) >= 2)
        assert site.visits()[0].path == "/robots.txt"
        assert site.visits("/ok/secret") == []
    states = dict(rows(tmp_path, "SELECT url, state FROM pages"))
    assert states == {site.url("/ok/1"): "live", site.url("/ok/secret"): "disallowed"}


async def test_a_redirect_is_followed_with_slots_of_its_own(tmp_path: Path) -> None:
    """The target's robots.txt is asked too, and the page counts as seen."""
    async with Site(hosts=2) as site:
        url = site.url(f"/redirect/1?to={site.url('/ok/there', host=2)}")
        async with running(tmp_path, [url]) as daemon:
            await until(lambda: len(site.visits("/ok/there")) >= 1)
            await daemon.store.flush()
            assert daemon.crawler.status.requests >= 4
        assert [seen.host for seen in site.visits("/robots.txt")] == [site.host(1), site.host(2)]
    assert rows(tmp_path, "SELECT verdict, status FROM crawls LIMIT 1") == [("new", 200)]


async def test_a_redirect_that_needs_its_own_cookie_is_followed(tmp_path: Path) -> None:
    """A page that sets a cookie and redirects to itself is crawled, and every visit begins without the cookie."""
    async with Site() as site:
        async with running(tmp_path, [site.url("/cookie_wall/1")]):
            await until(lambda: len(site.visits("/cookie_wall/1")) >= 4)
        cookies = [seen.headers.get("cookie") for seen in site.visits("/cookie_wall/1")[:4]]
    assert cookies == [None, "seen=yes", None, "seen=yes"]
    assert rows(tmp_path, "SELECT verdict, status FROM crawls LIMIT 1") == [("new", 200)]


@pytest.mark.parametrize("status", [202, 204, 205])
async def test_an_answer_without_content_keeps_the_copy(tmp_path: Path, status: int) -> None:
    """A page that answers without content for a while has failed, not changed, and its copy stays."""
    async with Site() as site:
        url = site.url("/cue/1")
        async with running(tmp_path, [url]) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            site.pages["/cue/1"] = answer("", status)
            await until(lambda: daemon.crawler.status.verdicts["failed"] >= 1)
            await daemon.store.flush()
    assert rows(tmp_path, "SELECT count(*) FROM crawls WHERE verdict = 'changed'") == [(0,)]
    assert rows(tmp_path, "SELECT trouble, status FROM crawls WHERE verdict = 'failed' LIMIT 1") == [("status", status)]
    assert rows(tmp_path, "SELECT state FROM pages") == [("failing",)]


async def test_a_page_that_is_not_there_is_gone(tmp_path: Path) -> None:
    """404 or 410 is gone, after content and at the first visit, and not asked again at once; only one is a change."""
    async with Site() as site:
        async with running(tmp_path, [site.url("/cue/1"), site.url("/absent")]) as daemon:
            await until(lambda: len(site.visits("/cue/1")) >= 1)
            site.pages["/cue/1"] = answer("gone", 410)
            await until(lambda: daemon.crawler.status.verdicts["gone"] == 2)
            await asyncio.sleep(0.6)
        assert len(site.visits("/absent")) == 1
    found = rows(tmp_path, "SELECT url, state, changes, failed, gone_since FROM pages ORDER BY id")
    assert [row[:4] for row in found] == [(site.url("/cue/1"), "gone", 1, 0), (site.url("/absent"), "gone", 0, 0)]
    since = rows(tmp_path, "SELECT at FROM crawls WHERE verdict = 'gone' ORDER BY page_id")
    assert [(row[4],) for row in found] == since


async def test_a_page_that_comes_is_a_change(tmp_path: Path) -> None:
    """What was gone at the first visit and is there at the next has changed, and is no longer gone."""
    async with Site() as site:
        url = site.url("/later")
        async with running(tmp_path, [url]) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["gone"] == 1)
            site.pages["/later"] = answer("<p>here")
        with sqlite3.connect(tmp_path / "x.db") as db:
            db.execute("UPDATE pages SET failures = 0")  # a start waits for nothing
        async with running(tmp_path, [url]) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["changed"] == 1)
    assert rows(tmp_path, "SELECT state, gone_since, changes FROM pages") == [("live", None, 1)]


async def test_the_daemon_and_the_database_say_the_same_freshness(tmp_path: Path) -> None:
    """Status, the view, the sum and the history agree; what is gone is current, what cannot be fetched is not."""
    async with Site(robots={"127.0.0.1": "User-agent: *\nDisallow: /ok/secret\n"}) as site:
        paths = [*(f"/ok/{i}" for i in range(12)), "/cue/1", "/absent", "/ok/secret", "/status/500"]
        async with running(tmp_path, [site.url(path) for path in paths], max_interval=7200) as daemon:
            site.change("/cue/1")
            await until(lambda: daemon.crawler.status.verdicts["unchanged"] >= 40)
            await until(lambda: bool(rows(tmp_path, "SELECT 1 FROM pages WHERE state = 'disallowed'")))
            daemon.crawler.change_bandwidth(0.0)
            await until(lambda: daemon.crawler.status.in_flight == 0)
            await daemon.store.flush()
            behind = "SELECT 1 FROM pages LEFT JOIN estimates ON page_id = id WHERE ifnull(at, 0) < last_success"
            await until(lambda: not rows(tmp_path, behind))
            await asyncio.sleep(0.5)  # the learner has told the scheduler what it wrote
            high = daemon.scheduler.predicted_freshness(daemon.clock.now())
            async with Reader(f"sqlite:///{tmp_path}/x.db") as reader:
                overall = (await reader.overall()).freshness or 0.0
                by_url = {row.url: row.freshness for row in await reader.page_stats()}
            low = daemon.scheduler.predicted_freshness(daemon.clock.now())
            assert low is not None
            assert high is not None
            assert low - 1e-6 <= overall <= high + 1e-6
        last = rows(tmp_path, "SELECT predicted FROM freshness_history ORDER BY at DESC LIMIT 1")
    assert last[0][0] == pytest.approx(low, abs=0.05)
    assert by_url[site.url("/absent")] == 1.0
    assert (by_url[site.url("/ok/secret")], by_url[site.url("/status/500")]) == (0.0, 0.0)


@pytest.mark.parametrize("trouble", [["/status/429?after=60"], ["/status/503"] * 3, ["/hang_up"] * 4])
async def test_trouble_of_a_host_blocks_the_host_and_no_other(tmp_path: Path, trouble: list[str]) -> None:
    """After a Retry-After or several failing pages, pages of that host wait, and those of the other host go on."""
    async with Site(hosts=2) as site:
        bad = [site.url(f"{path}{'&' if '?' in path else '?'}{i}=x") for i, path in enumerate(trouble)]
        urls = [*bad, *(site.url(f"/ok/{i}") for i in range(5)), site.url("/cue/other", host=2)]
        async with running(tmp_path, urls, politeness={"delay": 0, "per_host": 1}):
            await until(lambda: bool(rows(tmp_path, "SELECT 1 FROM hosts WHERE blocked_until > 0")))
            asked = [seen for seen in site.visits() if seen.host == site.host(1)]
            others = len(site.visits("/cue/other"))
            await until(lambda: len(site.visits("/cue/other")) >= others + 2)
            assert [seen for seen in site.visits() if seen.host == site.host(1)] == asked
    assert rows(tmp_path, "SELECT name FROM hosts WHERE blocked_until > 0") == [(site.host(1),)]


def _closing_later(site: Site) -> None:
    site.pages["/bad"] = BEHAVIOURS["hang_up"]


def _silent_later(site: Site) -> None:
    site.pages["/bad"] = BEHAVIOURS["silent"]


BAD_PAGES: dict[str, tuple[Behaviour, Callable[[Site], None]]] = {
    "503": (answer(status=503), lambda _: None),
    "429": (answer(status=429), lambda _: None),
    "silent": (BEHAVIOURS["silent"], lambda _: None),
    "closing": (BEHAVIOURS["hang_up"], lambda _: None),
    "half an answer": (BEHAVIOURS["drop"], lambda _: None),
    "closing later": (BEHAVIOURS["ok"], _closing_later),
    "silent later": (BEHAVIOURS["ok"], _silent_later),
}


@pytest.mark.parametrize(("kind", "first"), [*((kind, True) for kind in BAD_PAGES), ("503", False), ("silent", False)])
async def test_a_bad_page_leaves_the_others_their_crawls(tmp_path: Path, kind: str, first: bool) -> None:
    """With one request at a time, nearly every slot is spent on the good pages beside a bad one."""
    begins, turns = BAD_PAGES[kind]
    async with Site() as site:
        site.pages["/bad"] = begins
        good = [site.url(f"/ok/{i}") for i in range(20)]
        urls = [site.url("/bad"), *good] if first else [*good, site.url("/bad")]
        given: dict[str, object] = {
            "bandwidth": "20/s",
            "politeness": {"delay": 0, "per_host": 1},
            "fetch": {"timeout": 60, "first_byte_timeout": 20, "connect_timeout": 10},
            "max_interval": 3600,
        }
        async with running(tmp_path, urls, **given) as daemon:
            await until(lambda: len(site.visits("/bad")) >= 1)
            turns(site)
            status, before = daemon.crawler.status, len(site.visits())
            served = status.requests + status.idle_slots
            await until(lambda: status.requests + status.idle_slots >= served + 150)
            asked = [seen.path for seen in site.visits()[before:]]
    assert asked.count("/bad") <= 1
    # A silent page keeps its place for two seconds, here forty slots.
    assert len(asked) >= (90 if "silent" in kind else 120)


async def test_redirects_to_a_slow_host_keep_no_places(tmp_path: Path) -> None:
    """Visits that lead to a host with a long Crawl-delay end at once, are not blamed, and the other pages go on."""
    async with Site(hosts=3) as site:
        site.robots[site.host(3).partition(":")[0]] = "User-agent: *\nCrawl-delay: 60\n"
        slow = [site.url(f"/redirect/{i}?to={site.url(f'/ok/{i}', host=3)}", host=2) for i in range(60)]
        good = [site.url(f"/ok/{i}") for i in range(10)]
        async with running(tmp_path, [*slow, *good]) as daemon:
            await until(lambda: len({seen.target for seen in site.visits() if "redirect" in seen.path}) == 60)
            status, before = daemon.crawler.status, len(site.visits())
            served = status.requests + status.idle_slots
            await until(lambda: status.requests + status.idle_slots >= served + 50)
            asked = [seen for seen in site.visits()[before:] if seen.host == site.host(1)]
            assert status.in_flight + status.waiting <= 20
            assert len(asked) >= 35
        found = rows(tmp_path, "SELECT DISTINCT trouble FROM crawls WHERE verdict = 'failed'")
        assert found == [("host_not_ready",)]
        assert rows(tmp_path, "SELECT count(*) FROM pages WHERE failures > 0") == [(0,)]


async def test_silent_hosts_leave_the_others_their_requests(tmp_path: Path) -> None:
    """Pages on hosts that never answer come to the list, and the known pages are asked nearly as often as before."""
    async with Site(hosts=102) as site:
        for host in range(3, 103):
            site.robots[site.host(host).partition(":")[0]] = BEHAVIOURS["silent"]
        dead = [site.url("/silent", host=host) for host in range(3, 103)]
        given: dict[str, object] = {
            "bandwidth": "10/s",
            "fetch": {"timeout": 60, "first_byte_timeout": 20, "connect_timeout": 10},
            "max_interval": 3600,
        }
        good = [site.url(f"/ok/{i}", host=1 + i % 2) for i in range(10)]
        async with running(tmp_path, good, **given) as daemon:
            await until(lambda: len(site.visits()) >= 14)
            await daemon.page_set.adopt([Wanted(url) for url in dead], origin=BY_HAND, now=time.time(), complete=False)
            status, before = daemon.crawler.status, len(site.visits())
            served = status.requests + status.idle_slots
            await until(lambda: status.requests + status.idle_slots >= served + 80)
            asked = [seen for seen in site.visits()[before:] if seen.host in {site.host(1), site.host(2)}]
    assert len(asked) >= 50


async def test_a_server_that_lies_with_304_loses_conditional_requests(tmp_path: Path) -> None:
    """A revisit without conditions finds it out, and from then on none is sent."""
    async with Site() as site:
        async with running(tmp_path, [site.url("/lying_304/1")], fetch={"unconditional_share": 0.3}):
            await until(lambda: bool(rows(tmp_path, "SELECT 1 FROM hosts WHERE distrust_304_until > 0")))
            seen = len(site.visits("/lying_304/1"))
            await until(lambda: len(site.visits("/lying_304/1")) >= seen + 3)
        later = site.visits("/lying_304/1")[seen:]
    assert all("if-none-match" not in visit.headers for visit in later)


async def test_a_restart_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Pages crawled before are not crawled again at once, and what is remembered still tells change from none."""
    async with Site() as site:
        urls = [site.url(f"/ok/{i}") for i in range(5)]
        async with running(tmp_path, urls, min_interval=3600, max_interval=7200) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 5)
        before = len(site.visits())
        async with running(tmp_path, urls, min_interval=3600, max_interval=7200) as daemon:
            await asyncio.sleep(0.5)
            assert daemon.crawler.status.requests == 0
        assert len(site.visits()) == before


async def test_the_learner_teaches_the_scheduler(tmp_path: Path) -> None:
    """After some crawls the page that changes is believed to change more often than the one that stays."""
    async with Site() as site, running(tmp_path, [site.url("/ok/1"), site.url("/cue/1")]) as daemon:
        for version in range(1, 4):
            await until(lambda count=version: len(site.visits("/cue/1")) >= 2 * count)  # type: ignore[misc]
            site.change("/cue/1")
            await until(lambda count=version: daemon.crawler.status.verdicts["changed"] == count)  # type: ignore[misc]
        await until(lambda: len(rows(tmp_path, "SELECT 1 FROM estimates WHERE changes = 3")) == 1)
        ids = {page.url: page.id for page in daemon.page_set.pages()}

        def rate(path: str) -> float:
            standing = daemon.scheduler.standing(ids[site.url(path)])
            assert standing is not None
            return standing.alpha

        await until(lambda: rate("/cue/1") > rate("/ok/1"))  # the scheduler is told after the database


async def test_the_socket_tells_how_far_a_start_is(tmp_path: Path) -> None:
    """While the list is still being read the status is answered, and commands are told to come again."""
    os.mkfifo(tmp_path / "urls")
    given = {
        "bandwidth": "50/s",
        "urls": str(tmp_path / "urls"),
        "database": f"sqlite:///{tmp_path}/x.db",
        "api": {"listen": None, "socket": str(tmp_path / "control")},
    }
    daemon = build(Settings.model_validate(given))
    daemon.catch_signals = False
    task = asyncio.create_task(daemon.run())
    await until((tmp_path / "control").exists)
    async with aiohttp.ClientSession(
        "http://daemon", connector=aiohttp.UnixConnector(str(tmp_path / "control"))
    ) as asked:
        await until(lambda: daemon.crawler.status.starting == "taking over the URL list")
        async with asked.get("/status") as answer:
            assert (answer.status, (await answer.json())["starting"]) == (200, "taking over the URL list")
        async with asked.post("/pause") as answer:
            assert (answer.status, "is starting" in (await answer.json())["error"]) == (503, True)
        await asyncio.to_thread((tmp_path / "urls").write_text, "http://127.0.0.1:1/\n")
        await until(lambda: daemon.crawler.status.starting is None)
        async with asked.post("/pause") as answer:
            assert (answer.status, (await answer.json())["starting"]) == (200, None)
    daemon.stop()
    await task
