"""Reading a database beside its daemon, or after it: without its lock, and without writing anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Select, Table, column, func, select, table
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from crawld.content.frame import FEWEST_PAGES, MOST_PAGES, HostFrame
from crawld.content.volatile import volatile_words
from crawld.errors import StoreError
from crawld.model.crawl import Memory
from crawld.model.page import PageState
from crawld.model.signal import SOURCES
from crawld.store import tables
from crawld.store.address import parse_address
from crawld.store.bodies import decompress
from crawld.store.engine import in_a_sentence, reading_engine
from crawld.store.frames import read_recent_blocks
from crawld.store.memories import memory_of
from crawld.store.schema import check_readable

Row = dict[str, Any]
PAGE_COLUMNS = (
    "url", "host", "importance", "state", "crawls", "changes", "failures", "signals", "last_crawl_at",
    "last_change_at", "change_rate", "alpha", "beta_seconds", "kappa", "gamma", "precision", "recall",
    "staleness", "freshness",
)  # fmt: skip
HOST_COLUMNS = (
    "host", "pages", "copies", "crawls", "changes", "failures", "signals", "last_crawl_at", "last_change_at",
    "change_rate", "freshness", "blocked", "blocked_until", "successive_failures", "delay_seconds",
    "crawl_delay_seconds",
)  # fmt: skip
SIGNAL_COLUMNS = ("host", "source", "polls", "signals", "stale", "site_events", "precision", "recall")
CALIBRATION_COLUMNS = ("bin", "predicted_low", "predicted_high", "crawls", "predicted", "seen", "gap")

page_stats = table("page_stats", *map(column, PAGE_COLUMNS))
host_stats = table("host_stats", *map(column, HOST_COLUMNS))
signal_stats = table("signal_stats", *map(column, SIGNAL_COLUMNS))
calibration = table("calibration", *map(column, CALIBRATION_COLUMNS))


@dataclass(frozen=True, slots=True)
class StoredBody:
    """The latest copy of a page: fetched at `fetched_at`, known to be what the page was at `checked_at`."""

    url: str
    body: bytes
    content_type: str | None
    fetched_at: float
    checked_at: float | None
    freshness: float | None


class Reader:
    """Answers about a database, as plain rows ready for JSON. Use it as an async context."""

    def __init__(self, url: str) -> None:
        self._address = parse_address(url)
        self._engine: AsyncEngine | None = None

    async def __aenter__(self) -> Self:
        self._engine = reading_engine(self._address)
        try:
            async with self._engine.connect() as connection:
                await connection.run_sync(check_readable, self._address.shown)
        except BaseException as error:
            await self._engine.dispose()
            if isinstance(error, SQLAlchemyError | OSError):
                raise in_a_sentence(error, self._address.shown) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    async def overall(self) -> Row:
        """Pages by state, totals, freshness weighted by importance, and the latest point of the history."""
        page, host = tables.pages.c, tables.hosts.c
        states = {
            row["state"]: row["pages"]
            for row in await self._rows(select(page.state, func.count().label("pages")).group_by(page.state))
        }
        wanted = page_stats.c.state != PageState.RETIRED.value
        weight, fresh = page_stats.c.importance, page_stats.c.freshness
        totals = select(
            func.coalesce(func.sum(page.crawls), 0).label("crawls"),
            func.coalesce(func.sum(page.changes), 0).label("changes"),
            func.coalesce(func.sum(page.failed), 0).label("failures"),
            func.max(page.last_success).label("last_crawl_at"),
        )
        freshness = select((func.sum(weight * fresh) / func.nullif(func.sum(weight), 0)).label("freshness")).where(
            wanted, fresh.is_not(None)
        )
        answer = {
            "pages": sum(count for state, count in states.items() if state != PageState.RETIRED.value),
            "states": {state.value: int(states.get(state.value, 0)) for state in PageState},
        }
        answer |= {name: _plain(value) for name, value in (await self._rows(totals))[0].items()}
        answer["hosts"] = (await self._rows(select(func.count(host.id).label("hosts"))))[0]["hosts"]
        answer["freshness"] = (await self._rows(freshness))[0]["freshness"]
        latest = await self.freshness_history(limit=1)
        answer["latest"] = latest[0] if latest else None
        answer["database_bytes"] = await self._size()
        return answer

    async def _size(self) -> int:
        file = self._address.file
        if file is not None:
            return sum(f.stat().st_size for f in (file, file.with_name(file.name + "-wal")) if f.exists())
        size = (await self._rows(select(func.pg_database_size(func.current_database()).label("bytes"))))[0]["bytes"]
        return int(size)

    async def page_stats(self, *, host: str | None = None, limit: int | None = None) -> Sequence[Row]:
        """Rows of the view, most stale first; those never crawled lead, those of which nothing is known follow."""
        query = select(page_stats).order_by(page_stats.c.freshness.is_(None), page_stats.c.freshness, page_stats.c.url)
        if host is not None:
            query = query.where(page_stats.c.host == host)
        return await self._rows(query.limit(limit))

    async def host_stats(self, *, limit: int | None = None) -> Sequence[Row]:
        """Rows of the view, largest host first, each with the number of changes of its frame."""
        rows = await self._rows(select(host_stats).order_by(host_stats.c.pages.desc(), host_stats.c.host).limit(limit))
        change, host = tables.frame_changes, tables.hosts.c
        counting = select(host.name, func.count().label("changes")).join_from(
            change, tables.hosts, host.id == change.c.host_id
        )
        counts = {row["name"]: row["changes"] for row in await self._rows(counting.group_by(host.name))}
        return [row | {"frame_changes": int(counts.get(row["host"], 0))} for row in rows]

    async def signal_stats(self, *, host: str | None = None, limit: int | None = None) -> Sequence[Row]:
        """Rows of the view, by host and source."""
        query = select(signal_stats).order_by(signal_stats.c.host, signal_stats.c.source)
        if host is not None:
            query = query.where(signal_stats.c.host == host)
        return await self._rows(query.limit(limit))

    async def calibration(self) -> Sequence[Row]:
        """Rows of the view, lowest tenth first."""
        return await self._rows(select(calibration).order_by(calibration.c.bin))

    async def freshness_history(self, *, since: float = 0.0, limit: int | None = None) -> Sequence[Row]:
        """The latest points since that time, newest first."""
        at = tables.freshness_history.c.at
        return await self._rows(
            select(tables.freshness_history).where(at >= since).order_by(at.desc()).limit(limit)
        )  # fmt: skip

    async def settings_changes(self, *, limit: int | None = 100) -> Sequence[Row]:
        """What was changed while running, newest first."""
        change = tables.settings_changes
        return await self._rows(select(change).order_by(change.c.id.desc()).limit(limit))

    async def page(self, url: str, *, crawls: int = 20, signals: int = 20) -> Row | None:
        """Everything known of a page: its statistics, estimate, memory, last crawls and signals; None if unknown."""
        found = await self._rows(select(tables.pages).where(tables.pages.c.url == url))
        if not found:
            return None
        page = found[0]
        answer = (await self._rows(select(page_stats).where(page_stats.c.url == url)))[0]
        answer |= {name: page[name] for name in ("id", "origin", "added_at", "retired_at", "last_attempt")}
        answer["successive_failures"] = page["failures"]
        answer["pending_signals"] = _by_source(page, "pending")
        answer["estimate"] = await self._estimate(page["id"])
        answer["memory"] = await self._memory(page["id"])
        answer["last_crawls"] = await self._latest(tables.crawls, page["id"], crawls)
        answer["last_signals"] = await self._latest(tables.signals, page["id"], signals)
        return answer

    async def body(self, url: str) -> StoredBody | None:
        """The latest copy of a page; None where there is none."""
        body, page = tables.bodies.c, tables.pages.c
        query = (
            select(body.zstd, body.content_type, body.at, page.last_success, page_stats.c.freshness)
            .join_from(tables.bodies, tables.pages, page.id == body.page_id)
            .join(page_stats, page_stats.c.url == page.url)
            .where(page.url == url).order_by(body.id.desc()).limit(1)
        )  # fmt: skip
        rows = await self._rows(query)
        if not rows:
            return None
        row = rows[0]
        copy = decompress(row["zstd"])
        return StoredBody(url, copy, row["content_type"], row["at"], row["last_success"], row["freshness"])

    async def _estimate(self, page_id: int) -> Row | None:
        found = await self._rows(select(tables.estimates).where(tables.estimates.c.page_id == page_id))
        if not found:
            return None
        row = found[0]
        answer = {name: row[name] for name in ("at", "shape", "rate", "alpha_se", "crawls", "changes")}
        return answer | {name: _by_source(row, name) for name in ("kappa", "gamma", "kappa_se", "signals")}

    async def _memory(self, page_id: int) -> Row | None:
        async with self._opened.connect() as connection:
            row = (
                await connection.execute(select(tables.versions).where(tables.versions.c.page_id == page_id))
            ).one_or_none()
        if row is None:
            return None
        memory = memory_of(row)
        return {
            "fetched_at": memory.fetched_at,
            "etag": memory.etag,
            "last_modified": memory.last_modified,
            "content_type": memory.content_type,
            "blocks": len(memory.digest.blocks),
            "volatile_places": sum(1 for place in memory.places if volatile_words(place)),
            "frame_blocks": await self._frame_blocks(memory),
            "streak": memory.streak,
            "versions_seen": len(memory.seen),
        }

    async def learnt_of(self, url: str) -> tuple[Memory, HostFrame | None] | None:
        """What is remembered of a page and what its host's pages share: all that decides what of it is compared."""
        page, version = tables.pages.c, tables.versions
        async with self._opened.connect() as connection:
            query = select(version).join(tables.pages, page.id == version.c.page_id).where(page.url == url)
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            return None
        memory = memory_of(row)
        return memory, await self._frame(memory)

    async def _frame(self, memory: Memory) -> HostFrame | None:
        page = tables.pages
        async with self._opened.connect() as connection:
            query = select(tables.hosts.c.name).join(page, page.c.host_id == tables.hosts.c.id)
            host = await connection.scalar(query.where(page.c.id == memory.page_id))
            blocks = await read_recent_blocks(connection, host or "", MOST_PAGES)
        return HostFrame(host or "", blocks) if len(blocks) >= FEWEST_PAGES else None

    async def _frame_blocks(self, memory: Memory) -> int:
        """How many blocks of a page its host's pages share, so that they are left out of the comparison."""
        frame = await self._frame(memory)
        return 0 if frame is None else sum(frame.left_out(memory.page_id, memory.digest.blocks))

    async def frame_changes(self, *, host: str | None = None, limit: int | None = 100) -> Sequence[Row]:
        """Changes of hosts' frames, newest first."""
        change, name = tables.frame_changes, tables.hosts.c.name
        query = select(name.label("host"), *(column for column in change.c if column.name != "host_id"))
        query = query.join_from(change, tables.hosts, tables.hosts.c.id == change.c.host_id)
        if host is not None:
            query = query.where(name == host)
        return await self._rows(query.order_by(change.c.first_at.desc(), name).limit(limit))

    async def _latest(self, of: Table, page_id: int, limit: int) -> Sequence[Row]:
        rows = await self._rows(select(of).where(of.c.page_id == page_id).order_by(of.c.id.desc()).limit(limit))
        for row in rows:
            del row["id"], row["page_id"]
            if of is tables.crawls:
                row["signals"] = _by_source(row, "signals")
                for source in SOURCES:
                    del row[f"signals_{source.value}"]
        return rows

    async def _rows(self, query: Select[Any]) -> list[Row]:
        try:
            async with self._opened.connect() as connection:
                return [dict(row._mapping) for row in await connection.execute(query)]
        except (SQLAlchemyError, OSError) as error:
            raise in_a_sentence(error, self._address.shown) from error

    @property
    def _opened(self) -> AsyncEngine:
        if self._engine is None:
            raise StoreError("the reader is not open")
        return self._engine


def _by_source(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {source.value: row[f"{name}_{source.value}"] for source in SOURCES}


def _plain(number: Any) -> Any:
    """PostgreSQL sums whole numbers into decimals."""
    return number if number is None or isinstance(number, float) else int(number)
