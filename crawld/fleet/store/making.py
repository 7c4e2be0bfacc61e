"""Making a database a fleet's: its tables, one row that says so, its shards and its counters."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from sqlalchemy import (
    ColumnClause,
    Connection,
    delete,
    func,
    insert,
    inspect,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.fleet.store import tables
from crawld.model.errors import StoreError
from crawld.model.shards import MAX_SHARDS, first_id
from crawld.store import tables as of_pages
from crawld.store.address import parse_address
from crawld.store.engine import as_store_error, writing_engine
from crawld.store.lock import lock_postgres
from crawld.store.schema import migrate

# Numbers that several writers give out: ids of pages and hosts by shard, and the changes' own.

CHANGES = "changes"

_NEXT_IDS = """
WITH wanted AS (
    SELECT i.shard, w.count FROM fleet_ids i
    JOIN unnest(CAST(:shards AS integer[]), CAST(:counts AS bigint[])) AS w(shard, count) ON w.shard = i.shard
    ORDER BY i.shard FOR UPDATE OF i
)
UPDATE fleet_ids i SET {kind} = i.{kind} + wanted.count FROM wanted WHERE i.shard = wanted.shard
RETURNING i.shard, i.{kind} - wanted.count + 1
"""  # locked by rising shard: two writers with the same shards never wait for each other
_STATEMENTS = {kind: text(_NEXT_IDS.format(kind=kind)) for kind in ("pages", "hosts")}
_NEXT_NUMBERS = text(
    "UPDATE fleet_counters SET value = value + :count WHERE name = :name"
    " RETURNING value - :count + 1, set_config('synchronous_commit', 'on', true)"
)  # readers rely on a number once seen: the commit waits for the disk, and for all that was committed before


async def next_ids(
    connection: AsyncConnection, kind: Literal["pages", "hosts"], counts: Mapping[int, int]
) -> dict[int, int]:
    """The first id of as many new ones as each shard needs; the others follow one by one.

    Where the transaction is rolled back others may take the same: then none of these was written.
    """
    if not counts:
        return {}
    given = {"shards": list(counts), "counts": list(counts.values())}
    found = await connection.execute(_STATEMENTS[kind], given)
    return {shard: first_id(shard) + number for shard, number in found}


async def next_changes(connection: AsyncConnection, count: int) -> int:
    """The first of so many numbers of changes. Ask at the end of the transaction: others wait until it ends.

    So they follow each other without gaps, in the order of commits.
    """
    first: int = (await connection.execute(_NEXT_NUMBERS, {"count": count, "name": CHANGES})).one()[0]
    return first


# Messages that workers of a fleet and its steering leave for the holders of shards.


class MailKind(StrEnum):
    """Kinds of messages; see `Mail`."""

    PAGES = "pages"
    HOST = "host"
    SIGNALS = "signals"
    WEBSUB = "websub"
    REFRESH = "refresh"
    MARKS = "marks"
    TURN = "turn"


@dataclass(frozen=True, slots=True)
class Mail:
    """A message to the holder of a shard, by kind.

    PAGES: `{"ids": [..]}` came, went, or weigh otherwise: they are read again. HOST: `{"name": .., "blocked": ..,
    "delay": .., "drop_delay": ..}` was steered. SIGNALS: `{"signals": [[url, source, seen_at, claimed_at], ..]}` came
    for pages that are not the sender's. WEBSUB: a hub told the sender of `{"feed": url}`, or asked about
    `{"token": .., "query": {..}}`. REFRESH: `{"ids": [..]}` are asked for before all others. MARKS: the parts of
    pages that the operator has marked were changed, and are read again. TURN: a request of the sender leaves for
    `{"host": ..}` from `at` to `until`.
    """

    shard: int
    kind: str
    body: Mapping[str, Any]


async def leave_mail(connection: AsyncConnection, mail: Sequence[Mail]) -> None:
    """Leave messages to the holders of shards in the transaction of this connection."""
    if mail:
        rows = [{"shard": one.shard, "kind": one.kind, "body": packed(one.body)} for one in mail]
        await connection.execute(insert(tables.mail), rows)


def packed(body: Mapping[str, Any]) -> str:
    """A message's body as it is stored."""
    return json.dumps(body, separators=(",", ":"))


_NOW: ColumnClause[float] = literal_column("extract(epoch FROM clock_timestamp())::float8")


@dataclass(frozen=True, slots=True)
class FleetRow:
    """The numbers that a fleet was made with."""

    shards: int
    bandwidth: float
    made_at: float


async def make_fleet(url: str, shards: int, bandwidth: float) -> bool:
    """Make an empty PostgreSQL database a fleet's; False where it is one already, with as many shards.

    StoreError where it has pages of a single daemon, or another number of shards.
    """
    address = parse_address(url)
    if address.file is not None:
        raise StoreError(
            f"a fleet needs PostgreSQL, and {address.redacted_url} is a file: write postgresql://USER@HOST/NAME"
        )
    if not 1 <= shards <= MAX_SHARDS:
        raise StoreError(f"{shards} shards: a fleet has 1 to {MAX_SHARDS}")
    engine = writing_engine(address)
    try:
        async with engine.connect() as connection:
            known = await fleet_row(connection)
            if known is None:
                await connection.rollback()
                await lock_postgres(connection, address.redacted_url)
                async with connection.begin():
                    await connection.run_sync(migrate, address.redacted_url)
                    await _make(connection, address.redacted_url, shards, bandwidth)
                return True
            if known.shards != shards:
                raise StoreError(
                    f"the fleet of {address.redacted_url} has {known.shards} shards, and their number is fixed: "
                    f"make another database for {shards}"
                )
            return False
    except (SQLAlchemyError, OSError) as error:
        raise as_store_error(error, address.redacted_url) from error
    finally:
        await engine.dispose()


async def change_first_bandwidth(url: str, bandwidth: float, *, insist: bool) -> None:
    """Change the rate of a fleet for which none was steered; with `insist` what was steered is forgotten."""
    address = parse_address(url)
    engine = writing_engine(address)
    try:
        async with engine.begin() as connection:
            await connection.execute(update(tables.fleet).values(bandwidth=bandwidth))
            if insist:
                await connection.execute(delete(of_pages.settings).where(of_pages.settings.c.name == "bandwidth"))
    except (SQLAlchemyError, OSError) as error:
        raise as_store_error(error, address.redacted_url) from error
    finally:
        await engine.dispose()


async def fleet_row(connection: AsyncConnection) -> FleetRow | None:
    """Reads the numbers that the database's fleet was made with; None where it is no fleet's."""
    if connection.dialect.name != "postgresql" or not await connection.run_sync(_has_table):
        return None
    found = (await connection.execute(select(tables.fleet))).first()
    return None if found is None else FleetRow(found.shards, found.bandwidth, found.made_at)


async def known_fleet(connection: AsyncConnection, redacted_url: str) -> FleetRow:
    """The same; StoreError where it is no fleet's."""
    found = await fleet_row(connection)
    if found is None:
        raise no_fleet(redacted_url)
    return found


def no_fleet(redacted_url: str) -> StoreError:
    """That a database is no fleet's, and what makes it one."""
    return StoreError(f"the database {redacted_url} is no fleet's: `crawld fleet init` makes it one")


def _has_table(connection: Connection) -> bool:
    return inspect(connection).has_table(tables.fleet.name)


async def _make(connection: AsyncConnection, redacted_url: str, shards: int, bandwidth: float) -> None:
    for table in (of_pages.pages, of_pages.hosts):
        if (await connection.execute(select(table.c.id).limit(1))).first() is not None:
            raise StoreError(
                f"the database {redacted_url} holds {table.name} of a single crawld: give the fleet an empty one, and "
                "take this one over with `crawld fleet init --from`"
            )
    await fleet_rows(connection, shards, bandwidth)


async def fleet_rows(connection: AsyncConnection, shards: int, bandwidth: float) -> None:
    """Write what makes a database a fleet's; changes are numbered on from the last one that is there."""
    await connection.execute(insert(tables.fleet).values(id=1, shards=shards, bandwidth=bandwidth, made_at=_NOW))
    numbers = range(shards)
    await connection.execute(insert(tables.shards), [{"id": number} for number in numbers])
    await connection.execute(insert(tables.ids), [{"shard": number} for number in numbers])
    last = await connection.scalar(select(func.coalesce(func.max(of_pages.changes.c.id), 0)))
    await connection.execute(insert(tables.counters).values(name=CHANGES, value=last))
