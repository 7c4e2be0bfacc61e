"""Cost of the dashboard: `python -m benchmarks.dashboard [--pages N] [--json]` asks a daemon that holds N pages.

A SQLite file is filled with pages, estimates and changes. The real daemon starts on it with a bandwidth of 0, and a
client in another thread asks each path several times. For each: the time until the answer is there, the median and the
longest; the processor's time that one answer takes, in all and in the thread of the event loop, with what the daemon
takes anyway; and the longest time that the loop was kept from its work. On a busy machine only the processor's
time tells what the work itself costs.
"""

import asyncio
import random
import sqlite3
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import argument_parser, show
from crawld.main.assembly import Assembly
from crawld.main.settings import Settings
from crawld.show.api.access import make_token
from crawld.store.store import SqlStore
from tests.support.process import free_port


@dataclass(frozen=True)
class DashboardLimits:
    """Numbers of this benchmark."""

    hosts: int = 1_000
    times: int = 7
    """Number of times each path is asked; the first warms the caches and does not count."""
    lag_step: float = 0.01
    changes_a_page: float = 0.5


LIMITS = DashboardLimits()
PATHS = (
    "/",
    "/?window=week",
    "/pages",
    "/pages?sort=freshness",
    "/pages?sort=-importance",
    "/pages?q=page-99999",
    "/page?url=https://h8.example/some/folder/page-7",
    "/changes",
    "/hosts",
    "/forecast",
    "/calibration",
    "/v1/status",
    "/v1/pages",
    "/v1/pages?sort=importance&descending=true",
    "/v1/pages?sort=last_crawl",
    "/v1/pages?sort=last_change&descending=true",
    "/v1/pages?sort=freshness",
    "/v1/pages?search=page-99999",
    "/v1/pages?search=nowhere&sort=last_change",
    "/v1/pages?host=h7.example&sort=last_crawl",
    "/v1/pages?state=failing&sort=freshness",
    "/v1/pages?state=live&sort=importance",
    "/v1/changes?after=0&limit=100",
    "/v1/hosts",
    "/v1/freshness",
)


async def fill(file: Path, pages: int) -> None:
    """A database of so many pages, as a daemon would have left it."""
    store = SqlStore(f"sqlite:///{file}")
    await store.start()
    await store.close()
    rng, now = random.Random(1), time.time()
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("PRAGMA cache_size=-500000")
        db.executemany(
            "INSERT INTO hosts (id, name) VALUES (?, ?)", ((n, f"h{n}.example") for n in range(1, LIMITS.hosts + 1))
        )
        db.executemany(
            "INSERT INTO pages (id, url, host_id, importance, state, origin, added_at, first_success, last_success,"
            " last_attempt, last_change_at, crawls, changes) VALUES (?,?,?,?,?,'list',?,?,?,?,?,9,3)",
            (_page(n, rng, now) for n in range(1, pages + 1)),
        )
        kinds = [name for (name,) in db.execute("SELECT name FROM pragma_table_info('estimates')")]
        zero = [name for name in kinds if name.startswith(("kappa_", "gamma_")) and "_se_" not in name]
        names, marks = ", ".join(zero), ", ".join("0" for _ in zero)
        db.executemany(
            f"INSERT INTO estimates (page_id, at, shape, rate, crawls, changes, {names}) VALUES (?,?,?,?,8,3,{marks})",
            ((n, now, 2.0, rng.lognormvariate(12, 1.5)) for n in range(1, pages + 1)),
        )
        db.executemany(
            "INSERT INTO changes (id, page_id, at, verdict, magnitude) VALUES (?,?,?,'changed',.1)",
            ((n, rng.randint(1, pages), now - 1e6 + n) for n in range(1, int(LIMITS.changes_a_page * pages) + 1)),
        )
        db.executemany(
            "INSERT INTO freshness_history (at, bandwidth, request_rate, predicted, pages) VALUES (?,10,10,.8,?)",
            ((now - 60.0 * n, pages) for n in range(2_880)),
        )


def _page(number: int, rng: random.Random, now: float) -> tuple[Any, ...]:
    state = "failing" if number % 1_000 == 0 else "live"
    crawled = now - rng.uniform(0, 20 * 86400)
    changed = crawled if number % 3 == 0 else None
    host = number % LIMITS.hosts + 1
    url = f"https://h{host}.example/some/folder/page-{number}"
    return number, url, host, rng.expovariate(1), state, now, crawled, crawled, crawled, changed


class Lag:
    """Watches how late the loop comes back to a task that only sleeps."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def _run(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(LIMITS.lag_step)
            self.longest = max(self.longest, time.perf_counter() - began - LIMITS.lag_step)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the block runs; the longest of the block is in `longest`."""
        self.longest, task = 0.0, asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()


async def measure(pages: int, paths: tuple[str, ...], times: int, kept: Path | None = None) -> dict[str, Any]:
    """The figures of every path; `kept` is a database that is filled where there is none and left for the next time."""
    with tempfile.TemporaryDirectory() as folder:
        file = kept or Path(folder) / "x.db"
        if not file.exists():
            await fill(file, pages)
        port = free_port()
        given = {"database": f"sqlite:///{file}", "bandwidth": 0, "api": {"listen": f"127.0.0.1:{port}"}}
        assembly = Assembly(Settings.model_validate(given | {"log": {"level": "warning"}}))
        daemon = assembly.daemon()
        running, lag = asyncio.create_task(daemon.run()), Lag()
        address = f"http://127.0.0.1:{port}"
        token = make_token(Path(f"{file}.token"))
        await asyncio.to_thread(_until_up, address)
        found = {}
        try:
            while not assembly.page_set.indexed:  # what follows a start
                await asyncio.sleep(0.5)
            for path in paths:
                found[path] = await _ask(address + path, token, lag, times)
        finally:
            daemon.stop()
            await running
        return {"pages": pages, "paths": found}


async def _ask(url: str, token: str, lag: Lag, times: int) -> dict[str, float]:
    ask: Callable[[], float] = lambda: _timed(url, token)  # noqa: E731 - one call, in a thread
    await asyncio.to_thread(ask)
    all_before, loop_before = time.process_time(), time.thread_time()
    took = [await asyncio.to_thread(ask) for _ in range(times)]
    every, loop = time.process_time() - all_before, time.thread_time() - loop_before
    with lag.watching():  # apart: looking at the loop all the time takes the processor too
        for _ in range(times):
            await asyncio.to_thread(ask)
    return {
        "median_ms": round(1e3 * statistics.median(took), 1),
        "longest_ms": round(1e3 * max(took), 1),
        "cpu_ms": round(1e3 * every / times, 1),
        "loop_cpu_ms": round(1e3 * loop / times, 1),
        "loop_late_ms": round(1e3 * lag.longest, 1),
    }


def _timed(url: str, token: str) -> float:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - began


def _until_up(address: str) -> None:
    for _ in range(1_200):
        try:
            urllib.request.urlopen(f"{address}/healthz", timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the daemon did not start")


def main() -> None:
    """Print the figures."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=LIMITS.times)
    parser.add_argument("--database", type=Path, help="a SQLite file to fill and leave, or to use as it was left")
    options = parser.parse_args()
    found = asyncio.run(measure(options.pages, PATHS, options.times, options.database))
    if options.json:
        show(found, as_json=True)
        return
    names = ("median_ms", "longest_ms", "cpu_ms", "loop_cpu_ms", "loop_late_ms")
    print(f"{options.pages:,} pages".ljust(50), *(name.rjust(12) for name in names))
    for path, row in found["paths"].items():
        print(path.ljust(50), *(str(row[name]).rjust(12) for name in names))


if __name__ == "__main__":
    main()
