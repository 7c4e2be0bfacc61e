"""Other programs over HTTP: pings and IndexNow in, copies and status out."""

from functools import partial
from pathlib import Path

import aiohttp
import pytest

from crawld.model.signal import SOURCES, Source
from crawld.signals.push_inbox import LIMITS as PUSH_INBOX_LIMITS
from tests.support.behaviours import answer
from tests.support.daemon import bearer, rows, running, until
from tests.support.process import free_port
from tests.support.site import Site


async def test_a_ping_becomes_a_signal_and_a_copy_can_be_read(tmp_path: Path) -> None:
    """POST /signals counts for pages we hold and says what it did not know; GET /copy gives body, age and freshness."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    async with Site() as site, aiohttp.ClientSession(headers=bearer(tmp_path)) as session:
        url = site.url("/ok/1")
        slow = {"min_interval": 3600, "max_interval": 7200}
        async with running(tmp_path, [url], api={"listen": f"127.0.0.1:{port}"}, **slow) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            await until(lambda: bool(rows(tmp_path, "SELECT 1 FROM estimates")))
            async with session.post(f"{api}/signals", json=[url, "https://elsewhere.example/"]) as answered:
                assert answered.status == 200
                said = await answered.json()
            assert (said["signals"], said["unknown"]) == (1, 1)
            async with session.post(f"{api}/signals", data=b"nonsense") as answered:
                assert answered.status == 400
                assert "error" in await answered.json()
            async with session.get(f"{api}/copy", params={"url": url}) as answered:
                assert "Page /ok/1" in await answered.text()
                assert 0 <= float(answered.headers["X-Freshness"]) <= 1
            async with session.get(f"{api}/copy", params={"url": site.url("/other")}) as answered:
                assert answered.status == 404
            async with session.get(f"{api}/status") as answered:
                assert (await answered.json())["pages"] == 1
            (page,) = daemon.page_set.pages()
            standing = daemon.scheduler.standing(page.id)
            assert standing is not None
            assert dict(zip(SOURCES, standing.signals))[Source.PING] == sum(standing.signals) == 1
    assert rows(tmp_path, "SELECT source, stale FROM signals") == [("ping", 0)]


async def test_a_page_that_is_gone_answers_410(tmp_path: Path) -> None:
    """It says since when; the last copy comes where a header asks for it, and never where none was held."""
    api = f"http://127.0.0.1:{(port := free_port())}/copy"
    wanting = {"X-Include-Gone": "1"}
    async with Site() as site, aiohttp.ClientSession(headers=bearer(tmp_path)) as session:
        urls = [site.url("/cue/1"), site.url("/absent")]
        async with running(tmp_path, urls, api={"listen": f"127.0.0.1:{port}"}) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            site.pages["/cue/1"] = answer("not here", 404)
            await until(lambda: daemon.crawler.status.verdicts["gone"] == 2)
            await daemon.store.flush()
            for headers, url in ((None, urls[0]), (None, urls[1]), (wanting, urls[1])):
                async with session.get(api, params={"url": url}, headers=headers) as answered:
                    assert answered.status == 410
                    said = await answered.json()
                    assert said["status"] == 404
                    assert said["gone_since"] == pytest.approx(daemon.clock.now(), abs=600)
                    assert f"gone since {answered.headers['X-Gone-Since']} (404)" in said["error"]
                    assert said["error"].endswith("X-Include-Gone: 1" if url == urls[0] else "no copy is held")
            async with session.get(api) as answered:
                assert (answered.status, (await answered.json())["error"][:9]) == (400, "give ?url")
            async with session.get(api, params={"url": urls[0]}, headers=wanting) as answered:
                assert answered.status == 200
                assert "Page /cue/1" in await answered.text()
                assert "X-Gone-Since" in answered.headers
                assert "X-Freshness" not in answered.headers


async def test_indexnow_counts_once_the_host_vouches_for_the_key(tmp_path: Path) -> None:
    """The key file is asked for within the share of signals; a wrong key brings no signal."""
    key = "0123456789abcdef"
    async with Site() as site, aiohttp.ClientSession() as session:
        site.pages[f"/{key}.txt"] = answer(key, content_type="text/plain")
        api = f"http://127.0.0.1:{(port := free_port())}"
        url = site.url("/ok/1")
        listener = {"listen": f"127.0.0.1:{port}", "public_url": "https://crawld.example.org"}
        async with running(tmp_path, [url], api=listener, min_interval=3600, max_interval=7200) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            async with session.get(f"{api}/indexnow", params={"url": url, "key": key}) as answered:
                assert answered.status == 202
            await until(lambda: rows(tmp_path, "SELECT count(*) FROM signals") == [(1,)])
            async with session.get(f"{api}/indexnow", params={"url": url, "key": "wrong-key-0"}) as answered:
                assert answered.status == 202
            await until(lambda: bool(site.visits("/wrong-key-0.txt")))
            async with session.get(f"{api}/indexnow", params={"url": url, "key": "?"}) as answered:
                assert answered.status == 400
    assert rows(tmp_path, "SELECT count(*) FROM signals") == [(1,)]


def _more_visits(site: Site, than: int) -> bool:
    return len(site.visits()) > than


async def test_strangers_with_new_keys_cost_a_host_a_few_requests(tmp_path: Path) -> None:
    """However many keys are sent, a host is asked for a few that it denies, and then for none for an hour."""
    async with Site() as site, aiohttp.ClientSession() as session:
        url = site.url("/ok/1")
        listener = {"listen": f"127.0.0.1:{(port := free_port())}", "public_url": "https://crawld.example.org"}
        async with running(tmp_path, [url], api=listener, min_interval=3600, max_interval=7200) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            for number in range(4 * PUSH_INBOX_LIMITS.max_denials):
                query, asked = {"url": url, "key": f"stranger-{number}"}, len(site.visits())
                async with session.get(f"http://127.0.0.1:{port}/indexnow", params=query) as answered:
                    assert answered.status == 202
                if number < PUSH_INBOX_LIMITS.max_denials:
                    await until(partial(_more_visits, site, asked))
            slots = daemon.crawler.status.slots
            await until(lambda: daemon.crawler.status.slots > slots + 100)
            keys = [one for one in site.visits() if one.path.startswith("/stranger-")]
            assert len(keys) == PUSH_INBOX_LIMITS.max_denials
