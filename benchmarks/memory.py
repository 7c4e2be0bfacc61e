"""Memory of a page in the daemon: `python -m benchmarks.memory [--pages N] [--json]`.

A database with that many crawled pages is written, and a process of its own takes them back with the daemon's parts,
one after another: pages, scheduler and gate; picks and the index for signals; the learner. Figures are the
growth of its resident memory in bytes a page, without what an empty daemon takes. `bytes_per_page` is the sum, `peak`
the highest it ever was, which a start needs for a moment. There are 50 pages to a host.
"""

import argparse
import asyncio
import gc
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks import argument_parser, show
from crawld.choose.host_gate import HostGate
from crawld.choose.policies import DEFAULT, build
from crawld.choose.scheduler import Scheduler
from crawld.learn.observations import Prior
from crawld.learn.online_learner import OnlineLearner
from crawld.model.estimate import Histories
from crawld.model.page import FROM_LIST, Wanted
from crawld.model.signal import SOURCES
from crawld.pages.page_set import PageSet, give_back
from crawld.pages.pages import Pages
from crawld.signals.poll_signals import PageIndex
from crawld.store.store import SqlStore


@dataclass(frozen=True)
class MemoryLimits:
    """Numbers of this benchmark."""

    now: float = 1.7e9
    per_host: int = 50
    learnt_at_once: int = 500
    picks: int = 1000


LIMITS = MemoryLimits()


def url(number: int) -> str:
    """A URL of usual length."""
    host = number // LIMITS.per_host
    return f"https://www.host{host}.example.com/articles/2024/section-{number % 97}/page-{number}.html"


async def write(path: Path, pages: int) -> None:
    """A database with that many pages, all crawled once."""
    store = SqlStore(f"sqlite:///{path}")
    await store.start()
    await store.adopt([Wanted(url(number)) for number in range(pages)], origin=FROM_LIST, now=LIMITS.now)
    await store.close()
    with sqlite3.connect(path) as database:
        database.execute(
            "UPDATE pages SET state = 'live', last_success = ? - id, last_attempt = ? - id", (LIMITS.now, LIMITS.now)
        )


def resident() -> int:
    """The bytes of this process that are in memory now."""
    gc.collect()
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * resource.getpagesize()


async def measure(path: Path) -> dict[str, float]:
    """Take the pages back and watch the memory grow."""
    store = SqlStore(f"sqlite:///{path}")
    await store.start()
    gate, index, pages = HostGate(), PageIndex(), Pages()
    scheduler = Scheduler(build(DEFAULT, bandwidth=100.0, gate=gate))
    page_set = PageSet(store, pages, scheduler, gate, index)
    learner = OnlineLearner(Prior(), len(SOURCES))
    marks = [("start", resident())]
    began = time.perf_counter()
    count = await page_set.restore(LIMITS.now)
    seconds = time.perf_counter() - began
    marks.append(("pages_and_scheduler", resident()))
    for slot in range(LIMITS.picks):
        page_id = scheduler.pick(LIMITS.now + slot)
        if page_id is not None:
            scheduler.settle(page_id, LIMITS.now + slot)
    await page_set.index()
    marks.append(("picks_and_signals_index", resident()))
    learner.reserve(count, pages.count_hosts())
    for histories in crawled(pages):
        learner.teach(histories, LIMITS.now)
    give_back()  # as the daemon's learner does once it has recalled all pages
    marks.append(("learner", resident()))
    await store.close()
    figures = {name: (after - before) / count for (_, before), (name, after) in pairwise(marks)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures["bytes_per_page"] = (marks[-1][1] - marks[0][1]) / count
    figures["peak"] = (peak - marks[0][1]) / count
    return figures | {"pages": count, "restore_seconds": seconds}


def crawled(pages: Pages) -> Iterator[Histories]:
    """Histories of two crawls of every page."""
    ids = pages.ids()
    for start in range(0, len(ids), LIMITS.learnt_at_once):
        some = ids[start : start + LIMITS.learnt_at_once]
        size, nothing = len(some), np.zeros((len(some), len(SOURCES)), dtype=np.int64)
        yield Histories(
            page_ids=np.array(some, dtype=np.int64),
            offsets=np.arange(size + 1),
            at=np.full(size, LIMITS.now),
            tau=np.full(size, 86400.0),
            signals=nothing,
            changed=np.arange(size) % 2 == 0,
            hosts=[pages[page_id].host for page_id in some],
            first_success=np.full(size, LIMITS.now - 86400.0),
            signal_counts=nothing,
        )


def main() -> None:
    """Write the database, measure in a process of its own, and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=300_000)
    parser.add_argument("--database", type=Path, help=argparse.SUPPRESS)  # measure this one, in this process
    options = parser.parse_args()
    if options.database is not None:
        print(json.dumps(asyncio.run(measure(options.database))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawld.db"
        asyncio.run(write(path, options.pages))
        command = [sys.executable, "-m", "benchmarks.memory", "--database", str(path)]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
    show({name: round(figure, 1) for name, figure in json.loads(found.stdout).items()}, as_json=options.json)


if __name__ == "__main__":
    main()
