"""What is remembered of hosts: read at a start, and forgotten of hosts that turned up once."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.fetched import RobotsState
from crawld.model.host import HostState
from crawld.model.page import PageState
from crawld.store import tables
from crawld.store.bulk import fetch, replacing, storable
from crawld.store.engine import Ranges, among, fetch_within, within


@dataclass(frozen=True)
class HostsLimits:
    """Numbers that bound and tune this module."""

    max_restored: int = 500_000
    """Rows read at a start, the latest first: more hosts than any list has had."""
    forgotten_after: float = 30 * 86_400.0
    """Seconds after which nothing of a robots.txt that was not asked for again may be obeyed."""


LIMITS = HostsLimits()


# What is known of robots.txt over a restart.


PUT_ROBOTS = replacing(tables.robots)


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
        .limit(LIMITS.max_restored)
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
    old = select(robots.origin).where(robots.fresh_until < now - LIMITS.forgotten_after).limit(limit)
    return int((await connection.execute(delete(tables.robots).where(robots.origin.in_(old)))).rowcount)


OF_A_HOST = (tables.signal_counts, tables.signal_trust, tables.signal_gains, tables.age_curves, tables.frame_changes)


_FIELDS = [column for column in tables.hosts.columns if column.name != "id"]
_NAMES = [column.name for column in _FIELDS]


async def read_hosts(connection: AsyncConnection, now: float, ranges: Ranges | None = None) -> Sequence[HostState]:
    """What is remembered of hosts that have pages, and of others of which something still matters."""
    query = select(*_FIELDS).where(or_(_has_pages(), _matters(now))).order_by(tables.hosts.c.id)
    if ranges is None:
        rows = await fetch(connection, query)
    else:
        rows = await fetch_within(connection, query.where(within(tables.hosts.c.id)), ranges)
    return await asyncio.to_thread(lambda: [HostState(**dict(zip(_NAMES, row, strict=True))) for row in rows])


async def read_hosts_named(connection: AsyncConnection, names: Sequence[str]) -> Sequence[HostState]:
    """What is remembered of these hosts."""
    chosen, parameters = among(connection.dialect.name, tables.hosts.c.name, names)
    rows = await connection.execute(select(*_FIELDS).where(chosen), parameters)
    return [HostState(**row._mapping) for row in rows]


async def forget_hosts(connection: AsyncConnection, window: tuple[int, int], now: float, limit: int) -> int:
    """Delete hosts of a window of ids that have neither pages nor files nor anything to remember; how many went."""
    host, sources = tables.hosts.c, tables.sources.c
    has_files = exists().where(sources.host == host.name)
    query = (
        select(host.id)
        .where(host.id > window[0], host.id <= window[1], ~_matters(now), ~_has_pages(), ~has_files)
        .limit(limit)
    )
    ids = [int(found) for found in await connection.scalars(query)]
    if not ids:
        return 0
    for table in (*OF_A_HOST, tables.hosts):
        column = table.c.id if table is tables.hosts else table.c.host_id
        chosen, parameters = among(connection.dialect.name, column, ids)
        await connection.execute(delete(table).where(chosen), parameters)
    return len(ids)


def _has_pages() -> ColumnElement[bool]:
    return exists().where(tables.pages.c.host_id == tables.hosts.c.id)


def _matters(now: float) -> ColumnElement[bool]:
    """What the operator asked for, and waits that are not over."""
    host = tables.hosts.c
    waits = (host.blocked_until > now) | (host.asked_until > now) | (host.distrust_304_until > now)
    return host.blocked | host.delay.is_not(None) | waits
