"""Statements that are run for many rows: row by row on SQLite, for all of them at once on PostgreSQL.

There the rows go as one array a column and the statement reads them as a table. That costs the server half of what a
statement a row costs, and as everything is sent at once, a client that is stopped meanwhile leaves no statement half
done: the server ends its transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Dialect, Executable, Table, bindparam, column, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from crawld.store.bulk import run_on_sqlite

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

        With `each`, IntegrityError where PostgreSQL finds no row of the database for one of ours: SQLite looks that up
        as a foreign key.
        """
        if not rows:
            return ()
        dialect = connection.dialect
        at_once = dialect.name in AT_ONCE
        sql, constants, pick = _compiled(self, dialect, at_once)
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
def _compiled(
    statement: ForRows,
    dialect: Dialect,
    at_once: bool,
) -> tuple[str, tuple[Any, ...], Callable[[tuple[Any, ...]], tuple[Any, ...]] | None]:
    """The SQL, the constants that follow a row's fields, and what brings both into the order of the parameters."""
    columns = {f"b_{name}": kind for name, kind in statement.columns.items()}
    seen = _table_of(columns) if at_once else [bindparam(name, type_=kind) for name, kind in columns.items()]
    given = Given(dict(zip(statement.columns, seen, strict=True)), dialect=dialect.name, at_once=at_once)
    built: Any = statement.build(given)
    compiled: SQLCompiler = built.compile(dialect=dialect)
    asked = compiled.positiontup or []
    constants = {name: compiled.params[name] for name in asked if name not in columns}
    places = {name: at for at, name in enumerate([*columns, *constants])}
    order = [places[name] for name in asked]
    pick = itemgetter(*order) if len(order) > 1 and order != list(range(len(places))) else None
    return str(compiled), tuple(constants.values()), pick


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
