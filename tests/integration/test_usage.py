"""What pages may be used for, from a real site to those who follow changes."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from crawld.client import AnswerError, Client
from crawld.hooks.dispatcher import Hook
from crawld.hooks.queue import HookPace
from crawld.model.clock import SystemClock
from crawld.model.url import UrlPattern
from crawld.model.usage import PageUse, SaidIn, usage_of
from crawld.read.headers import plain_headers
from crawld.read.page.head import read_head, told_in_header, told_in_meta
from crawld.read.robots import read_robots, robots_usage
from crawld.store.hooks import NewChange
from crawld.store.read_model import SqlReadModel
from crawld.store.report import Reader
from tests.support.behaviours import page
from tests.support.daemon import BRISK, get, rows, running, until
from tests.support.daemon import serving as api
from tests.support.site import Behaviour, Site, Visit

TOLD = "SELECT p.url, c.verdict FROM changes c JOIN pages p ON p.id = c.page_id ORDER BY c.id"
COPIES = "SELECT p.url, count(*) FROM bodies b JOIN pages p ON p.id = b.page_id GROUP BY p.url ORDER BY p.url"
ROBOTS = """Content-Usage: bots=y
License: /license.xml
User-agent: *
Content-Signal: search=yes, ai-train=no
Content-Usage: /free/ train-ai=y
Content-Usage: /free/not train-ai=n, search=n
Allow: /
User-agent: otherbot
Content-Signal: search=no
Disallow: /
"""


def serving(title: str, headers: dict[str, str], head: str = "") -> Behaviour:
    """A page with these headers, changed by `site.versions`; the dictionary may be changed."""

    async def serve(visit: Visit) -> None:
        text = page(title, f"This is {title}, version {visit.site.versions.get(title, 0)}.")
        await visit.reply(text.replace("<head>", f"<head>{head}"), headers={"X-Nothing": "1", **headers})

    return serve


def test_robots_txt_speaks_by_group_and_longest_path() -> None:
    """Our group counts, the longest path decides, and a licence counts for all."""
    reading = read_robots(ROBOTS.encode(), "https://example.org/robots.txt", "crawld")
    assert reading.usage is not None
    said = robots_usage(reading.usage).said
    free, closed, other = (usage_of(said(f"https://example.org{path}")) for path in ("/free/x", "/free/not", "/x"))
    assert (free.search, free.ai_input, free.ai_train) == (True, None, False)  # no statement lifts a denial
    assert (closed.search, closed.ai_train) == (False, False)
    assert (other.search, other.ai_input, other.ai_train) == (True, True, False)
    assert {one.license for one in (free, closed, other)} == {"https://example.org/license.xml"}


@pytest.mark.parametrize(
    ("said", "denied"),
    [
        ([(SaidIn.META, "noindex")], {"search"}),
        ([(SaidIn.ROBOTS_TAG, "noai, noarchive")], {"ai-input", "ai-train"}),
        ([(SaidIn.USAGE, "train-ai=n;exceptions, ai-use=?1")], {"ai-train"}),
        ([(SaidIn.SIGNAL, "ai-input=YES"), (SaidIn.META, "nosnippet")], {"ai-input"}),
        ([(SaidIn.USAGE, "bots=n"), (SaidIn.SIGNAL, "search=yes")], {"search", "ai-input", "ai-train"}),
        ([(SaidIn.USAGE, "unheard-of=n, =, search")], set()),
        ([(SaidIn.USAGE, 'Train-AI = "N"\t, search=Y')], {"ai-train"}),
        ([(SaidIn.SIGNAL, "search=yes; ai-train=no")], {"ai-train"}),
        ([(SaidIn.SIGNAL, "search=yes ai-input = no")], {"ai-input"}),
        ([(SaidIn.LINK, "https://example.org/no")], set()),
    ],
)
def test_any_denial_counts(said: list[tuple[SaidIn, str]], denied: set[str]) -> None:
    """A use is denied where any statement denies it."""
    assert set(usage_of(tuple(said)).denied) == denied


def test_directives_for_other_robots_do_not_count() -> None:
    """Headers and elements that name a robot are for that robot."""
    assert told_in_header("otherbot: noindex, nofollow", "crawld") == frozenset()
    assert told_in_header("noai, unavailable_after: 25 Jun 2030", "crawld") == {"noai", "unavailable_after"}
    assert told_in_header("crawld: none", "crawld") == {"none", "noindex", "nofollow"}
    assert told_in_meta([("robots", "noindex"), ("crawld", "index")], "crawld") == {"index"}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["otherbot: noindex", "noai, noarchive"], {"noai", "noarchive"}),
        (["crawld: noai", "otherbot: noindex"], {"noai"}),
        (["NoIndex ; NOAI nofollow"], {"noindex", "noai", "nofollow"}),
        (["unavailable_after: Wednesday, 25 Jun 2030 15:00:00 GMT, noai"], {"unavailable_after", "noai"}),
        (["otherbot: unavailable_after: 25 Jun 2030 15:00:00 PST, noai"], set()),
        (["max-snippet: 0, max-image-preview:none"], {"nosnippet", "max-image-preview"}),
    ],
)
def test_each_line_of_the_header_is_for_the_robot_that_it_names(lines: list[str], told: set[str]) -> None:
    """A name counts up to the end of its line; dates and other separators hide no directive."""
    headers = plain_headers([("X-Robots-Tag", line) for line in lines])
    assert told_in_header(headers["x-robots-tag"], "crawld") == told


@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    ("markup", "told"),
    [
        ("<META CONTENT='NoIndex NOAI' NAME=Robots>", {"noindex", "noai"}),
        ("<!-- <meta name=robots content=noindex> --><script>'<meta name=robots content=noai>'</script>", set()),
        ("</head><body><p>A text.</p><meta name=robots content=noindex>", set()),
    ],
)
def test_the_head_tells_robots_in_every_charset(markup: str, told: set[str], charset: str) -> None:
    """Elements count in any case and order of attributes, and neither in comments, scripts nor the body."""
    body = f"<html><head><title>x</title>{markup}</html>".encode(charset)
    assert told_in_meta(read_head(body, "https://example.org/").robots, "crawld") == told


def test_a_hook_hears_of_terms_and_not_of_pages_that_deny_its_use() -> None:
    """A hook with a use is told that terms changed, and of pages that allow it."""
    transport: Any = None
    given = ("h", "webhook", transport, UrlPattern("*"), frozenset({"changed"}), HookPace(1.0))
    hook = Hook(*given, use="ai-input")

    def change(verdict: str, *denies: str) -> NewChange:
        return NewChange(1, 1, "https://example.org/", verdict, "{}", frozenset(denies))

    assert hook.wants(change("changed"))
    assert hook.wants(change("usage", "ai-input"))
    assert not hook.wants(change("changed", "ai-input"))
    assert not Hook(*given).wants(change("usage"))
    assert Hook(*given).wants(change("changed", "ai-input"))


async def test_a_consumer_receives_nothing_that_denies_its_use_and_learns_when_that_changes(tmp_path: Path) -> None:
    """Changes, exports and explanations follow the terms of each page, and a change of the terms is itself told."""
    terms: dict[str, str] = {}
    async with Site() as site:
        site.robots[site.address()] = "User-agent: *\nContent-Signal: search=yes\nAllow: /\n"
        closed = '<meta name="robots" content="noai, noarchive">'
        site.pages |= {"/open": serving("open", terms), "/closed": serving("closed", {}, closed)}
        urls = [site.url("/open"), site.url("/closed")]
        async with running(tmp_path, urls):
            await until(lambda: len(rows(tmp_path, TOLD)) == 2)
            terms["Content-Usage"] = "train-ai=n, ai-use=n"
            await until(lambda: (urls[0], "usage") in rows(tmp_path, TOLD))
            site.versions["open"] = site.versions["closed"] = 1
            await until(lambda: {(url, "changed") for url in urls} <= set(rows(tmp_path, TOLD)))
            terms.clear()
            await until(lambda: rows(tmp_path, TOLD).count((urls[0], "usage")) == 2)
            terms["X-Robots-Tag"] = "noai"
            await until(lambda: rows(tmp_path, TOLD).count((urls[0], "usage")) == 3)
        assert rows(tmp_path, COPIES) == [(urls[1], 1), (urls[0], 2)]
    database = f"sqlite:///{tmp_path}/x.db"
    async with SqlReadModel(database, SystemClock()) as model:
        found = await model.changes(0, use=PageUse.AI_INPUT)
        assert [(one.url, one.verdict.value) for one in found.changes] == [(urls[0], "usage")] * 3
        assert found.cursor == len(rows(tmp_path, TOLD))
        every = await model.changes(0, use=PageUse.SEARCH)
        assert len(every.changes) == found.cursor
        assert {one.usage["search"] for one in every.changes if one.usage is not None} == {"yes"}
        copy = await model.copy(urls[1])
        assert copy is not None
        assert copy.usage.denied == (PageUse.AI_INPUT, PageUse.AI_TRAIN)  # type: ignore[union-attr]  # it is not gone
    async with Reader(database) as reader:
        explained = await reader.page(urls[1])
        assert explained is not None
        assert explained.usage is not None
        said = [(one["where"], one["text"]) for one in explained.usage["said"]]
        assert said == [("robots.txt Content-Signal", "search=yes"), ("meta robots", "noai, noarchive")]


async def test_an_index_of_a_use_drops_pages_that_deny_it_and_takes_them_back(tmp_path: Path) -> None:
    """A client with a use gets no text of pages that deny it, deletes those that begin to, and adds those that end."""
    terms: dict[str, str] = {}
    calm: dict[str, object] = {"min_interval": 3600.0, "max_interval": 86400.0, "search": True}
    async with Site() as site:
        site.pages |= {"/open": serving("open", terms), "/closed": serving("closed", {"X-Robots-Tag": "noai"})}
        url, closed = site.url("/open"), site.url("/closed")
        async with (
            running(tmp_path, [url, closed], **calm),
            Client(f"unix:{tmp_path}/x.db.sock", use="ai-input", pace=BRISK) as client,
        ):
            await until(lambda: len(rows(tmp_path, "SELECT 1 FROM documents WHERE indexed")) == 2)
            index: dict[str, int | None] = {}
            steps: list[tuple[str, str | None, int | None]] = []
            async with asyncio.timeout(60), aclosing(client.follow(0, include="text", known=index)) as changes:
                async for change in changes:
                    assert change.url == url
                    steps.append((f"{change.action} {change.kind}", change.text, change.version))
                    if len(steps) == 3:
                        break
                    terms.clear() if terms else terms.update({"Content-Signal": "ai-input=no"})
                    await client.refresh(url, wait=20)
            assert [step for step, _, _ in steps] == ["add new", "delete usage", "replace usage"]
            assert [text is not None and "This is open" in text for _, text, _ in steps] == [True, False, True]
            assert [hit["url"] for hit in (await client.search("this is"))["hits"]] == [url]
            assert [line["url"] async for line in client.pages()] == [url]
            held = {url: steps[2][2], closed: 2}
            assert [(one.action, one.url) async for one in client.reconcile(held)] == [("delete", closed)]
            for refused in (client.copy(closed), client.difference(closed)):
                with pytest.raises(AnswerError, match="denies the use"):
                    await refused


async def test_the_api_passes_terms_on_and_refuses_a_use_that_is_denied(tmp_path: Path) -> None:
    """Copies carry the terms of their page in headers, and a use that is denied gets none; a wrong use is refused."""
    async with Site() as site:
        license_link = f'<{site.url("/license")}>; rel="license"; type="application/rsl+xml"'
        headers = {"Content-Signal": "search=yes, ai-train=no", "Link": license_link, "X-Robots-Tag": "noarchive"}
        site.pages["/page"] = serving("page", headers)
        async with api(tmp_path, site, "/page") as (_, session):
            url = site.url("/page")
            async with session.get("/v1/copy", params={"url": url, "use": "search"}) as answered:
                assert answered.status == 200
                assert answered.headers["Content-Signal"] == "search=yes, ai-train=no"
                assert answered.headers["Link"] == license_link
                assert answered.headers["X-Robots-Tag"] == "noarchive"
            assert "denies" in (await get(session, "/v1/copy", 403, url=url, use="ai-train"))["error"]
            await get(session, "/v1/changes", 400, use="anything")
            assert (await get(session, "/v1/changes", use="ai-train"))["changes"] == []
            (told,) = (await get(session, "/v1/changes", use="search"))["changes"]
            assert (told["usage"]["ai-train"], told["usage"]["license"]) == ("no", site.url("/license"))
            view = (await get(session, "/v1/page", url=url))["view"]
            assert view["page"]["usage"]["said"][0] == {
                "where": "Content-Signal header", "text": "search=yes, ai-train=no"
            }  # fmt: skip
