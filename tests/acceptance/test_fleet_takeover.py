"""A fleet set up from a single daemon's database, and written out for a single daemon again."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

from crawld.model.shards import shard_of_host
from tests.support.fleet import crawls, until, worker, worker_settings
from tests.support.process import command, daemon, settings
from tests.support.site import Site

PAGES = 12
COMMANDS_AT_ONCE = 2
TABLES = ("pages", "hosts", "crawls", "changes", "bodies", "versions", "estimates", "hooks", "robots")
HISTORY = "SELECT p.url, c.at, c.verdict FROM crawls c JOIN pages p ON p.id = c.page_id ORDER BY 2, 1"
FEED = "SELECT c.id, p.url, c.at, c.verdict FROM changes c JOIN pages p ON p.id = c.page_id ORDER BY 1"
BELIEFS = "SELECT p.url, e.rate, e.shape FROM estimates e JOIN pages p ON p.id = e.page_id ORDER BY 1"

DIRTY = """SELECT p.url, p.last_success FROM pages p LEFT JOIN estimates e ON e.page_id = p.id
    WHERE e.at IS NULL OR e.at < p.last_success ORDER BY 1"""
MARKED_DIRTY = "SELECT url, dirty_since FROM pages WHERE dirty_since IS NOT NULL ORDER BY 1"


def of_file(file: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query says of a SQLite file."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


async def of_fleet(url: str, query: str) -> list[tuple[Any, ...]]:
    """What a query says of the fleet's database."""
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def test_a_fleet_takes_a_single_daemon_over_and_gives_it_back(tmp_path: Path, postgres_url: str) -> None:
    """Pages, history, beliefs, copies, hooks and numbers of changes are the same, and crawling goes on from there."""
    async with Site(hosts=3) as site:
        urls = [site.url(f"/ok/{number}", host=1 + number % 3) for number in range(PAGES)]
        told = tmp_path / "told"
        hook = {"name": "told", "command": ["sh", "-c", f"cat >> {told}"], "verdicts": ["new"]}
        file, single = tmp_path / "single.db", tmp_path / "single"
        single.mkdir()
        given = settings(single, urls, database=f"sqlite:///{file}", bandwidth=40, hooks=[hook],
                         signals={"sitemaps": [], "feeds": []})  # fmt: skip
        async with daemon("--config", str(given), cwd=tmp_path) as running:
            run = {"single": running}
            await until(lambda: all(len(site.visits(f"/ok/{n}")) > 2 for n in range(PAGES)), run, "each is crawled")
            assert await running.end() == 0
        words = ("fleet", "init", "--from", f"sqlite:///{file}", "--database", postgres_url, "--shards", "8", "--json")
        made = await command(*words, cwd=tmp_path)
        assert made.status == 0, made.err
        copied = json.loads(made.out)["copied"]
        assert copied["pages"] == PAGES
        for table in TABLES:
            count = f"SELECT count(*) FROM {table}"
            assert await of_fleet(postgres_url, count) == of_file(file, count), table
        for query in (HISTORY, FEED, BELIEFS, "SELECT name, cursor, delivered FROM hooks"):
            assert await of_fleet(postgres_url, query) == of_file(file, query)
        shards = {shard_of_host(site.host(number), 8) for number in (1, 2, 3)}
        assert {shard for (shard,) in await of_fleet(postgres_url, "SELECT DISTINCT id >> 40 FROM pages")} == shards
        again = await command(*words, cwd=tmp_path)
        assert (again.status, "is not empty" in again.err) == (2, True), again.err

        seen = len(crawls(site))
        own = worker_settings(tmp_path / "w1", urls, postgres_url, "w1", hooks=[hook])
        async with worker("w1", own) as running:
            run = {"w1": running}
            await until(lambda: len({one.path for one in crawls(site)[seen:]}) == PAGES, run, "all go on")
            await until(lambda: told.read_text().count('"verdict"') >= PAGES, run, "the hook is told of the rest")
            assert await running.end() == 0
        heard = [json.loads(one) for one in told.read_text().replace("}{", "}\n{").splitlines()]
        told_of = [one["id"] for one in heard]
        assert sorted(set(told_of)) == [number for number, *_ in of_file(file, FEED)]
        assert len(told_of) <= PAGES + COMMANDS_AT_ONCE  # what was being sent at the stop comes again
        verdicts = await of_fleet(postgres_url, f"SELECT DISTINCT verdict FROM crawls WHERE id > {copied['crawls']}")
        assert verdicts == [("unchanged",)]
        back = tmp_path / "back.db"
        written = await command(
            "fleet", "export", "--to", f"sqlite:///{back}", "--database", postgres_url, "--json", cwd=tmp_path
        )
        assert written.status == 0, written.err
        for query in (HISTORY, FEED, BELIEFS, *(f"SELECT count(*) FROM {table}" for table in TABLES)):
            assert of_file(back, query) == await of_fleet(postgres_url, query)
        assert of_file(back, MARKED_DIRTY) == await of_fleet(postgres_url, DIRTY)
        listed = await command("urls", "list", "--database", f"sqlite:///{back}", cwd=tmp_path)
        assert sorted(listed.out.split()) == sorted(urls)
