"""Statements over many rows, as text: row by row on SQLite, for all rows at once on PostgreSQL.

SQLAlchemy's own way with parameters and results costs more than the database does when rows are counted in millions.
"""

import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy.exc
from sqlalchemy import Dialect, Select, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler

Rows = Sequence[tuple[Any, ...]]
AT_ONCE = {"postgresql"}
"""Dialects that run a statement for all rows at once."""


def storable(text: str | None) -> str | None:
    """Text that both databases take: without NUL and without lone surrogates."""
    if text is None:
        return None
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def known(number: float | None) -> float | None:
    """A number, or None where it is none or not a number: SQLite has no NaN, and PostgreSQL sorts it last."""
    return None if number is None or math.isnan(number) else number


async def run_on_sqlite(connection: AsyncConnection, sql: str, values: Rows) -> None:
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


_FIELD = re.compile(r"(?<!:):([a-z]\w*)")
_GIVEN = re.compile(r"\{(FROM|USING|,) given\}")


class ForRows:
    """A statement over rows; `columns` are the names of their fields and what PostgreSQL calls their types.

    In its text `:name` is a field of a row, and `{FROM given}`, `{USING given}` or `{, given}` stands where the rows
    are joined as a table, which SQLite, row by row, does without.
    """

    def __init__(self, columns: str, sql: str) -> None:
        self.columns = {name: kind for name, _, kind in (column.partition(" ") for column in columns.split(", "))}
        self.sql = sql

    def rows(self, documents: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        """The documents as rows."""
        return [tuple(map(document.__getitem__, self.columns)) for document in documents]

    async def run(self, connection: AsyncConnection, rows: Rows, *, each: bool = False) -> Sequence[Any]:
        """Run it; what it returns on PostgreSQL, where it returns anything.

        With `each`, IntegrityError where PostgreSQL finds no row of the database for one given: SQLite looks that up
        as a foreign key.
        """
        if not rows:
            return ()
        dialect = connection.dialect.name
        at_once = dialect in AT_ONCE
        sql = _text(self, dialect, at_once)
        if dialect == "sqlite":
            await run_on_sqlite(connection, sql, rows)
            return ()
        result = await connection.exec_driver_sql(sql, _arrays(rows) if at_once else list(rows))
        if at_once and each and result.rowcount != len(rows):
            raise _missing(sql, len(rows) - result.rowcount, len(rows))
        return result.all() if at_once and result.returns_rows else ()


@lru_cache(maxsize=512)
def _text(statement: ForRows, dialect: str, at_once: bool, before: int = 0) -> str:
    """The SQL for a dialect; its parameters are numbered from `before` on."""
    places = {name: f"${number}" for number, name in enumerate(statement.columns, start=1 + before)}
    if at_once:
        arrays = ", ".join(f"{places[name]}::{kind}[]" for name, kind in statement.columns.items())
        given = f"unnest({arrays}) AS given ({', '.join(statement.columns)})"
        return _FIELD.sub(r"given.\1", _GIVEN.sub(rf"\1 {given}", statement.sql))
    sql = _GIVEN.sub("", statement.sql)
    if dialect == "sqlite":
        return _FIELD.sub(lambda found: places[found[1]].replace("$", "?"), sql)
    return _FIELD.sub(lambda found: f"{places[found[1]]}::{statement.columns[found[1]]}", sql)


def _arrays(rows: Rows) -> tuple[list[Any], ...]:
    """The fields of the rows as columns."""
    return tuple(map(list, zip(*rows, strict=True)))


def _missing(sql: str, missing: int, given: int) -> IntegrityError:
    return IntegrityError(sql, None, LookupError(f"{missing} of {given} rows are not there"))


class Part(NamedTuple):
    """A statement with its rows; with `each`, IntegrityError where the database has no row for one of them."""

    statement: ForRows
    rows: Rows
    each: bool = False


Returned = Mapping[ForRows, Any]
"""Ids that each query found, and how many rows each other statement wrote, where rows are taken at once."""


async def run_together(connection: AsyncConnection, parts: Sequence[Part]) -> Returned:
    """Run statements of which none reads or writes a row that another writes; no two are the same.

    Where rows are taken at once the statements are sent as one: with few rows, the sending costs more than the rows.
    """
    if connection.dialect.name not in AT_ONCE:
        for part in parts:
            await part.statement.run(connection, part.rows)
        return {}
    parts = [part for part in parts if part.rows]
    if not parts:
        return {}
    sql = _together(tuple((part.statement, part.each) for part in parts))
    (told,) = (await connection.exec_driver_sql(sql, sum((_arrays(part.rows) for part in parts), ()))).all()
    for part, values in zip(parts, told, strict=True):
        if part.each and values != len(part.rows):
            raise _missing(sql, len(part.rows) - values, len(part.rows))
    return {part.statement: values for part, values in zip(parts, told, strict=True)}


@lru_cache(maxsize=256)
def _together(statements: tuple[tuple[ForRows, bool], ...]) -> str:
    """The statements as one; a row comes back, with a column for each: ids that it found, or how many rows it wrote."""
    parts: list[str] = []
    told: list[str] = []
    before = 0
    for number, (statement, each) in enumerate(statements):
        sql = _text(statement, "postgresql", True, before).strip()
        before += len(statement.columns)
        if sql.startswith("SELECT"):
            told.append(f"ARRAY(SELECT id FROM part_{number})")
        else:
            sql += " RETURNING 1 AS one"
            told.append(f"(SELECT count(*) FROM part_{number})" if each else "0")
        parts.append(f"part_{number} AS ({sql})")
    return f"WITH {', '.join(parts)} SELECT {', '.join(told)}"


# Statements that follow from a table: no two rows that are given have the same key.


def inserting(table: Table, *names: str, conflict: str = "") -> ForRows:
    """INSERT rows that have these columns, or all; `conflict` says what becomes of one that is there already."""
    names = names or tuple(table.c.keys())
    columns, fields = ", ".join(names), ", ".join(f":{name}" for name in names)
    sql = f"INSERT INTO {table.name} ({columns}) SELECT {fields} {{FROM given}} WHERE true {conflict}"
    return ForRows(", ".join(f"{name} {_kind(table, name)}" for name in names), sql)


def added_once(table: Table, *names: str) -> ForRows:
    """INSERT, unless there is a row with the same key."""
    return inserting(table, *names, conflict="ON CONFLICT DO NOTHING")


def replacing(table: Table) -> ForRows:
    """INSERT, or overwrite the row that has the same primary key."""
    return inserting(table, conflict=on_conflict(table, "excluded.{0}"))


def adding(table: Table) -> ForRows:
    """INSERT, or add every number to the row that has the same primary key."""
    return inserting(table, conflict=on_conflict(table, "{1}.{0} + excluded.{0}"))


def of_host(table: Table, merge: str = "excluded.{0}", **others: str) -> ForRows:
    """The same of rows about hosts; instead of its id a row has `host`, the host's name.

    `others` are columns that become something else where there is a row already.
    """
    names = [column.name for column in table.columns if column.name != "host_id"]
    sql = (
        f"INSERT INTO {table.name} (host_id, {', '.join(names)}) "
        f"SELECT hosts.id, {', '.join(f':{name}' for name in names)} FROM hosts {{, given}} "
        f"WHERE hosts.name = :host ORDER BY hosts.id {on_conflict(table, merge, **others)}"
    )
    return ForRows(", ".join(["host text", *(f"{name} {_kind(table, name)}" for name in names)]), sql)


def on_conflict(table: Table, merge: str, **others: str) -> str:
    """What becomes of a row that is there already: `merge` says it of the column {0} of the table {1}."""
    keys = [column.name for column in table.primary_key]
    merged = {one.name: merge.format(one.name, table.name) for one in table.columns if one.name not in keys} | others
    return f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(f'{name} = {to}' for name, to in merged.items())}"


def _kind(table: Table, name: str) -> str:
    """The type of a column as PostgreSQL calls it."""
    return table.c[name].type.compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]


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
