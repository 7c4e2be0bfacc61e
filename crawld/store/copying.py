"""Many new rows at once: by COPY on PostgreSQL, row by row on SQLite."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store.for_rows import ForRows, Rows, inserting

BY_COPY = {"postgresql"}
"""Dialects that take rows by COPY: the driver sends them as they are, without a parameter for each field."""

MIN_COPIED = 50
"""Fewer rows cost the server less as one INSERT of arrays: a COPY takes several messages, and is planned each time."""


class Copying:
    """Inserts rows of a table that have these columns.

    A client that is stopped in the middle of a COPY keeps its transaction open as long as it is stopped: whoever else
    may need a row or a lock must not have to wait for it. So a COPY comes before a transaction takes locks.
    """

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self._table, self._columns = table.name, list(columns)
        self._inserting: ForRows = inserting(table, *columns)

    async def run(self, connection: AsyncConnection, rows: Rows) -> None:
        """Insert the rows."""
        if not rows:
            return
        if connection.dialect.name not in BY_COPY or len(rows) < MIN_COPIED:
            await self._inserting.run(connection, rows)
            return
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
