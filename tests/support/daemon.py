"""The daemon in one process, its listener and its database, for tests that look at both ends of a crawl."""

import asyncio
import socket
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp

from crawld.client import Pace
from crawld.main.assembly import Tempo, build
from crawld.main.settings import Settings
from crawld.main.supervisor import Daemon
from crawld.show.api.access import make_token
from tests.support.process import HANG_SECONDS, free_port
from tests.support.site import Site

CALM: dict[str, Any] = {"min_interval": 3600.0, "max_interval": 86400.0}
"""Settings under which a page is crawled once and then left alone."""
BRISK = Pace(poll_seconds=0.5, retry_seconds=(0.05, 0.1), changes=2, pages=2)
"""A client that asks often and for little at once."""


def bearer(folder: Path) -> dict[str, str]:
    """The header that opens the listener of a daemon that runs, or will run, in the folder."""
    return {"Authorization": f"Bearer {make_token(folder / 'x.db.token')}"}


@asynccontextmanager
async def running(folder: Path, urls: list[str], **settings: object) -> AsyncIterator[Daemon]:
    """A daemon that keeps these pages fresh while the block runs; `tempo` is how often its side tasks come round."""
    tempo = cast(Tempo, settings.pop("tempo", Tempo(learn=0.2, demand=0.2, poll=0.2)))
    daemon = build(settings_for(folder, urls, **settings), tempo=tempo)
    async with under_way(daemon, len(urls)):
        yield daemon


@asynccontextmanager
async def under_way(daemon: Daemon, pages: int) -> AsyncIterator[None]:
    """Runs a daemon while the block does, which begins once so many pages are known."""
    daemon.catch_signals = False
    task = asyncio.create_task(daemon.run())
    try:
        await until(lambda: len(daemon.scheduler) == pages or task.done())
        yield
    finally:
        daemon.stop()
        await task


def settings_for(folder: Path, urls: list[str], **settings: object) -> Settings:
    """The settings of a daemon that lives in the folder, and its list there."""
    (folder / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    given: dict[str, object] = {
        "bandwidth": "50/s",
        "urls": str(folder / "urls.txt"),
        "database": f"sqlite:///{folder}/x.db",
        "allow_private": ["127.0.0.0/8"],
        "politeness": {"delay": 0, "per_host": 10},
        "min_interval": 0.2,
        "max_interval": 0.4,
        "audit": {"share": 0},
        "signals": {"sitemaps": "off", "feeds": "off"},
        # Asking without conditions now and then is drawn by chance, and a change found so is checked by a request more.
        "fetch": {"timeout": 2, "first_byte_timeout": 1, "connect_timeout": 1, "unconditional_share": 0},
        "api": {"listen": None},  # several run at once
    }
    return Settings.model_validate(given | settings)


async def until(check: Callable[[], bool], seconds: float = HANG_SECONDS) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not check():
            await asyncio.sleep(0.02)


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """What the database says."""
    with sqlite3.connect(f"file:{folder}/x.db?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


def listening(port: int) -> bool:
    """Whether somebody answers on the port."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def serving(
    folder: Path, site: Site, *paths: str, **settings: Any
) -> AsyncIterator[tuple[Daemon, aiohttp.ClientSession]]:
    """A daemon with its listener, and a program that has the token."""
    api = {"listen": f"127.0.0.1:{(port := free_port())}"} | settings.pop("api", {})
    urls = [site.url(path) for path in paths]
    async with (
        running(folder, urls, api=api, keep_bodies="changes", **settings) as daemon,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=bearer(folder)) as session,
    ):
        await until(lambda: daemon.crawler.status.verdicts["new"] == len(urls))
        await daemon.store.flush()
        yield daemon, session


async def get(session: aiohttp.ClientSession, path: str, status: int = 200, **query: str | int) -> Any:
    """The answer as JSON."""
    async with session.get(path, params=query) as answered:
        assert answered.status == status, await answered.text()
        return await answered.json()


async def scrape(folder: Path) -> str:
    """The text over the Unix socket, which needs no token."""
    connector = aiohttp.UnixConnector(str(folder / "x.db.sock"))
    async with aiohttp.ClientSession(connector=connector) as session, session.get("http://crawld/metrics") as answer:
        assert answer.status == 200
        return await answer.text()
