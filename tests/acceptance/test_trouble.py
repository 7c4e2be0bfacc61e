"""What an operator sees when something is wrong: with the daemon running, hanging and stopped."""

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.behaviours import answer
from tests.support.process import HANG_SECONDS, Running, command, daemon, settings
from tests.support.site import Site


@asynccontextmanager
async def stopped(running: Running) -> AsyncIterator[None]:
    """The daemon does nothing while the block runs, as if it hung."""
    os.kill(running.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(running.process.pid, signal.SIGCONT)


async def test_reading_commands_answer_while_the_daemon_hangs(tmp_path: Path) -> None:
    """Stats and explain say that it hangs and go on with the database; a question only it can answer is refused."""
    async with Site() as site:
        url = site.url("/ok/1")
        file = settings(tmp_path, [url], bandwidth="5/s")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=unchanged")
            pid = running.process.pid
            async with stopped(running), asyncio.timeout(HANG_SECONDS):
                shown = await command("stats", *given, cwd=tmp_path)
                assert shown.status == 0, shown.err
                assert shown.out.startswith("trouble")
                assert f"the daemon does not answer (pid {pid})" in shown.out.splitlines()[0]
                found = json.loads((await command("stats", "--json", *given, cwd=tmp_path)).out)
                assert found["daemon_state"] == {"state": "not_answering", "pid": pid}
                assert (found["daemon"], found["pages"]) == (None, 1)
                told = json.loads((await command("explain", url, "--json", *given, cwd=tmp_path)).out)
                assert (told["reason"], told["state"], len(told["last_crawls"]) > 0) == ("not_answering", "live", True)
                refused = await command("bandwidth", *given, cwd=tmp_path)
                assert refused.status == 2
                assert f"(pid {pid}) does not answer" in refused.err
            assert (await command("bandwidth", *given, cwd=tmp_path)).out.strip() == "5/s"
            assert await running.end() == 0
        ended = await command("stats", *given, cwd=tmp_path)
        assert "crawld is not running; the last crawl was 20" in ended.out.splitlines()[0]


async def test_stats_names_every_trouble_of_the_hosts(tmp_path: Path) -> None:
    """Blocked and asked to wait, without robots.txt, failing: each is a sentence, and all is in the JSON."""
    async with Site(hosts=4) as site:
        site.robots["127.0.0.3"] = answer("no", 503)
        pages = [
            site.url("/ok/1"), site.url("/status/500"), site.url("/status/503?after=900", host=2),
            site.url("/ok/3", host=3), site.url("/ok/4", host=4),
        ]  # fmt: skip
        given = ["--config", str(settings(tmp_path, pages, bandwidth="10/s"))]
        async with daemon(*given, cwd=tmp_path) as running:
            for page in ("/status/500", "/status/503", "/ok/4"):
                await running.until_logged(f"{page}")
            await running.until_logged("127.0.0.3")
            assert (await command("host", site.host(4), "block", *given, cwd=tmp_path)).status == 0
            kinds: dict[str, str] = {}
            wanted = {"host_asked_to_wait", "host_blocked", "robots_unavailable", "failing"}
            async with asyncio.timeout(HANG_SECONDS):
                while not wanted <= set(kinds):
                    found = json.loads((await command("stats", "--json", *given, cwd=tmp_path)).out)
                    kinds = {one["kind"]: one["sentence"] for one in found["trouble"]}
            assert f"{site.host(4)} (1 page)" in kinds["host_blocked"]
            assert site.host(2) in kinds["host_asked_to_wait"]
            assert f"http://{site.host(3)} (status 503" in kinds["robots_unavailable"]


async def test_stats_says_first_that_the_store_cannot_write(tmp_path: Path) -> None:
    """While another program holds the database's lock, the first line says since when nothing is written, and why.

    Whoever steers a host meanwhile is told that a restart may undo it.
    """
    async with Site() as site:
        given = ["--config", str(settings(tmp_path, [site.url("/ok/1")], bandwidth="5/s"))]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=unchanged")
            other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            try:
                await running.until_logged("cannot write, retrying")
                first = (await command("stats", *given, cwd=tmp_path)).out.splitlines()[0]
                steered = await command("host", site.host(), "delay", "2s", *given, cwd=tmp_path)
            finally:
                other.execute("ROLLBACK")
                other.close()
    assert "the store cannot write since 20" in first
    assert "database is locked" in first
    assert (steered.status, "2 s between requests" in steered.out) == (0, True)
    assert "the store cannot write now" in steered.err


async def test_explain_without_a_daemon_tells_what_the_database_knows(tmp_path: Path) -> None:
    """A stopped daemon is the reason, the page's own state stands beside it; a retired page is told as such."""
    async with Site() as site:
        broken, listed = site.url("/status/500"), site.url("/ok/1")
        given = ["--config", str(settings(tmp_path, [broken, listed], bandwidth="10/s"))]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=failed")
            await running.until_logged("verdict=new")
            assert (await command("urls", "remove", listed, *given, cwd=tmp_path)).status == 0
            told = json.loads((await command("explain", listed, "--json", *given, cwd=tmp_path)).out)
            assert (told["reason"], told["now"]) == ("retired", None)
            assert await running.end() == 0
        told = json.loads((await command("explain", broken, "--json", *given, cwd=tmp_path)).out)
        assert [one["reason"] for one in told["reasons"]] == ["not_running", "failing"]
        assert "500" in told["reasons"][1]["sentence"]
        assert "crawld is not running" in (await command("explain", broken, *given, cwd=tmp_path)).out


async def test_tables_of_the_command_line_fit(tmp_path: Path) -> None:
    """At 60 columns no line is longer and the page is still named; a pipe without a width gets whole URLs."""
    async with Site() as site:
        url = site.url("/ok/a-name-that-is-rather-long-for-a-narrow-terminal/and-ends-with-this")
        given = ["--config", str(settings(tmp_path, [url], bandwidth="10/s"))]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=unchanged")
            assert await running.end() == 0
        for words in (["stats"], ["stats", "--pages"], ["stats", "--hosts"], ["explain", url]):
            narrow = (await command(*words, *given, cwd=tmp_path, env={"COLUMNS": "60"})).out
            assert max(map(len, narrow.splitlines())) <= 60, narrow
        pages = (await command("stats", "--pages", *given, cwd=tmp_path, env={"COLUMNS": "60"})).out
        assert site.host() in pages
        assert "ends-with-this" in pages
        assert url in (await command("stats", "--pages", *given, cwd=tmp_path)).out
