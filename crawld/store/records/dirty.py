"""Pages with a successful crawl newer than their estimate, kept in memory where an index of them would be dear.

An index on `pages.dirty_since` has PostgreSQL touch every index of the table at each crawl and each estimate. Without
it nearly all updates stay within their heap page. So the pages are read once, with all else that a start reads, and
followed by what is committed from then on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from crawld.interfaces import Ints
from crawld.model.page import PageState
from crawld.store import tables
from crawld.store.in_values import among

_page = tables.pages.c


class DirtyPages:
    """Dirty pages and since when they are, as far as they were read or crawled by us."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}
        self.read = False  # whether all that were dirty at the start are known

    def __len__(self) -> int:
        return len(self._since)

    def found(self, since: Mapping[int, float]) -> None:
        """These pages are dirty, says the database."""
        if since:
            self._since = dict(sorted({**self._since, **since}.items(), key=itemgetter(1)))

    def crawled(self, successes: Mapping[int, float | None]) -> None:
        """Crawls of these pages were committed; None where none of them was a success."""
        for page, at in successes.items():
            if at is not None:
                self._since.setdefault(page, at)

    def estimated(self, pages: Iterable[int], still: Mapping[int, float]) -> None:
        """Estimates were committed; pages that were crawled since stay dirty."""
        for page in pages:
            self._since.pop(page, None)
        self._since |= still

    def forget(self, gone: Callable[[int], bool]) -> None:
        """Forget the pages that are gone."""
        self._since = {page: at for page, at in self._since.items() if not gone(page)}

    def drop(self, pages: Iterable[int]) -> None:
        """Forget pages."""
        for page in pages:
            self._since.pop(page, None)

    def first(self, limit: int, held: Callable[[int], bool] | None = None) -> list[int]:
        """Those that wait longest, of pages that are held."""
        found: list[int] = []
        for page in self._since:
            if held is None or held(page):
                found.append(page)
                if len(found) == limit:
                    break
        return found


async def dirty_pages(reading: AsyncEngine, limit: int) -> Ints:
    """Pages with a successful crawl newer than their estimate, longest waiting first, by an index of them."""
    query = (
        select(_page.id).where(_page.dirty_since.is_not(None), _page.state != PageState.RETIRED.value)
        .order_by(_page.dirty_since).limit(limit)
    )  # fmt: skip
    async with reading.connect() as connection:
        return np.array((await connection.execute(query)).scalars().all(), dtype=np.int64)


async def read_dirty(reading: AsyncEngine, page_ids: Sequence[int] | None = None) -> dict[int, float]:
    """All dirty pages, by a scan, or those among these, and since when they are."""
    query = select(_page.id, _page.dirty_since).where(_page.dirty_since.is_not(None))
    async with reading.connect() as connection:
        given: dict[str, Any] = {}
        if page_ids is not None:
            chosen, given = among(connection.dialect.name, _page.id, page_ids)
            query = query.where(chosen)
        return {row.id: row.dirty_since for row in await connection.execute(query, given)}


async def not_retired(
    reading: AsyncEngine, dirty: DirtyPages, limit: int, held: Callable[[int], bool] | None = None
) -> Ints:
    """The pages that wait longest, of those that are held; those that are retired or gone are forgotten."""
    while page_ids := dirty.first(limit, held):
        async with reading.connect() as connection:
            chosen, given = among(connection.dialect.name, _page.id, page_ids)
            query = select(_page.id).where(chosen, _page.state != PageState.RETIRED.value)
            live = set(await connection.scalars(query, given))
        if len(live) == len(page_ids):
            return np.array(page_ids, dtype=np.int64)
        dirty.drop(page for page in page_ids if page not in live)
    return np.array([], dtype=np.int64)
