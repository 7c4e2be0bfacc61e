"""Copies become documents: read in workers when a change is committed, kept, and indexed where search is on.

The keeper follows the changes as any consumer does, so crawling never waits for it and a start goes on where the last
one ended. Copies from before it was switched on are read first, page by page.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby

from crawld.model.crawl import BlockEdit
from crawld.model.errors import TooCostlyError
from crawld.model.page import Document, PagePart
from crawld.model.web import Workers
from crawld.read.page import blocks
from crawld.read.page import blocks as difference
from crawld.read.page.document import read_document, read_documents
from crawld.read.page.rules import DigestRule
from crawld.store.database import ChangeSignal
from crawld.store.documents import PendingCopy
from crawld.store.store import SqlStore
from crawld.store.views import Copy, VersionBody

log = logging.getLogger(__name__)
Given = tuple[str, bytes, str | None, str]
"""A copy to read: its host, its bytes, their type and its address."""


async def documents_of(
    workers: Workers, rule_for: Callable[[str], DigestRule], copies: Sequence[Given]
) -> list[Document | None]:
    """The documents of copies, read a few at a time in workers; None where one has no text or takes too much."""
    parts = [_read_some(workers, rule, some) for rule, some in _batches(rule_for, copies)]
    return [one for part in await asyncio.gather(*parts) for one in part]


def _batches(
    rule_for: Callable[[str], DigestRule], copies: Sequence[Given]
) -> Iterator[tuple[DigestRule, list[Given]]]:
    """Neighbours of one host and rule, as many as a worker reads within a moment."""
    for _, alike in groupby(((rule_for(copy[3]), copy) for copy in copies), key=lambda one: (one[0], one[1][0])):
        batch: list[Given] = []
        size = 0
        for rule, copy in alike:
            if batch and (size + len(copy[1]) > 131_072 or len(batch) >= 16):
                yield rule, batch
                batch, size = [], 0
            batch.append(copy)
            size += len(copy[1])
        if batch:
            yield rule, batch


async def _read_some(workers: Workers, rule: DigestRule, copies: Sequence[Given]) -> Sequence[Document | None]:
    """Read a batch; where it takes too much, each of its copies by itself."""
    host = copies[0][0]
    try:
        return await workers.run(host, read_documents, [(body, kind, url) for _, body, kind, url in copies], rule)
    except TooCostlyError as error:
        if len(copies) == 1:
            log.info("no document", extra={"url": copies[0][3], "why": str(error)})
            return [None]
    return [one for copy in copies for one in await _read_some(workers, rule, [copy])]


class DocumentKeeper:
    """Keeps a document of every page's latest version; `shared` says which blocks many pages of its host have."""

    def __init__(
        self,
        store: SqlStore,
        workers: Workers,
        events: ChangeSignal,
        rule_for: Callable[[str], DigestRule],
        shared: Callable[[PendingCopy], Awaitable[Sequence[int]]],
        *,
        search: bool,
    ) -> None:
        self._store, self._workers, self._events = store, workers, events
        self._rule_for, self._shared, self._search = rule_for, shared, search

    async def run(self) -> None:
        """Keep documents in step with the changes until cancelled."""
        cursor = await self._store.prepare_documents(search=self._search)
        if cursor is None:
            cursor = await self._store.newest_change()
            await self._read_all()
            await self._store.save_documents((), cursor, search=self._search)
        while True:
            committed = self._events.next()  # before looking: what is committed meanwhile sets it
            cursor = await self._follow(cursor)
            while await self._store.tidy_documents(search=self._search):
                pass
            try:
                async with asyncio.timeout(30.0):  # pages leave, too
                    await committed.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(0.2)  # many changes are then read in one step

    async def _read_all(self) -> None:
        """Read the latest copy of every page that has one."""
        page = 0
        while copies := await self._store.pending_copies(page, by_page=True):
            await self._keep(copies, None)
            page = copies[-1].number

    async def _follow(self, cursor: int) -> int:
        """Read what changes beyond a number brought; the number of the last of them."""
        while copies := await self._store.pending_copies(cursor, by_page=False):
            cursor = copies[-1].number
            await self._keep(copies, cursor)
        return cursor

    async def _keep(self, copies: Sequence[PendingCopy], cursor: int | None) -> None:
        fresh = {copy.page_id: copy for copy in copies if copy.body is not None}  # of two versions the later
        found = await asyncio.gather(*map(self._read, fresh.values()))
        kept = [(copy, one) for copy, one in zip(fresh.values(), found) if one is not None]
        if kept or cursor is not None:
            await self._store.save_documents(kept, cursor, search=self._search)

    async def _read(self, copy: PendingCopy) -> Document | None:
        try:
            return await self._workers.run(
                copy.host,
                read_document,
                copy.body or b"",
                copy.content_type,
                copy.url,
                self._rule_for(copy.url),
                await self._shared(copy),
            )
        except TooCostlyError as error:
            log.info("no document", extra={"url": copy.url, "why": str(error)})
            return None


class StoredTexts:
    """Texts of kept copies, read in a worker; TooCostlyError where that takes too much.

    `rule_for` says by URL what of a page is compared.
    """

    def __init__(self, workers: Workers, rule_for: Callable[[str], DigestRule]) -> None:
        self._workers = workers
        self._rule_for = rule_for

    async def document(self, copy: Copy) -> Document | None:
        """A copy as a reader has it; None where it has no text."""
        rule = self._rule_for(copy.url)
        return await self._workers.run(copy.host, read_document, copy.body, copy.content_type, copy.url, rule, ())

    async def documents(self, versions: Sequence[VersionBody]) -> Sequence[Document | None]:
        """Several versions as a reader has them; None where one has no text, or takes too much to read."""
        given = [(one.host, one.body, one.version.content_type, one.url) for one in versions]
        return await documents_of(self._workers, self._rule_for, given)

    async def difference(self, before: VersionBody, after: VersionBody) -> Sequence[BlockEdit] | None:
        """Returns what the second version did to the first; None where either has no text."""
        old, new = ((one.body, one.version.content_type) for one in (before, after))
        return await self._workers.run(after.host, difference.difference, old, new, self._rule_for(after.url))

    async def parts(self, version: VersionBody) -> Sequence[PagePart]:
        """The parts of a version that can be left out of what is compared; none where bytes are compared."""
        rule, content_type = self._rule_for(version.url), version.version.content_type
        return await self._workers.run(version.host, blocks.page_parts, version.body, content_type, rule)
