"""The dashboard in a real browser, over a real daemon process and a real site."""

import asyncio
import json
from itertools import product
from pathlib import Path

from playwright.async_api import Browser, expect

from tests.support.behaviours import answer, page
from tests.support.browsing import Visitor, browser, dashboard, token_of, visitor
from tests.support.process import HANG_SECONDS, ask_control
from tests.support.site import Site, Visit

VIEWS = {
    "Overview": "is current",
    "Pages": "Part of the URL",
    "Changes": "Newest first",
    "Hosts": "What signals are worth",
    "Forecast": "What would more bandwidth buy?",
    "Calibration": "Do predictions come true?",
    "Log": "What was done to this crawl",
}


async def follow(visiting: Visitor, name: str) -> None:
    """Click on a view in the navigation."""
    await visiting.page.get_by_role("navigation", name="Views").get_by_role("link", name=name, exact=True).click()
    await expect(visiting.page.get_by_text(VIEWS[name]).first).to_be_visible()


async def test_a_visitor_walks_through_every_view(tmp_path: Path) -> None:
    """Every view by its link, sort, search, the next part, a page, a difference; the browser complains of nothing."""
    async with Site() as site, browser() as opened:
        urls = [site.url(f"/cue/{number}") for number in range(60)]
        async with dashboard(tmp_path, urls, "40/s") as base, visitor(opened, base, token_of(tmp_path)) as visiting:
            for name in VIEWS:
                await follow(visiting, name)
            await _sort_and_search(visiting, site)
            await _see_a_difference(visiting, site)
            assert visiting.complaints == []


async def _sort_and_search(visiting: Visitor, site: Site) -> None:
    shown = visiting.page
    await follow(visiting, "Pages")
    await shown.get_by_role("link", name="Next 50").click()
    await expect(shown.locator("tbody tr")).to_have_count(10)
    await shown.get_by_role("link", name="First part").click()
    for column in ("Fresh", "Last crawl", "Next crawl", "Importance", "Last change"):
        await shown.get_by_role("columnheader").get_by_role("link", name=column, exact=True).click()
        await expect(shown.locator("th[aria-sort]")).to_contain_text(column)
    await shown.get_by_label("Part of the URL").fill("/cue/17")
    await shown.keyboard.press("Enter")
    await expect(shown.locator("tbody tr")).to_have_count(1)
    await shown.get_by_role("link", name=site.url("/cue/17")).click()
    await expect(shown.get_by_role("heading", level=1)).to_have_text(site.url("/cue/17"))
    await expect(shown.get_by_role("img", name="Freshness of the copy")).to_be_visible()


async def _see_a_difference(visiting: Visitor, site: Site) -> None:
    """The change appears in the live list by itself; its difference shows the words that changed."""
    await follow(visiting, "Changes")
    await expect(visiting.page.locator("#live")).to_be_visible()
    site.change("/cue/17")
    row = visiting.page.locator("ol.changes li", has_text="/cue/17").filter(has_text="changed")
    await expect(row).to_be_visible()
    await row.get_by_role("link", name="difference").click()
    await expect(visiting.page.locator("del")).to_have_text("0")
    await expect(visiting.page.locator("ins")).to_have_text("1")


async def test_the_bandwidth_is_changed_and_the_sites_own_log_follows(tmp_path: Path) -> None:
    """Asked, confirmed, and the daemon goes on at the new rate."""
    async with Site() as site, browser() as opened:
        urls = [site.url(f"/ok/{number}") for number in range(40)]
        quick = {"min_interval": 0.1, "max_interval": 1.0, "signals": {"sitemaps": "off", "feeds": "off"}}
        async with (
            dashboard(tmp_path, urls, "4/s", **quick) as base,
            visitor(opened, base, token_of(tmp_path)) as visiting,
        ):
            await follow(visiting, "Forecast")
            await visiting.page.get_by_label("Requests, all purposes together").fill("30/s")
            await visiting.page.get_by_role("button", name="Continue").click()
            before = len(site.visits())
            await visiting.page.get_by_role("button", name="Set it to 30/s").click()
            await expect(visiting.page.get_by_text("The bandwidth is now 30/s")).to_be_visible()
            async with asyncio.timeout(HANG_SECONDS):
                while len(site.visits()) < before + 100:
                    await asyncio.sleep(0.05)
            assert json.loads(await ask_control(tmp_path / "x.db.sock", "GET", "/status", {}))["bandwidth"] == 30.0
            assert visiting.complaints == []


EVIL = "<img src=x onerror=\"window.pwned=1\"><script>window.pwned=1;alert('pwned')</script>"


async def test_what_others_wrote_stays_text(tmp_path: Path) -> None:
    """Scripts in a URL, a title, a header and a body are shown, never run."""
    versions = {"seen": 0}

    async def hostile(visit: Visit) -> None:
        versions["seen"] += 1
        text = f"word {versions['seen'] // 3} &lt;script&gt;window.pwned=1&lt;/script&gt; {EVIL}"
        await visit.reply(page(EVIL, text), headers={"ETag": f'"{EVIL}"', "X-Evil": EVIL, "Content-Type": "text/html"})

    async with Site() as site, browser() as opened:
        site.pages["/evil"] = hostile
        site.pages["/refused"] = answer(EVIL, 503, "text/html", Retry_After=EVIL)
        urls = [site.url(f"/evil?q={EVIL.replace(' ', '%20')}'\"--></script>"), site.url("/refused"), site.url("/ok/1")]
        async with dashboard(tmp_path, urls) as base, visitor(opened, base, token_of(tmp_path)) as visiting:
            shown = visiting.page
            async with asyncio.timeout(HANG_SECONDS):
                while versions["seen"] < 9:
                    await asyncio.sleep(0.05)
            for name in VIEWS:
                await shown.goto(base)
                await shown.get_by_role("navigation", name="Views").get_by_role("link", name=name, exact=True).click()
                assert await shown.evaluate("window.pwned") is None
            await visiting.go("/pages")
            await shown.get_by_role("link", name="/evil").click()
            await expect(shown.get_by_role("heading", level=1)).to_contain_text("script")
            await shown.get_by_role("button", name="Show the difference").click()
            await expect(shown.locator(".diff")).to_contain_text("<script>window.pwned=1</script>")
            assert await shown.evaluate("window.pwned") is None
            assert visiting.complaints == []


async def _check_all(visiting: Visitor, url: str) -> list[str]:
    """What axe-core says of every view."""
    found = []
    paths = ("/", "/pages", "/changes", "/hosts", "/forecast", "/forecast/bandwidth?rate=9/s", "/calibration")
    for path in (*paths, "/actions", f"/page?url={url}", f"/page/parts?url={url}", f"/diff?url={url}"):
        await visiting.go(path)
        found += await visiting.violations()
        width = await visiting.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert width <= 0, f"{path} is {width} pixels too wide"
    return found


async def test_every_view_is_accessible(tmp_path: Path) -> None:
    """axe-core finds nothing, in light and dark, on a desk and on a phone; nothing is wider than the screen."""
    async with Site() as site, browser() as opened:
        long = site.url("/ok/a-" + "very-" * 30 + "long-name")
        urls = [long, *(site.url(f"/ok/{number}") for number in range(10))]
        async with dashboard(tmp_path, urls) as base:
            for scheme, size in product(("light", "dark"), ("desktop", "phone")):
                async with visitor(opened, base, token_of(tmp_path), size=size, color_scheme=scheme) as visiting:
                    assert await _check_all(visiting, long) == []


async def test_everything_works_without_javascript(tmp_path: Path) -> None:
    """Views, search, and the bandwidth with its confirmation."""
    async with Site() as site, browser() as opened:
        urls = [site.url(f"/ok/{number}") for number in range(5)]
        async with (
            dashboard(tmp_path, urls) as base,
            visitor(opened, base, token_of(tmp_path), java_script_enabled=False) as visiting,
        ):
            await _walk_plainly(visiting, opened, base)


async def _walk_plainly(visiting: Visitor, opened: Browser, base: str) -> None:
    for name in VIEWS:
        await follow(visiting, name)
    await follow(visiting, "Forecast")
    await visiting.page.get_by_label("Requests, all purposes together").fill("9/s")
    await visiting.page.get_by_role("button", name="Continue").click()
    await visiting.page.get_by_role("button", name="Set it to 9/s").click()
    await expect(visiting.page.get_by_text("The bandwidth is now 9/s")).to_be_visible()
    stranger = await opened.new_context()
    refused = await (await stranger.new_page()).goto(base)
    assert refused is not None
    assert refused.status == 401
