"""A fleet whose PostgreSQL crashes is silent until it is back, and goes on without loading anything again."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from crawld.model.shards import LIMITS as SHARDS_LIMITS
from tests.support.fleet import crawls, made, until, who, worker, worker_settings
from tests.support.postgres import FORGETFUL, newest_binaries, started_server
from tests.support.process import ENVIRONMENT
from tests.support.site import Site

NAMES = ("w1", "w2")
PAGES = 40  # a host each: both workers have some
OUTAGE_SECONDS = SHARDS_LIMITS.lease_seconds + 2.0
SILENT_SECONDS = 2.0
"""Seconds without a request that show the leases have ended; with leases the workers would send 60 in that time."""


async def test_a_crash_of_the_database_costs_its_outage_and_no_reload(tmp_path: Path) -> None:
    """Leases end meanwhile, so both workers come back under new ids, with the shards that they had."""
    binaries = newest_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL of the distribution: the packaged one cannot be crashed")
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(Site(hosts=PAGES))
        server = stack.enter_context(started_server(binaries, *FORGETFUL))
        await made(server.url, 12, 30, tmp_path)
        urls = [site.url(f"/ok/{i}", host=i + 1) for i in range(1, PAGES)] + [site.url("/cue/0")]
        files = {name: worker_settings(tmp_path / name, urls, server.url, name) for name in NAMES}
        run = {name: await stack.enter_async_context(worker(name, files[name])) for name in NAMES}
        await until(lambda: {who(seen) for seen in crawls(site)} == set(NAMES), run, "both crawl")
        await until(lambda: len({seen.path for seen in crawls(site)}) == PAGES - 1, run, "every page is crawled")
        words = ("changes", "--after", "0", "--follow", "--json", "--config", str(files["w1"]))
        followed = tmp_path / "followed"
        with followed.open("wb") as out:
            follower = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "crawld", *words, cwd=tmp_path, env=ENVIRONMENT, stdout=out
            )
        stack.callback(follower.kill)
        await until(lambda: len(_followed(followed)) == PAGES, run, "the follower has every change")
        await asyncio.to_thread(server.crash)
        await asyncio.sleep(OUTAGE_SECONDS)
        before, asked = {name: len(one.log) for name, one in run.items()}, len(site.log)
        await asyncio.sleep(SILENT_SECONDS)
        assert len(site.log) == asked
        await asyncio.to_thread(server.start)
        await until(lambda: {who(seen) for seen in crawls(site, asked)} == set(NAMES), run, "both go on")
        for name, one in run.items():
            assert "lost=0" in await one.until_logged("joined the fleet again")
            assert not [line for line in one.log[before[name] :] if "loaded shards" in line]
        site.change("/cue/0")
        await until(lambda: len(_followed(followed)) == PAGES + 1, run, "the follower goes on")
        assert _followed(followed) == list(range(1, PAGES + 2))
        assert [await one.end() for one in run.values()] == [0, 0]


def _followed(printed: Path) -> list[int]:
    """The numbers of the changes that were printed, as far as lines are whole."""
    return [json.loads(line)["id"] for line in printed.read_bytes().split(b"\n")[:-1]]
