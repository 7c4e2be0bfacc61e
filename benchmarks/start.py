"""Cost of a start: `python -m benchmarks.start [--pages N] [--seconds N] [--json]`.

A database with that many crawled pages, 50 to a host, and the list of them are written; a daemon in a process of its
own starts with them against a site on loopback, serves slots for some seconds, takes 100,000 signals at once, deletes
50,000 crawls and 10,000 pages that are older than it keeps any, and reloads the list with one line more. For each of
these steps: processor seconds, wall seconds, and the longest callback of the event loop by its thread's processor time,
which a machine shared with other work still tells truly. Lag is how late a sleep of 10 ms ends while slots are served
and the learner runs; memory is what the process has beyond what it had before the start, in bytes a page.
"""

import argparse
import asyncio
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks import argument_parser, show
from crawld.main.assembly import build
from crawld.main.settings import Settings
from crawld.main.supervisor import Daemon
from crawld.model.page import FROM_LIST
from crawld.pages.list_file import TAKEN_OVER, list_mark
from crawld.store.store import SqlStore
from crawld.store.tables import by_source


@dataclass(frozen=True)
class StartLimits:
    """Numbers of this benchmark."""

    per_host: int = 50
    rate: int = 200
    signals: int = 100_000
    signals_at_once: int = 200
    """As many as a poll records in one turn of the loop."""
    old_crawls: int = 50_000
    old_pages: int = 10_000
    """History that retention no longer keeps, and pages retired as long ago."""
    old_seconds: float = 500 * 86_400.0
    look_seconds: float = 0.01
    hang_seconds: float = 1800.0


LIMITS = StartLimits()


def url(number: int, port: int) -> str:
    """A URL of usual length; its host is an address of this machine."""
    host = number // LIMITS.per_host
    address = f"127.{1 + host // 62500}.{host // 250 % 250}.{1 + host % 250}"
    return f"http://{address}:{port}/articles/2024/some-words/section-{number % 97}/page-{number}.html"


async def write(folder: Path, pages: int, port: int) -> None:
    """Write the list, and a database with its pages, all crawled and estimated."""
    body = "".join(f"{url(number, port)}\n" for number in range(pages)).encode("ascii")
    (folder / "urls.txt").write_bytes(body)
    now = time.time()
    store = SqlStore(f"sqlite:///{folder}/crawld.db")
    await store.start()
    await store.change_setting(TAKEN_OVER, f"{list_mark(body)} {pages} 0", now=now)
    await store.close()
    with sqlite3.connect(folder / "crawld.db") as db:
        hosts = (pages - 1) // LIMITS.per_host + 1
        names = ((host + 1, url(host * LIMITS.per_host, port).split("/")[2]) for host in range(hosts))
        db.executemany("INSERT INTO hosts (id, name) VALUES (?, ?)", names)
        rows = ((n + 1, url(n, port), n // LIMITS.per_host + 1, FROM_LIST, *[now - 60 - n] * 3) for n in range(pages))
        db.executemany(
            "INSERT INTO pages (id, url, host_id, origin, added_at, last_success, last_attempt, importance, state,"
            " crawls) VALUES (?, ?, ?, ?, ?, ?, ?, 1.0, 'live', 2)",
            rows,
        )
        signals = [*by_source("kappa"), *by_source("gamma")]
        db.execute(
            f"INSERT INTO estimates (page_id, at, shape, rate, crawls, {', '.join(signals)})"
            f" SELECT id, last_success, 1 + id % 7, 1e5 * (1 + id % 11), 2{', 0.0' * len(signals)} FROM pages"
        )
        write_old(db, pages, port, now - LIMITS.old_seconds)


def write_old(db: sqlite3.Connection, pages: int, port: int, then: float) -> None:
    """Write crawls and retired pages of long ago."""
    rows = (
        (pages + n + 1, url(n, port) + "?old", n // LIMITS.per_host + 1, FROM_LIST) for n in range(LIMITS.old_pages)
    )
    db.executemany(
        "INSERT INTO pages (id, url, host_id, origin, added_at, retired_at, importance, state)"
        f" VALUES (?, ?, ?, ?, {then}, {then}, 1.0, 'retired')",
        rows,
    )
    db.execute(
        "INSERT INTO crawls (page_id, at, verdict, duration, conditional, audit, reverted)"
        f" SELECT id, {then}, 'unchanged', 0.1, 0, 0, 0 FROM pages LIMIT {LIMITS.old_crawls}"
    )


class Answer(asyncio.Protocol):
    """Answers every request with the same page."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to answer."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer requests as they come."""
        for _ in range(data.count(b"\r\n\r\n")):
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nwords")


async def serve() -> None:
    """Answer at every address of this machine, say at which port, and go on until killed."""
    server = await asyncio.get_running_loop().create_server(Answer, "0.0.0.0", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


def resident() -> int:
    """The bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


class Watch:
    """Measures steps: their time, and the longest callback of the loop in each."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}
        self._longest = 0.0
        run, thread_time = Handle._run, time.thread_time  # every callback passes there

        def timed(handle: Handle) -> None:
            began = thread_time()
            run(handle)
            self._longest = max(self._longest, thread_time() - began)

        Handle._run = timed  # type: ignore[method-assign,assignment]

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure what is done in the block."""
        self._longest = 0.0
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.figures[f"{name}_cpu_seconds"] = time.process_time() - cpu
        self.figures[f"{name}_seconds"] = time.perf_counter() - wall
        self.figures[f"{name}_longest_callback_ms"] = 1e3 * self._longest


async def lags(seconds: float) -> list[float]:
    """Delays of sleeps, in milliseconds."""
    found, until = [], time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        await asyncio.sleep(LIMITS.look_seconds)
        found.append(1e3 * (time.perf_counter() - began - LIMITS.look_seconds))
    return found


async def signal_all(daemon: Daemon, count: int) -> None:
    """Bring a signal for each of so many pages, as polls do, and let the next slots be served."""
    ids = daemon.scheduler.ids()[:count].tolist()
    for start in range(0, len(ids), LIMITS.signals_at_once):
        for page_id in ids[start : start + LIMITS.signals_at_once]:
            daemon.scheduler.notice(page_id)
        await asyncio.sleep(0)
    await asyncio.sleep(20 / LIMITS.rate)


async def prune_all(daemon: Daemon) -> int:
    """Delete all that retention does not keep, as the daemon does but without its pauses; how many rows."""
    deleted = 0
    while some := await daemon.store.prune():
        deleted += some
    return deleted


async def measure(folder: Path, seconds: float) -> dict[str, float]:
    """Start a daemon on what is in the folder, and put it through the steps."""
    lines = folder / "urls.txt"
    given = {
        "bandwidth": f"{LIMITS.rate}/s",
        "urls": str(lines),
        "database": f"sqlite:///{folder}/crawld.db",
        "allow_private": ["127.0.0.0/8"],
        "signals": {"sitemaps": "off", "feeds": "off"},
        "api": {"listen": None},
        "log": {"level": "warning"},
    }
    before, watch = resident(), Watch()
    daemon = build(Settings.model_validate(given))
    with watch.step("start"):
        task = asyncio.create_task(daemon.run())
        async with asyncio.timeout(LIMITS.hang_seconds):
            while not daemon.crawler.status.requests and not task.done():
                await asyncio.sleep(LIMITS.look_seconds)
    pages = max(len(daemon.scheduler), 1)
    with watch.step("serving"):
        late = await lags(seconds)
    watch.figures["lag_p50_ms"], watch.figures["lag_p99_ms"] = (float(np.quantile(late, q)) for q in (0.5, 0.99))
    with watch.step("signals"):
        await signal_all(daemon, LIMITS.signals)
    watch.figures["bytes_per_page"] = (resident() - before) / pages
    watch.figures["peak_bytes_per_page"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / pages
    with watch.step("retention"):
        watch.figures["rows_deleted"] = await prune_all(daemon)
    with lines.open("a", encoding="ascii") as more:
        more.write(f"{url(0, 80)}?one-more\n")
    while not daemon.page_set.indexed:  # that goes on for a while after the first request
        await asyncio.sleep(LIMITS.look_seconds)
    daemon.crawler.change_bandwidth(0.0)  # or the slots of these seconds would count as the reload's
    with watch.step("reload"):
        result = await daemon.reload()
    assert result.refused is None, result.sentence
    daemon.stop()
    await task
    return {"pages": pages, "added_by_reload": len(daemon.scheduler) - pages, **watch.figures}


def main() -> None:
    """Write what is started from, measure in a process of its own, and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="for which slots are served")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # measure what is there, in this process
    parser.add_argument("--site", action="store_true", help=argparse.SUPPRESS)  # be the site
    options = parser.parse_args()
    if options.site:
        asyncio.run(serve())
        return
    if options.folder is not None:
        print(json.dumps(asyncio.run(measure(options.folder, options.seconds))))
        return
    ourselves = [sys.executable, "-m", "benchmarks.start"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([*ourselves, "--site"], stdout=subprocess.PIPE, text=True) as site,
    ):
        try:
            assert site.stdout is not None
            asyncio.run(write(Path(folder), options.pages, int(site.stdout.readline())))
            command = [*ourselves, "--folder", folder, "--seconds", str(options.seconds)]
            found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        finally:
            site.kill()
    show({name: round(figure, 2) for name, figure in json.loads(found.stdout).items()}, as_json=options.json)


if __name__ == "__main__":
    main()
