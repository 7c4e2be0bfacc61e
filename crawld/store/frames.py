"""Reading what the frame of a host is learnt from: the blocks of its pages, and their copies."""

import asyncio
import logging
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.errors import StoreError
from crawld.model.host import HostPage
from crawld.model.page import NOT_LISTED
from crawld.store import tables
from crawld.store.bodies import decompress_to
from crawld.store.versions import memory_of

log = logging.getLogger(__name__)

LOOKED_AT = 4_096


async def read_recent_pages(connection: AsyncConnection, host: str, limit: int) -> Sequence[HostPage]:
    """What is remembered of the pages of a host that were fetched most recently, oldest first.

    Of a host of very many pages only some are looked at, so that the query stays short.
    """
    page, version, hosts = tables.pages.c, tables.versions.c, tables.hosts.c
    some = (
        select(page.id, page.url)
        .where(page.host_id == select(hosts.id).where(hosts.name == host).scalar_subquery())
        .where(page.state.not_in(NOT_LISTED), page.last_success.is_not(None))
        .limit(LOOKED_AT)
        .subquery()
    )
    query = (
        select(tables.versions, some.c.url)
        .join_from(some, tables.versions, version.page_id == some.c.id)
        .where(version.text.is_not(None))
        .order_by(version.fetched_at.desc())
        .limit(limit)
    )
    rows = (await connection.execute(query)).all()
    memories = ((row.url, memory_of(row)) for row in reversed(rows))
    return [HostPage(memory.page_id, memory.digest.blocks, url, memory) for url, memory in memories]


async def latest_copy(connection: AsyncConnection, page_id: int) -> bytes | None:
    """The latest copy of a page, where one is kept; it is unpacked beside the loop."""
    body = tables.bodies.c
    query = select(body.zstd, body.size).where(body.page_id == page_id).order_by(body.id.desc()).limit(1)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    try:
        return await asyncio.to_thread(decompress_to, row.zstd, row.size)
    except StoreError as error:  # the next change replaces it; until then the page is crawled as one without a copy
        log.error("a stored copy cannot be read", extra={"page": page_id, "reason": str(error)})  # noqa: TRY400
        return None
