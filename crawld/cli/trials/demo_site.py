"""The demo's living site: three hosts on loopback whose pages change by themselves, and who know when they did.

Each host has its own idea of a sitemap: `honest` gives the time of each page's last change, `stamped` gives every page
the time of the latest build whatever changed, `frozen` never moves a date. Which pages change when follows from a seed.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType

import numpy as np
from aiohttp import web

HOSTS = ("honest", "stamped", "frozen")
BUILD_SECONDS = 5.0
INTERVALS = ((1.5, 5.0), (8.0, 40.0), (150.0, 3000.0))
"""Mean seconds between changes: a third of the pages each is restless, lively, and quiet."""


@dataclass(slots=True)
class LivingPage:
    """A page with the times at which it changes (seconds since the site began) and its importance."""

    path: str
    host: str
    importance: float
    changes: np.ndarray
    served: dict[str, list[tuple[float, int]]] = field(default_factory=dict)  # by crawler: (time, version)
    url: str = ""

    def version(self, elapsed: float) -> int:
        """How often the page has changed so far."""
        return int(np.searchsorted(self.changes, elapsed, side="right"))


class LivingSite:
    """A real HTTP server whose pages change. `async with` starts and stops it."""

    def __init__(self, pages: int, seconds: float, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.began = 0.0
        self._began_wall = 0.0
        self.pages: list[LivingPage] = []
        for i in range(pages):
            low, high = INTERVALS[i // len(HOSTS) % len(INTERVALS)]
            interval = np.exp(rng.uniform(np.log(low), np.log(high)))
            gaps = rng.exponential(interval, size=int(4 * seconds / interval) + 20)
            importance = round(float(10.0 / (1.0 + rng.integers(0, 20))), 2)
            self.pages.append(LivingPage(f"/page/{i}", HOSTS[i % len(HOSTS)], importance, np.cumsum(gaps)))
        self._by_place = {(page.host, page.path): page for page in self.pages}
        self._runners: list[web.AppRunner] = []
        self.origins: dict[str, str] = {}
        self.requests: dict[str, int] = {}

    async def __aenter__(self) -> "LivingSite":
        self.began, self._began_wall = time.monotonic(), time.time()
        for host in HOSTS:
            app = web.Application()
            app["host"] = host
            app.router.add_get("/robots.txt", self._robots)
            app.router.add_get("/sitemap.xml", self._sitemap)
            app.router.add_get("/page/{number}", self._page)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self._runners.append(runner)
            self.origins[host] = f"http://127.0.0.1:{runner.addresses[0][1]}"
        for page in self.pages:
            page.url = self.origins[page.host] + page.path
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(runner.cleanup() for runner in self._runners))

    @property
    def elapsed(self) -> float:
        """Seconds since the site began."""
        return time.monotonic() - self.began

    def freshness_now(self, crawler: str) -> float:
        """The importance-weighted share of pages of which that crawler holds the current version."""
        now = self.elapsed
        fresh = sum(p.importance for p in self.pages if _held(p, crawler) == p.version(now))
        return fresh / sum(p.importance for p in self.pages)

    def freshness_of(self, page: LivingPage, crawler: str, start: float, end: float) -> float:
        """The share of the time from start to end in which that crawler's copy of the page was the current one."""
        copies = [(start, _held_at(page, crawler, start)), *(c for c in page.served.get(crawler, []) if c[0] > start)]
        fresh = 0.0
        for (since, version), until in zip(copies, [*(c[0] for c in copies[1:]), end], strict=True):
            if version is None or version != page.version(since):
                continue
            stale_at = page.changes[version] if version < len(page.changes) else end
            fresh += max(0.0, min(stale_at, until, end) - since)
        return fresh / (end - start)

    def freshness(self, crawler: str, start: float, end: float) -> float:
        """The importance-weighted freshness of all pages over that time."""
        weights = np.array([page.importance for page in self.pages])
        shares = np.array([self.freshness_of(page, crawler, start, end) for page in self.pages])
        return float((weights * shares).sum() / weights.sum())

    def _note(self, request: web.Request) -> str:
        crawler = request.headers.get("User-Agent", "?").split("/")[0]
        self.requests[crawler] = self.requests.get(crawler, 0) + 1
        return crawler

    async def _robots(self, request: web.Request) -> web.Response:
        self._note(request)
        origin = self.origins[request.app["host"]]
        return web.Response(text=f"User-agent: *\nAllow: /\nSitemap: {origin}/sitemap.xml\n")

    async def _page(self, request: web.Request) -> web.Response:
        crawler = self._note(request)
        page = self._by_place.get((request.app["host"], request.path))
        if page is None:
            raise web.HTTPNotFound
        now = self.elapsed
        version = page.version(now)
        page.served.setdefault(crawler, []).append((now, version))
        nonce = time.monotonic_ns()  # a token that differs at every visit and means nothing
        text = f"Version {version} of page {page.path} on the {page.host} host."
        head = f"<title>{page.path}</title><meta name=token content={nonce}>"
        return web.Response(content_type="text/html", text=f"<!doctype html>{head}<h1>{page.path}</h1><p>{text}</p>")

    async def _sitemap(self, request: web.Request) -> web.Response:
        self._note(request)
        host, now = request.app["host"], self.elapsed
        rows = "".join(
            f"<url><loc>{page.url}</loc><lastmod>{self._lastmod(page, now)}</lastmod></url>"
            for page in self.pages
            if page.host == host
        )
        xml = f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'
        return web.Response(content_type="application/xml", text=xml)

    def _lastmod(self, page: LivingPage, now: float) -> str:
        moment = 0.0
        if page.host == "honest" and (version := page.version(now)):
            moment = float(page.changes[version - 1])
        elif page.host == "stamped":
            moment = now - now % BUILD_SECONDS
        return datetime.fromtimestamp(self._began_wall + moment, UTC).isoformat(timespec="milliseconds")


def _held(page: LivingPage, crawler: str) -> int | None:
    copies = page.served.get(crawler)
    return copies[-1][1] if copies else None


def _held_at(page: LivingPage, crawler: str, moment: float) -> int | None:
    earlier: Sequence[tuple[float, int]] = [c for c in page.served.get(crawler, []) if c[0] <= moment]
    return earlier[-1][1] if earlier else None
