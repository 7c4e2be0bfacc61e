"""What is kept of the hooks: their figures, and how much waits for each."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store import tables
from crawld.store.hooks_of_interfaces import HookFigures

_row, _hook = tables.deliveries.c, tables.hooks.c


async def read_figures(connection: AsyncConnection) -> dict[str, HookFigures]:
    """What became of each hook's changes so far, by name."""
    columns = (
        _hook.name, _hook.cursor, _hook.delivered, _hook.dropped, _hook.delivered_at, _hook.trouble, _hook.trouble_since
    )  # fmt: skip
    return {row.name: HookFigures(*row[1:]) for row in await connection.execute(select(*columns))}


async def read_queues(connection: AsyncConnection) -> dict[str, tuple[int, float]]:
    """How many changes wait for each hook, and since when the oldest does."""
    query = select(_row.hook, func.count(), func.min(_row.added_at)).group_by(_row.hook)
    return {hook: (int(count), float(oldest)) for hook, count, oldest in await connection.execute(query)}
