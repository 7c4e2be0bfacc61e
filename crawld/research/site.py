"""The lab's site: a real HTTP server on loopback whose pages live a world, under several host names.

Names end in `.localhost`, which is loopback everywhere (RFC 6761), so that no name server has to be asked. A page's
answer carries ETag and Last-Modified and is a 304 where the crawler holds the current version.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from hashlib import blake2b
from html import escape
from types import TracebackType
from typing import Self

import numpy as np
from aiohttp import web

from crawld.model.clock import SystemClock
from crawld.model.errors import InputError
from crawld.research.scenario import Scenario
from crawld.research.score import Scoreboard, Visits
from crawld.research.world import World


@dataclass(frozen=True)
class ResearchSiteLimits:
    """Numbers that bound and tune this module."""

    before: float = 30 * 86_400.0
    """Seconds before the site began that pages claim for their last change, until a signal says otherwise."""
    news: int = 12
    """Words of a page that every change replaces."""


LIMITS = ResearchSiteLimits()


class Lastmods:
    """The lastmods of every page; `began` is when the world's time began, in UTC seconds.

    A signal that claims a moment is written as that moment. One that claims a day is written as a date far ahead, which
    a crawler takes for no claim: it tells by changing, as a date within one day does. One that claims nothing is
    written as a text that is no date.
    """

    def __init__(self, world: World, began: float) -> None:
        self._began = began
        order = np.argsort(world.signal_pages, kind="stable")  # signals are in the order of their arrival
        pages = world.population.pages
        self._offsets = np.searchsorted(world.signal_pages[order], np.arange(pages + 1))
        self._listed = np.zeros(pages, bool) if world.listed is None else world.listed
        self._times = world.signal_times[order]
        claims = world.signal_times if world.signal_claims is None else world.signal_claims
        spans = np.zeros(len(claims)) if world.signal_spans is None else world.signal_spans
        self._claims, self._spans = claims[order], spans[order]

    def text(self, page: int, now: float) -> str | None:
        """The lastmod of a page at a moment of the world; None where the sitemap has none yet."""
        start, end = self._offsets[page], self._offsets[page + 1]
        published = int(np.searchsorted(self._times[start:end], now, side="right"))
        if not published:
            return self._moment(-LIMITS.before) if self._listed[page] else None
        row = start + published - 1
        claim, span = float(self._claims[row]), float(self._spans[row])
        if np.isnan(claim):
            return f"unknown ({published})"
        if span > 0:
            return f"{datetime(2100, 1, 1, tzinfo=UTC) + timedelta(days=int(claim // span)):%Y-%m-%d}"
        return self._moment(claim)

    def _moment(self, seconds: float) -> str:
        return datetime.fromtimestamp(self._began + seconds, UTC).isoformat(timespec="milliseconds")


REFUSALS: tuple[tuple[int, dict[str, str], str], ...] = (
    (403, {"cf-mitigated": "challenge"}, "<title>Just a moment...</title>"),
    (401, {"WWW-Authenticate": "Bearer"}, "log in first"),
    (402, {"crawler-price": "USD 0.01"}, "payment required"),
    (403, {}, "forbidden"),
    (451, {}, "not in this country"),
)
"""Answers of pages that turn crawlers away, in turn: status, headers and text."""


class LabSite:
    """Serves a scenario from the moment it starts; `async with` starts and stops it.

    `errors` is the share of page requests that are answered 503, `turn_away` the share of pages that let no crawler
    in. Crawlers are told apart by the product token of their user agent.
    """

    def __init__(
        self, scenario: Scenario, *, errors: float = 0.0, turn_away: float = 0.0, port: int = 0, seed: int = 1
    ) -> None:
        self.scenario = scenario
        self.board = Scoreboard(scenario.world)
        self._errors, self._port = errors, port
        self._rng = random.Random(seed)  # noqa: S311 - which requests fail is no secret
        closed = random.Random(seed).sample(range(scenario.pages), round(turn_away * scenario.pages))  # noqa: S311 - as above
        self._refusals = {page: REFUSALS[number % len(REFUSALS)] for number, page in enumerate(closed)}
        self._clock = SystemClock()
        self._began = 0.0
        self._lastmods: Lastmods | None = None
        self._runner: web.AppRunner | None = None
        self._changes = scenario.world.changes_by_page
        self._host_of = scenario.world.host_of.tolist()
        self._on_host: list[list[int]] = [[] for _ in scenario.hosts]
        for page, host in enumerate(self._host_of):
            self._on_host[host].append(page)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise InputError(f"port {self._port} of 127.0.0.1 cannot be used: {error.strerror}") from error
        self._port = self._runner.addresses[0][1]
        self._began = self._clock.monotonic()
        self._lastmods = Lastmods(self.scenario.world, self._clock.now())
        self._began_wall = self._clock.now()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def elapsed(self) -> float:
        """Seconds since the site began: the time of its world."""
        return self._clock.monotonic() - self._began

    def origin(self, host: int) -> str:
        """The beginning of the URLs of a host."""
        return f"http://{self.scenario.hosts[host]}.localhost:{self._port}"

    def url(self, page: int) -> str:
        """The URL of a page."""
        return f"{self.origin(self._host_of[page])}/page/{page}"

    def url_list(self) -> str:
        """Every page with its importance, as a URL list."""
        importance = self.scenario.world.population.mu.tolist()
        return "".join(f"{self.url(page)} {importance[page]:.6g}\n" for page in range(self.scenario.pages))

    def is_current(self, page: int, content: bytes) -> bool:
        """Tells whether this is what the page says now."""
        version = int(self._changes[page].searchsorted(self.elapsed, side="right"))
        return content == self._text(page, version).encode()

    # -- answers ----------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.headers.get("Host", "").partition(":")[0].removesuffix(".localhost")
        if request.path == "/lab/score":
            return web.json_response({name: asdict(score) for name, score in self.board.scores(self.elapsed).items()})
        visits = self.board.of(request.headers.get("User-Agent", "unknown").split("/")[0].split(" ")[0])
        if name not in self.scenario.hosts:
            visits.count("other")
            return web.Response(status=421, text=f"no such host: {name}\n")
        host = self.scenario.hosts.index(name)
        match request.path.split("/")[1:]:
            case ["robots.txt"]:
                return self._robots(host, visits)
            case ["sitemap.xml"] if self.scenario.has_sitemap[host]:
                return self._sitemap(host, visits)
            case ["page", number] if number.isdecimal() and self._is_on(int(number), host):
                return self._page(int(number), request, visits)
        visits.count("other")
        return web.Response(status=404, text="no such page\n")

    def _is_on(self, page: int, host: int) -> bool:
        return page < len(self._host_of) and self._host_of[page] == host

    def _robots(self, host: int, visits: Visits) -> web.Response:
        visits.count("robots")
        sitemap = f"Sitemap: {self.origin(host)}/sitemap.xml\n" if self.scenario.has_sitemap[host] else ""
        return web.Response(text=f"User-agent: *\nAllow: /\n{sitemap}")

    def _sitemap(self, host: int, visits: Visits) -> web.Response:
        assert self._lastmods is not None, "the site has begun"  # noqa: S101 - it answers nothing before
        now = self.elapsed
        visits.polled(host, now)
        said = [(page, self._lastmods.text(page, now)) for page in self._on_host[host]]
        rows = "".join(
            f"<url><loc>{self.url(page)}</loc>{f'<lastmod>{escape(text)}</lastmod>' if text else ''}</url>"
            for page, text in said
        )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'
        )
        return web.Response(content_type="application/xml", text=text)

    def _page(self, page: int, request: web.Request, visits: Visits) -> web.Response:
        if (refusal := self._refusals.get(page)) is not None:
            visits.count("turned_away")
            status, headers, text = refusal
            return web.Response(status=status, headers=headers, content_type="text/html", text=text)
        if self._rng.random() < self._errors:
            visits.count("error")
            return web.Response(status=503, text="out of order\n")
        now, changes = self.elapsed, self._changes[page]
        version = int(changes.searchsorted(now, side="right"))
        visits.served(page, now, float(changes[version]) if version < len(changes) else float("inf"))
        tag = f'"{page}-{version}"'
        changed = self._began_wall + (float(changes[version - 1]) if version else 0.0)
        headers = {"ETag": tag, "Last-Modified": formatdate(changed, usegmt=True)}
        if request.headers.get("If-None-Match") == tag:
            visits.count("unchanged")
            return web.Response(status=304, headers=headers)
        visits.count("page")
        return web.Response(content_type="text/html", headers=headers, text=self._text(page, version))

    def _text(self, page: int, version: int) -> str:
        """A page with some text that stays and some that is this version's own."""
        title = f"Page {page} of {self.scenario.hosts[self._host_of[page]]}"
        picked = blake2b(f"{page} {version}".encode(), digest_size=LIMITS.news).digest()
        words = (
            "amber", "bridge", "copper", "garden", "harbour", "lantern", "meadow", "orchard", "quarry", "river",
            "silver", "tower", "valley", "winter",
        )  # fmt: skip
        news = " ".join(words[byte % len(words)] for byte in picked)
        return (
            f"<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1>"
            f"<p>{news}, says version {version}.</p><p>Whatever else the page says stays as it was.</p></body></html>"
        )


async def until(site: LabSite, seconds: float, look: Callable[[], None], every: float = 0.25) -> None:
    """Look at the site every so often until that moment of its time."""
    while (rest := seconds - site.elapsed) > 0:
        await asyncio.sleep(min(every, rest))
        look()
