"""What is known of robots.txt over a restart."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import delete, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.page import PageState
from crawld.model.robots import RobotsState
from crawld.store import tables
from crawld.store.batch import storable
from crawld.store.id_ranges import Ranges, fetch_within, within

MOST_RESTORED = 500_000
"""Rows read at a start, the latest first: more hosts than any list has had."""
FORGOTTEN_AFTER = 30 * 86_400.0
"""Seconds after which nothing of a robots.txt that was not asked for again may be obeyed."""


def robots_row(state: RobotsState) -> dict[str, Any]:
    """The row of `robots`."""
    return asdict(state) | {"host": state.origin.partition("//")[2], "reason": storable(state.reason)}


async def read_robots(connection: AsyncConnection, ranges: Ranges | None = None) -> Sequence[RobotsState]:
    """What is known of the robots.txt of hosts that have pages, the latest last; of hosts with these ids."""
    robots, host, page = tables.robots.c, tables.hosts.c, tables.pages.c
    fields = [column for column in tables.robots.columns if column.name != "host"]
    has_pages = exists().where(page.host_id == host.id, page.state != PageState.RETIRED.value)
    query = (
        select(*fields)
        .join_from(tables.robots, tables.hosts, host.name == robots.host)
        .where(has_pages)
        .order_by(robots.fresh_until.desc())
        .limit(MOST_RESTORED)
    )
    if ranges is None:
        rows = (await connection.execute(query)).all()
        return [RobotsState(**row._mapping) for row in reversed(rows)]
    names = [column.name for column in fields]
    found = await fetch_within(connection, query.where(within(host.id)), ranges)
    states = [RobotsState(**dict(zip(names, row, strict=True))) for row in found]
    return sorted(states, key=lambda state: state.fresh_until)


async def forget_old_robots(connection: AsyncConnection, now: float, limit: int) -> int:
    """Delete some of what is long past; how many rows went."""
    robots = tables.robots.c
    old = select(robots.origin).where(robots.fresh_until < now - FORGOTTEN_AFTER).limit(limit)
    return int((await connection.execute(delete(tables.robots).where(robots.origin.in_(old)))).rowcount)
