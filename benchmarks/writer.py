"""Finished crawls a second that a store commits, on a real PostgreSQL and on SQLite.

    python -m benchmarks.writer [--crawls 100000] [--json]

Three stores take turns, some thousand crawls each time, so that what else the machine does meets all of them: that of a
worker on PostgreSQL, which writes by COPY and set-wise statements under the fence; the same server as a single daemon
wrote to it before, row by row and with indexes on what every crawl writes; and SQLite. Of the crawls 85 % find no
change, 10 % find one and bring a copy of some 4 kB, 5 % fail. The server syncs every commit to disk. Beside the rate
stand how long commits of such full batches take, and those of a worker that crawls 1,000 pages a second; and what a
crawl costs the event loop and the server's process, which says what a machine with two idle cores would reach.
"""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text

from benchmarks import argument_parser, show
from crawld.fleet.store.making import make_fleet
from crawld.fleet.store.shard_store import SqlShardStore
from crawld.model.crawl import Crawl, Digest, Memory, Verdict
from crawld.model.page import PageState, Wanted
from crawld.model.signal import SOURCES
from crawld.store import bulk as copying
from crawld.store import bulk as for_rows
from crawld.store.address import parse_address
from crawld.store.batch import Record
from crawld.store.commit_queue import QueuedItem
from crawld.store.engine import writing_engine
from crawld.store.store import SqlStore
from tests.support.postgres import fresh_database, newest_binaries, running_server


@dataclass(frozen=True)
class WriterLimits:
    """Numbers of this benchmark."""

    pages: int = 20_000
    hosts: int = 500
    shards: int = 16
    crawls: int = 100_000
    at_once: int = 10_000  # crawls before the next store has its turn
    waiting: int = 6_000  # records in a store's queue: several full batches
    paced_rate: int = 1_000
    paced_seconds: int = 10
    now: float = 1_700_000_000.0


LIMITS = WriterLimits()
BEFORE = (
    "CREATE INDEX ON pages (last_success, id)",
    "CREATE INDEX ON pages (dirty_since) WHERE dirty_since IS NOT NULL",
    "ALTER TABLE pages RESET (fillfactor)",
    "ALTER TABLE crawls ADD FOREIGN KEY (page_id) REFERENCES pages",
    "ALTER TABLE bodies ADD FOREIGN KEY (page_id) REFERENCES pages",
)
WORDS = [random.Random(i).randbytes(3).hex().encode() for i in range(2_000)]


class _Timed:
    """Notes how long each commit takes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.took: list[float] = []

    async def _commit(self, queued: Sequence[QueuedItem]) -> None:
        began = time.perf_counter()
        await super()._commit(queued)  # type: ignore[misc]  # of the store that this is mixed into
        self.took.append(time.perf_counter() - began)

    async def server_process(self) -> int | None:
        """The process of the server that serves the connection that writes."""
        async with self._database.writing.transaction() as connection:  # type: ignore[attr-defined]  # as above
            if connection.dialect.name == "sqlite":
                return None
            return int(await connection.scalar(text("SELECT pg_backend_pid()")))


class Worker(_Timed, SqlShardStore):
    """A worker's store."""


class Single(_Timed, SqlStore):
    """A single daemon's store."""


class Contestant:
    """A store with pages, fed with crawls as fast as it commits them."""

    def __init__(self, store: Worker | Single, seed: int, *, row_by_row: bool = False) -> None:
        self.store, self._rng, self._row_by_row = store, random.Random(seed), row_by_row
        self._pages: list[int] = []
        self._at = LIMITS.now
        self._seconds = self._processor = self._server = 0.0
        self._process: int | None = None  # the server's, for our connection that writes
        self._crawls = 0

    async def open(self) -> None:
        """Open the store and crawl every page once."""
        await self.store.start()
        if isinstance(self.store, Worker):
            self.store.hold(dict.fromkeys(range(LIMITS.shards), 0))
        listed = [Wanted(f"https://h{i % LIMITS.hosts}.example/{i}") for i in range(LIMITS.pages)]
        self._pages = [page.id for page in (await self.store.adopt(listed, origin="list", now=LIMITS.now)).added]
        await self._feed([self._record(page, Verdict.NEW) for page in self._pages])
        self._process = await self.store.server_process()

    async def turn(self, crawls: int) -> None:
        """Commit so many crawls, against the clock."""
        records = [self._next() for _ in range(crawls)]
        wall, processor, server = time.perf_counter(), time.thread_time(), self._server_seconds()
        await self._feed(records)
        self._server += self._server_seconds() - server
        self._seconds += time.perf_counter() - wall
        self._processor += time.thread_time() - processor
        self._crawls += crawls

    async def paced(self) -> dict[str, float]:
        """Record crawls evenly for a while: how long their commits take."""
        self.store.took.clear()
        with _row_by_row(self._row_by_row):
            start = time.perf_counter()
            for number in range(LIMITS.paced_rate * LIMITS.paced_seconds):
                self.store.record(self._next())
                await asyncio.sleep(max(0.0, start + number / LIMITS.paced_rate - time.perf_counter()))
            await self.store.flush()
        return _percentiles(self.store.took, "paced_commit")

    def figures(self) -> dict[str, float]:
        """Crawls a second, what a crawl costs the event loop, and how long commits of full batches took."""
        return {
            "crawls_per_second": round(self._crawls / self._seconds),
            "loop_microseconds_per_crawl": round(1e6 * self._processor / self._crawls, 1),
            "server_microseconds_per_crawl": round(1e6 * self._server / self._crawls, 1),
            **_percentiles(self.store.took, "commit"),
        }

    def _server_seconds(self) -> float:
        """Processor time of the server's process so far; 0 of SQLite, which works in a thread of this process."""
        if self._process is None:
            return 0.0
        fields = Path(f"/proc/{self._process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def reset(self) -> None:
        """Forget what was measured so far."""
        self.store.took.clear()

    async def _feed(self, records: Sequence[Record]) -> None:
        with _row_by_row(self._row_by_row):
            for record in records:
                while self.store.backlog >= LIMITS.waiting:
                    await asyncio.sleep(0.002)
                self.store.record(record)
            await self.store.flush()

    def _next(self) -> Record:
        kinds = (Verdict.UNCHANGED, Verdict.CHANGED, Verdict.FAILED)
        return self._record(self._rng.choice(self._pages), self._rng.choices(kinds, (85, 10, 5))[0])

    def _record(self, page: int, verdict: Verdict) -> Record:
        rng, self._at = self._rng, self._at + 1e-3
        tau = None if verdict is Verdict.NEW else 3600.0
        told = (int(verdict is Verdict.CHANGED), *(0,) * (len(SOURCES) - 1))
        crawl = Crawl(page, self._at, verdict, 200, tau=tau, signals=told, duration=0.1, predicted=0.7)
        if verdict is Verdict.FAILED:
            return Record(crawl, PageState.FAILING, failures=1)
        if verdict is Verdict.UNCHANGED:
            return Record(crawl, PageState.LIVE)
        blocks = tuple(rng.getrandbits(64) for _ in range(40))
        memory = Memory(page, self._at, Digest(rng.randbytes(16), rng.randbytes(16), blocks), content_type="text/html")
        return Record(crawl, PageState.LIVE, memory=memory, body=b" ".join(rng.choices(WORDS, k=600)))


@contextmanager
def _row_by_row(wanted: bool) -> Iterator[None]:
    """Write to PostgreSQL as was done before: a statement for each row."""
    ways = (for_rows.AT_ONCE, copying.BY_COPY)
    before = [set(way) for way in ways]
    try:
        for way in ways if wanted else ():
            way.clear()
        yield
    finally:
        for way, was in zip(ways, before, strict=True):
            way.update(was)


def _percentiles(took: Sequence[float], name: str) -> dict[str, float]:
    ranked = sorted(took)
    return {
        f"{name}_p{part}_ms": round(1e3 * ranked[min(len(ranked) * part // 100, len(ranked) - 1)], 1)
        for part in (50, 99)
    }


async def run(fleet: str, single: str, file: str, crawls: int = LIMITS.crawls) -> dict[str, Any]:
    """The figures of all stores, on an empty PostgreSQL database for each of two and a SQLite file."""
    await make_fleet(fleet, LIMITS.shards, 1.0)
    stores = {
        "writer": Contestant(Worker(fleet), 1),
        "row_by_row": Contestant(Single(single), 1, row_by_row=True),
        "sqlite": Contestant(Single(f"sqlite:///{file}"), 1),
    }
    for name, one in stores.items():
        await one.open()
        if name == "row_by_row":
            await _command(single, *BEFORE)
        one.reset()
    for _ in range(-(-crawls // LIMITS.at_once)):
        for one in stores.values():
            await one.turn(min(LIMITS.at_once, crawls))
    figures = {f"{name}_{what}": value for name, one in stores.items() for what, value in one.figures().items()}
    figures |= {f"writer_{what}": value for what, value in (await stores["writer"].paced()).items()}
    figures["writer_ratio"] = round(figures["writer_crawls_per_second"] / figures["row_by_row_crawls_per_second"], 2)
    lost = sum(one.store.lost for one in stores.values())
    for one in stores.values():
        await one.store.close()
    shares = {"writer": await _heap_only_share(fleet), "row_by_row": await _heap_only_share(single)}
    return figures | {f"{name}_heap_only_share": share for name, share in shares.items()} | {"lost": lost}


async def _command(url: str, *statements: str) -> list[Any]:
    engine = writing_engine(parse_address(url))
    try:
        async with engine.begin() as connection:
            done = [await connection.execute(text(statement)) for statement in statements]
            return [list(one) if one.returns_rows else [] for one in done]
    finally:
        await engine.dispose()


async def _heap_only_share(url: str) -> float:
    """Of the updates of pages, those that touched no index; first crawls, which change the state, left out."""
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'pages'"
    ((updates, heap_only),) = (await _command(url, counted))[0]
    return round(int(heap_only) / (int(updates) - LIMITS.pages), 3)


def figures(crawls: int = LIMITS.crawls) -> dict[str, Any]:
    """Start a PostgreSQL, measure, and stop it."""
    binaries = newest_binaries()
    if binaries is None:
        raise SystemExit("there is no PostgreSQL under /usr/lib/postgresql that can be started")
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(binaries) as server,
        fresh_database(server) as fleet,
        fresh_database(server) as single,
    ):
        return asyncio.run(run(fleet, single, f"{folder}/x.db", crawls))


def main() -> None:
    """Measure and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--crawls", type=int, default=LIMITS.crawls, help="for each store")
    arguments = parser.parse_args()
    show(figures(arguments.crawls), as_json=arguments.json)


if __name__ == "__main__":
    main()
