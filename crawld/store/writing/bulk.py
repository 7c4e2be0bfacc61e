"""Many rows at once: statements are compiled once and rows go to the driver as plain tuples.

SQLAlchemy's own way with parameters and results costs more than the database does when rows are counted in millions.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import Any

import sqlalchemy.exc
from sqlalchemy import Dialect, Executable, Select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler


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
    values = tuple(given[name] for name in compiled.positiontup or ())
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
