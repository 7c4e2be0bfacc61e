"""What the dashboard does: every action in a real browser, over a real daemon process and a real site."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.support.behaviours import answer, page
from tests.support.browsing import Visitor, browser, dashboard, token_of, visitor
from tests.support.process import HANG_SECONDS, command
from tests.support.site import Site, Visit

QUIET = {"signals": {"sitemaps": "off", "feeds": "off"}, "audit": {"share": 0}}
SLOW = {"min_interval": 3600, "max_interval": 86400, **QUIET}
"""No page comes by itself again: what is asked is asked by hand."""


def kept(folder: Path, query: str) -> list[tuple[object, ...]]:
    """What the daemon's database says."""
    with sqlite3.connect(f"file:{folder}/x.db?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


async def until_kept(folder: Path, query: str, expected: list[tuple[object, ...]]) -> None:
    """Wait until the database says so."""
    async with asyncio.timeout(HANG_SECONDS):
        while kept(folder, query) != expected:
            await asyncio.sleep(0.05)


def notice(visiting: Visitor) -> Locator:
    """What was just done."""
    return visiting.page.locator(".notice.done")


@asynccontextmanager
async def acting(
    folder: Path, site: Site, opened: Browser, paths: list[str], *, javascript: bool = True, **more: object
) -> AsyncIterator[Visitor]:
    """Somebody at the dashboard over these pages of the site; nothing they do makes the browser complain."""
    urls = [site.url(path) for path in paths]
    async with (
        dashboard(folder, urls, "20/s", **(SLOW | more)) as base,
        visitor(opened, base, token_of(folder), java_script_enabled=javascript) as visiting,
    ):
        yield visiting
        assert visiting.complaints == []


@pytest.mark.parametrize("javascript", [True, False])
async def test_pages_are_added_one_or_a_list_and_that_is_undone(tmp_path: Path, javascript: bool) -> None:
    """A pasted list with an importance and a bad line: good lines are crawled, the bad one is told; undone, they go."""
    async with Site() as site, browser() as opened:
        async with acting(tmp_path, site, opened, ["/ok/1"], javascript=javascript) as visiting:
            shown = visiting.page
            await visiting.go("/pages")
            await shown.get_by_text("Add pages", exact=True).click()
            await shown.get_by_label("One address a line").fill(
                f"{site.url('/ok/2')} 3\n{site.url('/ok/3')}\nno page\n"
            )
            await shown.get_by_role("button", name="Add", exact=True).click()
            await expect(shown.get_by_text("line 3")).to_be_visible()
            await until_kept(
                tmp_path, "SELECT count(*) FROM pages WHERE origin = 'operator' AND state = 'live'", [(2,)]
            )
            await visiting.go("/pages#add")
            await shown.get_by_text("Add pages", exact=True).click()
            await shown.get_by_label("One address a line").fill(site.url("/ok/4"))
            await shown.get_by_role("button", name="Add", exact=True).click()
            await expect(shown.get_by_role("heading", level=1)).to_have_text(site.url("/ok/4"))
            await notice(visiting).get_by_role("button", name="Undo").click()
            await expect(notice(visiting)).to_contain_text("Removed")
            await until_kept(tmp_path, "SELECT state FROM pages WHERE url LIKE '%/ok/4'", [("retired",)])
        assert kept(tmp_path, "SELECT importance FROM pages WHERE url LIKE '%/ok/2'") == [(3.0,)]


async def test_a_page_is_removed_and_comes_back_as_it_was(tmp_path: Path) -> None:
    """Removed, it is on the list no more; undone, it is back with its importance, and the list's again."""
    async with Site() as site, browser() as opened:
        async with acting(tmp_path, site, opened, ["/ok/1", "/ok/2"]) as visiting:
            await visiting.go(f"/page?url={quote(site.url('/ok/1'))}")
            await visiting.page.get_by_role("button", name="Remove", exact=True).click()
            await expect(notice(visiting)).to_contain_text("Removed")
            await expect(visiting.page.locator("tbody tr")).to_have_count(1)
            await notice(visiting).get_by_role("button", name="Undo").click()
            await expect(visiting.page.locator("tbody tr")).to_have_count(2)
        assert kept(tmp_path, "SELECT state, origin FROM pages WHERE url LIKE '%/ok/1'") == [("live", "list")]


async def test_a_listed_page_is_kept_out_until_that_is_undone(tmp_path: Path) -> None:
    """Kept out, it does not come back with the list that names it; undone, it does."""
    async with Site() as site, browser() as opened:
        async with acting(tmp_path, site, opened, ["/ok/1", "/ok/2"]) as visiting:
            await visiting.go(f"/page?url={quote(site.url('/ok/1'))}")
            await visiting.page.get_by_role("button", name="Remove and keep out").click()
            await expect(notice(visiting)).to_contain_text("kept out")
            assert kept(tmp_path, "SELECT url FROM exclusions") == [(site.url("/ok/1"),)]
            await notice(visiting).get_by_role("button", name="Undo").click()
            await expect(visiting.page.locator("tbody tr")).to_have_count(2)
        assert kept(tmp_path, "SELECT url FROM exclusions") == []


@pytest.mark.parametrize("javascript", [True, False])
async def test_a_page_is_asked_for_now(tmp_path: Path, javascript: bool) -> None:
    """It is fetched at once although its time has not come, and what came is told."""
    async with (
        Site() as site,
        browser() as opened,
        acting(tmp_path, site, opened, ["/cue/1"], javascript=javascript) as visiting,
    ):
        site.change("/cue/1")
        await visiting.go(f"/page?url={quote(site.url('/cue/1'))}")
        await visiting.page.get_by_role("button", name="Refresh now").click()
        await expect(notice(visiting)).to_contain_text("changed")
        assert len(site.visits("/cue/1")) == 2


async def test_importance_is_set_and_set_back(tmp_path: Path) -> None:
    """By keyboard alone."""
    async with Site() as site, browser() as opened, acting(tmp_path, site, opened, ["/ok/1"]) as visiting:
        await visiting.go(f"/page?url={quote(site.url('/ok/1'))}")
        await visiting.page.get_by_label("Importance").focus()
        await visiting.page.keyboard.press("Control+A")
        await visiting.page.keyboard.type("7.5")
        await visiting.page.keyboard.press("Enter")
        await expect(notice(visiting)).to_contain_text("importance")
        assert kept(tmp_path, "SELECT importance FROM pages") == [(7.5,)]
        await notice(visiting).get_by_role("button", name="Undo").press("Enter")
        await expect(notice(visiting)).to_contain_text("to 1")
        assert kept(tmp_path, "SELECT importance FROM pages") == [(1.0,)]


async def test_a_host_is_paused_and_resumed(tmp_path: Path) -> None:
    """While it is paused its pages are not asked; a refresh says why it waits."""
    async with Site() as site, browser() as opened, acting(tmp_path, site, opened, ["/ok/1"]) as visiting:
        await visiting.go("/hosts")
        await visiting.page.get_by_role("button", name="Pause the host").click()
        await expect(visiting.page.get_by_text("paused by the operator")).to_be_visible()
        before = len(site.visits("/ok/1"))
        await visiting.go(f"/page?url={quote(site.url('/ok/1'))}")
        await visiting.page.get_by_role("button", name="Refresh now").click()
        await expect(notice(visiting)).to_contain_text("its host is blocked by the operator")
        assert len(site.visits("/ok/1")) == before
        await visiting.go("/hosts")
        await visiting.page.get_by_role("button", name="Resume the host").click()
        await expect(notice(visiting)).to_contain_text("Resumed the host")
        async with asyncio.timeout(HANG_SECONDS):
            while len(site.visits("/ok/1")) == before:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("javascript", [True, False])
async def test_a_part_of_a_page_is_ignored_and_compared_again(tmp_path: Path, javascript: bool) -> None:
    """Chosen from a difference it becomes a rule that is shown and kept; what it leaves out is no change any more."""
    seen = {"visits": 0}

    async def noisy(visit: Visit) -> None:
        seen["visits"] += 1
        body = f'<main><p>The text stays.</p><div id="quote">A saying, the {seen["visits"]}th of many.</div></main>'
        await visit.reply(page("Noisy", body), headers={"Content-Type": "text/html"})

    async with Site() as site, browser() as opened:
        site.pages["/noisy"] = noisy
        url = site.url("/noisy")
        async with acting(tmp_path, site, opened, ["/noisy"], javascript=javascript) as visiting:
            shown = visiting.page
            await visiting.go(f"/page?url={quote(url)}")
            await shown.get_by_role("button", name="Refresh now").click()
            await expect(notice(visiting)).to_contain_text(": changed")
            await shown.get_by_role("button", name="Show the difference").click()
            await shown.get_by_role("link", name="ignore this part").click()
            await expect(shown.locator("input[value='#quote']")).to_be_checked()
            await shown.get_by_role("button", name="Ignore", exact=True).click()
            await expect(notice(visiting)).to_contain_text("Ignores #quote on")
            await expect(shown.locator(".marks")).to_contain_text("#quote")
            await shown.get_by_role("button", name="Refresh now").click()
            await expect(notice(visiting)).to_contain_text(": unchanged")
            (marks,) = kept(tmp_path, "SELECT value FROM settings WHERE name = 'marks'")
            assert [mark["selector"] for mark in json.loads(str(marks[0]))] == ["#quote"]
            await shown.get_by_role("button", name="Compare again").click()
            await expect(notice(visiting)).to_contain_text("Compares #quote")
            await shown.get_by_role("button", name="Refresh now").click()
            await expect(notice(visiting)).to_contain_text(": changed")


async def test_changes_are_unread_until_they_are_marked_as_read(tmp_path: Path) -> None:
    """Marks on what came since, the count, first copies left out on request; marking is undone."""
    async with (
        Site() as site,
        browser() as opened,
        acting(tmp_path, site, opened, [f"/cue/{n}" for n in range(3)]) as visiting,
    ):
        shown, unread = visiting.page, visiting.page.locator("li.unread")
        await until_kept(tmp_path, "SELECT count(*) FROM changes", [(3,)])
        await visiting.go("/changes")
        await expect(unread).to_have_count(3)
        await shown.get_by_role("button", name="Mark all as read").click()
        await expect(unread).to_have_count(0)
        site.change("/cue/1")
        await visiting.go(f"/page?url={quote(site.url('/cue/1'))}")
        await shown.get_by_role("button", name="Refresh now").click()
        await until_kept(tmp_path, "SELECT count(*) FROM changes", [(4,)])
        await visiting.go("/changes")
        await expect(shown.get_by_text("1 unread")).to_be_visible()
        await expect(unread).to_have_count(1)
        await shown.get_by_label("Show").select_option("again")
        await shown.get_by_role("button", name="Show").click()
        await expect(shown.locator("ol.changes li")).to_have_count(1)
        await visiting.go("/actions")
        await shown.get_by_role("button", name="marked changes up to 3 as read").click()
        await visiting.go("/changes")
        await expect(unread).to_have_count(4)


async def test_pages_are_filtered_by_trouble_and_show_their_titles(tmp_path: Path) -> None:
    """Those whose last crawl failed in one way; a title stands beside its address."""
    async with Site() as site, browser() as opened:
        site.pages["/broken"] = answer("no", 404 + 99)
        site.pages["/titled"] = answer(page("A <title> of its own", "text"), 200, "text/html")
        async with acting(tmp_path, site, opened, ["/ok/1", "/broken", "/titled"]) as visiting:
            shown = visiting.page
            await visiting.go("/pages")
            await shown.get_by_label("Trouble").select_option("any")
            await shown.get_by_role("button", name="Show").click()
            await expect(shown.locator("tbody tr")).to_have_count(1)
            await expect(shown.locator("tbody tr")).to_contain_text("status")
            await shown.get_by_label("Trouble").select_option("timeout")
            await shown.get_by_role("button", name="Show").click()
            await expect(shown.get_by_text("No page matches.")).to_be_visible()
            await visiting.go("/pages?q=titled")
            await expect(shown.locator(".page-title")).to_have_text("A <title> of its own")


async def test_the_feed_opens_with_its_key_alone(tmp_path: Path) -> None:
    """A reader that has the link reads changes, without first copies; with another key, or elsewhere, it is refused."""
    async with Site() as site, browser() as opened, acting(tmp_path, site, opened, ["/cue/1"]) as visiting:
        site.change("/cue/1")
        await visiting.go(f"/page?url={quote(site.url('/cue/1'))}")
        await visiting.page.get_by_role("button", name="Refresh now").click()
        await until_kept(tmp_path, "SELECT count(*) FROM changes", [(2,)])
        await visiting.go("/changes")
        link = await visiting.page.get_by_role("link", name="Feed").get_attribute("href")
        assert link is not None
        assert token_of(tmp_path) not in link
        reader = await opened.new_context()
        answered = await reader.request.get(visiting.base + link)
        assert answered.status == 200
        assert answered.headers["content-type"].startswith("application/atom+xml")
        text = await answered.text()
        assert text.count("<entry>") == 1
        assert f'href="{site.url("/cue/1")}"' in text
        key = link.partition("key=")[2]
        wrong = [f"/v1/feed?key={key[:-1]}x", f"/v1/changes?key={key}", f"/v1/feed?key={key}&first=true"]
        assert [(await reader.request.get(visiting.base + path)).status for path in wrong] == [401, 401, 200]


async def test_actions_are_logged_with_who_did_them(tmp_path: Path) -> None:
    """From the browser and on the command line, newest first; a form of another site does nothing."""
    async with Site() as site, browser() as opened, acting(tmp_path, site, opened, ["/ok/1"]) as visiting:
        await visiting.go(f"/page?url={quote(site.url('/ok/1'))}")
        await visiting.page.get_by_role("button", name="Refresh now").click()
        await expect(notice(visiting)).to_contain_text("Asked for")
        done = await command("refresh", site.url("/ok/1"), "--json", "--config", "config.yaml", cwd=tmp_path)
        assert [one["state"] for one in json.loads(done.out)["pages"]] == ["crawled"]
        await visiting.go("/actions")
        rows = visiting.page.locator("tbody tr")
        await expect(rows).to_have_count(2)
        await expect(rows.first).to_contain_text("control socket")
        await expect(rows.last).to_contain_text("browser at 127.0.0.1")
        foreign = await visiting.context.request.post(
            f"{visiting.base}/act/remove",
            form={"url": site.url("/ok/1")},
            headers={"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site"},
        )
        assert foreign.status == 403
        assert kept(tmp_path, "SELECT state FROM pages") == [("live",)]
