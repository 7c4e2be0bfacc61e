"""Pages that somebody waits for: they go before all others, as soon as their hosts may be asked.

An operator asks for a page now, or a reader wants a copy that is fresh. However many ask, one request is sent, and all
of them share what it brings. Hosts take turns, and the pages of a host come in the order in which they were asked for.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from crawld.model.crawl import Crawl
from crawld.model.page import Page

MAX_ASKED = 10_000
"""Pages that may be waited for at once; more are refused."""
MAX_HOSTS_PER_SLOT = 100
"""Hosts that are looked at in one slot."""
MAX_ASKED_SECONDS = 3600.0
"""After which a page whose host could not be asked is no longer waited for."""
Answer = Crawl | str
"""The crawl that was asked for, or why there is none."""


@dataclass(frozen=True, slots=True)
class AskedPage:
    """A page that is waited for, since when, and what those who wait are told of it."""

    page: Page
    at: float
    answer: "asyncio.Future[Answer]"


@dataclass(slots=True)
class AskedPages:
    """The pages that are waited for; those that wait for a slot stand in line by host."""

    _asked: dict[int, AskedPage] = field(default_factory=dict)
    _in_line: OrderedDict[str, OrderedDict[int, AskedPage]] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._asked)

    def __contains__(self, page_id: int) -> bool:
        return page_id in self._asked

    def ask(self, page: Page, now: float, *, under_way: bool) -> "asyncio.Future[Answer]":
        """What a crawl of the page will bring: one that was asked for already, is `under_way`, or is the next."""
        if (here := self._asked.get(page.id)) is not None:
            return here.answer
        asked = AskedPage(page, now, asyncio.get_running_loop().create_future())
        if len(self._asked) >= MAX_ASKED:
            asked.answer.set_result(f"{MAX_ASKED:,} pages are asked for already: try again later")
            return asked.answer
        self._asked[page.id] = asked
        if not under_way:
            self._in_line.setdefault(page.host, OrderedDict())[page.id] = asked
        return asked.answer

    def by_host(self) -> Iterator[tuple[str, int]]:
        """How many pages of each host wait for a slot."""
        return ((host, len(pages)) for host, pages in self._in_line.items())

    def first(self, now: float) -> Iterator[Page]:
        """The first page of each of some hosts, those that were served longest ago first."""
        for host in list(islice(self._in_line, MAX_HOSTS_PER_SLOT)):
            asked = next(iter(self._in_line[host].values()))
            if now - asked.at > MAX_ASKED_SECONDS:
                self.refuse(asked.page, "its host could not be asked within an hour")
            else:
                yield asked.page

    def begin(self, page: Page) -> None:
        """The page is being crawled now; another host has the next turn."""
        waiting = self._in_line[page.host]
        del waiting[page.id]
        self._in_line.move_to_end(page.host)
        if not waiting:
            del self._in_line[page.host]

    def refuse(self, page: Page, reason: str) -> None:
        """The page is not asked."""
        self.begin(page)
        self.crawled(page.id, reason)

    def crawled(self, page_id: int, answer: Answer) -> None:
        """A crawl of the page has ended; one that began before somebody asked for it leaves its place in the line."""
        asked = self._asked.pop(page_id, None)
        if asked is not None:
            if page_id in self._in_line.get(asked.page.host, ()):
                self.begin(asked.page)
            asked.answer.set_result(answer)
