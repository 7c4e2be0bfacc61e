"""What is remembered of a page's latest copy, in figures that a person can read."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.crawl import Memory
from crawld.read.change.frame import FEWEST_PAGES, MOST_PAGES, HostFrame
from crawld.read.change.volatile import volatile_words
from crawld.store import tables
from crawld.store.frames import read_recent_pages
from crawld.store.versions import memory_of


async def learnt_of(connection: AsyncConnection, page_id: int) -> tuple[Memory, HostFrame | None] | None:
    """What is remembered of a page and what its host's pages share: all that decides what of it is compared."""
    version, page, host = tables.versions, tables.pages, tables.hosts
    row = (await connection.execute(select(version).where(version.c.page_id == page_id))).one_or_none()
    if row is None:
        return None
    named = select(host.c.name).join(page, page.c.host_id == host.c.id).where(page.c.id == page_id)
    name = str(await connection.scalar(named))
    pages = await read_recent_pages(connection, name, MOST_PAGES)
    return memory_of(row), HostFrame(name, pages) if len(pages) >= FEWEST_PAGES else None


async def remembered(connection: AsyncConnection, page_id: int) -> dict[str, Any] | None:
    """Validators, blocks and what is left out of the comparison; None where no copy was ever fetched."""
    learnt = await learnt_of(connection, page_id)
    if learnt is None:
        return None
    memory, frame = learnt
    return {
        "fetched_at": memory.fetched_at,
        "etag": memory.etag,
        "last_modified": memory.last_modified,
        "content_type": memory.content_type,
        "blocks": len(memory.digest.blocks),
        "volatile_places": sum(1 for place in memory.places if volatile_words(place)),
        "frame_blocks": 0 if frame is None else sum(frame.left_out(page_id, memory.digest)),
        "streak": memory.streak,
        "versions_seen": len(memory.seen),
    }
