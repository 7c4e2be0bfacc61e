"""Whole sites by links: how soon pages in no sitemap are found, what a calendar without end costs, and who pays.

    python -m benchmarks.links [--shape pairs] [--seed 1] [--pages 200] [--rate 20] [--seconds 40] [--kills 0] [--json]

A site whose pages change by themselves, a fifth of them in no sitemap and linked from other pages alone; and a calendar
whose months link on for ever. `--shape` says who links to an unlisted page: a listed one or another that is not listed
by turns (`pairs`; `numbers` has numbers for names, and months with a text of their own in the path), the one before
(`chain`), any page (`tree`), one in eight (`hubs`), or pages of a list (`lists`). Pages that listed ones link to are
found when those are crawled, the others when their own parents had a first visit. A round is as many answers as there
are pages. `site` has no list, but the site's address, and follows its sitemap and links. `links` has the four fifths as
a list and follows links within the share, `whole` has all pages as a list: the difference of their freshness, of the
four fifths by the site's own truth after the first round, is what finding costs. `--kills` kills each daemon so often;
the time of its starts then counts too.
"""

import asyncio
import bisect
import random
import signal
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import argument_parser, show
from tests.support.behaviours import page
from tests.support.process import daemon, settings
from tests.support.site import Behaviour, Site, Visit


@dataclass(frozen=True)
class LinksLimits:
    """Numbers of this benchmark."""

    unlisted: float = 0.2
    settled: float = 1.0
    """Seconds without an answer after the first round, in which its pages are read."""
    fan: int = 8
    """Pages that a hub or a list links to, or of a chain."""
    links: int = 4
    """Links of a page to others."""
    changes: float = 1.0
    """Changes of a page in a round, on average; they differ by page."""


LIMITS = LinksLimits()
SHAPES = ("pairs", "chain", "tree", "hubs", "lists", "numbers")


@dataclass(frozen=True)
class LinkedWorld:
    """A site's traits, and the time for which each daemon follows it at which rate."""

    pages: int = 200
    rate: float = 20.0
    seconds: float = 40.0
    kills: int = 0
    shape: str = "pairs"


class LinkedSite:
    """Pages that change at times drawn beforehand, and the calendar."""

    def __init__(self, given: LinkedWorld, seed: int) -> None:
        luck = random.Random(seed)
        pages, shape = given.pages, given.shape
        numbers = luck.sample(range(10 * pages), pages)
        self.names = [f"{luck.choice('abcdefgh')}{luck.getrandbits(20):x}q" for _ in range(pages)]
        if shape == "numbers":
            self.names = [f"page-{number}" for number in numbers]
        listed = round(pages * (1 - LIMITS.unlisted))
        self.listed, self.hidden = self.names[:listed], self.names[listed:]
        self.links = {name: luck.sample(self.listed, LIMITS.links) for name in self.names}
        self.behind: list[str] = []  # pages that only unlisted ones link to
        self.path_calendar = shape == "numbers"
        for number, name in enumerate(self.hidden):
            by = self._parent(shape, number, luck)
            self.links[by] = [*self.links.get(by, []), name]
            self.behind += [] if by in self.listed else [name]
        self.changes: dict[str, list[float]] = {}
        for name in self.names:
            often = luck.lognormvariate(-0.5, 1.0) * LIMITS.changes * given.rate / pages
            times: list[float] = []
            at = luck.expovariate(often)
            while at < 10 * given.seconds + 600:
                times.append(at)
                at += luck.expovariate(often)
            self.changes[name] = times
        self.began = time.monotonic()
        self.visits: dict[str, list[float]] = {}
        self.calendar = self.requests = 0
        self.answering = asyncio.Event()
        self.answering.set()

    def _parent(self, shape: str, number: int, luck: random.Random) -> str:
        """The page that links to an unlisted one; a list has pages of its own."""
        hidden, some_listed = self.hidden, luck.choice(self.listed)
        if shape == "chain":
            return hidden[number - 1] if number % LIMITS.fan else some_listed
        if shape == "tree":
            return luck.choice([*self.listed, *hidden[:number]])
        if shape == "hubs":
            return hidden[number - number % LIMITS.fan] if number % LIMITS.fan else some_listed
        if shape == "lists":
            return f"list?page={number // LIMITS.fan + 1}"
        return hidden[number - 1] if number % 2 else some_listed

    async def serve(self, visit: Visit) -> None:
        """Answer as the page of a name, the start or the calendar."""
        await self.answering.wait()
        now, name = time.monotonic() - self.began, visit.seen.path.rpartition("/")[2]
        self.requests += 1
        if name == "calendar" or "/calendar/" in visit.seen.path:
            await self._serve_month(visit, name)
            return
        if name == "list":
            number = int(visit.query.get("page", "1"))
            links = [*self.links.get(f"list?page={number}", []), f"list?page={number + 1}"]
            known = f"list?page={number}" in self.links
            anchors = " ".join(f'<a href="{link}">{link}</a>' for link in links) if known else ""
            await visit.reply(page(f"List {number}", anchors, "Things of this kind, a few on each page."))
            return
        if name and name not in self.changes:
            await visit.reply("no such page", 404)
            return
        self.visits.setdefault(name, []).append(now)
        version = bisect.bisect(self.changes[name], now) if name else 0
        month = "calendar/2026/1" if self.path_calendar else "calendar?month=1"
        links = [*self.links[name], month] if name else [*self.listed[:20], "list?page=1"]
        words = " ".join(f"{name}{version}{n}" for n in range(20))
        anchors = " ".join(f'<a href="{link}">{link}</a>' for link in links)
        await visit.reply_cached(page(name or "start", words, anchors), f'"{name}{version}"')

    async def _serve_month(self, visit: Visit, name: str) -> None:
        """A month of the calendar, which links to its neighbours: an address of parameters, or one of numbers alone."""
        self.calendar += 1
        month = int(name if self.path_calendar else visit.query.get("month", "1"))
        days = "".join(f"<td>{day}</td>" for day in range(1, 29))
        link = "/docs/calendar/2026/" if self.path_calendar else "calendar?month="
        others = "".join(f'<a href="{link}{n}">{n}</a> ' for n in range(max(month - 3, 1), month + 4))
        text = " ".join(f"event{month}n{n}" for n in range(20)) if self.path_calendar else ""
        inner = f"<h1>Month {month}</h1><p>{text}</p><table><tr>{days}</tr></table>{others}"
        await visit.reply(f"<html><body>{inner}</body></html>")

    def freshness(self, names: list[str], start: float, end: float) -> float:
        """The mean over pages and time of whether the copy made at the last visit is what the page is."""
        fresh = 0.0
        for name in names:
            visits, changes = [at for at in self.visits.get(name, []) if at < end], self.changes[name]
            for at, after in zip(visits, [*visits[1:], end], strict=False):
                stale = next(iter(changes[bisect.bisect(changes, at) :]), end)
                fresh += max(0.0, min(after, stale, end) - max(at, start))
        return fresh / (len(names) * (end - start))


async def measure(which: str, wanted: LinkedWorld, seed: int) -> dict[str, Any]:
    """Run one daemon over the site; its figures."""
    pages, rate, kills = wanted.pages, wanted.rate, wanted.kills
    round_seconds = pages / rate
    with tempfile.TemporaryDirectory() as made:
        async with Site() as site:
            world = LinkedSite(wanted, seed)
            site.pages["/docs/"] = world.serve
            site.pages |= {f"/docs/{name}": world.serve for name in [*world.names, "calendar", "list"]}
            site.pages |= {f"/docs/calendar/2026/{month}": world.serve for month in range(1, 20 * pages)}
            listed = [site.url(f"/docs/{name}") for name in world.listed]
            site.pages["/sitemap.xml"] = _sitemap(listed)
            site.robots[site.address()] = f"Sitemap: {site.url('/sitemap.xml')}\n"
            given: dict[str, Any] = {"bandwidth": f"{rate}/s", "min_interval": 0.1, "max_interval": "1h"}
            given["signals"] = {"sitemaps": "auto" if which == "site" else "off", "feeds": "off"}
            if which != "whole":
                given["discover"] = [{"site": site.url("/docs/"), "links": True, "limit": 5 * pages}]
            if which == "site":
                given["urls"] = None
            every = [site.url(f"/docs/{name}") for name in world.names]
            file = settings(Path(made), every if which == "whole" else listed, **given)
            found_at = None
            for _ in range(kills + 1):
                async with daemon("--config", str(file), cwd=Path(made)) as running:
                    await running.until_logged("ready", 60.0)
                    if found_at is None:
                        world.began, world.visits = time.monotonic(), {}
                        world.requests = world.calendar = 0
                        while world.requests < pages:  # a round: as many requests as there are pages
                            await asyncio.sleep(0.05)
                        world.answering.clear()
                        await asyncio.sleep(LIMITS.settled)
                        near = [name for name in world.hidden if name not in world.behind]
                        found_at = [_found(Path(made) / "x.db", site, names) for names in (near, world.behind)]
                        first_calendar = world.calendar
                        round_seconds = time.monotonic() - world.began
                        world.answering.set()
                    await asyncio.sleep(max(0.0, (wanted.seconds - round_seconds) / (kills + 1)))
                    await running.end(signal.SIGKILL)
            end = time.monotonic() - world.began
            return {
                "found_in_one_round": found_at and found_at[0],
                "found_in_one_round_behind_unlisted": found_at and found_at[1],
                "visited": round(sum(name in world.visits for name in world.hidden) / len(world.hidden), 4),
                "found": _found(Path(made) / "x.db", site, world.hidden),
                "calendar_share_in_one_round": round(first_calendar / pages, 4),
                "calendar_share": round(world.calendar / max(world.requests, 1), 4),
                "freshness_listed": round(world.freshness(world.listed, round_seconds, end), 4),
                "freshness_all": round(world.freshness(world.names, round_seconds, end), 4),
                "requests": world.requests,
            }


def _sitemap(urls: list[str]) -> Behaviour:
    async def serve(visit: Visit) -> None:
        entries = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
        schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
        await visit.reply(f'<urlset xmlns="{schema}">{entries}</urlset>', headers={"Content-Type": "text/xml"})

    return serve


def _found(database: Path, site: Site, names: list[str]) -> float:
    """The share of the pages that the daemon knows of."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as db:
        known = {url for (url,) in db.execute("SELECT url FROM pages WHERE state <> 'retired'")}
    return round(sum(site.url(f"/docs/{name}") in known for name in names) / max(len(names), 1), 4)


async def run(wanted: LinkedWorld, seed: int = 1) -> dict[str, Any]:
    """The figures of all three daemons, and what following links cost the listed pages."""
    found = {which: await measure(which, wanted, seed) for which in ("site", "links", "whole")}
    cost = found["links"]["freshness_listed"] - found["whole"]["freshness_listed"]
    return found | {"freshness_of_listed_pages_against_the_whole_list": round(cost, 4)}


def main() -> None:
    """Run as a command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=LinkedWorld.pages)
    parser.add_argument("--rate", type=float, default=LinkedWorld.rate)
    parser.add_argument(
        "--seconds", type=float, default=LinkedWorld.seconds, help="of each daemon, with the first round"
    )
    parser.add_argument("--kills", type=int, default=LinkedWorld.kills)
    parser.add_argument("--shape", choices=SHAPES, default=LinkedWorld.shape, help="who links to unlisted pages")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    wanted = LinkedWorld(given.pages, given.rate, given.seconds, given.kills, given.shape)
    show(asyncio.run(run(wanted, given.seed)), as_json=given.json)


if __name__ == "__main__":
    main()
