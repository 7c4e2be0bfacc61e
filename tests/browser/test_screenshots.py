"""The screenshots of docs/screenshots, made anew where CRAWLD_SCREENSHOTS says for how many seconds to crawl first."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.browsing import Visitor, browser, visitor
from tests.support.process import ENVIRONMENT, ROOT

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


async def _shoot(visiting: Visitor, name: str, path: str) -> None:
    if path:
        await visiting.go(path)
    else:
        await visiting.go("/pages?sort=-last_change")
        await visiting.page.locator("tbody a", has_text="honest").last.click()
    folder = ROOT / "docs" / "screenshots"
    folder.mkdir(exist_ok=True)
    if name in {"overview-light", "page-light"}:  # what README.md and docs/dashboard.md show
        await visiting.page.set_viewport_size({"width": 1200, "height": 1040})
    await visiting.page.wait_for_load_state()
    await visiting.page.screenshot(path=folder / f"{name}.png", full_page=name in WHOLE)
    assert (folder / f"{name}.png").stat().st_size > 10_000
