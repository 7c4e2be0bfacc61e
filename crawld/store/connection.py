"""The one connection that writes: transactions take turns on it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.store.damage import Damage
from crawld.store.lock import lock_postgres


class WriteConnection:
    """Opened once and again after it broke; on PostgreSQL it carries the lock that keeps other daemons out.

    With `shared`, in a fleet, it keeps out only a daemon that wants the database for itself. A transaction that takes
    longer than `seconds` is broken off. `check` runs first in each transaction and may refuse it.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        shown: str,
        damage: Damage,
        *,
        shared: bool = False,
        seconds: float | None = None,
        check: Callable[[AsyncConnection], Awaitable[None]] | None = None,
    ) -> None:
        self._engine = engine
        self._shown = shown
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
                async with self._bounded(connection), connection.begin():
                    if self._check is not None:
                        await self._check(connection)
                    yield connection
            except BaseException as error:
                self._damage.look_at(error)  # rows go to the driver past the engine's own events
                if self._connection is not None and self._connection.invalidated:
                    await self._drop()
                raise

    @asynccontextmanager
    async def _bounded(self, connection: AsyncConnection) -> AsyncIterator[None]:
        """Cut the connection where the time is over: a server that is out of reach answers no rollback either."""
        if self._seconds is None:
            yield
            return
        driver: Any = (await connection.get_raw_connection()).driver_connection
        end = asyncio.get_running_loop().call_later(self._seconds, driver.terminate)
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
                    await lock_postgres(connection, self._shown, shared=self._shared)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
        return self._connection

    async def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()
