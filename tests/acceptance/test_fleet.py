"""Three real workers on one real PostgreSQL are one crawler, and stay one when one of them is killed."""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from itertools import groupby
from pathlib import Path
from signal import SIGKILL

import asyncpg

from tests.support.fleet import crawls, made, until, who, worker, worker_settings
from tests.support.process import command
from tests.support.site import Site

RATE, SHARDS, HOSTS, PAGES = 60, 24, 24, 96
NAMES = ("w1", "w2", "w3")
WINDOWS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
MAX_LOST = RATE // 2
"""Records that a kill may cost: what a worker asks in a second, or in two, however busy the machine is."""


async def test_a_fleet_of_three_survives_a_kill_and_a_drain(tmp_path: Path, empty_postgres_url: str) -> None:
    """One rate, one owner at a time for each page, every page crawled on by the others, and no record lost."""
    async with Site(hosts=HOSTS) as site, AsyncExitStack() as stack:
        urls = [site.url(f"/ok/{i}", host=i % HOSTS + 1) for i in range(PAGES)]
        await made(empty_postgres_url, SHARDS, RATE, tmp_path)
        files = {name: worker_settings(tmp_path / name, urls, empty_postgres_url, name) for name in NAMES}
        run = {name: await stack.enter_async_context(worker(name, files[name])) for name in NAMES}
        await until(lambda: {who(seen) for seen in crawls(site)} == set(NAMES), run, "all three crawl")
        await until(lambda: len({seen.path for seen in crawls(site)}) == PAGES, run, "every page is crawled")

        await run["w1"].end(SIGKILL)
        killed = len(site.log)
        orphans = {seen.path for seen in crawls(site) if who(seen) == "w1"}
        await until(lambda: orphans <= _asked_since(site, killed, {"w2", "w3"}), run, "the others take over")

        drained = await command("fleet", "drain", "w2", "--config", str(files["w3"]), cwd=tmp_path)
        assert drained.status == 0, drained.err
        await run["w2"].until_logged("draining=True")
        alone = len(site.log)
        await until(lambda: len(_asked_since(site, alone, {"w3"})) == PAGES, run, "the last one crawls every page")
        status = json.loads(
            (await command("fleet", "status", "--json", "--config", str(files["w3"]), cwd=tmp_path)).out
        )
        held = {one["worker"]: (one["state"], one["shards"]) for one in status["workers"] if one["state"] != "lost"}
        assert held == {"w2": ("drained", 0), "w3": ("live", SHARDS)}
        assert [await run[name].end() for name in ("w2", "w3")] == [0, 0]

    assert _worst_excess(site) <= 0, "more requests than granted"
    came_back = {name for name, one in run.items() if any("the lease is lost" in line for line in one.log)}
    assert not _asked_by_former_owners(site, came_back)
    robots = Counter(seen.host for seen in site.visits("/robots.txt"))
    last = {seen.host for seen in [seen for seen in site.log[:killed] if who(seen) == "w1"][-MAX_LOST:]}
    assert {host for host, count in robots.items() if count > 1} <= last, (
        "whoever takes a host over knows its robots.txt"
    )
    assert 0 <= len(crawls(site)) - await _recorded(empty_postgres_url) <= MAX_LOST


def _asked_since(site: Site, since: int, names: Iterable[str]) -> set[str]:
    return {seen.path for seen in crawls(site, since) if who(seen) in names}


def _worst_excess(site: Site) -> float:
    """By how many requests any window holds more than R·w + N; both its ends may be off by what the machine kept us.

    The promise is one of requests a second, and what the site notes is its only witness outside the workers.
    """
    times = [seen.monotonic for seen in site.log]
    allowed = {width: site.most(RATE, width) - 1 + len(NAMES) for width in WINDOWS}
    return max(bisect_right(times, at + w) - i - allowed[w] for i, at in enumerate(times) for w in WINDOWS)


def _asked_by_former_owners(site: Site, came_back: set[str]) -> list[str]:
    """Pages that a worker asked for again after another had; one that lost its lease may well have them anew."""
    found = []
    for path in {seen.path for seen in crawls(site)}:
        owners = [name for name, _ in groupby(who(seen) for seen in crawls(site) if seen.path == path)]
        if any(times > 1 and name not in came_back for name, times in Counter(owners).items()):
            found.append(f"{path}: {owners}")
    return found


async def _recorded(database: str) -> int:
    connection = await asyncpg.connect(database)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM crawls"))
    finally:
        await connection.close()
