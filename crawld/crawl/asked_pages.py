"""Pages that are waited for, in the order in which they get slots.

1. An operator's order goes before all others.
2. A reader who insists on a fresh copy does too, within the share of slots for reads.
3. A reader who can wait bids: the page gets a slot where that is the best use of it (docs/method.md, "Reads").

However many ask for a page, one request is sent and all of them share what it brings. In the first two lines hosts take
turns, and the pages of a host come in the order in which they were asked for.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice

from crawld.model.crawl import Crawl
from crawld.model.page import Page


@dataclass(frozen=True)
class AskedPagesLimits:
    """Numbers that bound and tune this module."""

    max_asked: int = 10_000
    """Pages that may be waited for at once; more are refused."""
    max_hosts_per_slot: int = 100
    """Hosts that are looked at in one slot."""
    max_bids_per_slot: int = 256
    """Pages whose worth to their readers is looked at in one slot."""
    max_asked_seconds: float = 3600.0
    """After which a page whose host could not be asked is no longer waited for."""


LIMITS = AskedPagesLimits()


Answer = Crawl | str
"""The crawl that was asked for, or why there is none."""


class ReadClaim(IntEnum):
    """How much those who wait for a page may ask for: a higher claim takes the place of a lower one."""

    BID = 0
    INSIST = 1
    ORDER = 2


@dataclass(slots=True)
class AskedPage:
    """A page that is waited for, since when, by how many readers, and what those who wait are told of it."""

    page: Page
    at: float
    answer: "asyncio.Future[Answer]"
    claim: ReadClaim
    readers: int = 0


Line = OrderedDict[str, OrderedDict[int, AskedPage]]


@dataclass(slots=True)
class AskedPages:
    """The pages that are waited for; those that wait for a slot stand in the line of their claim, by host."""

    read_worth: float = 0.0
    pages: dict[int, AskedPage] = field(default_factory=dict)  # to read
    _lines: Mapping[ReadClaim, Line] = field(default_factory=lambda: {claim: OrderedDict() for claim in ReadClaim})

    def __len__(self) -> int:
        return len(self.pages)

    def weigh_reads(self, worth: float) -> None:
        """Takes over what one fresh read is worth beside crawl values."""
        self.read_worth = worth

    def __contains__(self, page_id: int) -> bool:
        return page_id in self.pages

    def ask(
        self, page: Page, now: float, *, under_way: bool, claim: ReadClaim = ReadClaim.ORDER
    ) -> "asyncio.Future[Answer]":
        """What a crawl of the page will bring: one that was asked for already, is `under_way`, or is the next."""
        if (here := self.pages.get(page.id)) is not None:
            if claim > here.claim:
                self._raise(here, claim)
            return here.answer
        asked = AskedPage(page, now, asyncio.get_running_loop().create_future(), claim)
        if len(self.pages) >= LIMITS.max_asked:
            asked.answer.set_result(f"{LIMITS.max_asked:,} pages are asked for already: try again later")
            return asked.answer
        self.pages[page.id] = asked
        if not under_way:
            self._lines[claim].setdefault(page.host, OrderedDict())[page.id] = asked
        return asked.answer

    async def read(self, page: Page, now: float, wait: float, *, under_way: bool, claim: ReadClaim) -> Answer | None:
        """Wait for a crawl of the page with others; None after so many seconds. A page that all left loses its place.

        An order stays, also when its readers leave.
        """
        answer = self.ask(page, now, under_way=under_way, claim=claim)
        asked = self.pages.get(page.id)
        if asked is None:
            return answer.result()
        asked.readers += 1
        try:
            await asyncio.wait([answer], timeout=wait)
        finally:
            asked.readers -= 1
            if not asked.readers and not answer.done() and asked.claim < ReadClaim.ORDER and self.in_line(page):
                self.refuse(page, "all who waited for it have left")
                answer.result()
        return answer.result() if answer.done() else None

    def in_line(self, page: Page) -> bool:
        """Tells whether the page waits for a slot."""
        asked = self.pages.get(page.id)
        return asked is not None and page.id in self._lines[asked.claim].get(page.host, ())

    def by_host(self) -> Iterator[tuple[str, int]]:
        """Yields how many pages of each host wait for a slot that is theirs before all others."""
        for claim in (ReadClaim.ORDER, ReadClaim.INSIST):
            yield from ((host, len(some)) for host, some in self._lines[claim].items())

    def waiting(self, claim: ReadClaim) -> int:
        """Returns how many pages wait in a line."""
        return sum(map(len, self._lines[claim].values()))

    def first(self, now: float, claim: ReadClaim) -> Iterator[Page]:
        """The first page of each of some hosts in a line, those that were served longest ago first."""
        line = self._lines[claim]
        for host in list(islice(line, LIMITS.max_hosts_per_slot)):
            asked = next(iter(line[host].values()))
            if now - asked.at > LIMITS.max_asked_seconds:
                self.refuse(asked.page, "its host could not be asked within an hour")
            else:
                yield asked.page

    def bids(self) -> list[AskedPage]:
        """Some of the pages that are bid for, of the hosts that were served longest ago."""
        line = self._lines[ReadClaim.BID]
        return list(islice((asked for pages in line.values() for asked in pages.values()), LIMITS.max_bids_per_slot))

    def begin(self, page: Page) -> None:
        """The page is being crawled now; another host has the next turn."""
        line = self._lines[self.pages[page.id].claim]
        waiting = line[page.host]
        del waiting[page.id]
        line.move_to_end(page.host)
        if not waiting:
            del line[page.host]

    def refuse(self, page: Page, reason: str) -> None:
        """The page is not asked."""
        self.begin(page)
        self.crawled(page.id, reason)

    def crawled(self, page_id: int, answer: Answer) -> None:
        """A crawl of the page has ended; one that began before it was asked for leaves its place in the line."""
        asked = self.pages.get(page_id)
        if asked is not None:
            if self.in_line(asked.page):
                self.begin(asked.page)
            del self.pages[page_id]
            asked.answer.set_result(answer)

    def _raise(self, asked: AskedPage, claim: ReadClaim) -> None:
        """Let a page wait by a higher claim."""
        if self.in_line(asked.page):
            self.begin(asked.page)
            self._lines[claim].setdefault(asked.page.host, OrderedDict())[asked.page.id] = asked
        asked.claim = claim
