"""Keeping the database bounded: a little is deleted at a time, and freed space is given back in small steps."""

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.page import PageState
from crawld.store import tables
from crawld.store.bulk import run_to_end_on_sqlite
from crawld.store.engine import among, floored
from crawld.store.hosts import forget_hosts, forget_old_robots
from crawld.store.links import forget_links
from crawld.store.slot_history import LIMITS as SLOT_HISTORY_LIMITS
from crawld.store.slot_history import sum_up_slots


@dataclass(frozen=True)
class RetentionLimits:
    """Numbers that bound and tune this module."""

    versions_walked_at_once: int = 5_000
    """Copies looked at in one step."""
    count_again: float = 0.05
    """Of the bound: what may be added before the bytes are counted again, which takes a scan."""
    seconds_per_day: float = 86_400.0
    rows_at_once: int = 1_000
    walked_at_once: int = 20_000  # pages looked at in one step
    crawled_at_once: int = 200  # pages whose crawls are counted in one step
    free_pages_at_once: int = 500
    count_again_seconds: float = 3_600.0


LIMITS = RetentionLimits()


_body, _newer = tables.bodies.c, tables.bodies.alias("newer")
_EARLIER = select(_newer.c.id).where(_newer.c.page_id == _body.page_id, _newer.c.id > _body.id).exists()


class VersionRoom:
    """Bounds the bytes of earlier versions: the oldest go first, and no page loses its latest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counted: int | None = None
        self._added = 0  # since then; a page's first copy counts here although it is no earlier version
        self._walked = 0

    async def count(self, connection: AsyncConnection, added: int) -> None:
        """Count the bytes, where enough was added for it to matter; so many were, compressed, since the last count."""
        self._added += added
        if self._counted is None or (self._full and self._added > LIMITS.count_again * self._most):
            earlier = select(func.coalesce(func.sum(func.length(_body.zstd)), 0)).where(_EARLIER)
            self._counted, self._added = int(await connection.scalar(earlier) or 0), 0

    def forget(self) -> None:
        """Count again: others have added."""
        self._counted = None

    @property
    def _full(self) -> bool:
        return (self._counted or 0) + self._added > self._most

    async def step(self, connection: AsyncConnection) -> int:
        """Delete some of the oldest earlier versions while there are too many; 1 where the walk only went on."""
        if self._counted is None or self._counted <= self._most:
            return 0
        window = (_body.id > self._walked) & (_body.id <= self._walked + LIMITS.versions_walked_at_once)
        query = select(_body.id, func.length(_body.zstd)).where(window, _EARLIER).order_by(_body.id)
        chosen: list[int] = []
        for number, size in (await connection.execute(query)).all():
            if self._counted <= self._most:
                break
            chosen.append(number)
            self._counted -= size
        if chosen:
            condition, parameters = among(connection.dialect.name, _body.id, chosen)
            await connection.execute(delete(tables.bodies).where(condition), parameters)
            return len(chosen)
        last = int(await connection.scalar(select(func.max(_body.id))) or 0)
        self._walked += LIMITS.versions_walked_at_once
        if self._walked < last:
            return 1
        self._walked, self._counted = 0, None  # nothing earlier is left: what was counted has gone otherwise
        return 0


COUNTED = (tables.crawls, tables.signals)
OF_A_PAGE: tuple[Table, ...] = (
    tables.crawls, tables.signals, tables.estimates, tables.versions, tables.bodies, tables.demand,
    tables.site_pages,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Retention:
    """How much history is kept: whatever is over any of these goes, oldest first."""

    days: float = 400.0
    crawls_per_page: int = 300
    crawls: int = 20_000_000
    signals: int = 5_000_000
    changes: int = 5_000_000
    bodies_per_page: int = 20  # with keep_bodies: changes
    version_bytes: int = 2_000_000_000  # of all versions but each page's latest, compressed


@dataclass
class Growth:
    """What was committed since the last step of pruning: to which pages, and how many rows and bytes of versions."""

    pages: dict[int, None] = field(default_factory=dict)  # in order
    crawls: int = 0
    signals: int = 0
    version_bytes: int = 0


class Pruning:
    """Looks after the pages that were crawled, walks round all of them, and nibbles at the oldest rows of the rest."""

    def __init__(self, retention: Retention, growth: Growth, *, alone: bool = True) -> None:
        """`alone`: no other process writes to the database. In a fleet one worker at a time prunes the shared rows."""
        self._keep, self._growth, self._alone = retention, growth, alone
        self._walked = 0  # the last page the walk has seen
        self._first_walk = True
        self._walked_hosts = 0
        self._grown = growth.pages  # that may have too many rows
        self._counts: dict[Table, int] | None = None
        self._estimates: dict[Table, int] | None = None
        self._room = VersionRoom(retention.version_bytes)
        self._room_counted = -math.inf

    async def count(self, connection: AsyncConnection, now: float) -> None:
        """Count the rows that have an overall bound: once, because it takes a scan.

        Where others write too, the server's own estimate is taken whenever there is a new one, and the bytes of
        versions are counted again every hour.
        """
        if self._alone:
            if self._counts is not None:
                self._counts[tables.crawls] += self._growth.crawls
                self._counts[tables.signals] += self._growth.signals
            else:
                counting = {table: select(func.count()).select_from(table) for table in COUNTED}
                self._counts = {table: int(await connection.scalar(one) or 0) for table, one in counting.items()}
        else:
            query = text("SELECT greatest(reltuples, 0) FROM pg_class WHERE oid = to_regclass(:name)")
            estimates = {table: int(await connection.scalar(query, {"name": table.name}) or 0) for table in COUNTED}
            if estimates != self._estimates:
                self._counts, self._estimates = dict(estimates), estimates
            if now - self._room_counted > LIMITS.count_again_seconds:
                self._room.forget()
                self._room_counted = now
        await self._room.count(connection, self._growth.version_bytes)
        self._growth.crawls = self._growth.signals = self._growth.version_bytes = 0

    async def step(self, connection: AsyncConnection, now: float) -> int:
        """Do a bounded piece of work in the connection's transaction; 0 where there was nothing to do."""
        cutoff = now - self._keep.days * LIMITS.seconds_per_day
        deleted = await self._walk(connection, cutoff) + await self.prune_grown(connection)
        deleted += await self._walk_hosts(connection, now) + await forget_old_robots(
            connection, now, LIMITS.rows_at_once
        )
        deleted += await self._prune_oldest(connection, tables.crawls, tables.crawls.c.at, cutoff)
        deleted += await self._prune_oldest(connection, tables.signals, tables.signals.c.seen_at, cutoff)
        deleted += await self._room.step(connection)
        deleted += await _prune_changes(connection, cutoff, self._keep.changes)
        deleted += await _thin_freshness(connection, now, cutoff) + await sum_up_slots(connection, now, cutoff)
        day = tables.calibration_days.c.day
        deleted += await _delete_where(connection, tables.calibration_days, day < int(cutoff // LIMITS.seconds_per_day))
        frame = tables.frame_changes.c.last_at
        deleted += await _delete_where(connection, tables.frame_changes, frame < cutoff)
        change = tables.settings_changes.c.at
        return deleted + await _delete_where(connection, tables.settings_changes, change < cutoff)

    async def prune_grown(self, connection: AsyncConnection) -> int:
        """Rows above the bounds of some pages that were crawled lately; 1 where others wait and none was deleted."""
        looked_at = list(islice(self._grown, LIMITS.crawled_at_once))
        for page_id in looked_at:
            del self._grown[page_id]
        deleted = await _prune_per_page(connection, tables.crawls, looked_at, self._keep.crawls_per_page)
        self._removed(tables.crawls, deleted)
        deleted += await _prune_per_page(connection, tables.bodies, looked_at, self._keep.bodies_per_page)
        if deleted >= LIMITS.rows_at_once:
            self._grown.update(dict.fromkeys(looked_at))
        return deleted or int(bool(self._grown))

    async def _walk(self, connection: AsyncConnection, cutoff: float) -> int:
        """Over the next pages: those retired long ago go with all that is theirs.

        The first walk also finds pages that have too many rows since before this start, as fast as they are pruned.
        """
        if self._first_walk and len(self._grown) > LIMITS.walked_at_once:
            return 0
        page = tables.pages.c
        window = (page.id > self._walked) & (page.id <= self._walked + LIMITS.walked_at_once)
        retired = (page.state == PageState.RETIRED.value) & (page.retired_at < cutoff)
        gone = (await connection.scalars(select(page.id).where(window, retired).limit(LIMITS.rows_at_once))).all()
        if self._first_walk:
            many = (page.crawls > self._keep.crawls_per_page) | (page.changes >= self._keep.bodies_per_page)
            self._grown.update(dict.fromkeys((await connection.scalars(select(page.id).where(window, many))).all()))
        if len(gone) < LIMITS.rows_at_once:
            self._walked = await _next_window(connection, tables.pages, self._walked)
            self._first_walk &= self._walked > 0
        deleted = await _forget_pages(connection, list(gone))
        for table, rows in deleted.items():
            self._removed(table, rows)
        return sum(deleted.values())

    async def _walk_hosts(self, connection: AsyncConnection, now: float) -> int:
        """Over the next hosts: those without pages, files and anything to remember go."""
        window = (self._walked_hosts, self._walked_hosts + LIMITS.walked_at_once)
        deleted = await forget_hosts(connection, window, now, LIMITS.rows_at_once)
        if deleted < LIMITS.rows_at_once:
            self._walked_hosts = await _next_window(connection, tables.hosts, self._walked_hosts)
        return deleted

    async def _prune_oldest(
        self, connection: AsyncConnection, table: Table, at: ColumnElement[float], cutoff: float
    ) -> int:
        """Rows before the cutoff among the oldest, and as many of the oldest as are above the bound."""
        most = self._keep.crawls if table is tables.crawls else self._keep.signals
        surplus = 0 if self._counts is None else min(LIMITS.rows_at_once, self._counts[table] - most)
        oldest = select(table.c.id, at.label("at")).order_by(table.c.id).limit(LIMITS.rows_at_once).subquery()
        deleted = await _delete_where(
            connection, table, table.c.id.in_(select(oldest.c.id).where(oldest.c.at < cutoff))
        )
        if surplus > deleted:
            first = select(table.c.id).order_by(table.c.id).limit(surplus - deleted)
            deleted += await _delete_where(connection, table, table.c.id.in_(first))
        self._removed(table, deleted)
        return deleted

    def _removed(self, table: Table, rows: int) -> None:
        if self._counts is not None and table in self._counts:
            self._counts[table] -= rows


async def _next_window(connection: AsyncConnection, table: Table, walked: int) -> int:
    """Where the next window begins: ids of a fleet lie far apart; 0 after the last."""
    following = await connection.scalar(select(func.min(table.c.id)).where(table.c.id > walked + LIMITS.walked_at_once))
    return 0 if following is None else int(following) - 1


async def _delete_where(connection: AsyncConnection, table: Table, condition: ColumnElement[bool], **given: Any) -> int:
    result = await connection.execute(delete(table).where(condition), given)
    return int(result.rowcount)


async def _prune_changes(connection: AsyncConnection, cutoff: float, most: int) -> int:
    """Delete the oldest changes, one number after the other: the first that is left tells which are missing.

    The newest stays, so that numbers go on from it.
    """
    change = tables.changes.c
    last = int(await connection.scalar(select(func.coalesce(func.max(change.id), 0))) or 0)
    oldest = select(change.id, change.at).order_by(change.id).limit(LIMITS.rows_at_once).subquery()
    kept = select(func.min(oldest.c.id)).where(oldest.c.at >= cutoff, oldest.c.id > last - most)
    first = await connection.scalar(kept)
    if first is None:  # none of those looked at is kept
        first = await connection.scalar(select(func.max(oldest.c.id) + 1))
    return await _delete_where(connection, tables.changes, change.id < min(int(first or 0), last))


async def _prune_per_page(connection: AsyncConnection, table: Table, pages: list[int], keep: int) -> int:
    if not pages:
        return 0
    chosen, parameters = among(connection.dialect.name, table.c.page_id, pages)
    place = func.row_number().over(partition_by=table.c.page_id, order_by=table.c.id.desc()).label("place")
    ranked = select(table.c.id, place).where(chosen).subquery()
    surplus = select(ranked.c.id).where(ranked.c.place > keep).limit(LIMITS.rows_at_once)
    return await _delete_where(connection, table, table.c.id.in_(surplus), **parameters)


async def _thin_freshness(connection: AsyncConnection, now: float, cutoff: float) -> int:
    at = tables.freshness_history.c.at
    minute = floored(connection.dialect.name, at / 60.0)
    surplus = select(at).where(
        (at < cutoff)
        | ((at < now - SLOT_HISTORY_LIMITS.minutes_for) & (minute % 10 != 0))
        | ((at < now - SLOT_HISTORY_LIMITS.tens_for) & (minute % 60 != 0))
    )
    return await _delete_where(
        connection, tables.freshness_history, at.in_(surplus.order_by(at).limit(LIMITS.rows_at_once))
    )  # fmt: skip


async def _forget_pages(connection: AsyncConnection, pages: list[int]) -> dict[Table, int]:
    deleted: dict[Table, int] = {}
    if pages:
        await forget_links(connection, pages)
    for table in (*OF_A_PAGE, tables.pages) if pages else ():
        column = table.c.id if table is tables.pages else table.c.page_id
        chosen, parameters = among(connection.dialect.name, column, pages)
        deleted[table] = await _delete_where(connection, table, chosen, **parameters)
    return deleted


async def give_back_space(connection: AsyncConnection) -> None:
    """On SQLite, return some free pages to the file system where a tenth of the file is free; never a VACUUM."""
    if connection.dialect.name != "sqlite":
        return
    free = await connection.scalar(text("PRAGMA freelist_count")) or 0
    pages = await connection.scalar(text("PRAGMA page_count")) or 0
    if free > max(1_000, pages // 10):
        await run_to_end_on_sqlite(connection, f"PRAGMA incremental_vacuum({LIMITS.free_pages_at_once})")
