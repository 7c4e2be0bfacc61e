"""One page with its timeline."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.crawl import Verdict
from crawld.model.signal import SOURCES, Source
from crawld.store import tables
from crawld.store.change_list import changes_of_page, versions_of
from crawld.store.links import read_linked
from crawld.store.page_list import line_by
from crawld.store.report import ADDRESSES
from crawld.store.views import CrawlLine, EstimateLine, LivePages, PageView, SignalLine

T = TypeVar("T")
_id, _url, _of = tables.pages.c.id, tables.pages.c.url, tables.pages.c.alias_of


async def view_page(
    connection: AsyncConnection,
    condition: ColumnElement[bool],
    live: LivePages | None,
    now: float,
    *,
    crawls: int,
    signals: int,
    changes: int,
) -> PageView | None:
    """The page that meets the condition, with so many of its latest crawls, signals and changes."""
    line = await line_by(connection, condition, live, now)
    if line is None:
        return None
    page = (await connection.execute(select(tables.pages).where(tables.pages.c.id == line.id))).one()
    return PageView(
        page=line,
        origin=page.origin,
        retired_at=page.retired_at,
        last_attempt_at=page.last_attempt,
        successive_failures=page.failures,
        pending_signals=_by_source(page._mapping, "pending"),
        estimate=await _estimate(connection, line.id),
        crawls=await _latest(connection, tables.crawls, line.id, crawls, _crawl),
        signals=await _latest(connection, tables.signals, line.id, signals, _signal),
        changes=await changes_of_page(connection, line.id, changes),
        versions=await versions_of(connection, line.id),
        alias_of=await connection.scalar(select(_url).where(_id == page.alias_of)),
        alias_why=page.alias_why,
        aliases=list(await connection.scalars(select(_url).where(_of == line.id).order_by(_url).limit(ADDRESSES))),
        linked_from=await read_linked(connection, line.id),
    )


async def _latest(
    connection: AsyncConnection, table: Table, page_id: int, limit: int, make: Callable[[Any], T]
) -> Sequence[T]:
    query = select(table).where(table.c.page_id == page_id).order_by(table.c.id.desc()).limit(limit)
    return [make(row) for row in await connection.execute(query)]


async def _estimate(connection: AsyncConnection, page_id: int) -> EstimateLine | None:
    estimate = tables.estimates
    row = (await connection.execute(select(estimate).where(estimate.c.page_id == page_id))).first()
    if row is None:
        return None
    kappa, gamma, signals = (_by_source(row._mapping, name) for name in ("kappa", "gamma", "signals"))
    finite = {source: value if math.isfinite(value) else None for source, value in kappa.items()}
    return EstimateLine(row.at, row.shape, row.rate, row.alpha_se, row.crawls, row.changes, finite, gamma, signals)


def _crawl(row: Any) -> CrawlLine:
    return CrawlLine(
        at=row.at,
        verdict=Verdict(row.verdict),
        status=row.status,
        trouble=row.trouble,
        detail=row.detail,
        bytes=row.bytes,
        duration=row.duration,
        magnitude=row.magnitude,
        predicted=row.predicted,
        audit=bool(row.audit),
        signals=_by_source(row._mapping, "signals"),
    )


def _signal(row: Any) -> SignalLine:
    return SignalLine(Source(row.source), row.seen_at, row.claimed_at, bool(row.stale))


def _by_source(row: Mapping[Any, Any], name: str) -> dict[Source, Any]:
    return {source: row[f"{name}_{source.value}"] for source in SOURCES}
