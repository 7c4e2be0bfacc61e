"""A consumer of `/v1/changes` that is killed again and again, against the real daemon."""

import asyncio
import json
import random
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crawld.api.token import make_token
from tests.acceptance import changes_consumer
from tests.integration.test_daemon import until
from tests.integration.test_dashboard import listening
from tests.integration.test_public_api import free_port
from tests.process import daemon, settings
from tests.site import Site

KILLS = 50
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
