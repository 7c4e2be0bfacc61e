"""A single daemon's database taken over by a fleet, and a fleet's written out for a single daemon.

Every row is copied. Pages and hosts get other ids, because those of a fleet begin with the shard; numbers of changes
stay, and so do the cursors of those who follow them. All is written in one transaction: what is interrupted leaves
nothing behind.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Boolean, Integer, Table, Update, bindparam, case, delete, func, insert, select, text, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.fleet.store import tables
from crawld.fleet.store.making import fleet_row, fleet_rows, no_fleet
from crawld.model.errors import StoreError
from crawld.model.shards import first_id, shard_of_host
from crawld.store import tables as of_pages
from crawld.store.address import Address, parse_address
from crawld.store.bulk import fetch, run_on_sqlite
from crawld.store.engine import as_store_error, reading_engine, writing_engine
from crawld.store.lock import FileLock, lock_postgres
from crawld.store.schema import WRITTEN_BY, check_readable, migrate

Ids = NDArray[np.int64]
Progress = Callable[[str, int, int], None]
"""Is told the table, how many of its rows are copied, and how many it has."""
ROWS_AT_ONCE = 20_000
OF_PAGES, OF_HOSTS = frozenset({"page_id", "alias_of"}), frozenset({"host_id"})
"""Columns that hold ids of pages, and of hosts."""


@dataclass(frozen=True, slots=True)
class NewIds:
    """Ids before, rising, and the ids that take their places."""

    before: Ids
    after: Ids

    def of(self, ids: Sequence[int | None]) -> list[int | None]:
        """The new ids of these; StoreError where one is not known."""
        known = np.fromiter((-1 if one is None else one for one in ids), np.int64, len(ids))
        place = np.minimum(np.searchsorted(self.before, known), max(len(self.before) - 1, 0))
        if len(self.before) == 0 or not bool(np.all((self.before[place] == known) | (known == -1))):
            raise StoreError("a row names a page or host that is not there: `crawld check` looks for damage")
        return [None if old == -1 else new for old, new in zip(known.tolist(), self.after[place].tolist(), strict=True)]


@dataclass(slots=True)
class IdMapping:
    """New ids of pages and hosts."""

    pages: NewIds
    hosts: NewIds
    last: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # numbers given out by shard, by kind


async def take_over(
    source: str, target: str, shards: int, bandwidth: float, told: Progress, *, insist: bool = False
) -> dict[str, int]:
    """Make an empty PostgreSQL database a fleet's with everything of a single daemon's; rows by table.

    Where a bandwidth was steered that one goes on, unless we `insist`.
    """
    if parse_address(target).file is not None:
        raise StoreError(f"a fleet needs PostgreSQL, and {parse_address(target).redacted_url} is a file")
    async with _opened(source, target) as (reading, writing):
        if await fleet_row(writing) is not None or await _holds_pages(writing):
            raise StoreError(
                f"the database {parse_address(target).redacted_url} is not empty: give the fleet one of its own"
            )
        if await fleet_row(reading) is not None:
            raise StoreError(f"the database {parse_address(source).redacted_url} is a fleet's already")
        mapping = await _sharded(reading, shards)
        copied = await _copy_all(reading, writing, mapping, told)
        await fleet_rows(writing, shards, bandwidth)
        for kind, numbers in mapping.last.items():
            given = [{"of": shard, "n": number} for shard, number in numbers.items()]
            if given:
                of = tables.ids.c.shard == bindparam("of")
                await writing.execute(update(tables.ids).where(of).values({kind: bindparam("n")}), given)
        if insist:
            await writing.execute(delete(of_pages.settings).where(of_pages.settings.c.name == "bandwidth"))
    return copied


async def write_out(source: str, target: str, told: Progress) -> dict[str, int]:
    """Write everything of a fleet's database into an empty one for a single daemon; rows by table."""
    async with _opened(source, target, fleet=True) as (reading, writing):
        row = await fleet_row(reading)
        if row is None:
            raise no_fleet(parse_address(source).redacted_url)
        if await _holds_pages(writing):
            raise StoreError(
                f"the database {parse_address(target).redacted_url} is not empty: name one that is not there yet"
            )
        copied = await _copy_all(reading, writing, await _numbered(reading), told)
        if writing.dialect.name == "sqlite":
            await writing.execute(_mark_dirty())
        setting = of_pages.settings
        # A setting that means nothing to a single daemon.
        await writing.execute(delete(setting).where(setting.c.name.in_(["list of the fleet"])))
        steered = await writing.scalar(select(setting.c.name).where(setting.c.name == "bandwidth"))
        if steered is None:
            value = {"name": "bandwidth", "value": repr(row.bandwidth), "changed_at": row.made_at}
            await writing.execute(insert(setting).values(value))
    return copied


def _mark_dirty() -> Update:
    """Earlier versions find pages that their estimates lag behind by a column; this one compares the times."""
    page, known = of_pages.pages.c, of_pages.estimates.c
    learnt = select(known.at).where(known.page_id == page.id, known.at >= page.last_success).exists()
    return update(of_pages.pages).values(dirty_since=case((learnt, None), else_=page.last_success))


@asynccontextmanager
async def _opened(
    source: str, target: str, *, fleet: bool = False
) -> AsyncIterator[tuple[AsyncConnection, AsyncConnection]]:
    """Both databases, the source at one moment of it and the target in a transaction, each ours alone.

    A fleet that is written out may go on: what it writes meanwhile is left out.
    """
    of, to = parse_address(source), parse_address(target)
    async with AsyncExitStack() as stack:
        try:
            reading = await stack.enter_async_context(_source(of, shared=fleet))
            engine = writing_engine(to)
            stack.push_async_callback(engine.dispose)
            if to.file is not None:
                lock = FileLock(to.file)
                lock.acquire()
                stack.callback(lock.release)
            writing = await stack.enter_async_context(engine.connect())
            if to.file is None:
                await lock_postgres(writing, to.redacted_url)
            async with writing.begin():
                await writing.run_sync(migrate, to.redacted_url)
                yield reading, writing
        except (SQLAlchemyError, OSError) as error:
            raise as_store_error(error, f"{of.redacted_url} or {to.redacted_url}") from error


@asynccontextmanager
async def _source(address: Address, *, shared: bool) -> AsyncIterator[AsyncConnection]:
    engine = reading_engine(address)
    lock = None
    try:
        if address.file is not None:
            lock = FileLock(address.file)
            lock.acquire()
        async with engine.connect() as connection:
            if address.file is None:
                await lock_postgres(connection, address.redacted_url, shared=shared)
                await connection.execution_options(isolation_level="REPEATABLE READ")
            await connection.run_sync(check_readable, address.redacted_url)
            yield connection
    finally:
        await engine.dispose()
        if lock is not None:
            lock.release()


async def _holds_pages(connection: AsyncConnection) -> bool:
    return (await connection.execute(select(of_pages.pages.c.id).limit(1))).first() is not None


# -- ids -------------------------------------------------------------------------------------------------------------


async def _sharded(reading: AsyncConnection, shards: int) -> IdMapping:
    """Ids that begin with the shard of the host, numbered in the order of before."""
    host, page = of_pages.hosts.c, of_pages.pages.c
    names: dict[int, str] = {row[0]: row[1] for row in await fetch(reading, select(host.id, host.name))}
    names = dict(sorted(names.items()))
    shard = {number: shard_of_host(name, shards) for number, name in names.items()}
    last: dict[str, Counter[int]] = {"hosts": Counter(), "pages": Counter()}

    def following(kind: str, of: int) -> int:
        last[kind][of] += 1
        return first_id(of) + last[kind][of]

    hosts = NewIds(_array(names), _array(following("hosts", shard[number]) for number in names))
    rows = await fetch(reading, select(page.id, page.host_id).order_by(page.id))
    before, after = [int(number) for number, _ in rows], [following("pages", shard[of]) for _, of in rows]
    for number in await _forgotten(reading):  # changes may tell of pages that are kept no longer
        before.append(number)
        after.append(following("pages", 0))
    order = np.argsort(_array(before), kind="stable")
    return IdMapping(NewIds(_array(before)[order], _array(after)[order]), hosts, last)


async def _numbered(reading: AsyncConnection) -> IdMapping:
    """Ids from 1 on."""
    found = []
    for table in (of_pages.pages, of_pages.hosts):
        rows = [number for (number,) in await fetch(reading, select(table.c.id).order_by(table.c.id))]
        if table is of_pages.pages:
            rows = sorted({*rows, *await _forgotten(reading)})
        found.append(NewIds(_array(rows), np.arange(1, len(rows) + 1)))
    return IdMapping(found[0], found[1])


async def _forgotten(reading: AsyncConnection) -> list[int]:
    """Pages that are named, as by changes and by what waits for hooks, and are not kept any more."""
    known = select(of_pages.pages.c.id)
    found: set[int] = set()
    every = (column for table in of_pages.metadata.sorted_tables for column in table.c if column.name in OF_PAGES)
    for column in (column for column in every if not column.foreign_keys):
        lost = select(column).distinct().where(column.is_not(None), column.not_in(known))
        found |= {number for (number,) in await fetch(reading, lost)}
    return sorted(found)


def _array(numbers: Any) -> Ids:
    return np.fromiter(numbers, np.int64)


# -- rows ------------------------------------------------------------------------------------------------------------


async def _copy_all(
    reading: AsyncConnection, writing: AsyncConnection, mapping: IdMapping, told: Progress
) -> dict[str, int]:
    copied: dict[str, int] = {}
    await writing.execute(delete(of_pages.settings).where(of_pages.settings.c.name == WRITTEN_BY))
    for table in of_pages.metadata.sorted_tables:
        of = int((await fetch(reading, select(func.count()).select_from(table)))[0][0])
        copied[table.name] = 0
        async for rows in _rows(reading, table):
            await _put(writing, table, _with_new_ids(table, rows, mapping))
            copied[table.name] += len(rows)
            told(table.name, copied[table.name], of)
        if copied[table.name] != of:
            raise StoreError(f"{copied[table.name]} of {of} rows of {table.name} were copied: nothing was kept")
        await _raise_sequence(writing, table)
    return copied


async def _rows(reading: AsyncConnection, table: Table) -> AsyncIterator[Sequence[Sequence[Any]]]:
    """The rows of a table, some at a time where they are numbered; the next are read while these are written."""
    keys = list(table.primary_key)
    query = select(table).order_by(*keys)
    if len(keys) > 1 or not isinstance(keys[0].type.dialect_impl(reading.dialect), Integer):
        if rows := await fetch(reading, query):
            yield rows
        return
    place = list(table.c).index(keys[0])
    query = query.where(keys[0] > bindparam("beyond", type_=keys[0].type)).limit(ROWS_AT_ONCE)
    task = asyncio.ensure_future(fetch(reading, query, {"beyond": -1}))
    while rows := await task:
        task = asyncio.ensure_future(fetch(reading, query, {"beyond": rows[-1][place]}))
        try:
            yield rows
        except BaseException:
            task.cancel()
            await asyncio.wait([task])
            raise


def _with_new_ids(table: Table, rows: Sequence[Sequence[Any]], mapping: IdMapping) -> list[tuple[Any, ...]]:
    columns: list[Any] = list(zip(*rows, strict=True))
    for at, column in enumerate(table.c):
        if column.name in OF_PAGES or (table is of_pages.pages and column.name == "id"):
            columns[at] = mapping.pages.of(columns[at])
        elif column.name in OF_HOSTS or (table is of_pages.hosts and column.name == "id"):
            columns[at] = mapping.hosts.of(columns[at])
        elif table is of_pages.documents and column.name == "indexed":  # the index of words is made anew
            columns[at] = [False] * len(rows)
        elif isinstance(column.type, Boolean):  # SQLite has numbers in their place
            columns[at] = [None if one is None else bool(one) for one in columns[at]]
    if table is of_pages.deliveries:
        names = list(table.c.keys())
        at = names.index("document")
        columns[at] = list(map(_renamed, columns[at], columns[names.index("page_id")]))
    return list(zip(*columns, strict=True))


def _renamed(document: str, page_id: int) -> str:
    """Names the page by its new id in a document that waits for a hook."""
    found = json.loads(document)
    return json.dumps(found | {"page_id": page_id}) if "page_id" in found else document


async def _put(writing: AsyncConnection, table: Table, rows: list[tuple[Any, ...]]) -> None:
    names = [column.name for column in table.c]
    if writing.dialect.name == "sqlite":
        quoted, places = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
        await run_on_sqlite(writing, f"INSERT INTO {table.name} ({quoted}) VALUES ({places})", rows)  # noqa: S608
        return
    driver: Any = (await writing.get_raw_connection()).driver_connection
    await driver.copy_records_to_table(table.name, records=rows, columns=names)


async def _raise_sequence(writing: AsyncConnection, table: Table) -> None:
    """Let the server number further rows after those that were copied."""
    if writing.dialect.name != "postgresql" or "id" not in table.c:
        return
    sequence = await writing.scalar(text("SELECT pg_get_serial_sequence(:name, 'id')"), {"name": table.name})
    if sequence is not None:
        last = select(func.max(table.c.id)).scalar_subquery()
        await writing.execute(select(func.setval(sequence, func.coalesce(last, 1), last.is_not(None))))


def named_counts(copied: Mapping[str, int]) -> dict[str, int]:
    """The rows that an operator asks about, by what they are."""
    names = defaultdict(int, copied)
    found = {name: names[name] for name in ("pages", "hosts", "crawls", "changes", "signals", "estimates", "hooks")}
    return found | {"copies": names["bodies"], "deliveries": names["deliveries"], "rows": sum(copied.values())}
