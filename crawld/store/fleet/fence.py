"""The fence: whether the shards of a write are still ours, asked in the transaction that writes."""

from collections.abc import Mapping

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

STOPPED_WRITER = {"idle_in_transaction_session_timeout": "3000"}
"""Server settings of a connection that takes the fence, milliseconds: a worker that is stopped in the middle of a write
holds its shards' rows, and nobody could claim them until the server ends that transaction."""

_HELD = text(
    "SELECT s.id FROM fleet_shards s"
    " JOIN unnest(CAST(:shards AS integer[]), CAST(:epochs AS bigint[])) AS of_ours(id, epoch)"
    " ON s.id = of_ours.id AND s.epoch = of_ours.epoch"
    " ORDER BY s.id FOR SHARE OF s"
)


async def holding(connection: AsyncConnection, leases: Mapping[int, int]) -> set[int]:
    """Those of the shards (epochs by shard) that had no other owner since; nobody claims them until the commit."""
    if not leases:
        return set()
    found = await connection.execute(_HELD, {"shards": list(leases), "epochs": list(leases.values())})
    return set(found.scalars())
