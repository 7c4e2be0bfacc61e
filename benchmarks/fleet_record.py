"""The record of a drill in its database: which worker held which shard when, and when each crawl was committed.

The moments are those of the commits themselves (`track_commit_timestamp`), so nothing depends on when somebody looked.
A trigger of the benchmark's own notes every change of a shard's owner in the transaction that makes it.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from tests.support.fleet_log import Owned, Recorded

OPTIONS = (
    "-c track_commit_timestamp=on",
    "-c shared_buffers=256MB",
    "-c shared_preload_libraries=pg_stat_statements",
    "-c pg_stat_statements.track_utility=on",
)
"""Settings that the server must be started with."""
SETTLE_SECONDS = 900.0
"""In which a fleet with many pages must have begun, or be whole again."""
NOTE_OWNERS = """
CREATE TABLE drill_owners (shard bigint NOT NULL, epoch bigint NOT NULL, worker text);
CREATE FUNCTION drill_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO drill_owners SELECT NEW.id, NEW.epoch, (SELECT name FROM fleet_workers WHERE id = NEW.worker);
    RETURN NULL;
END $$;
CREATE TRIGGER drill_note AFTER UPDATE ON fleet_shards FOR EACH ROW
    WHEN (OLD.epoch IS DISTINCT FROM NEW.epoch OR OLD.worker IS DISTINCT FROM NEW.worker)
    EXECUTE FUNCTION drill_note();
"""
OWNERS = "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::float, shard, epoch, worker FROM drill_owners"
CRAWLS = """
SELECT crawls.at, pages.url, extract(epoch FROM pg_xact_commit_timestamp(crawls.xmin))::float
FROM crawls JOIN pages ON pages.id = crawls.page_id
"""
COMMITTED = """
SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float FROM changes WHERE id BETWEEN $1 AND $2
"""
COPIES = """
WITH numbered AS (
    SELECT id >> 40 AS shard, row_number() OVER (PARTITION BY id >> 40) - 1 AS place, * FROM pages
), made AS (
    INSERT INTO pages (id, url, host_id, importance, state, origin, added_at)
    SELECT (shard << 40) + fleet_ids.pages + place * $1 + copy, replace(url, '?', '-' || copy || '?'), host_id,
        importance, state, origin, added_at
    FROM numbered JOIN fleet_ids USING (shard), generate_series(1, $1::bigint) AS copy RETURNING id
)
UPDATE fleet_ids SET pages = pages + n FROM (SELECT id >> 40 AS shard, count(*) AS n FROM made GROUP BY 1) AS counted
WHERE counted.shard = fleet_ids.shard
"""
CRAWLED = """
UPDATE pages SET state = 'live', first_success = at, last_success = at, last_attempt = at
FROM (SELECT id, extract(epoch FROM clock_timestamp()) - 86400 * random() AS at FROM pages) AS drawn
WHERE drawn.id = pages.id
"""
PAGES = "SELECT count(*) FROM pages WHERE state != 'retired'"
HELD = """
SELECT fleet_workers.name, count(*) FROM fleet_shards JOIN fleet_workers ON fleet_workers.id = fleet_shards.worker
WHERE fleet_workers.ended_at IS NULL AND fleet_workers.expires > extract(epoch FROM clock_timestamp()) GROUP BY 1
"""
SIZES = """
SELECT relname, pg_total_relation_size(oid)::bigint FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
STATEMENTS = """
SELECT calls, total_exec_time::float AS milliseconds, rows, left(query, 300) AS query FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY total_exec_time DESC
"""
GROWING = ("crawls", "changes", "signals", "bodies", "versions", "deliveries")
"""Tables that grow with what is done, not with how many pages there are."""


async def prepare(database: str, copies: int) -> None:
    """Let every page have been crawled some time of the day before, and note every change of a shard's owner.

    Each page gets so many copies under other URLs, which is quicker than to import them all. Pages that were never
    crawled come before all others: a large fleet would be busy for hours with the first of them.
    """
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(COPIES, copies)
        await connection.execute(CRAWLED)
        await connection.execute("VACUUM ANALYZE pages")
        await connection.execute(NOTE_OWNERS)
    finally:
        await connection.close()


async def until_settled(
    database: str, names: Sequence[str], shards: int, pages: int, check: Callable[[], None] = lambda: None
) -> None:
    """Wait until these workers hold all shards and every page is known; `check` raises where that cannot be."""
    async with asyncio.timeout(SETTLE_SECONDS):
        while True:
            check()
            connection = await asyncpg.connect(database)
            try:
                held = dict(await connection.fetch(HELD))
                known = await connection.fetchval(PAGES)
            finally:
                await connection.close()
            if set(held) == set(names) and sum(held.values()) == shards and known >= pages:
                return
            await asyncio.sleep(0.5)


async def read(database: str) -> tuple[list[Owned], list[Recorded]]:
    """The owners of shards and the crawls, with the moments of their commits on the monotonic clock."""
    ahead = time.time() - time.monotonic()
    connection = await asyncpg.connect(database)
    try:
        owners = await connection.fetch(OWNERS)
        crawls = await connection.fetch(CRAWLS)
    finally:
        await connection.close()
    return (
        [Owned(at - ahead, shard, epoch, worker) for at, shard, epoch, worker in owners],
        [Recorded(at - ahead, url, committed - ahead) for at, url, committed in crawls],
    )


@dataclass(frozen=True, slots=True)
class Spent:
    """Resources that the server has spent so far."""

    processor: dict[str, float]  # seconds of its processes that live, by what they do
    crawls: int
    commits: int


async def spent(connection: asyncpg.Connection) -> Spent:
    """Processor time of all processes of the server but this connection's, and what was written meanwhile."""
    own = await connection.fetchval("SELECT pg_backend_pid()")
    parent = _parent(own)
    assert parent is not None
    rows = await connection.fetch("SELECT pid, backend_type, application_name FROM pg_stat_activity")
    names = {pid: name if kind == "client backend" else "server" for pid, kind, name in rows}
    processor: dict[str, float] = defaultdict(float)
    for pid in [parent, *(pid for pid in _processes() if pid != own and _parent(pid) == parent)]:
        processor[names.get(pid, "server")] += _processor_seconds(pid)
    crawls = await connection.fetchval("SELECT count(*) FROM crawls")
    commits = await connection.fetchval("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
    return Spent(processor, crawls, commits)


def _processes() -> list[int]:
    return [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _processor_seconds(pid: int | None) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


async def bytes_each(database: str) -> dict[str, Any]:
    """Disk space of a page and of a crawl, indexes included."""
    connection = await asyncpg.connect(database)
    try:
        sizes = dict(await connection.fetch(SIZES))
        pages, crawls = [await connection.fetchval(f"SELECT count(*) FROM {name}") for name in ("pages", "crawls")]
    finally:
        await connection.close()
    steady = sum(size for name, size in sizes.items() if not name.startswith(GROWING))
    return {
        "bytes_per_page": steady // max(1, pages),
        "bytes_per_crawl": sizes["crawls"] // max(1, crawls),
        "megabytes": {name: size >> 20 for name, size in sizes.items() if size >> 20},
    }
