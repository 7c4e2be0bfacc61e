"""The texts of kept copies, read in workers: they are foreign bytes."""

from collections.abc import Callable, Sequence

from crawld.model.difference import BlockEdit
from crawld.model.page import Document, PagePart
from crawld.model.workers import Workers
from crawld.pages.documents import documents_of
from crawld.read.page import blocks, difference
from crawld.read.page.document import read_document
from crawld.read.page.rules import DigestRule
from crawld.store.control import Copy
from crawld.store.views import VersionBody


class StoredTexts:
    """Implements `interfaces.read_model.PageTexts`; `rule_for` says by URL what of a page is compared."""

    def __init__(self, workers: Workers, rule_for: Callable[[str], DigestRule]) -> None:
        self._workers = workers
        self._rule_for = rule_for

    async def document(self, copy: Copy) -> Document | None:
        """A copy as a reader has it."""
        rule = self._rule_for(copy.url)
        return await self._workers.run(copy.host, read_document, copy.body, copy.content_type, copy.url, rule, ())

    async def documents(self, versions: Sequence[VersionBody]) -> Sequence[Document | None]:
        """Several versions as a reader has them; None where one has no text, or takes too much to read."""
        given = [(one.host, one.body, one.version.content_type, one.url) for one in versions]
        return await documents_of(self._workers, self._rule_for, given)

    async def difference(self, before: VersionBody, after: VersionBody) -> Sequence[BlockEdit] | None:
        """What the second version did to the first."""
        old, new = ((one.body, one.version.content_type) for one in (before, after))
        return await self._workers.run(after.host, difference.difference, old, new, self._rule_for(after.url))

    async def parts(self, version: VersionBody) -> Sequence[PagePart]:
        """The parts of a version that can be left out of what is compared."""
        rule, content_type = self._rule_for(version.url), version.version.content_type
        return await self._workers.run(version.host, blocks.page_parts, version.body, content_type, rule)
