"""One page, kept once: addresses that prove to be one page, against the real test site."""

from pathlib import Path

import pytest

from crawld.store.report import Reader
from crawld.store.views import Copy
from tests.support.behaviours import answer, page
from tests.support.daemon import rows, running, until
from tests.support.site import Behaviour, Site, Visit

ALIASES = "SELECT p.url, k.url FROM pages p JOIN pages k ON k.id = p.alias_of WHERE p.state = 'alias' ORDER BY p.url"
TOLD = "SELECT p.url, c.verdict, c.moved_to FROM changes c JOIN pages p ON p.id = c.page_id ORDER BY c.id"


def versioned(title: str, head: str = "") -> Behaviour:
    """A page with an ETag whatever its query is; the path of its version is its title."""

    async def serve(visit: Visit) -> None:
        number = visit.site.versions.get(title, 0)
        body = page(title, f"This is {title}, version {number}, with words enough to be a page of its own.")
        await visit.reply_cached(body.replace("<head>", f"<head>{head}"), f'"{title}{number}"')

    return serve


def moved(target: str, status: int = 301) -> Behaviour:
    """A redirect."""
    return answer(status=status, Location=target)


def aliases(folder: Path) -> dict[str, str]:
    """The aliases in the database, each with the page it stands for, by their paths."""
    return {_path(url): _path(of) for url, of in rows(folder, ALIASES)}


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[3]


async def test_a_permanent_redirect_becomes_an_alias_of_where_it_leads(tmp_path: Path) -> None:
    """After repeated proof the page is asked where it moved, conditionally, and whoever follows changes is told."""
    async with Site() as site:
        site.pages["/old"], site.pages["/new"] = moved("/new"), versioned("new")
        async with running(tmp_path, [site.url("/old")]) as daemon:
            await until(lambda: aliases(tmp_path) == {"/old": "/new"})
            asked = len(site.visits("/old"))
            known = len(site.visits("/new"))
            await until(lambda: len(site.visits("/new")) >= known + 8)
            assert len(site.visits("/old")) == asked
            later = site.visits("/new")[known + 1 :]
            assert sum("if-none-match" in seen.headers for seen in later) >= len(later) - 1  # one in 50 asks anew
            assert daemon.scheduler.documents == 1
    assert rows(tmp_path, TOLD) == [
        (site.url("/old"), "new", None),
        (site.url("/old"), "moved", site.url("/new")),
        (site.url("/new"), "new", None),
    ]
    async with Reader(f"sqlite:///{tmp_path}/x.db") as reader:
        overall = await reader.overall()
        assert (overall.pages, overall.states["alias"]) == (1, 1)
        old, new = await reader.page(site.url("/old")), await reader.page(site.url("/new"))
        assert old is not None
        assert new is not None
        assert (old.alias_of, old.alias_why) == (site.url("/new"), "it redirects there permanently")
        assert new.aliases == [site.url("/old")]
        copy = await reader.copy(site.url("/old"))
        assert isinstance(copy, Copy)
        assert copy.url == site.url("/new")


async def test_through_a_temporary_redirect_conditions_go_to_who_answered(tmp_path: Path) -> None:
    """A page behind a temporary redirect stays its own, and its validators go to the address that sent them."""
    async with Site() as site:
        site.pages["/here"], site.pages["/there"] = moved("/there", 302), versioned("there")
        async with running(tmp_path, [site.url("/here")], fetch={"unconditional_share": 0}):
            await until(lambda: len(site.visits("/there")) >= 6)
    assert [seen.headers.get("if-none-match") for seen in site.visits("/here")] == [None] * len(site.visits("/here"))
    assert [seen.headers.get("if-none-match") for seen in site.visits("/there")[1:]] == ['"there0"'] * (
        len(site.visits("/there")) - 1
    )
    assert rows(tmp_path, ALIASES) == []
    assert rows(tmp_path, "SELECT status FROM crawls ORDER BY id LIMIT 3") == [(200,), (304,), (304,)]


@pytest.mark.parametrize(
    ("variants", "kept"),
    [
        (["/a/index.html", "/a/?utm_source=x&utm_medium=y", "/a/?fbclid=1", "/a//", "/a/?"], "/a/"),
        (["/a/?b=2&utm_campaign=z"], "/a/?b=2"),
    ],
)
async def test_other_spellings_with_the_same_text_are_one_page(tmp_path: Path, variants: list[str], kept: str) -> None:
    """Spellings that most servers answer alike become aliases of the plain one once their texts have agreed."""
    async with Site() as site:
        for path in ("/a/", "/a/index.html", "/a//"):
            site.pages[path] = versioned("a")
        urls = [site.url(path) for path in (*variants, kept)]
        async with running(tmp_path, urls) as daemon:
            await until(lambda: aliases(tmp_path) == dict.fromkeys(variants, kept))
            await until(lambda: daemon.scheduler.documents == 1)
            asked, known = {path: _asked(site, path) for path in variants}, _asked(site, kept)
            site.versions["a"] = 1
            await until(lambda: _asked(site, kept) >= known + 5)
            assert {path: _asked(site, path) for path in variants} == asked
    changed = [(_path(url), verdict) for url, verdict, _ in rows(tmp_path, TOLD) if verdict == "changed"]
    assert changed == [(kept, "changed")]


async def test_a_better_spelling_listed_later_is_found(tmp_path: Path) -> None:
    """A page that had no other spelling becomes an alias once a plainer one is listed."""
    async with Site() as site:
        site.pages["/a/"] = site.pages["/a/index.html"] = versioned("a")
        async with running(tmp_path, [site.url("/a/index.html")]) as daemon:
            await until(lambda: _asked(site, "/a/index.html") >= 3)
            with (tmp_path / "urls.txt").open("a") as listed:
                listed.write(site.url("/a/") + "\n")
            await daemon.reload()
            await until(lambda: aliases(tmp_path) == {"/a/index.html": "/a/"})


def _asked(site: Site, target: str) -> int:
    return sum(seen.target == target for seen in site.log)


async def test_spellings_with_other_texts_stay_pages_of_their_own(tmp_path: Path) -> None:
    """Where the server answers differently, parameters and spellings are pages of their own."""
    async with Site() as site:
        site.pages["/a/"], site.pages["/a/index.html"] = versioned("a"), versioned("index")

        async def by_source(visit: Visit) -> None:
            await visit.reply(page("by source", f"Welcome, reader of {visit.query.get('utm_source', 'nothing')}."))

        site.pages["/b"] = by_source
        urls = [site.url(path) for path in ("/a/", "/a/index.html", "/b", "/b?utm_source=mail")]
        async with running(tmp_path, urls):
            await until(lambda: min(_asked(site, _path(url)) for url in urls) >= 6)
    assert rows(tmp_path, ALIASES) == []


async def test_a_canonical_address_with_the_same_text_is_kept_in_place_of_the_page(tmp_path: Path) -> None:
    """The canonical address of a page's own site is asked, taken in, and kept; robots.txt is obeyed for it."""
    async with Site() as site:
        site.robots[site.address()] = "User-agent: *\nDisallow: /secret\n"
        for path, canonical in (("/print/1", "/story/1"), ("/print/2", "/secret/2"), ("/print/3", "/story/3")):
            site.pages[path] = site.pages[canonical] = versioned(canonical, f"<link rel=canonical href={canonical}>")
        site.pages["/story/3"] = versioned("another text")
        async with running(tmp_path, [site.url(f"/print/{number}") for number in (1, 2, 3)]):
            await until(lambda: aliases(tmp_path) == {"/print/1": "/story/1"})
            await until(lambda: min(_asked(site, f"/print/{number}") for number in (2, 3)) >= 6)
            assert aliases(tmp_path) == {"/print/1": "/story/1"}
    assert not site.visits("/secret/2")
    assert len(site.visits("/story/3")) < len(site.visits("/print/3"))  # a claim that proved wrong is asked less often


async def test_a_page_elsewhere_cannot_capture_or_hide_one(tmp_path: Path) -> None:
    """A copy on another host that names a page of ours becomes its alias; the page that is named stays as it is."""
    async with Site(hosts=2) as site:
        victim, unlisted = site.url("/victim"), site.url("/unlisted")
        site.pages["/victim"] = versioned("victim")
        site.pages["/copy"] = versioned("victim", f"<link rel=canonical href={victim}>")
        site.pages["/liar"] = versioned("liar", f"<link rel=canonical href={victim}>")
        site.pages["/scout"] = versioned("victim", f"<link rel=canonical href={unlisted}>")
        others = [site.url(path, host=2) for path in ("/copy", "/liar", "/scout")]
        async with running(tmp_path, [victim, *others]) as daemon:
            await until(lambda: aliases(tmp_path) == {"/copy": "/victim"})
            await until(lambda: min(len(site.visits(path)) for path in ("/victim", "/liar", "/scout")) >= 6)
            assert aliases(tmp_path) == {"/copy": "/victim"}
            assert daemon.scheduler.documents == 3
    assert not site.visits("/unlisted")
    assert [row for row in rows(tmp_path, TOLD) if row[1] == "moved"] == [(others[0], "moved", victim)]


async def test_an_alias_that_diverges_is_a_page_of_its_own_again(tmp_path: Path) -> None:
    """A check that finds another text makes the alias a page again, and the page kept for it alone is retired."""
    async with Site() as site:
        site.pages["/old"], site.pages["/new"] = moved("/new"), versioned("new")
        async with running(tmp_path, [site.url("/old")]) as daemon:
            await until(lambda: aliases(tmp_path) == {"/old": "/new"})
            site.pages["/old"] = versioned("old")
            (alias,) = daemon.scheduler.aliases_of(daemon.page_set.pages()[1].id)
            daemon.scheduler.lift(alias, 0.0)
            await until(lambda: rows(tmp_path, "SELECT state FROM pages ORDER BY id") == [("live",), ("retired",)])
            await until(lambda: daemon.scheduler.documents == 1)
    told = [(_path(url), verdict) for url, verdict, _ in rows(tmp_path, TOLD)]
    assert told == [
        ("/old", "new"), ("/old", "moved"), ("/new", "new"), ("/new", "removed"), ("/old", "back"),
    ]  # fmt: skip


async def test_a_restart_keeps_aliases_and_keep_ends_them(tmp_path: Path) -> None:
    """Aliases and their weights come back with a restart; `duplicates: keep` makes them pages of their own."""
    async with Site() as site:
        site.pages["/a"] = versioned("a")
        urls = [site.url("/a"), f"{site.url('/a?utm_source=x')} 5"]
        async with running(tmp_path, urls):
            await until(lambda: aliases(tmp_path) == {"/a?utm_source=x": "/a"})
        asked = _asked(site, "/a?utm_source=x")
        async with running(tmp_path, urls) as daemon:
            known = _asked(site, "/a")
            await until(lambda: _asked(site, "/a") >= known + 4)
            first = daemon.page_set.pages()[0]
            standing = daemon.scheduler.standing(first.id)
            assert standing is not None
            assert (standing.importance, daemon.scheduler.documents) == (5.0, 1)
            assert _asked(site, "/a?utm_source=x") == asked
        async with running(tmp_path, urls, duplicates="keep") as daemon:
            await until(lambda: daemon.scheduler.documents == 2)
            await until(lambda: _asked(site, "/a?utm_source=x") >= asked + 4)
    assert aliases(tmp_path) == {}


async def test_removing_what_moved_removes_where_it_moved(tmp_path: Path) -> None:
    """A page that was taken in because a listed one moved there goes with it; a listed page stays."""
    async with Site() as site:
        site.pages["/old"], site.pages["/new"] = moved("/new"), versioned("new")
        async with running(tmp_path, [site.url("/old")]) as daemon:
            await until(lambda: aliases(tmp_path) == {"/old": "/new"})
            await daemon.page_set.retire([site.url("/old")], now=1.0)
            assert len(daemon.scheduler) == 0
    assert rows(tmp_path, "SELECT DISTINCT state FROM pages") == [("retired",)]


async def test_a_meta_refresh_is_a_redirect(tmp_path: Path) -> None:
    """A page that sends its readers on at once is kept where it leads; one that does so later is a page."""
    async with Site() as site:
        at_once = '<html><head><meta http-equiv="refresh" content="0; url=/there"></head>moved</html>'
        site.pages["/here"], site.pages["/there"] = answer(at_once), versioned("there")
        site.pages["/news"] = answer(at_once.replace("0;", "300;"))
        async with running(tmp_path, [site.url("/here"), site.url("/news")]):
            await until(lambda: aliases(tmp_path) == {"/here": "/there"})
            await until(lambda: len(site.visits("/news")) >= 4)
    assert aliases(tmp_path) == {"/here": "/there"}


@pytest.mark.parametrize("lastmod", ["", "<lastmod>2020-01-01</lastmod>"])
async def test_a_gone_page_that_is_listed_anew_is_asked_at_once(tmp_path: Path, lastmod: str) -> None:
    """A page that is gone is asked again when its sitemap lists it anew, though the lastmod is as old as before."""
    async with Site() as site:
        site.pages["/stays"] = site.pages["/back"] = versioned("a page")
        entry = "<url><loc>{}</loc>" + lastmod + "</url>"
        stays, back = (entry.format(site.url(path)) for path in ("/stays", "/back"))
        listed = [stays, back]

        async def sitemap(visit: Visit) -> None:
            text = f"<urlset>{''.join(listed)}</urlset>"
            await visit.reply(text, headers={"Content-Type": "application/xml"})

        site.pages["/sitemap.xml"] = sitemap
        signals = {"sitemaps": [site.url("/sitemap.xml")], "feeds": "off", "share": 0.5}
        async with running(tmp_path, [site.url("/stays"), site.url("/back")], signals=signals) as daemon:
            await until(lambda: len(site.visits("/sitemap.xml")) >= 2 and len(site.visits("/back")) >= 1)
            site.pages["/back"] = answer(status=404)
            listed[:] = [stays]
            await until(lambda: rows(tmp_path, "SELECT count(*) FROM changes WHERE verdict = 'gone'") == [(1,)])
            polled = len(site.visits("/sitemap.xml"))
            await until(lambda: len(site.visits("/sitemap.xml")) >= polled + 2)
            site.pages["/back"] = versioned("a page")
            listed[:] = [stays, back]
            await until(lambda: rows(tmp_path, "SELECT count(*) FROM changes WHERE verdict = 'back'") == [(1,)])
            assert daemon.crawler.status.faults == 0
