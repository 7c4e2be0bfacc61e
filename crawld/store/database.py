"""The database opened for a daemon: one connection that writes, others that read, and a lock that others respect."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import ExceptionContext, event, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.model.errors import DamagedError, StoreError
from crawld.store import tables
from crawld.store.address import check_place, keep_private, parse_address
from crawld.store.engine import as_store_error, is_damage, keep_trying, reading_engine, writing_engine
from crawld.store.lock import FileLock, lock_postgres
from crawld.store.schema import copy_before_migration, migrate

T = TypeVar("T")


class Damage:
    """Watches every statement of the engines it is given for damage.

    The first sign counts and is never taken back: nothing more is written, and waiters are told.
    """

    def __init__(self, redacted_url: str) -> None:
        self._redacted_url = redacted_url
        self._met = asyncio.Event()
        self._file: tuple[Path, int] | None = None
        self.found: DamagedError | None = None

    def watch(self, engine: AsyncEngine) -> None:
        """Look at each error that the engine raises from now on."""
        event.listen(engine.sync_engine, "handle_error", self._look)

    def watch_file(self, file: Path) -> None:
        """Remember which file the database is: one that is removed or replaced would be written to for nothing."""
        self._file = file, file.stat().st_ino

    def check(self) -> None:
        """DamagedError where damage was met, or where the file is no longer the one that was opened."""
        if self.found is None and self._file is not None:
            file, inode = self._file
            try:
                same = file.stat().st_ino == inode
            except FileNotFoundError:
                same = False
            except OSError:
                same = True  # what keeps us from looking is told by the statement that follows
            if not same:
                self.report(
                    DamagedError(f"the database {self._redacted_url} was removed or replaced while crawld used it")
                )
        if self.found is not None:
            raise self.found

    def report(self, error: DamagedError) -> None:
        """Damage was met."""
        if self.found is None:
            self.found = error
            self._met.set()

    async def wait(self) -> NoReturn:
        """Wait until damage is met, and raise it."""
        await self._met.wait()
        assert self.found is not None  # noqa: S101 - said before the event is set
        raise self.found

    def look_at(self, error: BaseException) -> None:
        """Report an error that is damage."""
        if is_damage(error):
            sentence = error if isinstance(error, DamagedError) else as_store_error(error, self._redacted_url)
            assert isinstance(sentence, DamagedError)  # noqa: S101 - decided by the same function
            self.report(sentence)

    def _look(self, context: ExceptionContext) -> None:
        if context.sqlalchemy_exception is not None:
            self.look_at(context.sqlalchemy_exception)


async def newest_change(connection: AsyncConnection) -> int:
    """The number of the newest change, 0 where there is none."""
    return int(await connection.scalar(text("SELECT max(id) FROM changes")) or 0)


async def touch_tables(connection: AsyncConnection) -> None:
    """Read the first and last row of every table: one that is missing, or has lost its root, is met at the start."""
    for table in tables.metadata.sorted_tables:
        keys = list(table.primary_key.columns) or list(table.columns)[:1]
        for order in (keys, [key.desc() for key in keys]):
            (await connection.execute(select(table).order_by(*order).limit(1))).all()


class ChangeSignal:
    """Wakes what waits for changes when some are committed."""

    def __init__(self) -> None:
        self._committed = asyncio.Event()

    def tell(self) -> None:
        """Changes were committed."""
        self._committed.set()
        self._committed = asyncio.Event()

    def next(self) -> asyncio.Event:
        """An event that is set at the next commit: take it before looking at the database."""
        return self._committed


class WriteConnection:
    """The one connection that writes: transactions take turns on it.

    It is opened again after it broke; on PostgreSQL it carries the lock that keeps other daemons out.

    With `shared`, in a fleet, it keeps out only a daemon that wants the database for itself. A transaction that takes
    longer than `seconds` is broken off. `check` runs first in each transaction and may refuse it.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        redacted_url: str,
        damage: Damage,
        *,
        shared: bool = False,
        seconds: float | None = None,
        check: Callable[[AsyncConnection], Awaitable[None]] | None = None,
    ) -> None:
        self._engine = engine
        self._redacted_url = redacted_url
        self._damage = damage
        self._shared, self._seconds, self._check = shared, seconds, check
        self._turn = asyncio.Lock()
        self._connection: AsyncConnection | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A transaction: committed at the end, rolled back by an exception."""
        async with self._turn:
            try:
                connection = await self._open()
                bounded = self._bounded(connection, self._seconds) if self._seconds is not None else nullcontext()
                async with bounded, connection.begin():
                    if self._check is not None:
                        await self._check(connection)
                    yield connection
            except BaseException as error:
                self._damage.look_at(error)  # rows go to the driver past the engine's own events
                if self._connection is not None and self._connection.invalidated:
                    await self._drop()
                raise

    @asynccontextmanager
    async def _bounded(self, connection: AsyncConnection, seconds: float) -> AsyncIterator[None]:
        """Cut the connection where the time is over: a server that is out of reach answers no rollback either."""
        driver: Any = (await connection.get_raw_connection()).driver_connection
        end = asyncio.get_running_loop().call_later(seconds, driver.terminate)
        try:
            yield
        finally:
            end.cancel()

    async def close(self) -> None:
        """Close the connection and its engine."""
        async with self._turn:
            await self._drop()
            await self._engine.dispose()

    async def _open(self) -> AsyncConnection:
        if self._connection is None:
            connection = await self._engine.connect()
            try:
                if self._engine.dialect.name == "postgresql":
                    await lock_postgres(connection, self._redacted_url, shared=self._shared)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
        return self._connection

    async def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()


_migrations: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _migrating() -> asyncio.Lock:
    """One migration at a time: Alembic keeps the one under way in module globals."""
    return _migrations.setdefault(asyncio.get_running_loop(), asyncio.Lock())


class Database:
    """Opened by `open`, which migrates it and takes the lock, and closed by `close`."""

    def __init__(self, url: str) -> None:
        self._address = parse_address(url)
        self.redacted_url = self._address.redacted_url  # where it is, without a password
        self.damage = Damage(self.redacted_url)
        self._lock: FileLock | None = None
        self._opened: tuple[WriteConnection, AsyncEngine] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since."""
        return self._opened is not None

    @property
    def writing(self) -> WriteConnection:
        """The connection that writes; StoreError where there is none, DamagedError where nothing may be written."""
        if self._opened is None:
            raise StoreError("the store is not open")
        if self.damage.found is not None:
            raise self.damage.found
        return self._opened[0]

    @property
    def reading(self) -> AsyncEngine:
        """Connections that read."""
        if self._opened is None:
            raise StoreError("the store is not open")
        return self._opened[1]

    async def read(self, work: Callable[[AsyncConnection], Awaitable[T]], seconds: float | None = None) -> T:
        """What the work returns that reads, tried again while the database does not answer, or not in time."""

        async def attempt() -> T:
            async with self.reading.connect() as connection:
                return await work(connection)

        return await keep_trying(attempt, self.redacted_url, seconds)

    async def write(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """The same of work that writes, in one transaction, in turn with the crawls."""

        async def attempt() -> T:
            async with self.writing.transaction() as connection:
                return await work(connection)

        return await keep_trying(attempt, self.redacted_url)

    async def open(self) -> None:
        """Open, migrate and lock it; StoreError in a sentence where that cannot be."""
        address = self._address
        if address.file is not None:
            check_place(address.file)
            self._lock = FileLock(address.file)
            self._lock.acquire()
        connection = self._write_connection()
        try:
            if address.file is not None:
                await asyncio.to_thread(copy_before_migration, address.file)
            async with _migrating(), connection.transaction() as transaction:
                await self._prepare(transaction)
                await touch_tables(transaction)
            if address.file is not None:
                keep_private(address.file)  # now that it is ours
            reading = reading_engine(address, beside_writer=True)
            self.damage.watch(reading)
            if address.file is not None:
                self.damage.watch_file(address.file)
            self._opened = connection, reading
        except BaseException as error:
            await connection.close()
            self._unlock()
            if isinstance(error, SQLAlchemyError | OSError):
                raise as_store_error(error, address.redacted_url) from error
            raise

    def _write_connection(self) -> WriteConnection:
        return WriteConnection(writing_engine(self._address), self.redacted_url, self.damage)

    async def _prepare(self, transaction: AsyncConnection) -> None:
        """Bring the tables up to this version; StoreError where they are a fleet's."""
        await transaction.run_sync(migrate, self.redacted_url)
        if not self._address.file and await transaction.scalar(text("SELECT EXISTS (SELECT FROM fleet)")):
            raise StoreError(f"the database {self.redacted_url} is a fleet's: `crawld fleet run` starts a worker of it")

    async def close(self) -> None:
        """Close the connections and release the lock."""
        if self._opened is None:
            return
        (connection, reading), self._opened = self._opened, None
        await reading.dispose()
        await connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
