"""Numbers that several writers give out: ids of pages and hosts by shard, and the changes' own."""

from collections.abc import Mapping
from typing import Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.shards import first_id

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
)  # whoever has seen a number relies on it: the commit waits for the disk, and for all that was committed before


async def next_ids(
    connection: AsyncConnection, kind: Literal["pages", "hosts"], counts: Mapping[int, int]
) -> dict[int, int]:
    """The first id of as many new ones as each shard needs; the others follow one by one.

    They are ours even where the transaction is rolled back and others take the same: then none of ours was written.
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
