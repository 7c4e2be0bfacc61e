"""INSERTs that know what to do with a row that is there already, in the database's own dialect."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Insert, Select, Table, Text, bindparam, cast, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from crawld.store import tables
from crawld.store.writing.for_rows import ForRows, Given


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
