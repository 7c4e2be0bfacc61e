"""Every statement a batch runs, and the parameters it runs with."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.interfaces import FreshnessPoint, Poll
from crawld.store import tables
from crawld.store.records.bodies import compress
from crawld.store.records.numbering import OneWriter, WriteScope, know_hosts
from crawld.store.records.robots import robots_row
from crawld.store.records.slot_history import TICK
from crawld.store.records.versions import version_row
from crawld.store.writing.batch import CRAWL, SIGNAL, Batch
from crawld.store.writing.bulk import run
from crawld.store.writing.changes import Renewed, told_changes, write_changes
from crawld.store.writing.copying import Copying
from crawld.store.writing.for_rows import ForRows, adding_rows, inserting, replacing_rows
from crawld.store.writing.hosts import put_hosts
from crawld.store.writing.page_updates import update_pages
from crawld.store.writing.upserts import add_gains, count_polls, count_signals, put_of_host, replacing

Rows = list[dict[str, Any]]

INSERT_CRAWLS, INSERT_SIGNALS = Copying(tables.crawls, CRAWL), Copying(tables.signals, SIGNAL)
COUNT_SIGNALS = ForRows(
    {"id": BigInteger(), "source": Text(), "signals": BigInteger(), "stale": BigInteger()}, count_signals
)
BODY = ("page_id", "at", "content_type", "size", "zstd")
INSERT_BODIES = inserting(tables.bodies, *BODY, "version")
PUT_VERSIONS = replacing_rows(tables.versions)
ADD_CALIBRATION = adding_rows(tables.calibration_days)
_latest = tables.bodies.alias("latest")
LATEST_BODY = (
    select(func.max(_latest.c.id)).where(_latest.c.page_id == bindparam("b_page", type_=BigInteger)).scalar_subquery()
)
FORGET_LATEST_BODY = delete(tables.bodies).where(tables.bodies.c.id == LATEST_BODY)
FORGET_EARLIER_BODIES = delete(tables.bodies).where(
    tables.bodies.c.page_id == bindparam("b_page", type_=BigInteger), tables.bodies.c.id < LATEST_BODY
)
FORGET_BODIES = delete(tables.bodies).where(tables.bodies.c.page_id == bindparam("b_page", type_=BigInteger))


async def write_new(connection: AsyncConnection, batch: Batch) -> None:
    """Insert what a batch only adds, before its transaction takes any lock: see `Copying`."""
    await INSERT_CRAWLS.run(connection, batch.crawls)
    await INSERT_SIGNALS.run(connection, batch.signals)


async def write(
    connection: AsyncConnection, batch: Batch, bodies: Rows, *, only_latest: bool, scope: WriteScope | None = None
) -> None:
    """Run the rest of a batch inside the connection's transaction; `bodies` are its bodies, compressed.

    Rows that writers of several shards share, the counts of a day and the number of the last change, come last.
    """
    dialect = connection.dialect.name
    await put_hosts(connection, scope, list(batch.hosts.values()))
    if batch.robots:
        await run(connection, replacing(dialect, tables.robots), list(map(robots_row, batch.robots.values())))
    if batch.signals:
        await COUNT_SIGNALS.run(connection, _signal_counts(batch))
    told = await told_changes(connection, batch) if batch.changes else []
    await update_pages(connection, batch)
    if batch.memories:
        await PUT_VERSIONS.run(connection, [version_row(memory) for memory in batch.memories.values()])
    if batch.polls:
        await _write_polls(connection, scope, batch.polls)
    if batch.gains:
        names = ("b_confirmed", "b_in_vain", "b_gain", "b_saved")
        gains = [
            {"b_host": host, "b_source": source, **dict(zip(names, numbers, strict=True))}
            for (host, source), numbers in sorted(batch.gains.items())
        ]
        await run(connection, add_gains(dialect), gains)
    if batch.frame_changes:
        rows = [{f"b_{key}": value for key, value in asdict(one).items()} for one in batch.frame_changes.values()]
        await run(connection, put_of_host(dialect, tables.frame_changes), rows)
    if batch.points:
        await _write_points(connection, batch.points.values())
    renewed = Renewed([row["page_id"] for row in bodies if row["change"] is None])
    await renewed.read(connection)
    if bodies:
        await _make_room(connection, batch, bodies, only_latest=only_latest)
    if batch.calibration:
        sums = sorted((*key, *counts) for key, counts in batch.calibration.items())
        await ADD_CALIBRATION.run(connection, sums)
    first = await write_changes(connection, told, scope) if told else 0
    renewed.add(told, first)
    await INSERT_BODIES.run(connection, [_body_fields(row, renewed, first) for row in bodies])
    await run(connection, FORGET_EARLIER_BODIES, [{"b_page": page} for page in sorted(batch.unarchived)])


async def _make_room(connection: AsyncConnection, batch: Batch, bodies: Rows, *, only_latest: bool) -> None:
    """Delete the copies whose place new ones take."""
    if only_latest:
        await run(connection, FORGET_BODIES, [{"b_page": row["page_id"]} for row in bodies])
    else:
        await run(connection, FORGET_LATEST_BODY, [{"b_page": body.page_id} for body in batch.bodies if body.renews])


def _body_fields(row: dict[str, Any], renewed: Renewed, first: int) -> tuple[Any, ...]:
    change = row["change"]
    version = renewed.version(row["page_id"]) if change is None else first + change
    return *(row[name] for name in BODY), version


async def _write_points(connection: AsyncConnection, points: Iterable[FreshnessPoint]) -> None:
    """Keep the freshness of some moments, and what became of the slots before each."""
    dialect, rows, spent = connection.dialect.name, [], []
    for point in points:
        row = asdict(point)
        slots = row.pop("slots")
        rows.append(row)
        spent += [
            {"span": TICK, "at": point.at, "use": use, "outcome": outcome, "slots": count}
            for (use, outcome), count in slots.items()
        ]
    await run(connection, replacing(dialect, tables.freshness_history), rows)
    await run(connection, replacing(dialect, tables.slot_history), spent)


async def _write_polls(connection: AsyncConnection, scope: WriteScope | None, polls: Sequence[Poll]) -> None:
    """Keep each file's latest state, and count its polls for its host, which may have no page and so no row."""
    dialect = connection.dialect.name
    files = {poll.file.url: poll.file for poll in polls}
    rows = [asdict(file) | {"source": file.source.value, "state": compress(file.state)} for file in files.values()]
    await run(connection, replacing(dialect, tables.sources), rows)
    numbering = OneWriter() if scope is None else scope.numbering
    await know_hosts(connection, numbering, [file.host for file in files.values()])
    counts = [
        {
            "b_host": poll.file.host,
            "b_source": poll.file.source.value,
            "b_polls": poll.polls,
            "b_events": poll.site_events,
        }
        for poll in polls
    ]
    await run(connection, count_polls(dialect), counts)


def _signal_counts(batch: Batch) -> list[tuple[int, str, int, int]]:
    every, stale = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for page_id, source, _, _, is_stale in batch.signals:
        every[page_id, source] += 1
        stale[page_id, source] += is_stale
    return [(*key, count, stale[key]) for key, count in every.items()]
