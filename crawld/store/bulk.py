"""Many rows at once: statements are compiled once and rows go to the driver as plain tuples.

SQLAlchemy's own way with parameters and results costs more than the database does when rows are counted in millions.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy.exc
from sqlalchemy import (
    BigInteger,
    Dialect,
    Executable,
    Insert,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    column,
    func,
    literal,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from crawld.store import tables


async def run(connection: AsyncConnection, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> None:
    """Run a statement for each of the rows, which all have the same keys; nothing for none."""
    if not rows:
        return
    sql, names, constants = _compiled(statement, connection.dialect, tuple(rows[0]))
    if len(names) == 1:
        values = [(row[names[0]],) for row in rows]
    else:
        pick = itemgetter(*names)
        values = [pick({**constants, **row}) for row in rows] if constants else [pick(row) for row in rows]
    if connection.dialect.name == "sqlite":
        await run_on_sqlite(connection, sql, values)
    else:
        await connection.exec_driver_sql(sql, values)


async def run_on_sqlite(connection: AsyncConnection, sql: str, values: list[Any]) -> None:
    """Run a statement for each row: one errand to the driver's thread instead of one each for cursor, rows and end."""
    driver: Any = (await connection.get_raw_connection()).driver_connection
    with _as_sqlalchemy(sql):
        await driver.executemany(sql, values)


async def fetch_on_sqlite(connection: AsyncConnection, sql: str, values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """The rows of a query, in one errand to the driver's thread."""
    driver: Any = (await connection.get_raw_connection()).driver_connection
    with _as_sqlalchemy(sql):
        rows: Iterable[Sequence[Any]] = await driver.execute_fetchall(sql, values)
    return rows


async def run_to_end_on_sqlite(connection: AsyncConnection, sql: str) -> None:
    """Commit, then run a statement whose rows have no columns; the driver takes the first of them for its end."""
    driver: Any = (await connection.get_raw_connection()).driver_connection
    with _as_sqlalchemy(sql):
        await driver.executescript(sql)


@contextmanager
def _as_sqlalchemy(sql: str) -> Iterator[None]:
    """Raise errors of the driver as SQLAlchemy does."""
    try:
        yield
    except sqlite3.Error as error:
        kind = getattr(sqlalchemy.exc, type(error).__name__, sqlalchemy.exc.DBAPIError)
        raise kind(sql, None, error) from error


async def fetch(
    connection: AsyncConnection, query: Select[Any], parameters: Mapping[str, Any] | None = None
) -> Sequence[Sequence[Any]]:
    """A query's rows as the driver made them; one that is asked often should be built once."""
    compiled = _compiled_query(query, connection.dialect)
    given = compiled.construct_params(dict(parameters or {}))
    values = tuple(map(given.__getitem__, compiled.positiontup or ()))
    result = await connection.exec_driver_sql(str(compiled), values)
    rows: Sequence[Sequence[Any]] = result.cursor.fetchall()
    result.close()
    return rows


@lru_cache(maxsize=16)
def _compiled_query(query: Select[Any], dialect: Dialect) -> SQLCompiler:
    return query.compile(dialect=dialect)


@lru_cache(maxsize=256)
def _compiled(
    statement: Executable, dialect: Dialect, keys: tuple[str, ...]
) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """The SQL, the names of its parameters in order, and the values of those that no row gives."""
    compiled = statement.compile(dialect=dialect, column_keys=list(keys), for_executemany=True)  # type: ignore[attr-defined]
    names = tuple(compiled.positiontup)
    return str(compiled), names, {name: compiled.params[name] for name in names if name not in keys}


# Statements that are run for many rows: row by row on SQLite, for all of them at once on PostgreSQL.

Rows = Sequence[tuple[Any, ...]]
AT_ONCE = {"postgresql"}
"""Dialects that run a statement for all rows at once."""


class Given(dict[str, Any]):
    """The values of a row as a statement sees them, by name: parameters, or columns of the table of all rows."""

    def __init__(self, values: Mapping[str, Any], *, dialect: str, at_once: bool) -> None:
        super().__init__(values)
        self.dialect, self.at_once = dialect, at_once


class ForRows:
    """A statement over the values of a row; `columns` are their names and types, in the order of the rows' fields."""

    def __init__(self, columns: Mapping[str, TypeEngine[Any]], build: Callable[[Given], Executable]) -> None:
        self.columns, self.build = dict(columns), build

    async def run(self, connection: AsyncConnection, rows: Rows, *, each: bool = False) -> Sequence[Any]:
        """Run it; what it returns on PostgreSQL, where it returns anything.

        With `each`, IntegrityError where PostgreSQL finds no row of the database for one given: SQLite looks that up
        as a foreign key.
        """
        if not rows:
            return ()
        dialect = connection.dialect
        at_once = dialect.name in AT_ONCE
        sql, constants, pick = _compiled_for_rows(self, dialect, at_once)
        if at_once:
            arrays = (*map(list, zip(*rows, strict=True)), *constants)
            result = await connection.exec_driver_sql(sql, pick(arrays) if pick else arrays)
            if each and result.rowcount != len(rows):
                missing = f"{len(rows) - result.rowcount} of {len(rows)} rows are not there"
                raise IntegrityError(sql, None, LookupError(missing))
            return result.all() if result.returns_rows else ()
        given = [(*row, *constants) for row in rows] if constants else rows
        given = list(map(pick, given)) if pick else list(given)
        if dialect.name == "sqlite":
            await run_on_sqlite(connection, sql, given)
        else:
            await connection.exec_driver_sql(sql, given)
        return ()


@lru_cache(maxsize=256)
def _compiled_for_rows(
    statement: ForRows,
    dialect: Dialect,
    at_once: bool,
) -> tuple[str, tuple[Any, ...], Callable[[tuple[Any, ...]], tuple[Any, ...]] | None]:
    """The SQL, the constants that follow a row's fields, and what brings both into the order of the parameters."""
    columns = {f"b_{name}": kind for name, kind in statement.columns.items()}
    seen = _table_of(columns) if at_once else [bindparam(name, type_=kind) for name, kind in columns.items()]
    given = Given(dict(zip(statement.columns, seen, strict=True)), dialect=dialect.name, at_once=at_once)
    return _ordered(statement.build(given), columns, dialect)


def _ordered(
    built: Any, columns: Mapping[str, TypeEngine[Any]], dialect: Dialect
) -> tuple[str, tuple[Any, ...], Callable[[tuple[Any, ...]], tuple[Any, ...]] | None]:
    compiled: SQLCompiler = built.compile(dialect=dialect)
    asked = compiled.positiontup or []
    constants = {name: compiled.params[name] for name in asked if name not in columns}
    places = {name: at for at, name in enumerate([*columns, *constants])}
    order = [places[name] for name in asked]
    pick = itemgetter(*order) if len(order) > 1 and order != list(range(len(places))) else None
    return str(compiled), tuple(constants.values()), pick


class Part(NamedTuple):
    """A statement with its rows; with `each`, IntegrityError where the database has no row for one of them."""

    statement: ForRows
    rows: Rows
    each: bool = False


Returned = Mapping[ForRows, Sequence[Any]]
"""The first column of what each statement returns."""


async def run_together(connection: AsyncConnection, parts: Sequence[Part]) -> Returned:
    """Run statements of which none reads or writes a row that another writes; no two are the same.

    Where rows are taken at once the statements are sent as one: with few rows, the sending costs more than the rows.
    """
    parts = [part for part in parts if part.rows]
    if len(parts) < 2 or connection.dialect.name not in AT_ONCE:
        return {
            part.statement: [row[0] for row in await part.statement.run(connection, part.rows, each=part.each)]
            for part in parts
        }
    statements = tuple((part.statement, part.each) for part in parts)
    sql, constants, pick = _compiled_together(statements, connection.dialect)
    arrays = (*(list(values) for part in parts for values in zip(*part.rows, strict=True)), *constants)
    (found,) = (await connection.exec_driver_sql(sql, pick(arrays) if pick else arrays)).all()
    told = {part.statement: values for part, values in zip(parts, found, strict=True)}
    for part in parts:
        if part.each and told[part.statement] != len(part.rows):
            missing = f"{len(part.rows) - told[part.statement]} of {len(part.rows)} rows are not there"
            raise IntegrityError(sql, None, LookupError(missing))
    return told


@lru_cache(maxsize=256)
def _compiled_together(
    statements: tuple[tuple[ForRows, bool], ...], dialect: Dialect
) -> tuple[str, tuple[Any, ...], Callable[[tuple[Any, ...]], tuple[Any, ...]] | None]:
    """As `_compiled_for_rows`, of several; one row comes back, with a column for each."""
    columns: dict[str, TypeEngine[Any]] = {}
    returned: list[Any] = []
    whole: list[Any] = []
    for number, (statement, each) in enumerate(statements):
        own = {f"b{number}_{name}": kind for name, kind in statement.columns.items()}
        columns |= own
        given = Given(dict(zip(statement.columns, _table_of(own), strict=True)), dialect=dialect.name, at_once=True)
        built: Any = statement.build(given)
        query = isinstance(built, Select)
        part = (built if query else built.returning(literal_column("1").label("one"))).cte(f"part_{number}")
        whole.append(part)
        if query:
            returned.append(func.array(select(part.c[0]).scalar_subquery()))
        else:
            returned.append(select(func.count()).select_from(part).scalar_subquery() if each else literal_column("0"))
    return _ordered(select(*returned).add_cte(*whole), columns, dialect)


def _table_of(columns: Mapping[str, TypeEngine[Any]]) -> list[Any]:
    """The columns of a table made of one array a column."""
    arrays = [bindparam(name, type_=ARRAY(kind)) for name, kind in columns.items()]
    rows = func.unnest(*arrays).table_valued(*(column(name, kind) for name, kind in columns.items()), name="given")
    return list(rows.render_derived().c)


def inserting(table: Table, *names: str) -> ForRows:
    """INSERT rows that have these columns, or all."""
    return ForRows(_columns(table, names), lambda given: insert_given(table, given))


def replacing_rows(table: Table) -> ForRows:
    """INSERT, or overwrite the row that has the same primary key; no two rows have the same."""
    return _merging(table, lambda _, new: new)


def adding_rows(table: Table) -> ForRows:
    """INSERT, or add every number to the row that has the same primary key; no two rows have the same."""
    return _merging(table, lambda old, new: old + new)


def _merging(table: Table, merge: Callable[[Any, Any], Any]) -> ForRows:
    keys = [one.name for one in table.primary_key]

    def build(given: Given) -> Executable:
        statement: Any = insert_given(table, given)
        merged = {name: merge(table.c[name], statement.excluded[name]) for name in given if name not in keys}
        finished: Executable = statement.on_conflict_do_update(index_elements=keys, set_=merged)
        return finished

    return ForRows(_columns(table, ()), build)


def _columns(table: Table, names: Sequence[str]) -> dict[str, TypeEngine[Any]]:
    return {name: table.c[name].type for name in names or table.c.keys()}


def insert_given(table: Table, given: Given) -> Any:
    """INSERT the values, or all rows."""
    statement = postgresql.insert(table) if given.dialect == "postgresql" else sqlite.insert(table)
    return statement.from_select(list(given), select(*given.values())) if given.at_once else statement.values(given)


# INSERTs that know what to do with a row that is there already, in the database's own dialect.


def _insert(dialect: str, table: Table) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


def _split(table: Table) -> tuple[list[str], list[str]]:
    keys = [column.name for column in table.primary_key]
    return keys, [column.name for column in table.columns if column.name not in keys]


@lru_cache
def plain(table: Table) -> Insert:
    """INSERT, one object for each table, so that it is compiled once."""
    return table.insert()


@lru_cache
def named_once(dialect: str, table: Table) -> Insert:
    """INSERT, unless there is a row of that name."""
    return _insert(dialect, table).on_conflict_do_nothing(index_elements=["name"])


@lru_cache
def added_once(dialect: str, table: Table) -> Insert:
    """INSERT, unless there is a row with the same primary key."""
    return _insert(dialect, table).on_conflict_do_nothing(index_elements=_split(table)[0])


@lru_cache
def replacing(dialect: str, table: Table) -> Insert:
    """INSERT, or overwrite the row that has the same primary key."""
    statement = _insert(dialect, table)
    keys, fields = _split(table)
    return statement.on_conflict_do_update(
        index_elements=keys, set_={name: statement.excluded[name] for name in fields}
    )  # fmt: skip


@lru_cache
def adding(dialect: str, table: Table) -> Insert:
    """INSERT, or add every number to the row that has the same primary key."""
    return _adding(_insert(dialect, table), table)


def _adding(statement: Any, table: Table) -> Insert:
    keys, numbers = _split(table)
    sums = {name: table.c[name] + statement.excluded[name] for name in numbers}
    finished: Insert = statement.on_conflict_do_update(index_elements=keys, set_=sums)
    return finished


def _counting(dialect: str, origin: Select[Any]) -> Insert:
    keys, numbers = _split(tables.signal_counts)
    return _adding(_insert(dialect, tables.signal_counts).from_select([*keys, *numbers], origin), tables.signal_counts)


def count_signals(given: Given) -> Insert:
    """Add signals to the counts of a page's host and source."""
    page = tables.pages.c
    key = page.host_id, given["source"]
    signals, stale = given["signals"], given["stale"]
    if given.at_once:  # several pages may have one host
        signals, stale = (cast(func.sum(number), BigInteger) for number in (signals, stale))
    origin = select(*key, literal(0), signals, stale, literal(0)).where(page.id == given["id"])
    return _counting(given.dialect, origin.group_by(*key).order_by(*key) if given.at_once else origin)


@lru_cache
def count_polls(dialect: str) -> Insert:
    """Add polls to the counts of a host, by its name, and source."""
    host = tables.hosts.c
    polls, events = (bindparam(name, type_=BigInteger) for name in ("b_polls", "b_events"))
    origin = select(host.id, bindparam("b_source", type_=Text), polls, literal(0), literal(0), events)
    return _counting(dialect, origin.where(host.name == bindparam("b_host", type_=Text)))


@lru_cache
def add_gains(dialect: str) -> Insert:
    """Add what signals gained to the account of a host, by its name, and source."""
    table, host = tables.signal_gains, tables.hosts.c
    names = [column.name for column in table.columns if column.name != "host_id"]
    given = [bindparam(f"b_{name}", type_=table.c[name].type) for name in names]
    origin = select(host.id, *given).where(host.name == bindparam("b_host", type_=Text))
    return _adding(_insert(dialect, table).from_select(["host_id", *names], origin), table)


@lru_cache
def put_of_host(dialect: str, table: Table) -> Insert:
    """INSERT or overwrite a row about a host, by the host's name and whatever else the row's key has."""
    host, (keys, fields) = tables.hosts.c, _split(table)
    names = [*(key for key in keys if key != "host_id"), *fields]
    given = [bindparam(f"b_{name}", type_=table.c[name].type) for name in names]
    origin = select(host.id, *given).where(host.name == bindparam("b_host", type_=Text))
    statement: Any = _insert(dialect, table).from_select(["host_id", *names], origin)
    changes = {name: statement.excluded[name] for name in fields}
    finished: Insert = statement.on_conflict_do_update(index_elements=keys, set_=changes)
    return finished


def rows_of_host(table: Table, changed: Callable[[Any], dict[str, Any]] = lambda _: {}) -> ForRows:
    """The same for many rows at once; `host` is the host's name, and no two rows have the same key.

    `changed` says what becomes of columns that the new row does not simply overwrite.
    """
    keys, fields = _split(table)
    names = [*(key for key in keys if key != "host_id"), *fields]

    def build(given: Given) -> Insert:
        origin = select(tables.hosts.c.id, *(given[name] for name in names))
        origin = origin.where(tables.hosts.c.name == given["host"]).order_by(tables.hosts.c.id)
        statement: Any = _insert(given.dialect, table).from_select(["host_id", *names], origin)
        changes = {name: statement.excluded[name] for name in fields} | changed(statement.excluded)
        finished: Insert = statement.on_conflict_do_update(index_elements=keys, set_=changes)
        return finished

    return ForRows({"host": Text(), **{name: table.c[name].type for name in names}}, build)


# Many new rows at once: by COPY on PostgreSQL, row by row on SQLite.

BY_COPY = {"postgresql"}
"""Dialects that take rows by COPY: the driver sends them as they are, without a parameter for each field."""


class Copying:
    """Copies rows into a table that have these columns.

    A client that is stopped in the middle of a COPY keeps its transaction open as long as it is stopped, and
    other clients must not have to wait for its rows and locks. So a COPY comes before a transaction takes locks.
    """

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self._table, self._columns = table.name, list(columns)
        self.inserting: ForRows = inserting(table, *columns)

    async def run(self, connection: AsyncConnection, rows: Rows) -> bool:
        """Copy the rows; False where they are to be inserted, as that costs less."""
        # Few rows cost less as one INSERT of arrays: a COPY takes several messages, and is planned each time.
        if connection.dialect.name not in BY_COPY or len(rows) < 50:
            return False
        driver: Any = (await connection.get_raw_connection()).driver_connection
        if not driver.is_in_transaction():  # the engine begins one with the first statement that it sees
            await connection.exec_driver_sql("SELECT 1")
        import asyncpg

        try:
            await driver.copy_records_to_table(self._table, records=rows, columns=self._columns)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            lost = driver.is_closed()
            if lost:
                await connection.invalidate(error)
            raise DBAPIError(f"COPY {self._table}", None, error, connection_invalidated=lost) from error
        return True
