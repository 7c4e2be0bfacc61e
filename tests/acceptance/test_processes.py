"""`crawld run --processes`: several real processes on a PostgreSQL of crawld's own are one daemon to its operator."""

import asyncio
import hashlib
import os
import re
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fleet import crawls, until
from tests.support.postgres import newest_binaries, server_folder
from tests.support.process import Running, command, daemon, program, settings
from tests.support.service_manager import manager
from tests.support.site import Site

HOSTS, PAGES = 24, 48
MAX_LOST = 30
"""Records that a kill may cost: what both processes ask in a second, however busy the machine is."""
NO_POSTGRES = """
import sys
from crawld.fleet import own_server
own_server.PLACES = ()
from crawld.cli import main
main()
"""
"""crawld on a machine on which no PostgreSQL is installed, where the PATH has none."""
pytestmark = pytest.mark.skipif(newest_binaries() is None, reason="no PostgreSQL on this machine")


def _settings(folder: Path, site: Site, **more: object) -> Path:
    urls = [site.url(f"/ok/{i}", host=i % HOSTS + 1) for i in range(PAGES)]
    return settings(folder, urls, bandwidth="30/s", signals={"sitemaps": [], "feeds": []}, **more)


def _workers(running: Running, since: int = 0) -> set[str]:
    """The processes that logged a crawl after so many lines."""
    lines = [line for line in running.log[since:] if " crawl url=" in line]
    return {found[1] for line in lines if (found := re.search(r" worker=(\w+)", line))}


def _process(number: int, file: Path) -> int:
    """The pid of a process of the group with that settings file."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().decode().split("\0")
        except OSError:  # it has ended
            continue
        if str(file) in words and words[-3:-1] == ["--process", str(number)]:
            return int(place.parent.name)
    raise AssertionError(f"process {number} is not there")


async def _exported(file: Path, folder: Path) -> int:
    """How many crawls the database holds after the end, by the way back to SQLite."""
    back = folder / "back.db"
    done = await command("fleet", "export", "--to", f"sqlite:///{back}", "--config", str(file), cwd=folder)
    assert done.status == 0, done.err
    with sqlite3.connect(back) as database:
        return int(database.execute("SELECT count(*) FROM crawls").fetchone()[0])


async def _until(happened: Callable[[], bool], running: Running, what: str) -> None:
    await until(happened, {"crawld": running}, what)


async def test_processes_survive_a_kill_and_end_together() -> None:
    """Both crawl, one that is killed comes back, systemd is told of all, and SIGTERM loses no record."""
    with server_folder() as folder:
        async with Site(hosts=HOSTS) as site, manager(folder) as service:
            file = _settings(folder, site, api={"listen": "127.0.0.1:0"})
            given = ("--config", str(file))
            environment = service.environment | {"WATCHDOG_USEC": "30000000"}
            async with daemon(*given, "--processes", "2", cwd=folder, env=environment) as running:
                ready = await running.until_logged(" ready ")
                assert re.search(r"processes=2 .*dashboard=http://127\.0\.0\.1:\d+/ ", ready), ready
                await service.until_told("WATCHDOG=1")
                await _until(lambda: _workers(running) == {"p1", "p2"}, running, "both crawl")
                stats = await command("stats", *given, cwd=folder)
                assert "running at 30/s (2 workers)" in stats.out, stats

                os.kill(_process(2, file), signal.SIGKILL)
                killed = len(crawls(site))
                await running.until_logged("a process ended; it is started again worker=p2 status=-9")
                before = len(running.log)
                await _until(lambda: "p2" in _workers(running, before), running, "the killed one comes back")

                file.write_text(file.read_text().replace("bandwidth: 30/s", "bandwidth: 40/s"))
                reloaded = await command("reload", *given, cwd=folder)
                assert "took over the settings: bandwidth" in reloaded.out, reloaded.err
                await service.until_told("RELOADING=1")
                assert await running.end() == 0, running.log
            assert len([line for line in running.log if " ready " in line]) == 1
            assert service.lines.count("STOPPING=1") == 1
            seen = crawls(site)
            assert 0 <= len(seen) - await _exported(file, folder) <= min(killed, MAX_LOST)


async def test_a_sqlite_database_is_taken_over_and_goes_on(tmp_path: Path) -> None:
    """The pages and history of one process are those of several, the SQLite file stays, and no crawl is lost."""
    try:
        async with Site(hosts=HOSTS) as site:
            file = _settings(tmp_path, site)
            async with daemon("--config", str(file), cwd=tmp_path) as running:
                await _until(
                    lambda: len({seen.path for seen in crawls(site)}) == PAGES, running, "every page is crawled"
                )
                assert await running.end() == 0
            single, kept = len(crawls(site)), hashlib.sha256((tmp_path / "x.db").read_bytes()).hexdigest()
            async with daemon("--config", str(file), "--processes", "2", cwd=tmp_path) as running:
                took = await running.until_logged(" took over ")
                assert f"pages={PAGES} crawls={single} " in took
                assert "crawld fleet export" in took
                await _until(lambda: _workers(running) == {"p1", "p2"}, running, "both crawl")
                assert await running.end(signal.SIGINT) == 0
            ended = await command("stats", "--config", str(file), cwd=tmp_path)
            assert f"crawls      {len(crawls(site))}," in ended.out, ended.err
            assert await _exported(file, tmp_path) == len(crawls(site)) > single
            assert hashlib.sha256((tmp_path / "x.db").read_bytes()).hexdigest() == kept
            async with daemon("--config", str(file), cwd=tmp_path) as running:
                assert "processes=1 " in await running.until_logged(" ready "), "the SQLite file is not the database"
                assert await running.end() == 0
    finally:
        data = (tmp_path / "x.db.postgres/data").resolve()  # in the home of its user where that may not enter here
        shutil.rmtree(data.parent, ignore_errors=True)


async def test_a_given_postgresql_is_made_a_fleet_of(tmp_path: Path, empty_postgres_url: str) -> None:
    """With `database: postgresql://…` the processes use it; what keeps them from starting ends the command at once."""
    async with Site(hosts=HOSTS) as site:
        file = _settings(tmp_path, site, database=empty_postgres_url, processes=2)
        async with daemon("--config", str(file), cwd=tmp_path) as running:
            await running.until_logged(" ready processes=2 ")
            await _until(lambda: len({seen.path for seen in crawls(site)}) == PAGES, running, "every page is crawled")
            assert await running.end() == 0
    assert not (tmp_path / "x.db.postgres").exists()
    file.write_text(file.read_text() + "search: true\n")
    ended = await command("run", "--config", str(file), cwd=tmp_path)
    assert (ended.status, "search: true is for one machine" in ended.err) == (2, True), ended.err


async def test_a_machine_without_postgresql_is_told_what_to_do(tmp_path: Path) -> None:
    """One sentence names what to install or to set, and nothing is left behind."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:1/\n")
    words = [sys.executable, "-c", NO_POSTGRES, "run", "urls.txt", "--processes", "2"]
    async with program(words, cwd=tmp_path, env={"PATH": "/nonexistent"}) as running:
        async with asyncio.timeout(300):
            status = await running.process.wait()
    assert status == 2, running.log
    assert "this machine has none: install it" in running.log[-1]
    assert "database: postgresql://" in running.log[-1]
    assert [one.name for one in tmp_path.iterdir()] == ["urls.txt"]
