"""Discovery: pages that sitemaps and feeds list join, and leave when they are listed no more."""

import asyncio

from crawld.daemon.pages.page_set import PageSet
from crawld.daemon.pages.pages import Pages
from crawld.interfaces import Clock, PollResult
from crawld.model.page import Wanted

DISCOVERED = "discovered in "
LOOKED_UP_AT_ONCE = 1_000
"""Pages that are looked up in one turn of the loop."""


class Discoverer:
    """Takes over what files list, each as an origin of its own, so that none touches another's pages."""

    def __init__(self, page_set: PageSet, pages: Pages, clock: Clock, limit: int) -> None:
        self._page_set = page_set
        self._pages = pages
        self._clock = clock
        self._limit = limit

    async def follow(self, result: PollResult) -> None:
        """Adopt what a poll discovered, as far as its host has room, and retire what its file lists no more."""
        found = result.discoveries
        if found is None:
            return
        file = result.polls[0].file
        room = self._limit - self._pages.on_host(file.host)
        wanted: list[Wanted] = []
        for start in range(0, len(found.listed), LOOKED_UP_AT_ONCE):
            some = (self._pages.get(page_id) for page_id in found.listed[start : start + LOOKED_UP_AT_ONCE])
            wanted += [Wanted(page.url, page.importance) for page in some if page is not None]
            await asyncio.sleep(0)
        wanted += [Wanted(url) for url in found.urls[: max(room, 0)]]
        origin = f"{DISCOVERED}{file.url}"
        await self._page_set.adopt(wanted, origin=origin, now=self._clock.now(), complete=found.complete)
