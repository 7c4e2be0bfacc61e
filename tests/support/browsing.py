"""A real browser: Debian's Chromium driven by Playwright, and axe-core to judge what it shows.

Without a browser or without axe-core the tests are skipped, and pytest's summary says so and what to install.
"""

import asyncio
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from crawld.show.api.access import login_code, make_token
from tests.support.process import HANG_SECONDS, ROOT, daemon, free_port, settings

AXE_VERSION = "4.14.0"
AXE = ROOT / ".ci" / "axe" / f"axe-{AXE_VERSION}.js"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=60_000)  # how fast the machine is decides nothing
SIZES = {"desktop": (1200, 900), "phone": (390, 844)}


def chromium() -> str:
    """Where the browser is; the test is skipped where there is none."""
    found = os.environ.get("CRAWLD_TEST_BROWSER") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no browser: apt-get install chromium, or set CRAWLD_TEST_BROWSER to one like it")
    return found


def axe_source() -> str:
    """The text of axe-core, fetched once by npm; the test is skipped where that cannot be."""
    AXE.parent.mkdir(parents=True, exist_ok=True)
    with (AXE.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may ask at once
        if not AXE.exists():
            _fetch_axe()
    return AXE.read_text(encoding="utf-8")


def _fetch_axe() -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no axe-core: apt-get install npm, which fetches it")
    with TemporaryDirectory() as folder:
        words = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--prefix", folder, f"axe-core@{AXE_VERSION}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode != 0:
            pytest.skip(f"no axe-core: npm could not fetch it ({done.stderr.strip()[-200:]})")
        shutil.copy(Path(folder, "node_modules", "axe-core", "axe.min.js"), AXE)


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """A browser with a profile of its own, while the block runs."""
    executable = chromium()
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
        try:
            yield opened
        finally:
            await opened.close()


class Visitor:
    """Somebody who looks at the dashboard; what the browser complains about is collected."""

    def __init__(self, context: BrowserContext, page: Page, base: str) -> None:
        self.context, self.page, self.base = context, page, base
        self.complaints: list[str] = []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    async def go(self, path: str) -> None:
        """Open a view."""
        answered = await self.page.goto(self.base + path)
        assert answered is not None
        assert answered.status == 200, await self.page.inner_text("body")

    async def violations(self) -> list[str]:
        """What axe-core finds wrong with what is shown."""
        await self.page.evaluate(axe_source())
        found: dict[str, Any] = await self.page.evaluate("async () => await axe.run(document)")
        return [
            f"{self.page.url}: {violation['id']}: {node['html'][:200]}: {node['failureSummary']}"
            for violation in found["violations"]
            for node in violation["nodes"]
        ]


@asynccontextmanager
async def visitor(
    opened: Browser, base: str, token: str, *, size: str = "desktop", **more: Any
) -> AsyncIterator[Visitor]:
    """A new visitor who followed the link with the token."""
    width, height = SIZES[size]
    context = await opened.new_context(viewport={"width": width, "height": height}, **more)
    try:
        page = await context.new_page()
        visiting = Visitor(context, page, base)
        await visiting.go(f"/login?code={login_code(token, time.time())}")
        assert "code" not in page.url
        yield visiting
    finally:
        await context.close()


@asynccontextmanager
async def dashboard(folder: Path, urls: list[str], rate: str = "20/s", **more: object) -> AsyncIterator[str]:
    """The address of a dashboard over these pages, all of which have been crawled."""
    port = free_port()
    given: Mapping[str, object] = {"api": {"listen": f"127.0.0.1:{port}"}, "keep_bodies": "changes"}
    file = settings(folder, urls, **(dict(given) | more))
    async with daemon("--config", str(file), "--bandwidth", rate, cwd=folder) as running:
        async with asyncio.timeout(HANG_SECONDS):
            while sum("verdict=new" in line or "verdict=failed" in line for line in running.log) < len(urls):
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"


def token_of(folder: Path) -> str:
    """The token of the daemon that runs in the folder."""
    return make_token(folder / "x.db.token")
