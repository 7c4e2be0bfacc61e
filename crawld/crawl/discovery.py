"""Discovery: pages that sitemaps and feeds list join, and leave when they are listed no more."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from crawld.model.page import Wanted
from crawld.model.web import Clock
from crawld.pages.page_set import PageSet
from crawld.pages.pages import Pages
from crawld.signals.contract import PollResult

DISCOVERED = "discovered in "
LOOKED_UP_AT_ONCE = 1_000
"""Pages that are looked up in one turn of the loop."""


class Discoverer:
    """Takes over what files list, each as an origin of its own, so that none touches another's pages."""

    def __init__(self, page_set: PageSet, pages: Pages, clock: Clock, limits: Mapping[str, int]) -> None:
        """`limits` says how many pages each of the sites that `pages` counts may have."""
        self._page_set = page_set
        self._pages = pages
        self._clock = clock
        self._limits = limits

    async def follow(self, result: PollResult) -> None:
        """Adopt what a poll discovered, as far as their sites have room, and retire what its file lists no more."""
        found = result.discoveries
        if found is None:
            return
        file = result.polls[0].file
        wanted: list[Wanted] = []
        for start in range(0, len(found.listed), LOOKED_UP_AT_ONCE):
            some = (self._pages.get(page_id) for page_id in found.listed[start : start + LOOKED_UP_AT_ONCE])
            wanted += [Wanted(page.url, page.importance) for page in some if page is not None]
            await asyncio.sleep(0)
        wanted += await self._within_limits(found.urls)
        origin = f"{DISCOVERED}{file.url}"
        await self._page_set.adopt(wanted, origin=origin, now=self._clock.now(), complete=found.complete)

    async def _within_limits(self, urls: Sequence[str]) -> list[Wanted]:
        """The URLs that may join: each while its site has fewer pages than its limit."""
        wanted: list[Wanted] = []
        joined: Counter[str] = Counter()  # by site
        for number, url in enumerate(urls, 1):
            site = self._pages.site_of(url)
            if site is not None and self._pages.in_site(site) + joined[site] < self._limits[site]:
                joined[site] += 1
                wanted.append(Wanted(url))
            if number % LOOKED_UP_AT_ONCE == 0:
                await asyncio.sleep(0)
        return wanted
