"""The dashboard and the API of a fleet: whichever worker is asked shows and steers the whole."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from tests.support.fleet import crawls, made, until, who, worker, worker_settings
from tests.support.process import HANG_SECONDS, command, free_port
from tests.support.site import Site

NAMES, HOSTS, PAGES = ("w1", "w2"), 24, 24
VIEWS = ("/", "/pages", "/pages?sort=freshness", "/changes", "/hosts", "/forecast", "/calibration")


async def test_any_worker_shows_and_steers_the_whole_fleet(tmp_path: Path, postgres_url: str) -> None:
    """The same pages, changes and rate on both listeners; what one is told holds for both."""
    async with Site(hosts=HOSTS) as site, AsyncExitStack() as stack:
        urls = [site.url(f"/ok/{i}", host=i % HOSTS + 1) for i in range(PAGES)]
        await made(postgres_url, 24, 40, tmp_path)
        ports = {name: free_port() for name in NAMES}
        files = {
            name: worker_settings(tmp_path / name, urls, postgres_url, name, api={"listen": f"127.0.0.1:{port}"})
            for name, port in ports.items()
        }
        run = {name: await stack.enter_async_context(worker(name, files[name])) for name in NAMES}
        await until(lambda: {who(seen) for seen in crawls(site)} == set(NAMES), run, "both crawl")
        await until(lambda: len({seen.path for seen in crawls(site)}) == PAGES, run, "every page is crawled")
        token = (await command("token", "--config", str(files["w1"]), cwd=tmp_path)).out.strip()
        headers = {"Authorization": f"Bearer {token}"}
        session = await stack.enter_async_context(aiohttp.ClientSession(headers=headers, raise_for_status=True))
        for port in ports.values():
            api = f"http://127.0.0.1:{port}"
            for view in (*VIEWS, f"/page?url={quote(urls[0])}", f"/page?url={quote(urls[1])}"):
                assert "<h1" in await (await session.get(api + view)).text()
            listed = await _json(session, f"{api}/v1/pages?limit=100")
            assert {page["url"] for page in listed["pages"]} == set(urls)
            assert all(page["freshness"] is not None for page in listed["pages"])
            changes = (await _json(session, f"{api}/v1/changes?after=0&limit=100"))["changes"]
            assert [one["id"] for one in changes if one["verdict"] == "new"] == list(range(1, PAGES + 1))
            status = await _json(session, f"{api}/v1/status")
            assert (status["workers"], status["pages"], status["bandwidth"]) == (2, PAGES, 40.0)
        one, two = (f"http://127.0.0.1:{port}" for port in ports.values())
        await session.post(f"{one}/v1/bandwidth", json={"rate": 30})
        async with asyncio.timeout(HANG_SECONDS):  # a look at the fleet serves whoever asks within half a second
            while (await _json(session, f"{two}/v1/status"))["bandwidth"] != 30.0:
                await asyncio.sleep(0.1)
        new = [site.url(f"/ok/{PAGES + host}", host=host) for host in range(1, HOSTS + 1)]
        await session.post(f"{two}/v1/urls", json={"add": [{"url": url} for url in new]})
        for api in (one, two):  # one of them at least is told of changes that the other has committed
            cursor, told = PAGES, list[str]()
            while len(told) < HOSTS:
                found = await _json(session, f"{api}/v1/changes?after={cursor}&wait=30")
                cursor, told = found["cursor"], [*told, *(one["url"] for one in found["changes"])]
            assert set(told) == set(new)
        assert [await run[name].end() for name in NAMES] == [0, 0]


async def _json(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url) as answered:
        return await answered.json()
