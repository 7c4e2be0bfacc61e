"""Making a database a fleet's: its tables, one row that says so, its shards and its counters."""

from dataclasses import dataclass

from sqlalchemy import ColumnClause, Connection, func, insert, inspect, literal_column, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.fleet.store import tables
from crawld.fleet.store.ids import CHANGES
from crawld.model.errors import StoreError
from crawld.model.shards import MOST_SHARDS
from crawld.store import tables as of_pages
from crawld.store.address import parse_address
from crawld.store.engine import in_a_sentence, writing_engine
from crawld.store.lock import lock_postgres
from crawld.store.schema import migrate

_NOW: ColumnClause[float] = literal_column("extract(epoch FROM clock_timestamp())::float8")


@dataclass(frozen=True, slots=True)
class FleetRow:
    """What a fleet was made with."""

    shards: int
    bandwidth: float
    made_at: float


async def make_fleet(url: str, shards: int, bandwidth: float) -> bool:
    """Make an empty PostgreSQL database a fleet's; False where it is one already, with as many shards.

    StoreError where it has pages of a single daemon, or another number of shards.
    """
    address = parse_address(url)
    if address.file is not None:
        raise StoreError(f"a fleet needs PostgreSQL, and {address.shown} is a file: write postgresql://USER@HOST/NAME")
    if not 1 <= shards <= MOST_SHARDS:
        raise StoreError(f"{shards} shards: a fleet has 1 to {MOST_SHARDS}")
    engine = writing_engine(address)
    try:
        async with engine.connect() as connection:
            known = await fleet_row(connection)
            if known is None:
                await connection.rollback()
                await lock_postgres(connection, address.shown)
                async with connection.begin():
                    await connection.run_sync(migrate, address.shown)
                    await _make(connection, address.shown, shards, bandwidth)
                return True
            if known.shards != shards:
                raise StoreError(
                    f"the fleet of {address.shown} has {known.shards} shards, and their number is fixed: "
                    f"make another database for {shards}"
                )
            return False
    except (SQLAlchemyError, OSError) as error:
        raise in_a_sentence(error, address.shown) from error
    finally:
        await engine.dispose()


async def fleet_row(connection: AsyncConnection) -> FleetRow | None:
    """What the database's fleet was made with; None where it is no fleet's."""
    if connection.dialect.name != "postgresql" or not await connection.run_sync(_has_table):
        return None
    found = (await connection.execute(select(tables.fleet))).first()
    return None if found is None else FleetRow(found.shards, found.bandwidth, found.made_at)


async def known_fleet(connection: AsyncConnection, shown: str) -> FleetRow:
    """The same; StoreError where it is no fleet's."""
    found = await fleet_row(connection)
    if found is None:
        raise no_fleet(shown)
    return found


def no_fleet(shown: str) -> StoreError:
    """That a database is no fleet's, and what makes it one."""
    return StoreError(f"the database {shown} is no fleet's: `crawld fleet init` makes it one")


def _has_table(connection: Connection) -> bool:
    return inspect(connection).has_table(tables.fleet.name)


async def _make(connection: AsyncConnection, shown: str, shards: int, bandwidth: float) -> None:
    for table in (of_pages.pages, of_pages.hosts):
        if (await connection.execute(select(table.c.id).limit(1))).first() is not None:
            raise StoreError(f"the database {shown} holds {table.name} of a single crawld: give the fleet an empty one")
    await fleet_rows(connection, shards, bandwidth)


async def fleet_rows(connection: AsyncConnection, shards: int, bandwidth: float) -> None:
    """Write what makes a database a fleet's; changes are numbered on from the last one that is there."""
    await connection.execute(insert(tables.fleet).values(id=1, shards=shards, bandwidth=bandwidth, made_at=_NOW))
    numbers = range(shards)
    await connection.execute(insert(tables.shards), [{"id": number} for number in numbers])
    await connection.execute(insert(tables.ids), [{"shard": number} for number in numbers])
    last = await connection.scalar(select(func.coalesce(func.max(of_pages.changes.c.id), 0)))
    await connection.execute(insert(tables.counters).values(name=CHANGES, value=last))
