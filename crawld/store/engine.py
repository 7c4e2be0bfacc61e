"""Engines for both databases, and what a driver's error means in a sentence."""

import asyncio
import contextlib
import json
import logging
import math
import os
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Select, bindparam, cast, event, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DBAPIError, DisconnectionError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from crawld.model.access import access_refused
from crawld.model.errors import DamagedError, StoreError
from crawld.store.address import Address
from crawld.store.bulk import fetch


@dataclass(frozen=True)
class EngineLimits:
    """Numbers that bound and tune this module."""

    max_retry_seconds: float = 60.0
    max_delay_seconds: float = 5.0
    min_room: int = 2**20  # bytes; SQLite reports a disk that is nearly full in several ways
    busy_timeout_ms: int = 1_000  # the writer tries again by itself; longer waits would hide that it is stuck
    # The system caches the file: larger caches of SQLite's own made nothing faster, but memory grow for hours.
    writer_cache_kb: int = 4096
    reader_cache_kb: int = 2048
    connect_seconds: float = 5.0
    """After which a PostgreSQL that says nothing counts as out of reach."""


LIMITS = EngineLimits()


log = logging.getLogger(__name__)

T = TypeVar("T")


async def keep_trying(attempt: Callable[[], Awaitable[T]], redacted_url: str, seconds: float | None = None) -> T:
    """What the attempt returns in the end; StoreError where it cannot succeed or took too long.

    An attempt is one transaction or only reads, so nothing of a failed one is left. One that takes longer than
    `seconds` is broken off and made again.
    """
    waited, delay = 0.0, 0.05
    while True:
        try:
            async with asyncio.timeout(seconds):
                return await attempt()
        except (SQLAlchemyError, OSError) as error:
            if not is_passing(error) or waited >= LIMITS.max_retry_seconds:
                raise as_store_error(error, redacted_url) from error
            log.warning("the store does not answer, retrying: %s", getattr(error, "orig", None) or error)
        await asyncio.sleep(delay)
        waited, delay = waited + delay, min(2 * delay, LIMITS.max_delay_seconds)


# `WHERE column IN (thousands of values)` as one parameter, on both databases.


def among(dialect: str, column: Column[Any], values: Sequence[Any]) -> tuple[ColumnElement[bool], dict[str, Any]]:
    """The condition and its parameter; ids and texts alike."""
    return chosen(dialect, column), choice(dialect, values)


def chosen(dialect: str, column: Column[Any]) -> ColumnElement[bool]:
    """The condition alone, for a query that is built once."""
    if dialect == "postgresql":
        return column == func.any(bindparam("chosen", type_=ARRAY(column.type)))
    return column.in_(select(func.json_each(bindparam("chosen")).table_valued("value").c.value))


def choice(dialect: str, values: Sequence[Any]) -> dict[str, Any]:
    """The condition's parameter."""
    return {"chosen": list(values) if dialect == "postgresql" else json.dumps(values, ensure_ascii=False)}


def floored(dialect: str, number: ColumnElement[Any]) -> ColumnElement[int]:
    """The number without its fraction: PostgreSQL rounds when it casts, SQLite cuts off."""
    return cast(func.floor(number) if dialect == "postgresql" else number, BigInteger)


# Reads of some shards: every id of a shard lies in one range, so each is a range scan of a primary key.

Ranges = Sequence[tuple[int, int]]
"""Ids from the first of each pair on, up to the second, which is not among them."""


def within(key: Any) -> ColumnElement[bool]:
    """The condition that an id lies in a range, for a query that is built once."""
    first, end = bindparam("range_first", type_=BigInteger), bindparam("range_end", type_=BigInteger)
    condition: ColumnElement[bool] = (key >= first) & (key < end)
    return condition


async def fetch_within(connection: AsyncConnection, query: Select[Any], ranges: Ranges) -> list[Sequence[Any]]:
    """The rows of a query that has the condition `within`, of all ranges in their order."""
    found: list[Sequence[Any]] = []
    for first, end in ranges:
        found += await fetch(connection, query, {"range_first": first, "range_end": end})
    return found


NO_DRIVER = "PostgreSQL needs the driver asyncpg: pip install 'crawld[postgres]'"


def writing_engine(address: Address, server_settings: dict[str, str] | None = None) -> AsyncEngine:
    """An engine of one connection, for the one writer; PostgreSQL may be given settings of the connection."""
    if address.file is None:
        return _postgres(address, {"application_name": "crawld write"} | (server_settings or {}), pool_size=1)
    engine = create_async_engine(address.url, pool_size=1, max_overflow=0)
    _begin_ourselves(engine)
    _prepare_sqlite(
        engine,
        (
            "auto_vacuum=INCREMENTAL",  # must come before the first page is written
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
            f"busy_timeout={LIMITS.busy_timeout_ms}",
            "journal_size_limit=67108864",
            f"cache_size=-{LIMITS.writer_cache_kb}",
        ),
    )
    return engine


def reading_engine(address: Address, *, beside_writer: bool = False) -> AsyncEngine:
    """An engine that cannot write, and on SQLite neither creates the file nor leaves any beside it.

    Each statement stands alone: a transaction around a single SELECT would cost more than the SELECT.
    """
    if address.file is None:
        alone = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True}
        settings = {"default_transaction_read_only": "on", "application_name": "crawld read"}
        return _postgres(address, settings, pool_size=2, **alone)
    try:
        found = address.file.is_file()
    except PermissionError:
        raise access_refused(address.file) from None
    if not found:
        where = "start the daemon, go to the directory where it runs, or change `database`"
        raise StoreError(f"there is no database at {address.file}: {where}")
    if not os.access(address.file, os.R_OK):
        raise access_refused(address.file)
    # Without a log beside it no process has the file open; opened plainly, SQLite would leave an empty log behind.
    quiet = not beside_writer and not address.file.with_name(address.file.name + "-wal").exists()
    query = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if quiet else {})
    url = address.url.set(database=address.file.as_uri(), query=query)
    engine = create_async_engine(
        url, pool_size=2, max_overflow=2, isolation_level="AUTOCOMMIT", skip_autocommit_rollback=True
    )
    _prepare_sqlite(
        engine, ("query_only=ON", f"busy_timeout={LIMITS.busy_timeout_ms}", f"cache_size=-{LIMITS.reader_cache_kb}")
    )
    return engine


def _postgres(address: Address, server_settings: dict[str, str], **options: Any) -> AsyncEngine:
    arguments = {"server_settings": server_settings, "timeout": LIMITS.connect_seconds}
    try:
        engine = create_async_engine(address.url, max_overflow=0, connect_args=arguments, **options)
    except ModuleNotFoundError:
        raise StoreError(NO_DRIVER) from None

    def on_checkout(connection: Any, _record: object, _proxy: object) -> None:
        """Have another connection opened for one that the server has closed; asking it would cost a statement."""
        if connection.driver_connection.is_closed():
            raise DisconnectionError

    event.listen(engine.sync_engine, "checkout", on_checkout)
    return engine


def _prepare_sqlite(engine: AsyncEngine, pragmas: tuple[str, ...]) -> None:
    def on_connect(dbapi_connection: Any, _record: object) -> None:
        cursor = dbapi_connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.execute("SELECT name FROM pragma_function_list WHERE name IN ('exp', 'ln')")
        present = {name for (name,) in cursor.fetchall()}
        cursor.close()
        for name, function in (("exp", math.exp), ("ln", math.log)):  # for the views; some builds come without
            if name not in present:
                dbapi_connection.create_function(name, 1, function, deterministic=True)

    event.listen(engine.sync_engine, "connect", on_connect)


def _begin_ourselves(engine: AsyncEngine) -> None:
    """Take the write lock at the beginning, and let transactions hold DDL too, which the driver by itself does not."""

    def on_connect(dbapi_connection: Any, _record: object) -> None:
        dbapi_connection.isolation_level = None

    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def on_invalidate(dbapi_connection: Any, _record: object, _error: object) -> None:
        """Roll back before the connection is closed.

        A cancelled statement invalidates its connection, and SQLite keeps a closed connection's transaction, with its
        lock on the file, until the last cursor is collected: meanwhile no other connection could write.
        """
        with contextlib.suppress(asyncio.CancelledError):  # what invalidates it is raised in any case
            dbapi_connection.rollback()

    event.listen(engine.sync_engine, "connect", on_connect)
    event.listen(engine.sync_engine, "begin", on_begin)
    event.listen(engine.sync_engine, "invalidate", on_invalidate)


def is_damage(error: BaseException) -> bool:
    """Whether the database itself is broken: pages that are no b-tree, a table or column that is missing."""
    if isinstance(error, DamagedError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}:
        return True
    # PostgreSQL: corrupted data or index, a file of the server, a table or a column that is missing.
    state = str(getattr(error.orig, "sqlstate", None) or "")
    if state in {"XX001", "XX002", "58P01", "42P01", "42703"}:
        return True
    # SQLite says a missing table as a plain error, and a driver may hand on the words without the code.
    signs = ("malformed", "not a database", "no such table", "no such column", "has no column named")
    return any(sign in str(error.orig) for sign in signs)


def is_passing(error: BaseException) -> bool:
    """Whether the same statement may succeed later: locked, full, or out of reach, rather than wrong or damaged."""
    if is_damage(error):
        return False
    if isinstance(error, OSError | StoreError):  # a lost connection whose lock another daemon took is a StoreError
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
        return "no such" not in str(error.orig)
    state = str(getattr(error.orig, "sqlstate", None) or "")
    return state[:2] in {"08", "40", "53", "55", "57", "58"}


def as_store_error(error: BaseException, redacted_url: str) -> StoreError:
    """Returns a driver's error in the operator's words, with what to do; DamagedError where it is damage."""
    kind = DamagedError if is_damage(error) else StoreError
    said = str(getattr(error, "orig", None) or error).strip()
    if said in {"disk I/O error", "unable to open database file"} and _is_full(redacted_url):
        said = f"No space left: {said}"
    known = (
        ("not a database", f"{redacted_url} is not a SQLite database: move it away, or change `database`"),
        ("malformed", f"the database {redacted_url} is damaged: restore it from a backup, or try sqlite3's .recover"),
        ("is full", f"the disk of the database {redacted_url} is full: free some space"),
        ("No space left", f"the disk of the database {redacted_url} is full: free some space"),
        ("is locked", f"the database {redacted_url} is locked by another program: close it"),
        ("readonly database", f"the database {redacted_url} is not writable: give crawld's user the right to write it"),
        ("disk I/O error", f"the disk of the database {redacted_url} fails: look into the system's log"),
        ("unable to open", f"the database {redacted_url} cannot be opened: check the path and its rights"),
        ('database "', f"{redacted_url}: {said}; create it, or change `database`"),
        ("onnect call failed", f"no PostgreSQL answers at {redacted_url}: start it, or change `database`"),
    )
    for needle, sentence in known:
        if needle in said:
            return kind(sentence)
    if isinstance(error, TimeoutError):
        return StoreError(f"no PostgreSQL answers at {redacted_url}: start it, or change `database`")
    if kind is DamagedError:
        return DamagedError(f"the database {redacted_url} is damaged ({said}): restore it from a backup")
    return StoreError(f"the database {redacted_url} cannot be used: {type(error).__name__}: {said}")


def _is_full(redacted_url: str) -> bool:
    """Whether the file system of a SQLite file has no room left, for bytes or for files."""
    try:
        room = os.statvfs(os.path.dirname(redacted_url))
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < LIMITS.min_room or (room.f_files > 0 and room.f_favail == 0)
