"""The latest copy of a page, or since when the page has been gone."""

from typing import Any

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.fetched import GONE_STATUSES
from crawld.model.usage import usage_of
from crawld.store import tables
from crawld.store.bodies import decompress_to
from crawld.store.control import Copy, Gone
from crawld.store.report import page_stats
from crawld.store.versions import unpack_said
from crawld.store.views import LivePages

_page, _host, _body, _crawl = tables.pages.c, tables.hosts.c, tables.bodies.c, tables.crawls.c
_status = (
    select(_crawl.status).where(_crawl.page_id == _page.id, _crawl.status.in_(sorted(GONE_STATUSES)))
    .order_by(_crawl.id.desc()).limit(1).scalar_subquery()
)  # fmt: skip
_latest = (
    select(_body.id).where(_body.page_id == _page.id).order_by(_body.id.desc()).limit(1).correlate(tables.pages)
).scalar_subquery()
_PAGE: Select[Any] = select(
    _page.id, _page.url, _host.name.label("host"), _page.last_success, _page.gone_since, _latest.label("body"),
    _status.label("status"), tables.versions.c.said,
).join_from(tables.pages, tables.hosts, _host.id == _page.host_id).join(
    tables.versions, tables.versions.c.page_id == _page.id, isouter=True
)  # fmt: skip


async def latest_copy(
    connection: AsyncConnection, condition: ColumnElement[bool], live: LivePages | None, now: float, *, even_gone: bool
) -> Copy | Gone | None:
    """The latest copy of the page that meets the condition; of one that is gone only with `even_gone`."""
    page = (await connection.execute(_PAGE.where(condition))).first()
    if page is None:
        return None
    gone = None if page.gone_since is None else Gone(page.gone_since, page.status, held=page.body is not None)
    if page.body is None or (gone is not None and not even_gone):
        return gone
    found = (await connection.execute(select(tables.bodies).where(_body.id == page.body))).first()
    if found is None:  # pruned in this moment
        return gone
    return Copy(
        url=page.url,
        host=page.host,
        body=decompress_to(found.zstd, found.size),
        content_type=found.content_type,
        fetched_at=found.at,
        checked_at=page.last_success,
        freshness=await _freshness(connection, page, live, now),
        version=found.version,
        gone=gone,
        usage=usage_of(unpack_said(page.said)),
    )


async def _freshness(connection: AsyncConnection, page: Any, live: LivePages | None, now: float) -> float | None:
    held = {} if live is None else live.standings([page.id], now)
    if page.id in held:
        return held[page.id][0]
    fresh = await connection.scalar(select(page_stats.c.freshness).where(page_stats.c.url == page.url))
    return None if fresh is None else float(fresh)
