"""What became of the slots, minute by minute: summed up with age, so that no count is lost and the table is small."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Select, cast, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store import tables
from crawld.store.bulk import adding
from crawld.store.engine import floored


@dataclass(frozen=True)
class SlotHistoryLimits:
    """Numbers that bound and tune this module."""

    seconds_per_day: float = 86_400.0
    minutes_for: float = 2 * seconds_per_day  # histories have a row a minute that long,
    tens_for: float = 30 * seconds_per_day  # then one in ten minutes, then one an hour
    spans_at_once: int = 50


LIMITS = SlotHistoryLimits()


_ADD = adding(tables.slot_history)
TICK, TEN_MINUTES, HOUR = 60, 600, 3_600
"""The spans of rows: as recorded, and what they are summed up to."""


async def sum_up_slots(connection: AsyncConnection, now: float, cutoff: float) -> int:
    """Sum some old rows up and delete those before the cutoff; how many rows went."""
    row = tables.slot_history.c
    gone = await connection.execute(delete(tables.slot_history).where(row.span == HOUR, row.at < cutoff))
    deleted = int(gone.rowcount)
    for span, longer, before in (
        (TICK, TEN_MINUTES, now - LIMITS.minutes_for),
        (TEN_MINUTES, HOUR, now - LIMITS.tens_for),
    ):
        for _ in range(LIMITS.spans_at_once):
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
    await _ADD.run(connection, [(longer, begin, use, outcome, int(slots)) for use, outcome, slots in sums])
    return int((await connection.execute(delete(tables.slot_history).where(chosen))).rowcount)


def slots_since(dialect: str, since: float, bucket: float) -> Select[Any]:
    """The query for what slots were spent on since then, summed by stretches of `bucket` seconds, the oldest first."""
    row = tables.slot_history.c
    number = floored(dialect, row.at / float(bucket))
    begin = (number * float(bucket)).label("at")
    summed = cast(func.sum(row.slots), BigInteger).label("slots")
    query = select(begin, row.use, row.outcome, summed).where(row.at >= since)
    return query.group_by(number, row.use, row.outcome).order_by(number, row.use, row.outcome)
