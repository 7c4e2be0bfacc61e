"""What is remembered of a page's latest copy, in figures that a person can read."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.content.frame import FEWEST_PAGES, MOST_PAGES, HostFrame
from crawld.content.volatile import volatile_words
from crawld.model.crawl import Memory
from crawld.store import tables
from crawld.store.frames import read_recent_blocks
from crawld.store.memories import memory_of


async def remembered(connection: AsyncConnection, page_id: int) -> dict[str, Any] | None:
    """Validators, blocks and what is left out of the comparison; None where no copy was ever fetched."""
    version = tables.versions
    row = (await connection.execute(select(version).where(version.c.page_id == page_id))).one_or_none()
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
        "frame_blocks": await _frame_blocks(connection, memory),
        "streak": memory.streak,
        "versions_seen": len(memory.seen),
    }


async def _frame_blocks(connection: AsyncConnection, memory: Memory) -> int:
    """How many blocks of a page its host's pages share, so that they are left out of the comparison."""
    page = tables.pages
    query = select(tables.hosts.c.name).join(page, page.c.host_id == tables.hosts.c.id)
    host = await connection.scalar(query.where(page.c.id == memory.page_id))
    blocks = await read_recent_blocks(connection, host or "", MOST_PAGES)
    if len(blocks) < FEWEST_PAGES:
        return 0
    return sum(HostFrame(host or "", blocks).left_out(memory.page_id, memory.digest.blocks))
