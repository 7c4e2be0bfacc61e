"""Whole sites by their links, against the real test site."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crawld.choose.pacer import Share
from crawld.crawl.site_links import FollowedSite, FollowingSite, Shapes, SiteLinks, WaitingKind
from crawld.fetch.robots_cache import Allowed
from crawld.main.assembly import Tempo, build
from crawld.main.settings import Settings
from crawld.main.supervisor import Daemon
from crawld.model.page import Page, PageState, Wanted
from crawld.pages.pages import Pages
from crawld.read.page.links import shape_of
from crawld.store.links import SitePage
from crawld.store.report import Reader
from tests.support.behaviours import answer, html, not_found, page
from tests.support.daemon import rows, until
from tests.support.site import Behaviour, Site, Visit

PAGES = "SELECT url FROM pages WHERE state <> 'retired' AND last_success IS NOT NULL ORDER BY url"
REFUSED = "SELECT p.url, s.refused FROM site_pages s JOIN pages p ON p.id = s.page_id WHERE s.refused IS NOT NULL"
TOLD = "SELECT p.url, c.verdict FROM changes c JOIN pages p ON p.id = c.page_id ORDER BY c.id"
TEMPO = Tempo(learn=0.2, tick=0.3, demand=0.2, poll=0.2)


@asynccontextmanager
async def following(
    folder: Path, site: Site, start: str = "/docs/", urls: list[str] | None = None, **given: object
) -> AsyncIterator[Daemon]:
    """A daemon that follows the links of a site from one address; `given` are settings of the site."""
    if urls is not None:
        (folder / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    settings = {
        "bandwidth": given.pop("bandwidth", "100/s"),
        "urls": None if urls is None else str(folder / "urls.txt"),
        "database": f"sqlite:///{folder}/x.db",
        "allow_private": ["127.0.0.0/8"],
        "politeness": {"delay": 0, "per_host": 10},
        "min_interval": 0.2,
        "max_interval": 0.4,
        "audit": {"share": 0},
        "signals": {"sitemaps": given.pop("sitemaps", "off"), "feeds": "off", "share": 0.9},
        "api": {"listen": None},
        "discover": [{"site": site.url(start), "links": True, **given}],
    }
    daemon = build(Settings.model_validate(settings), tempo=TEMPO)
    daemon.catch_signals = False
    task = asyncio.create_task(daemon.run())
    try:
        await until(lambda: len(daemon.scheduler) > 0 or task.done())
        yield daemon
    finally:
        daemon.stop()
        await task


def linking(title: str, *links: str, head: str = "") -> Behaviour:
    """A page with these links, each an address or a whole element."""
    shown = (link if link.startswith("<") else f'<a href="{link}">{link}</a>' for link in links)
    text = page(title, f"This is {title}, with words of its own: {' '.join([title] * 9)}.", *shown)
    return html(text.replace("<head>", f"<head>{head}"))


def kept(folder: Path) -> set[str]:
    """The pages that are kept and were visited, by path and query."""
    return {"/" + url.split("/", 3)[3] for (url,) in rows(folder, PAGES)}


async def test_a_site_is_followed_from_one_address(tmp_path: Path) -> None:
    """Links inside the site become pages; what robots are told not to follow, keep or fetch does not."""
    async with Site() as site:
        site.robots[site.address()] = "User-agent: *\nDisallow: /docs/secret\n"
        site.pages |= {
            "/docs/": linking(
                "start", "a#top", "./b?utm_source=x", "/elsewhere", "secret", "picture.png", "listing", "deaf",
                "broken", "moved", '<a rel="nofollow" href="unwanted">no</a>',
            ),
            "/docs/a": linking("a", "c", "/docs/a", "b"),
            "/docs/b": linking("b"),
            "/docs/c": linking("c", "deep"),
            "/docs/deep": linking("deep", "deeper"),
            "/docs/listing": linking("listing", "from-listing", head='<meta name="robots" content="noindex">'),
            "/docs/from-listing": linking("from-listing"),
            "/docs/deaf": linking("deaf", "unheard", head='<meta name="robots" content="nofollow">'),
            "/docs/moved": answer(status=301, Location="/docs/b"),
        }  # fmt: skip
        wanted = {"/docs/", "/docs/a", "/docs/b", "/docs/c", "/docs/deep", "/docs/deaf", "/docs/from-listing"}
        async with following(tmp_path, site, depth=3):
            await until(lambda: wanted <= kept(tmp_path) and bool(site.visits("/docs/listing")))
            await until(lambda: rows(tmp_path, "SELECT url FROM pages WHERE state = 'alias'") != [])
            asked = len(site.log)
            await until(lambda: len(site.log) > asked + 30)
        asked_paths = {seen.path for seen in site.log}
        assert not asked_paths & {"/docs/unwanted", "/docs/unheard", "/docs/secret", "/elsewhere", "/docs/picture.png"}
        assert "/docs/deeper" not in asked_paths  # four links away
        assert not [seen for seen in site.log if "utm_source" in seen.target]
        assert "/docs/listing" not in kept(tmp_path)
        refused = {url.rpartition("/")[2]: why for url, why in rows(tmp_path, REFUSED)}
        assert refused == {"listing": "noindex", "broken": "status"}
        told = [verdict for url, verdict in rows(tmp_path, TOLD) if url.endswith("listing")]
        assert told.count("new") == 1  # of the page that the listing links to
        async with Reader(f"sqlite:///{tmp_path}/x.db") as reader:
            found = await reader.page(site.url("/docs/b"))
            assert found is not None
            assert found.linked_from.sources == [site.url("/docs/"), site.url("/docs/a")]
            assert found.linked_from.depth == 1
            (figures,) = await reader.followed_sites()
            assert (figures.found, figures.waiting, figures.refused) == (8, 0, 2)


def calendar() -> Behaviour:
    """A calendar without end: every month links to the next and the one before."""

    async def serve(visit: Visit) -> None:
        month = int(visit.query.get("month", "1"))
        days = "".join(f"<td>{day}</td>" for day in range(1, 29))
        links = "".join(f'<a href="/docs/cal?month={n}&view={v}">{n}</a>' for n in (month - 1, month + 1) for v in "ab")
        await visit.reply(f"<html><body><h1>Month {month}</h1><table><tr>{days}</tr></table>{links}</body></html>")

    return serve


def month_of(month: int) -> Behaviour:
    """A month of such a calendar with a path of its own."""
    days = "".join(f"<td>{day}</td>" for day in range(1, 29))
    links = "".join(f'<a href="/docs/year/{n}">{n}</a>' for n in range(month - 5, month + 6))
    return html(f"<html><body><h1>Month {month}</h1><table><tr>{days}</tr></table>{links}</body></html>")


def sessions(title: str, *links: str) -> Behaviour:
    """A page that gives every reader links of their own."""

    async def serve(visit: Visit) -> None:
        number = len(visit.site.log)
        inner = "".join(f'<a href="{link}?sid={number}">{link}</a>' for link in links)
        await visit.reply(page(title, f"This is {title}: {' '.join([title] * 20)}.", inner))

    return serve


async def test_endless_addresses_are_bounded_by_their_shape(tmp_path: Path) -> None:
    """Calendars and session ids stop after a few addresses; numbered pages that differ are all found."""
    async with Site() as site:
        items = [f"/docs/item?id={n}" for n in range(60)]

        async def item(visit: Visit) -> None:
            name = f"item{visit.query['id']}"
            await visit.reply(
                page(name, f"{name} is a thing of its own: {' '.join(f'{name}word{n}' for n in range(40))}")
            )

        site.pages |= {
            "/docs/": linking("start", "cal?month=1", "year/250", "shop", *items),
            "/docs/cal": calendar(),
            **{f"/docs/year/{month}": month_of(month) for month in range(500)},
            "/docs/shop": sessions("shop", "/docs/cart", "/docs/about", "/docs/shop"),
            "/docs/cart": sessions("cart", "/docs/cart", "/docs/about"),
            "/docs/about": sessions("about", "/docs/shop"),
            "/docs/item": item,
        }
        async with following(tmp_path, site):
            await until(lambda: len([one for one in kept(tmp_path) if one.startswith("/docs/item")]) == 60)
            asked = len(site.log)
            await until(lambda: len(site.log) > asked + 200)
        months = {seen.target for seen in site.visits("/docs/cal")}
        assert 4 <= len(months) <= 30
        assert 4 <= len({seen.path for seen in site.log if seen.path.startswith("/docs/year/")}) <= 30
        for path in ("/docs/shop", "/docs/cart", "/docs/about"):
            assert len({seen.target for seen in site.visits(path)}) <= 12


async def test_a_page_leaves_with_the_last_link_and_its_place_in_the_sitemap(tmp_path: Path) -> None:
    """A page stays while the sitemap or a page names it; new pages are found from pages that change."""
    async with Site() as site:
        listed = ["/docs/", "/docs/both", "/docs/listed"]

        async def sitemap(visit: Visit) -> None:
            entries = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in listed)
            schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
            await visit.reply(f'<urlset xmlns="{schema}">{entries}</urlset>', headers={"Content-Type": "text/xml"})

        site.robots[site.address()] = f"Sitemap: {site.url('/sitemap.xml')}\n"
        site.pages |= {
            "/sitemap.xml": sitemap,
            "/docs/": linking("start", "both", "linked"),
            **{f"/docs/{name}": linking(name) for name in ("both", "listed", "later")},
            "/docs/linked": linking("linked", "behind"),
            "/docs/behind": linking("behind"),
        }
        async with following(tmp_path, site, sitemaps="auto"):
            await until(lambda: kept(tmp_path) == {*listed, "/docs/linked", "/docs/behind"})
            listed[:] = ["/docs/"]
            await until(lambda: kept(tmp_path) == {"/docs/", "/docs/both", "/docs/linked", "/docs/behind"})
            site.pages["/docs/"] = linking("start", "later", "both")
            await until(lambda: kept(tmp_path) == {"/docs/", "/docs/both", "/docs/later"})
            site.pages["/docs/"], site.pages["/docs/both"] = linking("start", "later"), not_found
            await until(lambda: kept(tmp_path) == {"/docs/", "/docs/later"})
    removed = {url.rpartition("/")[2] for url, verdict in rows(tmp_path, TOLD) if verdict == "removed"}
    assert removed == {"listed", "linked", "behind", "both"}


async def test_first_visits_keep_to_their_share_and_outlive_a_stop(tmp_path: Path) -> None:
    """While listed pages want the slots, first visits take their share of them and no more, over a restart too."""
    async with Site() as site:
        site.pages["/docs/"] = linking("start", *(f"p{n}x" for n in range(300)))
        listed = [site.url(f"/ok/{n}") for n in range(400)]
        site.pages |= {f"/docs/p{n}x": linking(f"p{n}") for n in range(300)}
        for _ in range(2):
            begun = len(site.log)
            before = {seen.path for seen in site.log}
            async with following(tmp_path, site, urls=listed, share=0.1):
                await until(lambda begun=begun: len(site.log) - begun >= 300)  # type: ignore[misc]
                await until(lambda before=before: len(_found(site) - before) >= 10)  # type: ignore[misc]
            assert len(_found(site) - before) <= 0.1 * (len(site.log) - begun) + 3
        assert rows(tmp_path, "SELECT count(*) FROM pages WHERE origin = 'links' AND state = 'waiting'")[0][0] > 50


def _found(site: Site) -> set[str]:
    return {seen.path for seen in site.log if seen.path.startswith("/docs/p")}


async def test_a_site_has_no_more_pages_than_its_limit(tmp_path: Path) -> None:
    """Beyond the limit links wait; they are followed when a page leaves."""
    async with Site() as site:
        site.pages["/docs/"] = linking("start", *(f"{name}" for name in "abcdefgh"))
        site.pages |= {f"/docs/{name}": linking(name) for name in "abcdefgh"}
        async with following(tmp_path, site, limit=4):
            await until(lambda: len(kept(tmp_path)) == 4)
            site.pages["/docs/"] = linking("start", *"efgh")
            await until(lambda: len(kept(tmp_path) & {f"/docs/{name}" for name in "efgh"}) == 3)


def line_of(site: FollowingSite) -> list[int]:
    """The pages that wait, in the order in which they would be visited."""
    order: list[int] = []
    while (kind := site.first()) is not None:
        order.append(kind.waiting[0][1])
        site.leave_line(kind, begun=True)
    return order


def waiting(*paths: tuple[str, int]) -> FollowingSite:
    """A site whose pages wait at these depths, numbered in this order."""
    site = FollowingSite(FollowedSite("https://example.org/"), Shapes(100), Share(0.1))
    for number, (path, depth) in enumerate(paths):
        site.line_up(Page(number, f"https://example.org/{path}", "example.org"), depth)
    return site


def test_plain_addresses_come_before_those_of_query_strings() -> None:
    """One page of each kind is looked at, the nearest first; then a calendar waits until no plain page does."""
    months = [("calendar?month=7", 1), ("calendar?month=8", 1), ("calendar?month=9&view=b", 1)]
    assert line_of(waiting(*months, ("guide", 3), ("start", 2), ("about", 2))) == [0, 4, 3, 5, 1, 2]


def test_kinds_of_pages_that_lead_on_come_first() -> None:
    """What a first visit brought decides when others of its kind are visited, lists with parameters too."""
    site = waiting(("things?page=1", 1), ("things?page=2", 2), ("a/x", 1), ("a/y", 1), ("b/x", 1), ("b/y", 1))
    assert [site.first(), site.first()] == [site.kind("https://example.org/things?page=9", 3)] * 2
    for url, brought in (("things?page=1", 9), ("a/x", 0), ("b/x", 1)):
        kind = site.kind(f"https://example.org/{url}", 1)
        site.leave_line(kind, begun=True)
        site.visited(f"https://example.org/{url}", 1, brought)
        assert kind.promising is (brought > 0)
    assert line_of(site) == [5, 1, 3]
    nearer = site.kind("https://example.org/b/z", 1)
    assert site.kind("https://example.org/b/z", 2).promising  # as those one link nearer, until one was visited
    assert not WaitingKind("", nearer, begun=1).promising
    assert not WaitingKind("", nearer, begun=60, brought=1).promising  # most are not there, or lead nowhere


def test_steps_of_a_calendar_are_no_finds() -> None:
    """Addresses of a page's own shape count where a list has the shape, or one link from it; parameters when proved."""
    shapes = Shapes(100)
    month, item = shape_of("https://example.org/2026/11"), shape_of("https://example.org/item?id=7")
    assert shapes.is_find(None, None, 5)
    assert shapes.is_find(month, None, 5)
    assert shapes.is_find(month, month, 1)
    assert not shapes.is_find(month, month, 2)
    shapes.listed(month)
    assert shapes.is_find(month, month, 2)
    assert not shapes.is_find(item, None, 1)
    day = shape_of("https://example.org/2026/11/18")
    for _ in range(8):
        assert shapes.admits(day, day, 2)
        shapes.joined(day)
    assert not shapes.admits(day, day, 2)
    assert shapes.admits(day, day, 1)
    shapes.visited(item, novel=True)
    assert shapes.is_find(item, None, 1)


def test_slots_are_lent_ahead_of_a_share_and_made_up_for() -> None:
    """No more are owed than the bound, and nothing is ready before they were earned."""
    share = Share(0.1)
    lent = 0
    while share.lends(3.0):
        share.spend()
        lent += 1
    assert lent == 3
    for _ in range(39):
        Share.tick([share])
        assert not share.ready
    Share.tick([share])
    assert share.ready


@dataclass(frozen=True, slots=True)
class WaitingPages:
    """Stands for the stored links: pages that links led to, none of which has been visited."""

    pages: Sequence[Page]

    async def site_pages(self) -> Sequence[SitePage]:
        """Every one of them, a link away from the site's first page."""
        return [
            SitePage(
                page, 1, by_links=True, visited=False, attempted_at=None, novel=None, deferred=False, refused=None,
                retired=False,
            )
            for page in self.pages
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownPages:
    """Stands for the set of pages: it takes in no others."""

    in_memory: Pages

    async def adopt(self, wanted: Sequence[Wanted], *, origin: str, now: float, complete: bool) -> None:
        """The address of the site is left out."""


class Open:
    """Stands for the scheduler and for admission: nothing is held, and every page may be asked."""

    gate = SimpleNamespace(host=len)

    def postpone(self, page_id: int, not_before: float, now: float) -> None:
        """Nobody picks it."""

    def held(self, page_id: int) -> bool:
        """Nobody crawls it."""
        return False

    def decide(self, url: str, host: int, now: float) -> Allowed:
        """Nothing forbids it."""
        return Allowed()


@pytest.mark.parametrize(("brought", "visits"), [(1, 20 + 17), (0, 20)])
async def test_pages_that_lead_on_are_visited_ahead_of_the_share(brought: int, visits: int) -> None:
    """Of 170 pages a round has 17 slots of the share: so many more first visits, where the first one brought a page."""
    prefix, everything = "https://example.org/", Open()
    pages = Pages([prefix])
    known = [Page(n, f"{prefix}{n}q", "example.org") for n in range(170)]
    pages.put_all(known, [PageState.LIVE] * 170, [0] * 170)
    parts: list[Any] = [None, WaitingPages(known[100:]), KnownPages(pages), everything, None, None]
    links = SiteLinks([FollowedSite(prefix)], *parts)
    await links.restore(0.0)
    site = links.site_of(prefix)
    assert site is not None
    first = []
    for slot in range(200):
        links.tick()
        if (found := links.choose(float(slot), cast(Any, everything))) is not None:
            first.append(found[0].id)
            site.visited(found[0].url, 1, brought)
    assert len(set(first)) == len(first) == visits


async def test_listed_pages_are_visited_before_the_late_share(tmp_path: Path) -> None:
    """Without a list, pages that the sitemap names are all visited before first visits have half of the slots."""
    async with Site() as site:
        named = [f"/docs/l{n}q" for n in range(100)]
        site.pages |= {path: linking(path[6:], *(f"{path[6:]}x{n}" for n in range(3))) for path in named}
        site.pages["/docs/"] = linking("start")
        entries = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in named)
        schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
        found = f'<urlset xmlns="{schema}">{entries}</urlset>'
        site.pages["/sitemap.xml"] = answer(found, content_type="text/xml")
        site.robots[site.address()] = f"Sitemap: {site.url('/sitemap.xml')}\n"
        async with following(tmp_path, site, sitemaps="auto", bandwidth="50/s"):
            await until(lambda: set(named) <= {seen.path for seen in site.log})
            first = {seen.path for seen in site.log if "x" in seen.path.rpartition("/")[2]}
            assert len(first) <= 0.1 * len(site.log) + 10
