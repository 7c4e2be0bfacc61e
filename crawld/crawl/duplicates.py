"""Whether a page that was visited is another address of one that is kept, and whether an alias still is one.

What is proved concerns the page that was asked alone: nothing that one host says can hide a page of another.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from crawld.crawl.admission import RequestChain, site_of
from crawld.crawl.sender import Sender
from crawld.model.crawl import Memory
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Redirected, Request, Use
from crawld.model.page import Alias, Page
from crawld.model.url import host_of, identity, origin_of
from crawld.pages.page_set import PageSet

REDIRECT = "it redirects there permanently"
SAME = "which answers with the same text"
Same = Callable[[Fetched], Awaitable[bool]]
"""Whether an answer has the text of the page that was visited."""


@dataclass(frozen=True, slots=True)
class AliasClaim:
    """An address that a page may be another one of; `kept` is its page, None where no page has it."""

    url: str
    why: str
    kept: Page | None


@dataclass(slots=True)
class Duplicates:
    """Proves aliases, asking for other addresses with slots, gates and robots.txt like any further request."""

    page_set: PageSet
    sender: Sender

    async def prove(
        self, claim: AliasClaim, page: Page, memory: Memory, chain: RequestChain, same: Same, now: float
    ) -> Alias | None:
        """The page that a visited one is another address of, where that has now been proved often enough.

        `memory` is what the visit saw, `chain` what it took.
        """
        aliases = self.page_set.aliases
        if claim.why != REDIRECT:
            if not aliases.worth_a_look(page.id, claim.url):
                return None
            if not await self._alike(memory, claim.url, claim.kept, chain, same, page):
                aliases.disproved(page.id)
                return None
        if not aliases.proved(page.id, claim.url):
            return None
        kept = aliases.find(claim.url) or await self.page_set.settle_at(claim.url, page.importance, now)
        if kept is None:
            return None
        if (stands_for := aliases.of(kept.id)) is not None and stands_for.id == page.id:
            aliases.doubt(kept.id)  # it stood for this page, which has moved to it: first it is a page of its own
            return None
        kept = stands_for or kept
        return Alias(kept.id, kept.url, claim.why)

    def claim(self, page: Page, memory: Memory, chain: RequestChain) -> AliasClaim | None:
        """Returns what the page may be another address of, once all pages can be found.

        1. It was redirected there permanently, whatever answers there.
        2. It names a canonical address: of its own site, or of a page that is kept, wherever that is.
        3. A page that is kept differs in spelling alone, and is the better address.
        4. It has parameters that only track visitors.
        """
        aliases, found = self.page_set.aliases, None
        if not aliases.merges or (chain.moved_to is None and memory.canonical is None and aliases.alone(page)):
            return None
        if (moved := chain.moved_to) is not None:
            if identity(moved) != identity(page.url) and aliases.may_stand_for(page, moved):
                found = AliasClaim(moved, REDIRECT, None)
        elif memory.canonical is not None and (claim := self._canonical(page, memory.canonical)) is not None:
            found = claim
        elif (twin := aliases.twin(page)) is not None:
            found = AliasClaim(twin.url, f"it is another spelling of that address, {SAME}", twin)
        elif (bare := aliases.without_tracking(page)) is not None:
            found = AliasClaim(
                bare, f"without parameters that track visitors it is that address, {SAME}", aliases.find(bare)
            )
        if found is None:
            aliases.disproved(page.id)
        return found if found is not None and self.page_set.indexed else None

    def _canonical(self, page: Page, canonical: str) -> AliasClaim | None:
        aliases = self.page_set.aliases
        if identity(canonical) == identity(page.url) or not aliases.may_stand_for(page, canonical):
            return None
        kept = aliases.find(canonical)
        own = site_of(host_of(canonical)) == site_of(page.host)
        why = f"it names that address as its canonical one, {SAME}"
        return AliasClaim(canonical, why, kept) if kept is not None or own else None

    async def still(self, page: Page, memory: Memory | None, outcome: Outcome, chain: RequestChain, same: Same) -> bool:
        """Tells whether an alias that was asked is one still; where that is unknown, it is."""
        aliases = self.page_set.aliases
        kept = aliases.of(page.id)
        if kept is None or aliases.doubted(page.id):
            return False
        if isinstance(outcome, FetchFailed | Redirected):
            return True
        if chain.moved_to is not None and identity(chain.moved_to) == identity(kept.url):
            return True
        if outcome.status >= 300 or memory is None:
            return False
        return await self._alike(memory, kept.url, kept, chain, same, page) is not False

    async def _alike(
        self, memory: Memory, url: str, kept: Page | None, chain: RequestChain, same: Same, page: Page
    ) -> bool | None:
        """Whether an address answers with the text just seen: by our copy of it, or else by asking; None: unknown."""
        known = None if kept is None else await self.page_set.store.recall(kept.id)
        if known is not None:
            if known.canonical is not None and identity(known.canonical) == identity(page.url):
                return False  # that page says that this is the better address
            seen, copy = memory.digest, known.digest
            if seen.scheme == copy.scheme and (seen.raw == copy.raw or (seen.text or b"") == copy.text):
                return True
        bare = origin_of(url) != origin_of(page.url)
        answer = await self.sender.send_alone(Request(url, host_of(url), use=Use.SECOND_LOOK, bare=bare), chain)
        if isinstance(answer, FetchFailed):
            return None
        return isinstance(answer, Fetched) and answer.status < 300 and await same(answer)
