"""The database opened for a daemon: one connection that writes, others that read, and a lock that others respect."""

import asyncio
from weakref import WeakKeyDictionary

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.errors import StoreError
from crawld.store.address import check_place, keep_private, parse_address
from crawld.store.damage import Damage, touch_tables
from crawld.store.engine import in_a_sentence, reading_engine, writing_engine
from crawld.store.lock import FileLock
from crawld.store.schema import copy_before_migration, migrate
from crawld.store.writing.connection import WriteConnection

_migrations: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _migrating() -> asyncio.Lock:
    """One migration at a time: Alembic keeps the one under way in module globals."""
    return _migrations.setdefault(asyncio.get_running_loop(), asyncio.Lock())


class Database:
    """Opened by `open`, which migrates it and takes the lock, and let go by `close`."""

    def __init__(self, url: str) -> None:
        self._address = parse_address(url)
        self.damage = Damage(self._address.shown)
        self._lock: FileLock | None = None
        self._opened: tuple[WriteConnection, AsyncEngine] | None = None

    @property
    def shown(self) -> str:
        """Where the database is, without a password."""
        return self._address.shown

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since."""
        return self._opened is not None

    @property
    def by_row(self) -> bool:
        """Whether it is SQLite: rows are written one by one, and an index of dirty pages costs little."""
        return self._address.file is not None

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
                raise in_a_sentence(error, address.shown) from error
            raise

    def _write_connection(self) -> WriteConnection:
        return WriteConnection(writing_engine(self._address), self.shown, self.damage)

    async def _prepare(self, transaction: AsyncConnection) -> None:
        """Bring the tables up to this version; StoreError where they are a fleet's."""
        await transaction.run_sync(migrate, self.shown)
        if not self._address.file and await transaction.scalar(text("SELECT EXISTS (SELECT FROM fleet)")):
            raise StoreError(f"the database {self.shown} is a fleet's: `crawld fleet run` starts a worker of it")

    async def close(self) -> None:
        """Let it go."""
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
