"""Every statement a batch runs, and the parameters it runs with."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    Insert,
    Text,
    Update,
    bindparam,
    case,
    delete,
    func,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from crawld.model.host import HostState
from crawld.model.page import PageState
from crawld.store import tables
from crawld.store.batch import CRAWL, SIGNAL, Batch, FreshnessPoint, PageChange
from crawld.store.bulk import (
    AT_ONCE,
    Copying,
    ForRows,
    Given,
    Part,
    Returned,
    add_gains,
    adding_rows,
    count_polls,
    count_signals,
    put_of_host,
    replacing,
    replacing_rows,
    run,
    run_together,
)
from crawld.store.changes import BODY, GONE_AMONG, Renewed, changed_pages, gone_among, told_changes, write_changes
from crawld.store.hosts import robots_row
from crawld.store.pages import OneWriter, WriteScope, know_hosts
from crawld.store.slot_history import TICK
from crawld.store.sources import Poll
from crawld.store.tables import by_source, storable
from crawld.store.versions import compress, version_row

# What a batch does to the rows of pages: what their crawls found, and how many signals came.

_PENDING, _COUNTED = by_source("pending"), by_source("counted")
_EVERY, _SINCE_FIRST, _FLOOR, _SHIFT = map(by_source, ("every", "since_first", "floor", "shift"))
_RETIRED: ColumnElement[str] = literal_column(f"'{PageState.RETIRED.value}'")


def _counts(*names: str) -> dict[str, TypeEngine[Any]]:
    return {name: BigInteger() for name in names}


_CRAWLED: dict[str, TypeEngine[Any]] = {
    "id": BigInteger(),
    "state": Text(),
    "attempt": Double(),
    "success": Double(),
    "first": Double(),
    "change": Double(),
    "still": Boolean(),
    "gone": Double(),
    "title": Text(),
    "language": Text(),
    "content_type": Text(),
    "turned_away": Text(),
    **_counts("failures", "crawls", "changes", "failed"),
}


def _crawled(given: Given, more: dict[str, Any]) -> Update:
    """The page's row after its crawls; a page retired meanwhile stays retired."""
    page = tables.pages.c
    values: dict[str, Any] = {
        "state": case((page.state == _RETIRED, page.state), else_=given["state"]),
        "last_attempt": given["attempt"],
        "last_success": func.coalesce(given["success"], page.last_success),
        "first_success": func.coalesce(page.first_success, given["first"]),
        "last_change_at": func.coalesce(given["change"], page.last_change_at),
        "gone_since": case((given["still"], page.gone_since), else_=given["gone"]),
        "title": func.coalesce(given["title"], page.title),
        "language": func.coalesce(given["language"], page.language),
        "content_type": func.coalesce(given["content_type"], page.content_type),
        "turned_away": given["turned_away"],
        "failures": given["failures"],
        "crawls": page.crawls + given["crawls"],
        "changes": page.changes + given["changes"],
        "failed": page.failed + given["failed"],
    }
    if given.dialect == "sqlite":  # PostgreSQL finds dirty pages without an index: crawld.store.estimates
        values["dirty_since"] = func.coalesce(page.dirty_since, given["success"])
    return update(tables.pages).where(page.id == given["id"]).values(values | more)


def _signalled(given: Given) -> dict[str, Any]:
    """The counts of signals after the page's crawls, some of which answered some of them."""
    page = tables.pages.c
    values: dict[str, Any] = {}
    for i, (pending, counted) in enumerate(zip(_PENDING, _COUNTED, strict=True)):
        shifted, floor = page[pending] + given[_SHIFT[i]], given[_FLOOR[i]]
        values[pending] = case((shifted > floor, shifted), else_=floor)
        values[counted] = case(
            (given["success"].is_not(None) & page.first_success.is_(None), given[_SINCE_FIRST[i]]),
            else_=page[counted] + given[_EVERY[i]],
        )
    return values


def _count_signals(given: Given) -> Update:
    page = tables.pages.c
    values: dict[str, Any] = {}
    for every, pending, counted in zip(_EVERY, _PENDING, _COUNTED, strict=True):
        values |= {pending: page[pending] + given[every], counted: page[counted] + given[every]}
    return update(tables.pages).where(page.id == given["id"]).values(values)


UPDATE_QUIET = ForRows(_CRAWLED, lambda given: _crawled(given, {}))
"""Most crawls meet no signal, and then most of a page's columns stay as they are."""
UPDATE = ForRows(
    _CRAWLED | _counts(*_EVERY, *_SINCE_FIRST, *_FLOOR, *_SHIFT),
    lambda given: _crawled(given, _signalled(given)),
)
_ALIAS: dict[str, TypeEngine[Any]] = {"id": BigInteger(), "of": BigInteger(), "why": Text()}
ALIAS = ForRows(
    _ALIAS,
    lambda given: update(tables.pages).where(tables.pages.c.id == given["id"], tables.pages.c.state != _RETIRED)
    .values(alias_of=given["of"], alias_why=given["why"]),
)  # fmt: skip
ALIAS_OF_ALIAS = ForRows(
    _ALIAS,
    lambda given: update(tables.pages).where(tables.pages.c.alias_of == given["id"]).values(alias_of=given["of"]),
)
"""Other addresses of a page that turned out to be another address itself are addresses of the same page."""
COUNT_SIGNALS = ForRows({"id": BigInteger()} | _counts(*_EVERY), _count_signals)


def _crawl_fields(page_id: int, change: PageChange) -> tuple[Any, ...]:
    return (
        page_id,
        change.state and change.state.value,
        change.attempt,
        change.success,
        change.first_success,
        change.change,
        change.still,
        change.gone_since,
        change.title and storable(change.title),
        change.language and storable(change.language),
        change.content_type and storable(change.content_type),
        change.turned_away,
        change.failures,
        change.crawls,
        change.changes,
        change.failed,
    )


def _page_parts(batch: Batch) -> list[Part]:
    """Updates the pages of a batch, in the order of their ids: others that update several do not wait in a circle."""
    quiet, met, signalled = [], [], []
    for page_id, change in sorted(batch.pages.items()):
        signals = change.signals
        if change.state is None:
            if signals is not None:
                signalled.append((page_id, *signals.every))
        elif signals is None:
            quiet.append(_crawl_fields(page_id, change))
        else:
            counts = (*signals.every, *signals.since_first, *signals.floor, *signals.shift)
            met.append((*_crawl_fields(page_id, change), *counts))
    return [Part(UPDATE_QUIET, quiet, each=True), Part(UPDATE, met, each=True), Part(COUNT_SIGNALS, signalled)]


async def _write_aliases(connection: AsyncConnection, batch: Batch) -> None:
    aliases = [(page_id, alias.of, alias.why or None) for page_id, alias in sorted(batch.aliases.items())]
    await ALIAS.run(connection, aliases)
    await ALIAS_OF_ALIAS.run(connection, [row for row in aliases if row[1] is not None])


# What is known of hosts, by their names: written over what was known, or as a host that is new.

_FIELDS = [column for column in tables.hosts.columns if column.name != "id"]


async def put_hosts(connection: AsyncConnection, scope: WriteScope | None, hosts: Sequence[HostState]) -> None:
    """Insert hosts, or overwrite what is known of them."""
    if scope is None:
        rows = [{f"b_{key}": value for key, value in asdict(host).items()} for host in hosts]
        await run(connection, _put_host(connection.dialect.name), rows)
        return
    known = await know_hosts(connection, scope.numbering, [host.name for host in hosts])
    fields = [asdict(host) | {"id": known[host.name]} for host in hosts]
    await _UPDATE.run(connection, sorted(tuple(row[name] for name in _UPDATE.columns) for row in fields))


@lru_cache
def _put_host(dialect: str) -> Insert:
    """INSERT or overwrite a host by its name; a new one has the next free id, which the one writer takes."""
    hosts = tables.hosts
    next_id = select(func.coalesce(func.max(hosts.c.id), 0) + 1).scalar_subquery()
    origin = select(next_id, *(bindparam(f"b_{c.name}", type_=c.type) for c in _FIELDS)).where(literal(1) == 1)
    insert: Any = postgresql.insert(hosts) if dialect == "postgresql" else sqlite.insert(hosts)
    statement = insert.from_select(["id", *(c.name for c in _FIELDS)], origin)
    changes = {c.name: statement.excluded[c.name] for c in _FIELDS if c.name != "name"}
    finished: Insert = statement.on_conflict_do_update(index_elements=["name"], set_=changes)
    return finished


def _update(given: Given) -> Any:
    values = {name: value for name, value in given.items() if name != "id"}
    return update(tables.hosts).where(tables.hosts.c.id == given["id"]).values(values)


_UPDATE = ForRows({"id": tables.hosts.c.id.type} | {c.name: c.type for c in _FIELDS if c.name != "name"}, _update)


Rows = list[dict[str, Any]]

COPY_CRAWLS, COPY_SIGNALS = Copying(tables.crawls, CRAWL), Copying(tables.signals, SIGNAL)
COUNT_SIGNALS_BY_SOURCE = ForRows(
    {"id": BigInteger(), "source": Text(), "signals": BigInteger(), "stale": BigInteger()}, count_signals
)
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


async def write_new(connection: AsyncConnection, batch: Batch) -> list[Part]:
    """Copies what a batch only adds, before its transaction takes any lock (see `Copying`); the few rows left."""
    added = ((COPY_CRAWLS, batch.crawls), (COPY_SIGNALS, batch.signals))
    return [Part(copying.inserting, rows) for copying, rows in added if not await copying.run(connection, rows)]


async def write_pages(connection: AsyncConnection, batch: Batch, more: Sequence[Part]) -> tuple[Returned, Rows]:
    """Write what a batch does to pages, and more beside it; what that returned, and the changes to tell of."""
    changed = changed_pages(batch)
    at_once = connection.dialect.name in AT_ONCE  # then the pages are looked at as they are before
    gone = await gone_among(connection, changed) if changed and not at_once else set()
    versions = list(map(version_row, batch.memories.values()))
    parts = [Part(GONE_AMONG, [(page,) for page in changed] if at_once else ()), *_page_parts(batch)]
    found = await run_together(connection, [*more, *parts, Part(PUT_VERSIONS, versions)])
    return found, told_changes(batch, gone.union(found.get(GONE_AMONG, ())))


async def write(
    connection: AsyncConnection,
    batch: Batch,
    bodies: Rows,
    told: Rows,
    *,
    only_latest: bool,
    scope: WriteScope | None = None,
) -> None:
    """Run the rest of a batch inside the connection's transaction; `bodies` are its bodies, compressed.

    Rows that writers of several shards share, the counts of a day and the number of the last change, come last.
    """
    dialect = connection.dialect.name
    if batch.hosts:
        await put_hosts(connection, scope, list(batch.hosts.values()))
    if batch.robots:
        await run(connection, replacing(dialect, tables.robots), list(map(robots_row, batch.robots.values())))
    if batch.signals:
        await COUNT_SIGNALS_BY_SOURCE.run(connection, _signal_counts(batch))
    if batch.aliases:
        await _write_aliases(connection, batch)
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
    renewed = Renewed()
    if bodies:
        await renewed.read(connection, [row["page_id"] for row in bodies if row["change"] is None])
        await _make_room(connection, batch, bodies, only_latest=only_latest)
    if batch.calibration:
        await ADD_CALIBRATION.run(connection, [(*key, *counts) for key, counts in sorted(batch.calibration.items())])
    if told or bodies:
        renewed.add(told)
        await write_changes(connection, told, [_copy(row, renewed) for row in bodies], scope)
    if batch.unarchived:
        await run(connection, FORGET_EARLIER_BODIES, [{"b_page": page} for page in sorted(batch.unarchived)])


async def _make_room(connection: AsyncConnection, batch: Batch, bodies: Rows, *, only_latest: bool) -> None:
    """Delete the copies whose place new ones take."""
    if only_latest:
        await run(connection, FORGET_BODIES, [{"b_page": row["page_id"]} for row in bodies])
    else:
        await run(connection, FORGET_LATEST_BODY, [{"b_page": body.page_id} for body in batch.bodies if body.renews])


def _copy(row: dict[str, Any], renewed: Renewed) -> tuple[Any, ...]:
    brought = (None, row["change"]) if row["change"] is not None else renewed.version(row["page_id"])
    return *(row[name] for name in BODY), *brought


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
