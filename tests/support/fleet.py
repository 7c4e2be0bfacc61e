"""Real workers of a fleet, and what the site they crawl tells of them."""

import asyncio
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.support.process import HANG_SECONDS, Running, command, program, settings
from tests.support.site import Seen, Site


async def made(database: str, shards: int, rate: int, cwd: Path) -> None:
    """Make the database a fleet's, as README does."""
    given = ("--database", database, "--shards", str(shards), "--bandwidth", f"{rate}/s")
    ended = await command("fleet", "init", *given, cwd=cwd)
    assert ended.status == 0, ended.err


def worker_settings(folder: Path, urls: Sequence[str], database: str, name: str, **more: object) -> Path:
    """The settings of one worker; the site tells workers apart by their user agents."""
    folder.mkdir()
    agent = f"crawld/1 ({name}; +https://example.org/bot)"
    given: dict[str, object] = {"user_agent": agent, "signals": {"sitemaps": [], "feeds": []}}
    return settings(folder, urls, database=database, **(given | more))


def worker(name: str, file: Path) -> AbstractAsyncContextManager[Running]:
    """A worker as README starts it."""
    words = [sys.executable, "-m", "crawld", "fleet", "run", "--config", str(file), "--name", name]
    return program(words, cwd=file.parent)


WRONG_CLOCK = """
import sys, time
ahead, true = sys.argv.pop(1), time.time
def now():
    while not (seconds := open(ahead).read()):  # it is being written
        pass
    return true() + float(seconds)
time.time = now
from crawld.cli import main
main()
"""
"""crawld on a machine whose clock is as many seconds ahead as a file says at the moment."""


def worker_with_wrong_clock(name: str, file: Path, ahead: Path) -> AbstractAsyncContextManager[Running]:
    """A worker on a machine whose clock is wrong by what that file says."""
    words = [sys.executable, "-c", WRONG_CLOCK, str(ahead), "fleet", "run", "--config", str(file), "--name", name]
    return program(words, cwd=file.parent)


async def until(happened: Callable[[], bool], run: Mapping[str, Running], what: str) -> None:
    """Wait until something has happened; the workers' logs where it does not."""
    try:
        async with asyncio.timeout(HANG_SECONDS):
            while not happened():
                await asyncio.sleep(0.05)
    except TimeoutError:
        told = "\n".join(f"{name}: {line}" for name, one in run.items() for line in one.log if "url=" not in line)
        raise AssertionError(f"{what}: it never came to that\n{told}") from None


def crawls(site: Site, since: int = 0) -> list[Seen]:
    """Requests for pages, after the first so many of all requests."""
    return [seen for seen in site.log[since:] if seen.path.startswith("/ok/")]


def who(seen: Seen) -> str:
    """The worker that asked."""
    found = re.search(r"\((w\d);", seen.headers["user-agent"])
    assert found is not None
    return found[1]
