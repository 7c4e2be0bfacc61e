"""A fleet's database opened by one of those who share it: a worker, or a command."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.errors import StoreError
from crawld.store.database import Database
from crawld.store.engine import writing_engine
from crawld.store.fleet.fence import STOPPED_WRITER, check_duty
from crawld.store.fleet.making import known_fleet
from crawld.store.fleet.scope import ShardScope
from crawld.store.lock import ADVISORY_KEY
from crawld.store.schema import check_revision, latest_revision, migrate
from crawld.store.writing.connection import WriteConnection

LONGEST_TRANSACTION_SECONDS = 20.0
"""After which the server counts as out of reach: a connection that was cut off may wait for it for ever."""


class FleetDatabase(Database):
    """It shares the lock with other workers and excludes a single daemon; it fills in how many shards there are."""

    def __init__(self, url: str, scope: ShardScope) -> None:
        super().__init__(url)
        self._scope = scope
        if self._address.file is not None:
            raise StoreError(f"a fleet needs PostgreSQL, and {self.shown} is a file: set `database`")

    def _write_connection(self) -> WriteConnection:
        engine = writing_engine(self._address, dict(STOPPED_WRITER))
        seconds = LONGEST_TRANSACTION_SECONDS
        return WriteConnection(engine, self.shown, self.damage, shared=True, seconds=seconds, check=check_duty)

    async def _prepare(self, transaction: AsyncConnection) -> None:
        """Learn what the fleet is. Tables of an older version are brought up only while nobody else uses them."""
        found = await known_fleet(transaction, self.shown)
        if await transaction.run_sync(check_revision, self.shown) != latest_revision():
            alone = await transaction.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": ADVISORY_KEY})
            if not alone:
                raise StoreError(
                    f"the database {self.shown} was written by an older crawld, and workers of it still run: "
                    "stop them, then start this one first"
                )
            await transaction.run_sync(migrate, self.shown)
        self._scope.made_of(found.shards)
