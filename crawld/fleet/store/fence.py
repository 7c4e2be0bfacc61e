"""The fence: whether the shards or the duty of a write are still ours, asked in the transaction that writes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.errors import DutyLostError
from crawld.store.bulk import ForRows

STOPPED_WRITER = {
    "idle_in_transaction_session_timeout": "3000",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "random_page_cost": "1.1",
}
"""Server settings of a connection that takes the fence. A worker that is stopped in the middle of a write holds its
shards' rows, and none could be claimed until the server ends that transaction (milliseconds). Statements over arrays
have one good plan: making it anew for each batch costs more than running it. That plan looks rows up by their keys,
also where it was made while the table was small."""


HELD = ForRows(
    "shard integer, epoch bigint",
    """SELECT fleet_shards.id FROM fleet_shards {, given}
    WHERE fleet_shards.id = :shard AND fleet_shards.epoch = :epoch
        AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
    ORDER BY fleet_shards.id FOR SHARE OF fleet_shards""",  # what is set is asked once
)
"""Those of some shards whose epochs are these, locked against claims until the transaction ends."""


async def holding(connection: AsyncConnection, leases: Mapping[int, int]) -> set[int]:
    """Those of the shards (epochs by shard) that had no other owner since; none is claimed until the commit.

    The commit does not wait for the disk unless the transaction numbers changes: a crash of the server may lose what
    was crawled in its last half second, and those pages are crawled again.
    """
    return {shard for (shard,) in await HELD.run(connection, list(leases.items()))}


@dataclass(frozen=True, slots=True)
class Term:
    """The time for which one worker has a duty."""

    duty: str
    worker: str
    epoch: int


_TERM: ContextVar[Term | None] = ContextVar("term", default=None)


@contextmanager
def fenced_by(term: Term) -> Iterator[None]:
    """Lets every transaction that is begun within, also in tasks made within, go through only during that term."""
    token = _TERM.set(term)
    try:
        yield
    finally:
        _TERM.reset(token)


async def check_duty(connection: AsyncConnection) -> None:
    """Raises DutyLostError where the term under which this runs is over; no other worker takes it until the commit."""
    term = _TERM.get()
    if term is None:
        return
    parameters = {"duty": term.duty, "worker": term.worker, "epoch": term.epoch}
    held = text("SELECT 1 FROM fleet_duties WHERE name = :duty AND worker = :worker AND epoch = :epoch FOR SHARE")
    if (await connection.execute(held, parameters)).first() is None:
        raise DutyLostError(f"another worker has the duty {term.duty} since")
