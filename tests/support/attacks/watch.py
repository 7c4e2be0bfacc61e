"""Watches a daemon from outside, in a process of its own: its control socket, its database, its memory.

    python -m tests.support.attacks.watch DATABASE PID

Asks the control socket for the status every 20 ms over a fresh connection, looks for new crawls in the database as
often, adds up the memory of the daemon and its child processes twice a second, and notes how long the machine keeps
even this process waiting. Says all that as JSON when standard input ends.
"""

import asyncio
import contextlib
import json
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.support.process import ENVIRONMENT, ROOT

EVERY = 0.02
MEMORY_EVERY = 0.5
TICK = 0.002
PROBE = b"GET /status HTTP/1.1\r\nHost: crawld\r\nConnection: close\r\n\r\n"
NEW_CRAWLS = """
SELECT crawls.id, pages.url, crawls.at, crawls.duration FROM crawls JOIN pages ON pages.id = crawls.page_id
WHERE crawls.id > ? ORDER BY crawls.id
"""


@dataclass(slots=True)
class Watched:
    """What was seen of a daemon."""

    waits: list[float] = field(default_factory=list)  # seconds for each answer of the control socket
    crawls: list[tuple[str, float, float, float]] = field(default_factory=list)  # URL, began, lasted, visible
    memory_mb: float = 0.0  # the most
    stall: float = 0.0  # seconds: the longest the machine kept this process waiting


async def watch(database: Path, pid: int) -> Watched:
    """Watch until standard input ends."""
    found, looking = Watched(), asyncio.Event()
    work = [
        asyncio.create_task(_probe(Path(f"{database}.sock"), found)),
        asyncio.create_task(_look(database, found, looking)),
        asyncio.create_task(_weigh(pid, found)),
        asyncio.create_task(_tick(found)),
    ]
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await looking.wait()
    print("watching", flush=True)
    await reader.read()
    for task in work:
        task.cancel()
    for ended in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
    return found


async def _probe(path: Path, found: Watched) -> None:
    """Ask for the status over and over; a refused connection is part of a silence that an answer ends."""
    began = time.monotonic()
    try:
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    writer.write(PROBE)
                    answered = await reader.read()
                finally:
                    writer.close()
            except OSError:
                answered = b""
            if answered:
                found.waits.append(time.monotonic() - began)
            await asyncio.sleep(EVERY)
            if answered:
                began = time.monotonic()
    finally:
        found.waits.append(time.monotonic() - began)  # that long at least


async def _look(database: Path, found: Watched, looking: asyncio.Event) -> None:
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        (latest,) = db.execute("SELECT coalesce(max(id), 0) FROM crawls").fetchone()
        looking.set()
        while True:
            rows = db.execute(NEW_CRAWLS, (latest,)).fetchall()
            seen = time.time()
            for number, url, at, duration in rows:
                latest = max(latest, number)
                found.crawls.append((url, at, duration, seen))
            await asyncio.sleep(EVERY)


async def _weigh(pid: int, found: Watched) -> None:
    while True:
        found.memory_mb = max(found.memory_mb, await asyncio.to_thread(memory_mb, pid))
        await asyncio.sleep(MEMORY_EVERY)


def memory_mb(pid: int) -> float:
    """Megabytes of a process and its descendants, where shared pages count by part."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        waiting += children.get(one, [])
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{one}/smaps_rollup").read_text().split("Pss:")[1].split()[0])
    return total / 1024


async def _tick(found: Watched) -> None:
    while True:
        asleep = time.monotonic()
        await asyncio.sleep(TICK)
        found.stall = max(found.stall, time.monotonic() - asleep - TICK)


@dataclass(slots=True)
class Watching:
    """A watcher from outside."""

    process: asyncio.subprocess.Process

    async def end(self) -> Watched:
        """Stop watching; what was seen."""
        out, _ = await self.process.communicate(b"")
        told = json.loads(out)
        return Watched(**told | {"crawls": [tuple(one) for one in told["crawls"]]})


@asynccontextmanager
async def watcher(database: Path, pid: int) -> AsyncIterator[Watching]:
    """A watcher while the block runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.attacks.watch", str(database), str(pid),
        cwd=ROOT, env=ENVIRONMENT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        yield Watching(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(watch(Path(sys.argv[1]), int(sys.argv[2]))))))
