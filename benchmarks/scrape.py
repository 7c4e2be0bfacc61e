"""Cost of a scrape of /metrics to the event loop, with many pages.

    python -m benchmarks.scrape [--pages 1000000] [--json]

A daemon that holds the pages and crawls none is scraped over its Unix socket, each time with everything that is costly
found out anew. Told are the processor time of the loop's thread for a scrape, with that of the one who asks and without
what the loop does anyway in that time; and the longest time for which the loop did not turn, which a busy machine makes
longer.
"""

import asyncio
import contextlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks import argument_parser, show
from crawld.main.assembly import Assembly
from crawld.main.settings import Settings
from crawld.model.page import Wanted
from crawld.store.store import SqlStore


@dataclass(frozen=True)
class ScrapeLimits:
    """Numbers of this benchmark."""

    scrapes: int = 20
    at_once: int = 50_000


LIMITS = ScrapeLimits()


async def run(pages: int) -> dict[str, Any]:
    """Scrape a daemon of so many pages; the figures, in milliseconds."""
    with tempfile.TemporaryDirectory() as made:
        database = f"sqlite:///{made}/x.db"
        await _fill(database, pages)
        settings = Settings.model_validate(
            {
                "database": database,
                "bandwidth": 0,
                "api": {"listen": None},
                "discover": [{"site": "https://a.example/"}],
            }
        )
        assembly = Assembly(settings)
        daemon = assembly.daemon()
        daemon.catch_signals = False
        task = asyncio.create_task(daemon.run())
        while not (Path(made) / "x.db.sock").exists():
            await asyncio.sleep(0.1)
            if task.done():
                task.result()
        while not assembly.page_set.indexed:
            await asyncio.sleep(0.5)
        await asyncio.sleep(5.0)
        quiet = await _longest(asyncio.sleep(3.0))
        began = time.thread_time()
        await asyncio.sleep(3.0)
        anyway = (time.thread_time() - began) / 3.0
        longest, took, busy = [], [], []
        connector = aiohttp.UnixConnector(f"{made}/x.db.sock")
        async with aiohttp.ClientSession(connector=connector) as session:
            for _ in range(LIMITS.scrapes):
                assembly.metrics.forget_costly()
                began = time.perf_counter()
                longest.append(await _longest(_scrape(session)))
                took.append(time.perf_counter() - began)
                assembly.metrics.forget_costly()
                at, began = time.perf_counter(), time.thread_time()
                await _scrape(session)
                busy.append(time.thread_time() - began - anyway * (time.perf_counter() - at))
        daemon.stop()
        await task
    return {
        "pages": len(assembly.scheduler),
        "scrapes": LIMITS.scrapes,
        "processor_time_of_the_loop_without_a_scrape_ms_per_second": 1000 * anyway,
        "processor_time_of_the_loop_median_ms": 1000 * sorted(busy)[LIMITS.scrapes // 2],
        "processor_time_of_the_loop_worst_ms": 1000 * max(busy),
        "longest_turn_without_a_scrape_ms": 1000 * quiet,
        "longest_turn_of_the_loop_median_ms": 1000 * sorted(longest)[LIMITS.scrapes // 2],
        "longest_turn_of_the_loop_worst_ms": 1000 * max(longest),
        "answer_after_median_ms": 1000 * sorted(took)[LIMITS.scrapes // 2],
    }


async def _scrape(session: aiohttp.ClientSession) -> None:
    async with session.get("http://crawld/metrics") as answer:
        assert answer.status == 200
        await answer.read()


async def _longest(work: Any) -> float:
    """The longest time for which the loop did not turn while the work was done."""
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            at = time.perf_counter()
            await asyncio.sleep(0)
            worst = max(worst, time.perf_counter() - at)

    watching = asyncio.create_task(watch())
    try:
        await work
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return worst


async def _fill(database: str, pages: int) -> None:
    store = SqlStore(database)
    await store.start()
    for start in range(0, pages, LIMITS.at_once):
        some = [
            Wanted(f"https://host{n % 5000}.example/page/{n}") for n in range(start, min(start + LIMITS.at_once, pages))
        ]
        await store.adopt(some, origin="operator", now=time.time(), complete=False)
    await store.close()


def main() -> None:
    """Run and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    arguments = parser.parse_args()
    show(asyncio.run(run(arguments.pages)), as_json=arguments.json)


if __name__ == "__main__":
    main()
