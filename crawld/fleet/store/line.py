"""A connection of the ledger's own: every wait on it is bounded, and it is opened anew after it broke."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from crawld.model.errors import StoreError
from crawld.store.address import Address
from crawld.store.engine import NO_DRIVER, in_a_sentence

SETTINGS = {
    "application_name": "crawld fleet",
    "jit": "off",  # takes longer than any of our statements
    "synchronous_commit": "on",  # a lease that a crash of the server forgets would be given out twice
}


class Line:
    """Statements one after the other, each committed by itself; none takes longer than `seconds`, opening included."""

    def __init__(self, address: Address, seconds: float) -> None:
        self._address, self._seconds = address, seconds
        self._turn = asyncio.Lock()
        self._connection: Any = None

    async def rows(self, statement: str, *values: object) -> Sequence[Mapping[str, Any]]:
        """What the statement returns; StoreError where the database is out of reach or refuses."""
        async with self._turn:
            try:
                async with asyncio.timeout(self._seconds):
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await self._open()
                    found: Sequence[Mapping[str, Any]] = await self._connection.fetch(statement, *values)
                    return found
            except TimeoutError:
                self._drop()
                shown, seconds = self._address.shown, self._seconds
                raise StoreError(f"the database {shown} did not answer within {seconds:g} s: is it alive?") from None
            except BaseException as error:
                self._drop()
                if isinstance(error, self._failures()):
                    raise in_a_sentence(error, self._address.shown) from error
                raise

    async def row(self, statement: str, *values: object) -> Mapping[str, Any] | None:
        """The first of the rows."""
        found = await self.rows(statement, *values)
        return found[0] if found else None

    async def close(self) -> None:
        """Close the connection."""
        async with self._turn:
            self._drop()

    async def _open(self) -> Any:
        import asyncpg

        _, options = self._address.url.get_dialect()().create_connect_args(self._address.url)
        limit = {"statement_timeout": str(int(self._seconds * 1000))}
        return await asyncpg.connect(**options, timeout=self._seconds, server_settings=SETTINGS | limit)

    def _drop(self) -> None:
        """Let go at once: who waits for a goodbye waits for the server."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    @staticmethod
    def _failures() -> tuple[type[Exception], ...]:
        try:
            import asyncpg
        except ModuleNotFoundError:
            raise StoreError(NO_DRIVER) from None
        # The last is raised where the server's goodbye came while nobody waited for an answer.
        return OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError
