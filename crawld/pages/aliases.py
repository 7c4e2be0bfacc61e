"""Other addresses of pages: which page each stands for, and how far the proof of further ones has come.

Spelling proves nothing: that two URLs differ as those of one page often do only makes them worth comparing.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawld.choose.scheduler import Scheduler
from crawld.model.page import Page
from crawld.model.url import host_of, identity
from crawld.pages.pages import Pages


@dataclass(frozen=True)
class AliasesLimits:
    """Numbers that bound and tune this module."""

    proofs: int = 2
    """Visits in a row that must show the same before an address is taken for another one of a page."""
    max_claims: int = 50_000
    """Pages whose claims are remembered; of the one longest unseen the proof begins anew."""


LIMITS = AliasesLimits()


TRACKING = frozenset(
    {
        "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid", "fbclid", "msclkid",
        "yclid", "ysclid", "twclid", "ttclid", "igshid", "igsh", "li_fat_id", "epik", "rdt_cid", "scclid", "mc_cid",
        "mc_eid", "mkt_tok", "_ga", "_gl", "_hsenc", "_hsmi", "__hstc", "__hssc", "__hsfp", "hsctatracking", "vero_id",
        "vero_conv", "oly_enc_id", "oly_anon_id", "wickedid", "rb_clickid", "s_cid", "cmpid", "wt.mc_id", "ncid",
    }
)  # fmt: skip
"""Parameters that tell where a visitor came from, and nothing of the page; `_tracks` knows some by their beginning."""
_INDEX = re.compile(r"(?<=/)(?:index\.(?:x?html?|php[0-9]?|jsp|aspx?|cgi)|default\.(?:html?|aspx?))$", re.IGNORECASE)


class Index(Protocol):
    """Finds pages by their URLs, for signals and for what may be one page."""

    def put(self, pages: Sequence[Page]) -> None:
        """Take pages in that are not in yet."""

    def drop(self, page_ids: Iterable[int]) -> None:
        """Forget pages that are in."""

    def alike(self, url: str) -> Sequence[int]:
        """The pages of a URL, whatever its spelling, scheme or slash at the end."""


class Aliases:
    """Aliases by page. `merges` is False where every address is kept as a page of its own.

    The workers of a fleet hold the pages of some hosts each: `same_host` leaves what is on another host alone.
    """

    def __init__(
        self, pages: Pages, scheduler: Scheduler, index: Index, *, merges: bool = True, same_host: bool = False
    ) -> None:
        self.merges, self.same_host = merges, same_host
        self._pages, self._scheduler, self._index = pages, scheduler, index
        self._doubted: set[int] = set()
        self._claims: OrderedDict[int, tuple[str, int, int]] = OrderedDict()  # target, times proved, times looked at
        self._unrivalled: set[int] = set()  # pages that are the best address of those alike, until more are listed
        self.left: set[int] = set()  # pages that an alias left: who wanted them besides is looked up

    def of(self, page_id: int) -> Page | None:
        """The page that an address stands for; None where it is a page of its own, or that page is not here."""
        of = self._scheduler.alias_of(page_id)
        return None if of is None else self._pages.get(of)

    def put(self, alias: int, of: int) -> None:
        """An address stands for a page; what stood for the address stands for that page too."""
        for other in self._scheduler.aliases_of(alias):
            self._scheduler.split(other)
            self._scheduler.merge(other, of)
        self._scheduler.merge(alias, of)
        self._claims.pop(alias, None)

    def end(self, alias: int, *, for_good: bool = True) -> None:
        """An address stands for no page here any longer; not `for_good` where it does so at another worker."""
        of = self._scheduler.alias_of(alias)
        self._doubted.discard(alias)
        if of is not None:
            self._scheduler.split(alias)
            if for_good:
                self.left.add(of)

    def doubt(self, alias: int) -> None:
        """Ask an address at the next chance, and let it be a page of its own whatever it answers."""
        self._doubted.add(alias)
        self._scheduler.lift(alias, float("-inf"))

    def doubted(self, alias: int) -> bool:
        """Tells whether an address becomes a page of its own: the page it stood for is not kept or moved to it."""
        return not self.merges or alias in self._doubted or self.of(alias) is None

    def drop(self, page_ids: Iterable[int], *, retired: bool) -> None:
        """Forget pages that leave; where they are retired, their other addresses are asked at the next chance."""
        for page_id in page_ids:
            for alias in self._scheduler.aliases_of(page_id) if retired else ():
                self.doubt(alias)
            self.end(page_id, for_good=retired)
            self._claims.pop(page_id, None)

    def find(self, url: str) -> Page | None:
        """The page of a URL, in any spelling of its identity."""
        wanted = identity(url)
        return next((page for page in self._alike(url) if identity(page.url) == wanted), None)

    def alone(self, page: Page) -> bool:
        """Tells whether it is known that no other address is a better one of the page, and it claimed none so far."""
        return page.id in self._unrivalled and "?" not in page.url and page.id not in self._claims

    def twin(self, page: Page) -> Page | None:
        """The page whose URL differs from this one's as those of one page do, where it is the better address.

        Better is https, then the plain spelling, then the page that was listed first.
        """
        if page.id in self._unrivalled:
            return None
        alike = {one for spelling in twin_spellings(page.url) for one in self._index.alike(spelling)}
        rivals = (self._pages.get(one) for one in alike if one != page.id)
        best = min((page, *(one for one in rivals if one is not None)), key=_rank) if alike != {page.id} else page
        if best is page:
            if len(self._unrivalled) >= LIMITS.max_claims:
                self._unrivalled.clear()
            self._unrivalled.add(page.id)
            return None
        kept = self.of(best.id) or best
        return None if kept.id == page.id or not self.may_stand_for(page, kept.url) else kept

    def more_listed(self) -> None:
        """Pages were added to the index: any of them may be alike to one that had none alike before."""
        self._unrivalled.clear()

    def _alike(self, url: str) -> list[Page]:
        return [page for page_id in self._index.alike(url) if (page := self._pages.get(page_id)) is not None]

    def may_stand_for(self, page: Page, url: str) -> bool:
        """Tells whether a page may become another address of that URL here."""
        return not self.same_host or host_of(url) == page.host

    def without_tracking(self, page: Page) -> str | None:
        """The page's URL without parameters that track visitors, where it has any."""
        if "?" not in page.url:
            return None
        found = without_tracking(page.url)
        return None if found == identity(page.url) else found

    def worth_a_look(self, page_id: int, target: str) -> bool:
        """Tells whether to check what a page claims; a claim that proved wrong is checked ever less often."""
        known, proved, looks = self._claims.get(page_id, ("", 0, 0))
        if known != target:
            known, proved, looks = target, 0, 0
        self._remember(page_id, (target, proved, looks + 1))
        return proved > 0 or looks & (looks - 1) == 0 or looks < LIMITS.proofs

    def proved(self, page_id: int, target: str) -> bool:
        """A visit showed that a page is another address of the target; whether that is enough."""
        known, proved, looks = self._claims.get(page_id, (target, 0, 0))
        proved = proved + 1 if known == target else 1
        self._remember(page_id, (target, proved, looks))
        return proved >= LIMITS.proofs

    def disproved(self, page_id: int) -> None:
        """A visit showed that a page is not what it claims, or that it claims nothing."""
        if page_id in self._claims:
            target, _, looks = self._claims[page_id]
            self._remember(page_id, (target, 0, looks))

    def _remember(self, page_id: int, claim: tuple[str, int, int]) -> None:
        self._claims[page_id] = claim
        self._claims.move_to_end(page_id)
        if len(self._claims) > LIMITS.max_claims:
            self._claims.popitem(last=False)


def _rank(page: Page) -> tuple[bool, bool, int]:
    return not page.url.startswith("https:"), plain_spelling(page.url) != page.url, page.id


def without_tracking(url: str) -> str:
    """The identity of a target without parameters that only track visitors; the rest is left in its order."""
    path, mark, query = identity(url).partition("?")
    if not query:
        return path + mark
    kept = [part for part in query.split("&") if not _tracks(part.partition("=")[0].lower())]
    return f"{path}?{'&'.join(kept)}" if kept else path


def _tracks(name: str) -> bool:
    return name in TRACKING or name.startswith(("utm_", "pk_", "mtm_", "piwik_", "matomo_"))


def plain_spelling(url: str) -> str:
    """The same without a file name that names its folder, doubled slashes, and a question mark with nothing behind."""
    path, mark, query = without_tracking(url).partition("?")
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{_INDEX.sub('', re.sub('//+', '/', rest))}{mark if query else ''}{query}"


def twin_spellings(url: str) -> tuple[str, ...]:
    """The plain spelling with and without `www.`: which scheme and slash at the end, its match key leaves open."""
    plain = plain_spelling(url)
    scheme, _, rest = plain.partition("://")
    other = rest.removeprefix("www.") if rest.startswith("www.") else f"www.{rest}"
    return plain, f"{scheme}://{other}"
