"""Cost of a browser to a busy daemon: `python -m benchmarks.dashboard_clicks [--pages N] [--rate R] [--json]`.

A daemon with N pages crawls a site in another process at R requests a second. For a minute (`--seconds`) no one
looks, then a real browser in a third process, at a low priority as if it were on another machine, clicks through every
view as fast as they come, for as long. For both: how late the event loop came back to a task that only sleeps (median,
99th percentile, longest), and the slots that were skipped. The two are measured in one run, so what the machine itself
costs is in both; on a busy machine the processor time that the loop's thread took between two looks (`loop_work`) tells
better than lateness what the work costs.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import argument_parser, show
from crawld.main.assembly import build
from crawld.main.settings import Settings
from crawld.show.api.access import make_token
from tests.support.process import free_port


@dataclass(frozen=True)
class DashboardClicksLimits:
    """Numbers of this benchmark."""

    hosts: int = 200
    page_bytes: int = 8_000
    lag_step: float = 0.005


LIMITS = DashboardClicksLimits()
VIEWS = ("Pages", "Changes", "Hosts", "Forecast", "Calibration", "Overview")


@asynccontextmanager
async def site() -> AsyncIterator[int]:
    """A site on many addresses of loopback, in a process of its own; its port."""
    words = ["-m", "benchmarks.pipeline_site", str(LIMITS.page_bytes), str(LIMITS.hosts)]
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


async def lag(seconds: float) -> tuple[list[float], list[float]]:
    """Delays of the loop over that time, and the processor time of its thread at each."""
    late, worked, end = [], [], time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        worked_before = time.thread_time()
        await asyncio.sleep(LIMITS.lag_step)
        late.append(time.perf_counter() - began - LIMITS.lag_step)
        worked.append(time.thread_time() - worked_before)
    return late, worked


async def watch(daemon: Any, seconds: float) -> dict[str, float]:
    """The figures of a stretch of time."""
    status = daemon.crawler.status
    before = status.requests, status.skipped_slots
    late, worked = await lag(seconds)
    percentiles = statistics.quantiles(late, n=100)
    return {
        "lag_median_ms": round(1e3 * percentiles[49], 2),
        "lag_p99_ms": round(1e3 * percentiles[98], 2),
        "lag_longest_ms": round(1e3 * max(late), 1),
        "loop_work_p99_ms": round(1e3 * statistics.quantiles(worked, n=100)[98], 2),
        "loop_work_longest_ms": round(1e3 * max(worked), 1),
        "requests_per_second": round((status.requests - before[0]) / seconds, 1),
        "skipped_slots": status.skipped_slots - before[1],
    }


async def measure(pages: int, rate: float, seconds: float) -> dict[str, Any]:
    """Both stretches."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        async with site() as port:
            urls = (f"http://127.0.0.{1 + n % LIMITS.hosts}:{port}/page/{n}\n" for n in range(pages))
            (folder / "urls.txt").write_text("".join(urls))
            listen = f"127.0.0.1:{free_port()}"
            given = {
                "urls": str(folder / "urls.txt"), "database": f"sqlite:///{folder}/x.db", "bandwidth": rate,
                "allow_private": ["127.0.0.0/8"], "politeness": {"delay": 0.1, "per_host": 4}, "min_interval": 1,
                "api": {"listen": listen}, "log": {"level": "warning"},
            }  # fmt: skip
            daemon = build(Settings.model_validate(given))
            running = asyncio.create_task(daemon.run())
            try:
                while daemon.crawler.status.requests < 20 * rate:
                    await asyncio.sleep(0.5)
                alone = await watch(daemon, seconds)
                clicks = await _click(f"http://{listen}", make_token(folder / "x.db.token"), seconds)
                looked_at = await watch(daemon, seconds)
                viewed = await _views(clicks)
            finally:
                daemon.stop()
                await running
    return {"pages": pages, "rate": rate, "alone": alone, "looked_at": looked_at | {"views": viewed}}


async def _click(base: str, token: str, seconds: float) -> asyncio.subprocess.Process:
    """Start the browser and return once it clicks."""
    words = [
        "-n",
        "19",
        sys.executable,
        "-m",
        "benchmarks.dashboard_clicks",
        "--browse",
        base,
        "--seconds",
        str(seconds),
    ]
    process = await asyncio.create_subprocess_exec(
        "nice", *words, env=dict(os.environ) | {"CRAWLD_TOKEN": token}, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    return process


async def _views(process: asyncio.subprocess.Process) -> int:
    out, _ = await process.communicate()
    return int(out)


async def browse(base: str, token: str, seconds: float) -> None:
    """Click through every view until the time is over, and print how many were seen."""
    from tests.support.browsing import browser, visitor

    async with browser() as opened, visitor(opened, base, token) as visiting:
        print("begun", flush=True)
        seen, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            for name in VIEWS:
                await visiting.page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
                await visiting.page.wait_for_load_state()
                seen += 1
                if name == "Pages":
                    await visiting.page.locator("tbody a").first.click()
                    await visiting.page.wait_for_load_state()
                    seen += 1
        print(seen, flush=True)


def main() -> None:
    """Print the figures."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--browse", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.browse:
        asyncio.run(browse(options.browse, os.environ["CRAWLD_TOKEN"], options.seconds))
    else:
        show(asyncio.run(measure(options.pages, options.rate, options.seconds)), as_json=options.json)


if __name__ == "__main__":
    main()
