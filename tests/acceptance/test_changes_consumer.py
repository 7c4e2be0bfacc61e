"""A consumer of `/v1/changes` that is killed again and again, against the real daemon."""

import asyncio
import json
import os
import random
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from crawld.client import Client, NotKeptError, PageGoneError
from crawld.show.api.access import make_token
from tests.acceptance import changes_consumer, index_consumer
from tests.support.behaviours import answer
from tests.support.daemon import listening, until
from tests.support.process import HANG_SECONDS, daemon, free_port, settings
from tests.support.site import Site

KILLS = 50
INDEX_KILLS = int(os.environ.get("CRAWLD_INDEX_KILLS", "9"))
"""How often the consumer with an index is killed; the full figure is 200."""
PAGES = 12


def written(file: Path) -> Sequence[Mapping[str, Any]]:
    """The whole lines of the consumer's file."""
    content = file.read_bytes() if file.exists() else b""
    return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]


def committed(file: Path) -> list[tuple[int, str, str]]:
    """Every change that the daemon has committed."""
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
        query = "SELECT c.id, p.url, c.verdict FROM changes c JOIN pages p ON p.id = c.page_id ORDER BY c.id"
        return db.execute(query).fetchall()


async def until_written(file: Path, least: int) -> None:
    """Wait until the consumer has written so many lines."""
    await until(lambda: len(written(file)) >= least)


async def keep_changing(site: Site, rng: random.Random) -> None:
    """Let pages change until cancelled."""
    while True:
        site.change(f"/cue/{rng.randrange(PAGES)}")
        await asyncio.sleep(0.03)


async def test_a_consumer_killed_fifty_times_sees_every_change_once(tmp_path: Path) -> None:
    """Whenever it is killed, it goes on from the last change it wrote down: none is missing, none comes twice."""
    rng, seen, port = random.Random(7), tmp_path / "seen.jsonl", free_port()
    token = make_token(tmp_path / "x.db.token")
    async with Site() as site:
        urls = [site.url(f"/cue/{number}") for number in range(PAGES)]
        api = {"listen": f"127.0.0.1:{port}"}
        file = settings(tmp_path, urls, bandwidth="60/s", min_interval=0.05, api=api, signals={"sitemaps": "off"})
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            await running.until_logged("ready")
            await until(lambda: listening(port))  # which follows soon, on a busy machine less soon
            changing = asyncio.create_task(keep_changing(site, rng))
            words = (sys.executable, changes_consumer.__file__, f"http://127.0.0.1:{port}", token, str(seen))
            for _ in range(KILLS):
                before = len(written(seen))
                consumer = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
                if rng.random() < 0.5:  # after some changes; otherwise wherever it is by then
                    await until_written(seen, before + rng.randrange(1, 9))
                else:
                    await asyncio.sleep(rng.uniform(0.0, 0.4))
                consumer.kill()
                await consumer.wait()
            changing.cancel()
            consumer = await asyncio.create_subprocess_exec(*words)
            await until(lambda: len(committed(tmp_path / "x.db")) == len(written(seen)) > KILLS)
            consumer.kill()
            await consumer.wait()
            await running.end()
    told = [(one["id"], one["url"], one["verdict"]) for one in written(seen)]
    assert told == committed(tmp_path / "x.db")[: len(told)]
    assert [number for number, _, _ in told] == list(range(1, len(told) + 1))


def indexed(file: Path) -> dict[str, tuple[int, str]]:
    """The version and the text of each document of an index."""
    with sqlite3.connect(file) as index:
        return {url: (version, text) for url, version, text in index.execute("SELECT * FROM documents")}


async def copied(client: Client) -> dict[str, tuple[int | None, str]]:
    """The version and the Markdown of each copy there is."""
    urls = [page["url"] async for page in client.pages() if page["gone_since"] is None and page["version"] is not None]
    copies = {}
    for url in urls:
        with suppress(PageGoneError, NotKeptError):  # it left after the list was read
            copy = await client.markdown(url)
            copies[copy.url] = (copy.version, copy.text)
    return copies


async def keep_living(site: Site, client: Client, rng: random.Random) -> None:
    """Let pages change, go, come back, be removed and be kept again until cancelled."""
    while True:
        page = f"/cue/{rng.randrange(PAGES)}"
        what = rng.random()
        if what < 0.85:
            site.change(page)
        elif what < 0.9:
            site.pages[page] = answer("not here", 404)
        elif what < 0.95:
            site.pages.pop(page, None)
        elif what < 0.98:
            await client.remove(site.url(page))
        else:
            await client.add(*(site.url(f"/cue/{number}") for number in range(PAGES)))
        await asyncio.sleep(0.03)


async def test_an_index_is_equal_to_the_copies_whatever_happened_to_it(tmp_path: Path) -> None:
    """Killed again and again, robbed of a third of its documents and of its cursor; it embeds nothing that it holds."""
    rng, file, port = random.Random(3), tmp_path / "index.db", free_port()
    token = make_token(tmp_path / "x.db.token")
    index_consumer.open_index(str(file)).close()
    async with Site() as site, Client(f"http://127.0.0.1:{port}", token) as client:
        urls = [site.url(f"/cue/{number}") for number in range(PAGES)]
        api = {"listen": f"127.0.0.1:{port}"}
        given = settings(tmp_path, urls, bandwidth="40/s", min_interval=0.05, api=api, signals={"sitemaps": "off"})
        async with daemon("--config", str(given), cwd=tmp_path) as running:
            await running.until_logged("ready")
            await until(lambda: listening(port), 60.0)
            living = asyncio.create_task(keep_living(site, client, rng))
            words = (sys.executable, index_consumer.__file__, f"http://127.0.0.1:{port}", token, str(file))
            for kill in range(INDEX_KILLS):
                consumer = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
                await asyncio.sleep(rng.uniform(0.5, 1.5))
                consumer.kill()
                await consumer.wait()
                with sqlite3.connect(file) as index:
                    if kill == INDEX_KILLS // 3:
                        third = "SELECT url FROM documents ORDER BY random() LIMIT ?"
                        index.execute(f"DELETE FROM documents WHERE url IN ({third})", [PAGES // 3])
                    if kill == 2 * INDEX_KILLS // 3:
                        index.execute("DELETE FROM cursor")
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
            await client.add(*urls, wait=20)
            consumer = await asyncio.create_subprocess_exec(*words)
            async with asyncio.timeout(HANG_SECONDS):
                while not indexed(file) or indexed(file) != await copied(client):
                    await asyncio.sleep(0.2)
            consumer.kill()
            await consumer.wait()
            await running.end()
    with sqlite3.connect(file) as index:
        again = index.execute("SELECT url, version FROM embedded WHERE held").fetchall()
        assert index.execute("SELECT count(*) FROM documents WHERE text IS NULL").fetchone() == (0,)
    assert again == []
