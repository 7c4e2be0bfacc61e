"""Every statement a batch runs, and the parameters it runs with."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import BigInteger, Boolean, Double, Text, Update, bindparam, case, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.interfaces import FreshnessPoint, Poll
from crawld.model.page import PageState
from crawld.model.signal import SOURCES
from crawld.store import tables
from crawld.store.records.bodies import compress
from crawld.store.records.robots import robots_row
from crawld.store.records.slot_history import TICK
from crawld.store.records.versions import version_row
from crawld.store.tables import by_source
from crawld.store.writing.batch import Batch, PageChange
from crawld.store.writing.bulk import run
from crawld.store.writing.changes import name_versions, write_changes
from crawld.store.writing.upserts import (
    adding,
    count_polls,
    count_signals,
    know_host,
    plain,
    put_host,
    put_of_host,
    replacing,
)

Rows = list[dict[str, Any]]
_PENDING, _COUNTED = by_source("pending"), by_source("counted")


def _numbered(name: str) -> tuple[str, ...]:
    """The parameters that hold one value per source."""
    return tuple(f"{name}{i}" for i in range(len(SOURCES)))


_SIGNALS, _SINCE_FIRST, _FLOOR, _SHIFT = map(_numbered, ("b_signals", "b_since_first", "b_floor", "b_shift"))


def _update_page(*, quiet: bool) -> Update:
    """The page's row after its crawls; a page retired meanwhile stays retired. No signal touches a quiet one."""
    page = tables.pages.c
    success = bindparam("b_success", type_=Double)
    succeeded = bindparam("b_succeeded", type_=Boolean)
    values: dict[str, Any] = {
        "state": case((page.state == PageState.RETIRED.value, page.state), else_=bindparam("b_state", type_=Text)),
        "last_attempt": bindparam("b_attempt", type_=Double),
        "last_success": func.coalesce(success, page.last_success),
        "first_success": func.coalesce(page.first_success, bindparam("b_first", type_=Double)),
        "last_change_at": func.coalesce(bindparam("b_change", type_=Double), page.last_change_at),
        "gone_since": case(
            (bindparam("b_still", type_=Boolean), page.gone_since), else_=bindparam("b_gone", type_=Double)
        ),
        "dirty_since": case((succeeded, func.coalesce(page.dirty_since, success)), else_=page.dirty_since),
        "failures": bindparam("b_failures", type_=BigInteger),
        "crawls": page.crawls + bindparam("b_crawls", type_=BigInteger),
        "changes": page.changes + bindparam("b_changes", type_=BigInteger),
        "failed": page.failed + bindparam("b_failed", type_=BigInteger),
    }
    for i, (pending, counted) in enumerate(() if quiet else zip(_PENDING, _COUNTED, strict=True)):
        every = bindparam(_SIGNALS[i], type_=BigInteger)
        shifted = page[pending] + bindparam(_SHIFT[i], type_=BigInteger)
        floor = bindparam(_FLOOR[i], type_=BigInteger)
        values[pending] = case((shifted > floor, shifted), else_=floor)
        values[counted] = case(
            (succeeded & page.first_success.is_(None), bindparam(_SINCE_FIRST[i], type_=BigInteger)),
            else_=page[counted] + every,
        )
    return update(tables.pages).where(page.id == bindparam("b_id", type_=BigInteger)).values(values)


def _count_page_signals() -> Update:
    page = tables.pages.c
    values: dict[str, Any] = {}
    for i, (pending, counted) in enumerate(zip(_PENDING, _COUNTED, strict=True)):
        values[pending] = page[pending] + bindparam(_SIGNALS[i], type_=BigInteger)
        values[counted] = page[counted] + bindparam(_SIGNALS[i], type_=BigInteger)
    return update(tables.pages).where(page.id == bindparam("b_id", type_=BigInteger)).values(values)


UPDATE_PAGE, UPDATE_QUIET_PAGE = _update_page(quiet=False), _update_page(quiet=True)
COUNT_PAGE_SIGNALS = _count_page_signals()
LATEST_BODY = (
    select(func.max(tables.bodies.c.id))
    .where(tables.bodies.c.page_id == bindparam("b_page", type_=BigInteger))
    .scalar_subquery()
)
FORGET_LATEST_BODY = delete(tables.bodies).where(tables.bodies.c.id == LATEST_BODY)
FORGET_BODIES = delete(tables.bodies).where(tables.bodies.c.page_id == bindparam("b_page", type_=BigInteger))


def _crawl_parameters(page_id: int, change: PageChange) -> dict[str, Any]:
    return {
        "b_id": page_id,
        "b_state": change.state and change.state.value,
        "b_attempt": change.attempt,
        "b_success": change.success,
        "b_succeeded": change.success is not None,
        "b_first": change.first_success,
        "b_change": change.change,
        "b_still": change.still,
        "b_gone": change.gone_since,
        "b_failures": change.failures,
        "b_crawls": change.crawls,
        "b_changes": change.changes,
        "b_failed": change.failed,
    }


def _signal_parameters(page_id: int, change: PageChange) -> dict[str, Any]:
    return dict(zip(_SIGNALS, change.signals, strict=True)) | {"b_id": page_id}


def _page_parameters(page_id: int, change: PageChange) -> dict[str, Any]:
    row = _crawl_parameters(page_id, change) | _signal_parameters(page_id, change)
    row.update(zip(_SINCE_FIRST, change.since_first, strict=True))
    row.update(zip(_FLOOR, change.floor, strict=True))
    row.update(zip(_SHIFT, change.shift, strict=True))
    return row


async def write(connection: AsyncConnection, batch: Batch, bodies: Rows, *, only_latest: bool) -> None:
    """Run a batch inside the connection's transaction; `bodies` are its bodies, compressed."""
    dialect = connection.dialect.name
    if batch.hosts:
        rows = [{f"b_{key}": value for key, value in asdict(host).items()} for host in batch.hosts.values()]
        await run(connection, put_host(dialect), rows)
    if batch.robots:
        await run(connection, replacing(dialect, tables.robots), list(map(robots_row, batch.robots.values())))
    if batch.crawls:
        await run(connection, plain(tables.crawls), batch.crawls)
    if batch.signals:
        await run(connection, plain(tables.signals), batch.signals)
        await run(connection, count_signals(dialect), _signal_counts(batch))
    first_change = await write_changes(connection, batch) if batch.changes else 0
    await _update_pages(connection, batch)
    if batch.memories:
        rows = [version_row(memory) for memory in batch.memories.values()]
        await run(connection, replacing(dialect, tables.versions), rows)
    if bodies:
        await name_versions(connection, bodies, first_change)
        if only_latest:
            await run(connection, FORGET_BODIES, [{"b_page": row["page_id"]} for row in bodies])
        else:
            renewed = [{"b_page": body.page_id} for body in batch.bodies if body.renews]
            await run(connection, FORGET_LATEST_BODY, renewed)
        await run(connection, plain(tables.bodies), bodies)
    if batch.polls:
        await _write_polls(connection, batch.polls)
    if batch.frame_changes:
        rows = [{f"b_{key}": value for key, value in asdict(one).items()} for one in batch.frame_changes.values()]
        await run(connection, put_of_host(dialect, tables.frame_changes), rows)
    if batch.points:
        await _write_points(connection, batch.points.values())
    if batch.calibration:
        rows = [
            {"day": day, "bin": tenth, "crawls": crawls, "fresh": fresh, "predicted_sum": predicted}
            for (day, tenth), (crawls, fresh, predicted) in batch.calibration.items()
        ]
        await run(connection, adding(dialect, tables.calibration_days), rows)


async def _update_pages(connection: AsyncConnection, batch: Batch) -> None:
    """Most crawls meet no signal, and then most of a page's columns stay as they are."""
    crawled = [(page, change) for page, change in batch.pages.items() if change.state is not None]
    quiet = [_crawl_parameters(page, change) for page, change in crawled if change.quiet]
    await run(connection, UPDATE_QUIET_PAGE, quiet)
    await run(connection, UPDATE_PAGE, [_page_parameters(page, change) for page, change in crawled if not change.quiet])
    signalled = [item for item in batch.pages.items() if item[1].state is None and any(item[1].signals)]
    await run(connection, COUNT_PAGE_SIGNALS, [_signal_parameters(page, change) for page, change in signalled])


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


async def _write_polls(connection: AsyncConnection, polls: Sequence[Poll]) -> None:
    """Keep each file's latest state, and count its polls for its host, which may have no page and so no row."""
    dialect = connection.dialect.name
    files = {poll.file.url: poll.file for poll in polls}
    rows = [asdict(file) | {"source": file.source.value, "state": compress(file.state)} for file in files.values()]
    await run(connection, replacing(dialect, tables.sources), rows)
    await run(connection, know_host(dialect), [{"b_name": name} for name in {file.host for file in files.values()}])
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


def _signal_counts(batch: Batch) -> Rows:
    every, stale = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for row in batch.signals:
        key = (row["page_id"], row["source"])
        every[key] += 1
        stale[key] += row["stale"]
    return [
        {"b_id": page_id, "b_source": source, "b_signals": count, "b_stale": stale[page_id, source]}
        for (page_id, source), count in every.items()
    ]
