"""Texts, Markdown and search of a real daemon: over HTTP, as events, and on the command line."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.behaviours import guide, html
from tests.support.daemon import CALM, get, rows, running, serving, until
from tests.support.process import HANG_SECONDS, command
from tests.support.site import Site

DATABASE = ("--database", "sqlite:///x.db")
PROSE = "The relay forwards every connection to the upstream that answers soonest, and writes down why it did so."


async def as_type(session: aiohttp.ClientSession, url: str, accept: str, status: int = 200) -> tuple[str, str, Any]:
    """A copy in a form, with its type and headers."""
    async with session.get("/v1/copy", params={"url": url}, headers={"Accept": accept}) as answered:
        assert answered.status == status, await answered.text()
        return await answered.text(), answered.headers["Content-Type"], answered.headers


async def test_documents_of_a_daemon(tmp_path: Path) -> None:
    """A copy comes as HTML, text and Markdown; changes and events bring it along; search finds it until it changes."""
    async with Site() as site:
        site.pages["/a"] = html(guide("Relay guide", PROSE))
        site.pages["/b"] = html(guide("Harbour notes", "Each winter the swell tore at the footings of the wall."))
        async with serving(tmp_path, site, "/a", "/b", search=True, **CALM) as (_, session):
            url = site.url("/a")
            await until(lambda: len(rows(tmp_path, "SELECT 1 FROM documents WHERE indexed")) == 2)
            await _forms(session, site, url)
            await _included(session, site, url)
            hits = (await get(session, "/v1/search", q="upstream connection"))["hits"]
            assert [(hit["url"], hit["title"]) for hit in hits] == [(url, "Relay guide")]
            begin, end = hits[0]["marks"][0]
            assert hits[0]["snippet"][begin:end].lower() == "connection"
            assert 0 <= hits[0]["freshness"] <= 1
            assert "what to search for" in (await get(session, "/v1/search", 400, q="--"))["error"]
            site.pages["/a"] = html(
                guide("Relay guide", "Nothing of what was said before about it is true any longer.")
            )
            async with session.post("/v1/refresh", json={"urls": [url], "wait": 20}) as answered:
                assert answered.status == 200
            async with asyncio.timeout(HANG_SECONDS):
                while (await get(session, "/v1/search", q="upstream"))["hits"]:
                    await asyncio.sleep(0.05)
            hits = (await get(session, "/v1/search", q='"true any longer"'))["hits"]
            assert [hit["url"] for hit in hits] == [url]
        ended = await command("search", "footings", "wall", "--json", *DATABASE, cwd=tmp_path)
        assert [hit["title"] for hit in json.loads(ended.out)] == ["Harbour notes"]
        assert "Harbour notes" in (await command("search", "winter", *DATABASE, cwd=tmp_path)).out
        text = await command("get", url, "--text", "--quiet", *DATABASE, cwd=tmp_path)
        assert text.out.splitlines()[:2] == [
            "Relay guide",
            "Nothing of what was said before about it is true any longer.",
        ]
        markdown = await command("get", url, "--markdown", "--quiet", *DATABASE, cwd=tmp_path)
        assert "# Relay guide {#top}" in markdown.out
        ended = await command("export", "--text", "markdown", *DATABASE, cwd=tmp_path)
        told = {line["url"]: line for line in map(json.loads, ended.out.splitlines())}
        assert told[url]["markdown"] == markdown.out
        ended = await command("search", *DATABASE, "--", "-only", cwd=tmp_path)
        assert (ended.status, "what to search for" in ended.err) == (2, True)


async def _forms(session: aiohttp.ClientSession, site: Site, url: str) -> None:
    markdown, kind, headers = await as_type(session, url, "text/markdown")
    assert kind == "text/markdown; charset=utf-8"
    assert headers["Content-Language"] == "en"
    assert markdown == (
        f'---\ntitle: "Relay guide"\nurl: "{url}"\nlanguage: "en"\n---\n\n# Relay guide {{#top}}\n\n{PROSE}\n\n'
        f"[More]({site.url('/next')})\n\n```sh\nrelay run\n```\n"
    )
    again, _, _ = await as_type(session, url, "text/markdown, text/html;q=0.5")
    assert again == markdown
    text, kind, _ = await as_type(session, url, "text/plain")
    assert (text, kind) == (f"Relay guide\n{PROSE}\nMore\nrelay run\n", "text/plain; charset=utf-8")
    for accept in ("text/html", "*/*", "text/html, text/markdown;q=0.9"):
        whole, kind, _ = await as_type(session, url, accept)
        assert (whole.startswith("<html"), kind.partition(";")[0]) == (True, "text/html")
    await as_type(session, url, "image/png", 406)


async def _included(session: aiohttp.ClientSession, site: Site, url: str) -> None:
    told = await get(session, "/v1/changes", include="markdown")
    assert {one["url"]: one["markdown"].split("\n")[1] for one in told["changes"]} == {
        url: 'title: "Relay guide"', site.url("/b"): 'title: "Harbour notes"',
    }  # fmt: skip
    assert told["cursor"] == 2
    texts = await get(session, "/v1/changes", include="text", url=url)
    assert [one["text"].splitlines()[1] for one in texts["changes"]] == [PROSE]
    assert (await get(session, "/v1/changes"))["changes"][0]["markdown"] is None
    assert "include" in (await get(session, "/v1/changes", 400, include="pdf"))["error"]
    async with session.get("/v1/events", params={"include": "text"}) as stream:
        async for line in stream.content:
            if line.startswith(b"data: "):
                assert json.loads(line[6:])["text"]
                break


async def test_texts_are_made_when_asked_for(tmp_path: Path) -> None:
    """Without `keep_text` nothing is kept, changes bring their texts all the same, and search says what it needs."""
    async with Site() as site:
        site.pages["/a"] = html(guide("Relay guide", PROSE))
        async with serving(tmp_path, site, "/a", keep_text=False, **CALM) as (_, session):
            told = await get(session, "/v1/changes", include="text")
            assert PROSE in told["changes"][0]["text"]
            assert "set `search: true`" in (await get(session, "/v1/search", 400, q="relay"))["error"]
            assert rows(tmp_path, "SELECT 1 FROM documents") == []
        # Switched on later, copies from before are read first.
        async with running(tmp_path, [site.url("/a")], search=True, **CALM):
            await until(lambda: len(rows(tmp_path, "SELECT 1 FROM documents WHERE indexed")) == 1)
