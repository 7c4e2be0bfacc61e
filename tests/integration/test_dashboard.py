"""The dashboard as a browser gets it: every view over a real daemon, with no page, one page and some."""

import asyncio
import html
import re
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from crawld.store.batch import FreshnessPoint
from tests.support.behaviours import answer
from tests.support.daemon import bearer, listening, rows, running, serving, until
from tests.support.process import free_port
from tests.support.site import Site

VIEWS = (
    "/",
    "/?window=hour",
    "/pages",
    "/changes",
    "/hosts",
    "/forecast",
    "/forecast/bandwidth?rate=3/s",
    "/calibration",
    "/search",
    "/search?q=relay",
)


async def _get(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as answered:
        policy = answered.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answered.headers["X-Content-Type-Options"] == "nosniff"
        assert answered.headers["Referrer-Policy"] == "same-origin"
        return answered.status, await answered.text()


@pytest.mark.parametrize("pages", [0, 1, 60])
async def test_every_view_is_shown_with_any_number_of_pages(tmp_path: Path, pages: int) -> None:
    """No view fails, none holds a style or a script of its own, and each says where it is."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    async with Site() as site, aiohttp.ClientSession(headers=bearer(tmp_path)) as session:
        urls = [site.url(f"/ok/{number}") for number in range(max(pages, 1))]
        async with running(tmp_path, urls, api={"listen": f"127.0.0.1:{port}"}) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == len(urls) and listening(port))
            if not pages:
                await daemon.page_set.retire(urls, now=daemon.clock.now())
            for view in (*VIEWS, *(f"/page?url={quote(url)}" for url in urls[:pages][:1])):
                status, text = await _get(session, api + view)
                assert status == 200, text
                assert "style=" not in text
                assert "<style" not in text
                assert "onclick" not in text
                assert "<h1" in text
            if pages > 50:
                _, text = await _get(session, f"{api}/pages?sort=-last_crawl")
                assert 'rel="next"' in text
                assert 'aria-sort="descending"' in text


async def test_what_cannot_be_shown_is_said_in_a_sentence(tmp_path: Path) -> None:
    """A page that is unknown, a sort that is none, a cursor of another list and a rate that is none."""
    async with Site() as site, serving(tmp_path, site, "/ok/1") as (_, session):
        wrong = {
            "/page?url=http://elsewhere.example/": 404,
            "/page": 400,
            "/pages?sort=nonsense": 400,
            "/pages?after=nonsense": 400,
            "/changes?before=-1": 400,
            "/forecast/bandwidth?rate=fast": 400,
        }
        for path, expected in wrong.items():
            status, text = await _get(session, path)
            assert (path, status) == (path, expected)
            assert "Back to the overview" in text


async def test_the_bandwidth_is_set_after_a_confirmation(tmp_path: Path) -> None:
    """Asking shows what it would change; only the form that is sent then sets it, and it is kept."""
    async with Site() as site, serving(tmp_path, site, "/ok/1") as (daemon, session):
        before = daemon.crawler.status.bandwidth
        _, text = await _get(session, "/forecast/bandwidth?rate=7/s")
        assert "Set it to 7/s" in text
        assert daemon.crawler.status.bandwidth == before
        async with session.post("/forecast/bandwidth", data={"rate": "nonsense"}) as answered:
            assert answered.status == 400
        foreign = {"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
        async with session.post("/forecast/bandwidth", data={"rate": "7/s"}, headers=foreign) as answered:
            assert answered.status == 403
        async with session.post("/forecast/bandwidth", data={"rate": "7/s"}) as answered:
            assert answered.status == 200
            assert "The bandwidth is now 7/s" in await answered.text()
        assert daemon.crawler.status.bandwidth == 7.0
    assert rows(tmp_path, "SELECT value FROM settings WHERE name = 'bandwidth'") == [("7.0",)]


async def test_markup_of_others_stays_text(tmp_path: Path) -> None:
    """A script in a URL, a header or a body is shown as what it is."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    evil = "<script>alert(1)</script>"
    async with Site() as site, aiohttp.ClientSession(headers=bearer(tmp_path)) as session:
        url = site.url(f"/cue/1?q={evil}'\"")
        site.pages["/broken"] = answer("no", 503, **{"Retry-After": evil})
        async with running(tmp_path, [url, site.url("/broken")], api={"listen": f"127.0.0.1:{port}"}) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            (found,) = rows(tmp_path, "SELECT url FROM pages WHERE url LIKE '%cue%'")
            shown = [f"/page?url={quote(found[0])}", f"/pages?q={quote(evil)}", f"/page?url={quote(evil)}"]
            for path in ("/pages", "/changes", *shown):
                _, text = await _get(session, api + path)
                assert evil not in text, path
            _, text = await _get(session, f"{api}/pages?q={quote(evil)}")
            assert html.escape(evil) in text


def _figures(text: str, title: str) -> list[list[str]]:
    """The table behind a chart: rows of cells."""
    part = text.split(f'aria-label="Figures behind {title}"', 1)[1].split("</table>", 1)[0]
    return [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in part.split("<tr>")[2:]]


def _point(at: float, **more: object) -> FreshnessPoint:
    given = {"bandwidth": 3.0, "request_rate": 3.0, "predicted": 0.9, "measured": None, "measured_low": None}
    given |= {"measured_high": None, "level": 1.0, "pages": 1, "changed_share": None, "skipped_slots": 0}
    return FreshnessPoint(at=at, **(given | more))  # type: ignore[arg-type]


async def test_no_chart_shows_a_rate_that_was_not_sent(tmp_path: Path) -> None:
    """Ticks of a minute at 3/s are never shown as more, wherever in a column the last one lies."""
    async with Site() as site, serving(tmp_path, site, "/ok/1") as (daemon, session):
        await until(lambda: 2.0 < daemon.clock.now() % 60.0 < 40.0)  # the last column is not over when it is shown
        now = daemon.clock.now()
        for minutes in range(7):
            daemon.store.record_freshness(_point(now - 1.0 - 60.0 * minutes, slots={("page", "ok"): 180}))
        await daemon.store.flush()
        _, text = await _get(session, "/?window=hour")
        rows = _figures(text, "What slots were spent on")
        assert len(rows) >= 6
        assert {row[1] for row in rows} == {"3/s"}
        assert [row[0].endswith("(not over)") for row in rows][-1]
        assert 'class="bar s1 unfinished"' in text


async def test_first_copies_are_no_changes(tmp_path: Path) -> None:
    """The overview counts what `crawld stats` counts: of 20 pages that were fetched, the one that changed."""
    async with Site() as site, serving(tmp_path, site, *(f"/cue/{n}" for n in range(20))) as (daemon, session):
        verdicts = daemon.crawler.status.verdicts
        site.change("/cue/7")
        await until(lambda: verdicts["changed"] == 1)
        await daemon.store.flush()
        _, text = await _get(session, "/")
        assert "<dt>Changes found</dt><dd>1<small>" in text
        assert len(_figures(text, "Changes found per hour")) == 1


async def test_a_store_that_cannot_write_is_shown_as_a_stop(tmp_path: Path) -> None:
    """In red, in a sentence with its reason, and never as a first round that goes on."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    async with Site() as site, aiohttp.ClientSession(headers=bearer(tmp_path)) as session:
        urls = [site.url(f"/ok/{n}") for n in range(40)]
        settings: dict[str, object] = {"bandwidth": "4/s", "api": {"listen": f"127.0.0.1:{port}"}}
        async with running(tmp_path, urls, **settings) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] >= 1 and listening(port))
            given: dict[str, Any] = {"timeout": 60.0, "isolation_level": None, "check_same_thread": False}
            with sqlite3.connect(tmp_path / "x.db", **given) as other:
                await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")  # as on a full disk, no commit succeeds
                await until(lambda: not daemon.store.healthy)
                _, text = await _get(session, f"{api}/")
                other.execute("ROLLBACK")
            assert '<h1 class="headline bad">Crawling has stopped.</h1>' in text
            assert "The store cannot write" in text
            assert 'class="card notice severe"' in text
            assert '<li class="bad">the store cannot write' in text
            assert "first round goes on" not in text
            await until(lambda: daemon.store.healthy)
