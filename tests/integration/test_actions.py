"""Actions over the API: done in the asker's name, kept, and undone."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from crawld.model.page import Mark
from crawld.read.page.blocks import page_parts
from crawld.read.page.markup import page_title
from crawld.read.page.rules import DEFAULT_RULE, DigestRule, DigestRules, Selector
from tests.support.daemon import bearer, rows, running, until
from tests.support.process import free_port
from tests.support.site import Site

CALM: dict[str, object] = {"min_interval": 3600.0, "max_interval": 86400.0}


async def test_what_is_done_is_undone_once(tmp_path: Path) -> None:
    """Pages, importance, a host, a part that is ignored and what was read are each as before, and the log tells all."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    async with (
        Site() as site,
        aiohttp.ClientSession(api, headers=bearer(tmp_path)) as session,
        running(tmp_path, [site.url("/ok/1")], api={"listen": f"127.0.0.1:{port}"}, **CALM) as daemon,
    ):
        await until(lambda: daemon.crawler.status.verdicts["new"] == 1)

        async def post(path: str, **body: Any) -> Any:
            async with session.post(f"/v1/{path}", json=body) as answered:
                assert answered.status == 200, await answered.text()
                return await answered.json()

        wanted = [{"url": site.url("/ok/1"), "importance": 5}, {"url": site.url("/ok/2")}]
        assert await post("urls", add=wanted) == {"added": 1, "reweighted": 1, "removed": [], "returning": []}
        await post("host", host=site.host(), blocked=True)
        answer = await post("rules", ignore=[{"url": site.url("/ok/1"), "selectors": ["h1", ".ad"], "host": True}])
        assert [mark["selector"] for mark in answer["marks"]] == ["h1", ".ad"]
        await post("read", until=1)
        for number in (4, 3, 2, 1):
            await post("undo", action=number)
        async with session.post("/v1/undo", json={"action": 1}) as answered:
            assert (answered.status, await answered.json()) == (400, {"error": "this was undone already"})
        async with session.get("/v1/rules") as answered:
            assert await answered.json() == {"marks": [], "rule": None}
        async with session.get("/v1/actions") as answered:
            log = await answered.json()
        assert [one["verb"] for one in log] == ["add", "host", "compare", "read", "read", "ignore", "host", "add"]
        assert {one["who"] for one in log} == {"token at 127.0.0.1"}
        assert not daemon.crawler.gate.export(daemon.crawler.gate.host(site.host())).blocked
    found = rows(tmp_path, "SELECT importance, state = 'retired' FROM pages ORDER BY url")
    assert found == [(1.0, 0), (1.0, 1)]


async def test_marks_outlive_a_restart(tmp_path: Path) -> None:
    """They are kept beside the rules of the settings, which still hold."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    given: dict[str, object] = {"digest": [{"pattern": "*", "ignore": [".x"]}], "api": {"listen": f"127.0.0.1:{port}"}}
    async with Site() as site, aiohttp.ClientSession(api, headers=bearer(tmp_path)) as session:
        async with running(tmp_path, [site.url("/ok/1")], **given) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            body = {"ignore": [{"url": site.url("/ok/1"), "selectors": ["h1"]}]}
            async with session.post("/v1/rules", json=body) as answered:
                assert answered.status == 200, await answered.text()
        async with running(tmp_path, [site.url("/ok/1")], **given) as daemon:
            rule_for = daemon.crawler.page_crawls.rule_for
            await until(lambda: tuple(rule_for(site.url("/ok/1")).ignore) == (".x", "h1"))
            assert tuple(rule_for(site.url("/ok/2")).ignore) == (".x",)


PAGE = b"""<!doctype html><html><head><title> A &amp; B\n page </title></head><body><nav><a href=/>Home</a></nav><main>
<h1>Heading</h1><p>First text.</p><p>Second text.</p><div class="ad box">Buy 7 now</div><ul id="more"><li>One item</li>
<li>Other item</li></ul><p>Seen <span class="count">12</span> times</p></main></body></html>"""


def test_each_part_of_a_page_is_found_by_its_selector_alone() -> None:
    """What is compared can be chosen, a menu cannot, and leaving a part out leaves out its text and no other."""
    from lxml import html

    root = html.fromstring(PAGE)
    parts = page_parts(PAGE, "text/html", DEFAULT_RULE)
    assert {"div.ad.box", "#more", "span.count", "main > p:nth-of-type(2)"} <= {part.selector for part in parts}
    assert "Home" not in {part.text for part in parts}
    for part in parts:
        (found,) = Selector(part.selector).find(root)
        assert " ".join(" ".join(found.itertext()).split()) == part.text
    again = page_parts(PAGE, "text/html", DigestRule(ignore=("#more",)))
    assert {part.text for part in again if part.ignored} == {"One item Other item", "One item", "Other item"}
    assert page_parts(PAGE, "text/html", DigestRule(mode="raw")) == []


@pytest.mark.parametrize(
    ("body", "title"),
    [
        (PAGE, "A & B page"),
        (b"<html><p>none</p></html>", None),
        (b"<html><title></title></html>", None),
        ("<html><meta charset=latin-1><title>Gr\u00fc\u00dfe</title>".encode("latin-1"), "Gr\u00fc\u00dfe"),
        (b"<html><title>" + b"x" * 5_000 + b"</title>", "x" * 300),
        (b"<html><title>never closed" + b"<title" * 20_000, None),
    ],
)
def test_titles_are_read_from_the_beginning_of_a_page(body: bytes, title: str | None) -> None:
    """Entities, encodings and white space as a browser has them; very long ones are cut."""
    assert page_title(body, "text/html") == title


def test_marks_of_a_page_and_of_its_host_add_to_the_rule() -> None:
    """In the order of host and page; where bytes are compared nothing can be left out."""
    rules = DigestRules([DigestRule("https://a.example/raw*", "raw"), DigestRule("*", ignore=[".x"])])
    marks = [Mark(1, None, "a.example", "nav", 0.0), Mark(2, "https://a.example/1", "a.example", "h1", 0.0)]
    rules.change_marks(marks)
    found = {url: tuple(rules(f"https://{url}").ignore) for url in ("a.example/1", "a.example/2", "b.example/1")}
    assert found == {"a.example/1": (".x", "nav", "h1"), "a.example/2": (".x", "nav"), "b.example/1": (".x",)}
    assert rules("https://a.example/raw").mode == "raw"
    assert rules("https://a.example/1") is rules("https://a.example/1")
