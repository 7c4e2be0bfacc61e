"""What became of the slots, minute by minute: summed up with age, so that no count is lost and the table is small."""

from typing import Any

from sqlalchemy import BigInteger, Select, cast, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store import tables
from crawld.store.bulk import adding, run

SECONDS_PER_DAY = 86_400.0
MINUTES_FOR = 2 * SECONDS_PER_DAY  # histories have a row a minute that long,
TENS_FOR = 30 * SECONDS_PER_DAY  # then one in ten minutes, then one an hour
TICK, TEN_MINUTES, HOUR = 60, 600, 3_600
"""The spans of rows: as recorded, and what they are summed up to."""
SPANS_AT_ONCE = 50


async def sum_up_slots(connection: AsyncConnection, now: float, cutoff: float) -> int:
    """Sum some old rows up and delete those before the cutoff; how many rows went."""
    row = tables.slot_history.c
    gone = await connection.execute(delete(tables.slot_history).where(row.span == HOUR, row.at < cutoff))
    deleted = int(gone.rowcount)
    for span, longer, before in ((TICK, TEN_MINUTES, now - MINUTES_FOR), (TEN_MINUTES, HOUR, now - TENS_FOR)):
        for _ in range(SPANS_AT_ONCE):
            summed = await _sum_up(connection, span, longer, before)
            deleted += summed
            if not summed:
                break
    return deleted


async def _sum_up(connection: AsyncConnection, span: int, longer: int, before: float) -> int:
    """Sum up the oldest rows of a span into one longer span, where that lies before a time; how many went."""
    row = tables.slot_history.c
    first = await connection.scalar(select(func.min(row.at)).where(row.span == span))
    if first is None:
        return 0
    begin = first // longer * longer
    if begin + longer > before:
        return 0
    chosen = (row.span == span) & (row.at < begin + longer)
    query = select(row.use, row.outcome, func.sum(row.slots)).where(chosen).group_by(row.use, row.outcome)
    sums = await connection.execute(query)
    rows = [
        {"span": longer, "at": begin, "use": use, "outcome": outcome, "slots": int(slots)}
        for use, outcome, slots in sums
    ]
    await run(connection, adding(connection.dialect.name, tables.slot_history), rows)
    return int((await connection.execute(delete(tables.slot_history).where(chosen))).rowcount)


def slots_since(dialect: str, since: float, bucket: float) -> Select[Any]:
    """The query for what slots were spent on since then, summed by stretches of `bucket` seconds, the oldest first."""
    row = tables.slot_history.c
    # PostgreSQL rounds when it casts, SQLite cuts off.
    number = row.at / float(bucket)
    number = cast(func.floor(number) if dialect == "postgresql" else number, BigInteger)
    begin = (number * float(bucket)).label("at")
    summed = cast(func.sum(row.slots), BigInteger).label("slots")
    query = select(begin, row.use, row.outcome, summed).where(row.at >= since)
    return query.group_by(number, row.use, row.outcome).order_by(number, row.use, row.outcome)
