"""The screenshots of docs/screenshots, made anew where CRAWLD_SCREENSHOTS says for how many seconds to crawl first."""

import asyncio
import os
import signal
import sys
from html import escape
from pathlib import Path

import pytest

from crawld.show.api.access import make_token
from tests.support.behaviours import answer, html
from tests.support.browsing import Visitor, browser, visitor
from tests.support.daemon import CALM, rows, running, until
from tests.support.process import ENVIRONMENT, ROOT, command, free_port
from tests.support.site import Site
from tests.support.walls import CLOUDFLARE

WHOLE = frozenset({"overview-dark", "hosts-light", "forecast-dark", "calibration-light"})
"""Shown from top to bottom; of the others, what fits the screen."""
SHOTS = {
    "overview-light": ("/?window=hour", "desktop", "light"),
    "overview-dark": ("/?window=hour", "desktop", "dark"),
    "overview-phone": ("/?window=hour", "phone", "light"),
    "pages-light": ("/pages?sort=freshness", "desktop", "light"),
    "page-light": ("", "desktop", "light"),
    "page-phone": ("", "phone", "dark"),
    "changes-light": ("/changes", "desktop", "light"),
    "hosts-light": ("/hosts", "desktop", "light"),
    "forecast-dark": ("/forecast", "desktop", "dark"),
    "calibration-light": ("/calibration", "desktop", "light"),
}


async def test_the_screenshots_show_the_demo(tmp_path: Path) -> None:
    """Every view of a demo that has run for a while, in light, dark and on a phone."""
    seconds = os.environ.get("CRAWLD_SCREENSHOTS")
    if not seconds:
        pytest.skip("set CRAWLD_SCREENSHOTS to a number of seconds to make docs/screenshots anew")
    words = ["-m", "crawld", "demo", "--open", "--seconds", seconds, "--database", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=ENVIRONMENT | {"DISPLAY": ""}, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        while b"/login?code=" not in (line := await process.stderr.readline()):
            assert line, "ended without a link"
        base = line.decode().strip().partition("/login?code=")[0]
        (token,) = (file.read_text(encoding="ascii").strip() for file in tmp_path.rglob("*.token"))
        await asyncio.sleep(60.0)  # what is served is a daemon that has just gone on
        async with browser() as opened:
            for name, (path, size, scheme) in SHOTS.items():
                async with visitor(opened, base, token, size=size, color_scheme=scheme) as visiting:
                    await _shoot(visiting, name, path)
    finally:
        process.send_signal(signal.SIGINT)
        await process.communicate()


GUIDE = """<html lang=en><head><title>{title} - Relay</title></head><body>
<nav><a href=/>Home</a> <a href=/d>Docs</a></nav>
<main><h1 id=top>{title}</h1><p>The relay forwards every connection to the upstream that answers soonest. {prose}</p>
<h2 id=limits>Rate limits</h2><ul><li>Each host has a <b>rate limit</b> of its own.</li>
<li>See <a href=/hosts>hosts</a>.</li></ul>
<table><tr><th>setting</th><th>default</th></tr><tr><td>rate</td><td>10/s</td></tr><tr><td>burst</td><td>1</td></tr></table>
<h2 id=run>Run it</h2><pre><code class=language-sh>relay check relay.toml
relay run --rate 5/s</code></pre></main><footer>2026</footer></body></html>"""
PROSE = {
    "Configuration": "What is set in the file holds until the next reload.",
    "Upgrading": "A new version reads the state of the one before it.",
    "Monitoring": "Metrics say how often each rate limit was reached.",
}


async def test_the_screenshots_of_search_markdown_and_a_wall(tmp_path: Path) -> None:
    """What a search finds, a copy as Markdown, and a site that turns the bot away."""
    if not os.environ.get("CRAWLD_SCREENSHOTS"):
        pytest.skip("set CRAWLD_SCREENSHOTS to make docs/screenshots anew")
    async with Site() as site:
        for title, prose in PROSE.items():
            site.pages[f"/{title.lower()}"] = html(GUIDE.format(title=title, prose=prose))
        site.pages["/wall"] = answer(CLOUDFLARE, 403)
        paths = [*site.pages]
        api = {"listen": f"127.0.0.1:{(port := free_port())}"}
        urls = [site.url(path) for path in paths]
        async with running(tmp_path, urls, api=api, search=True, **CALM) as daemon, browser() as opened:
            await until(lambda: len(rows(tmp_path, "SELECT 1 FROM documents WHERE indexed")) == len(PROSE))
            await until(lambda: daemon.crawler.status.verdicts["failed"] > 0)
            await daemon.store.flush()
            token = make_token(tmp_path / "x.db.token")
            async with visitor(opened, f"http://127.0.0.1:{port}", token, color_scheme="light") as visiting:
                await _shoot(visiting, "search-light", "/search?q=rate+limit")
                await _shoot(visiting, "turned-away-light", "/")
                words = ["get", site.url("/configuration"), "--markdown", "--database", f"sqlite:///{tmp_path}/x.db"]
                copy = (await command(*words, cwd=tmp_path)).out
                assert "## Rate limits {#limits}" in copy
                await visiting.page.set_content(f"<pre style='font-size: 15px'>{escape(copy)}</pre>")
                await _keep(visiting, "markdown-light")


async def _shoot(visiting: Visitor, name: str, path: str) -> None:
    if path:
        await visiting.go(path)
    else:
        await visiting.go("/pages?sort=-last_change")
        await visiting.page.locator("tbody a", has_text="honest").last.click()
    await _keep(visiting, name)


async def _keep(visiting: Visitor, name: str) -> None:
    folder = ROOT / "docs" / "screenshots"
    folder.mkdir(exist_ok=True)
    if name in {"overview-light", "page-light"}:  # what README.md and docs/dashboard.md show
        await visiting.page.set_viewport_size({"width": 1200, "height": 1040})
    await visiting.page.wait_for_load_state()
    await visiting.page.screenshot(path=folder / f"{name}.png", full_page=name in WHOLE)
    assert (folder / f"{name}.png").stat().st_size > 10_000
