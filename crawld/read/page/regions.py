"""The parts of a page its text is in (navigation, header, article, hidden …), and which of them are compared.

`markup` writes the text of a page as one string in which noncharacters of Unicode, which no text contains, mark where
a part opens and closes. This module reads that string and decides. Which header, footer and aside are the page's and
which belong to an article follows the mapping of elements to landmarks (W3C, HTML Accessibility API Mappings).
"""

import math
from dataclasses import dataclass

KINDS = (
    "main", "article", "nav", "menu", "search", "header", "banner", "footer", "contentinfo", "aside", "callout", "h1",
    "title", "caption", "hidden", "section", "pre", "svg",
)  # fmt: skip
"""What a part can be. `banner` and `contentinfo`: a header and a footer that say they are the page's; `callout`: an
aside that belongs to the text; `caption`: text in SVG that is not drawn."""
_MARK = "\ufdd0"  # followed by what it marks
OPEN = {kind: f"{_MARK}{chr(0xFDD1 + number)}" for number, kind in enumerate(KINDS)}
CLOSE = dict.fromkeys(KINDS, f"{_MARK}\ufdeb")
CLOSE |= {"section": f"{_MARK}\ufde8", "pre": f"{_MARK}\ufde9", "svg": f"{_MARK}\ufdea"}
CUT = "\ufdec"
"""Marks where two blocks of text meet."""
_OPENED = {mark[1]: kind for kind, mark in OPEN.items()}
_CLOSED = {mark[1]: kind for kind, mark in CLOSE.items()}
# Of these there are many, and nothing needs to be known but whether one is around.
_COUNTED = ("section", "pre", "svg")

KEPT_SPACES = {" ": "\ufded", "\n": "\ufdee", "\t": "\ufdef"}
"""White space that counts, as it is written until all other white space has been evened out."""

SHORT = 50
SMALL_SHARE = 1 / 50
"""A text of fewer characters than SHORT that is less than this share of the page is not what the page is about.

A page with content is far above both, so neither a small edit nor a longer menu takes it across.
"""
LONG = 500
"""Hidden text of so many characters, where next to nothing else is there, is what a script will show."""
MOST_REGIONS = 5_000
"""So many parts of a page are told apart; a part that opens after them is taken for a piece of the one around it."""
MAIN, UNFRAMED, SEEN = range(3)
"""How much is compared, from the narrowest selection to the widest; each holds those before it."""
HIDDEN, OUTSIDE = "hidden", "outside main"
_ALWAYS = frozenset({"nav", "menu", "search"})
_PAGE_FRAME = {"header": "header", "banner": "header", "footer": "footer", "contentinfo": "footer", "aside": "aside"}
_IN_SVG = frozenset({"title", "caption"})
_BESIDE = frozenset({"aside", "nav", "hidden"})
_STAYS = frozenset({"main", "title"})


class Region:
    """A part of the page: what is around it, and why it is left out, if it is."""

    has_article = False
    """Of a main: whether an article says where in it the content is."""
    pardoned = False
    """Of a header or h1: whether it stays because the only heading of the page is in it."""
    of_article = False
    """Of a header or footer: whether it belongs to a part of the page, as another is the page's."""
    inside = False
    """Whether it stays where nothing but main does."""
    fate: str | None = None
    """Why it is left out."""
    level = MAIN
    """The narrowest selection it belongs to."""

    def __init__(self, kind: str, parent: "Region | None", *, in_section: bool, in_svg: bool) -> None:
        self.kind = kind
        self.parent = parent
        self.in_section = in_section or kind == "article"
        self.hidden = kind == "hidden"
        self.undrawn = in_svg and kind in _IN_SVG
        self.in_aside = kind in _BESIDE
        self.main: Region | None = None  # the outermost one around it
        self.header: Region | None = None  # the nearest header around it that may be the page's
        self.outer_header: Region | None = None
        if parent is not None:
            self._inherit(parent)

    def _inherit(self, parent: "Region") -> None:
        self.hidden = self.hidden or parent.hidden
        self.undrawn = self.undrawn or parent.undrawn
        self.in_section = self.in_section or parent.in_section
        self.in_aside = self.in_aside or parent.in_aside
        self.main = parent.main
        self.header = parent.header
        if self.kind == "main":
            self.main = self.main or self
        elif self.kind == "article":
            if self.main is not None and not self.in_aside:
                self.main.has_article = True
        elif _PAGE_FRAME.get(self.kind) == "header" and self.main is None and not self.in_section:
            self.outer_header, self.header = self.header, self

    @property
    def may_be_of_page(self) -> bool:
        """Whether nothing around it says that it belongs to a part of the page."""
        return self.main is None and not self.in_section and not self.in_aside and not self.hidden

    def call_out(self) -> None:
        """Take this part, if it is an aside, for a part of the text around it."""
        if self.kind == "aside":
            self.kind = "callout"
            self.in_aside = self.parent is not None and self.parent.in_aside

    def pardon(self) -> None:
        """Let this heading stay, with the headers around it."""
        header = self.header
        self.pardoned = header is None
        while header is not None and not header.pardoned:
            header.pardoned = True
            header = header.outer_header

    def decide(self) -> None:
        """Set why the text of this part is left out, once its parent's is known."""
        parent = self.parent
        if parent is None:
            return
        self.fate = self._reason() or parent.fate
        self.inside = self.pardoned or parent.inside or self.kind in _STAYS

    def _reason(self) -> str | None:
        if self.kind in _ALWAYS:
            return self.kind
        frame = _PAGE_FRAME.get(self.kind)
        if frame is None or self.in_section or self.of_article or self.pardoned:
            return None
        if self.main is not None and (frame == "header" or not self.main.has_article):
            return None
        return frame

    def set_level(self, *, only_main: bool) -> None:
        """Set the narrowest selection this part belongs to; `only_main`: whether the page has a main part."""
        if self.fate is None:
            self.level = MAIN if self.inside or not only_main else UNFRAMED
        else:
            self.level = SEEN


@dataclass(frozen=True)
class Selection:
    """The text to compare, still with its cuts; pieces that were left out, by kind; whether main was given up."""

    text: str
    title: str = ""
    """The title of the document, which is no part of `text`."""
    left_out: tuple[tuple[str, str], ...] = ()
    whole: bool = False
    in_main: bool = False
    """Whether it all lies in the main part that the page says it has."""


def select(text: str, *, main: bool) -> Selection:
    """The part of a marked text that is compared: the main text, or all that is seen."""
    regions, pieces = _read(text)
    _decide(regions)
    pieces, hidden = _without_hidden(pieces, MAIN if main else SEEN)
    level = _level_with_content(pieces) if main else SEEN
    kept: list[str] = []
    titles: list[str] = []
    title = next((region for region in regions if region.kind == "title" and not region.undrawn), None)
    left_out = [(HIDDEN, piece) for piece in hidden]
    for region, piece in pieces:
        if region.level <= level:
            (titles if region is title else kept).append(piece)
        else:
            left_out.append((region.fate or OUTSIDE, piece))
            if CUT in piece:
                kept.append(CUT)
    in_main = main and level == MAIN and any(region.kind == "main" and region.fate is None for region in regions)
    named = " ".join("".join(titles).replace(CUT, " ").split())
    return Selection("".join(kept), named, tuple(left_out), whole=main and level == SEEN, in_main=in_main)


def _read(text: str) -> tuple[list[Region], list[tuple[Region, str]]]:
    """Every part of the page in the order they open, and the text piece by piece with the part it is in."""
    first, *rest = text.split(_MARK)
    here = Region("page", None, in_section=False, in_svg=False)
    regions = [here]
    pieces = [(here, first)]
    around = dict.fromkeys(_COUNTED, 0)
    beyond = 0  # parts around that are not told apart
    for marked in rest:
        mark, piece = marked[:1], marked[1:]
        if kind := _OPENED.get(mark):
            if kind in around:
                around[kind] += 1
            elif len(regions) > MOST_REGIONS:
                beyond += 1
            else:
                if kind == "callout":
                    here.call_out()
                here = Region(kind, here, in_section=around["section"] > 0, in_svg=around["svg"] > 0)
                regions.append(here)
        elif kind := _CLOSED.get(mark):
            if kind in around:
                around[kind] -= 1
            elif beyond:
                beyond -= 1
            else:
                here = here.parent or here
        if piece and not here.undrawn:
            pieces.append((here, _keep_spaces(piece) if around["pre"] > 0 else piece))
    return regions, pieces


def _keep_spaces(text: str) -> str:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    for space, kept in KEPT_SPACES.items():
        text = text.replace(space, kept)
    return text


def _decide(regions: list[Region]) -> None:
    """Decide on every part. Where no h1 would be left, the page's title is in its own header, and that header stays.

    Of several headers the first is the page's, and of several footers the last: those between belong to parts of the
    page that are not marked as articles.
    """
    for kind, position in (("header", 0), ("footer", -1)):
        alike = [region for region in regions if region.kind == kind and region.may_be_of_page]
        for region in alike:
            region.of_article = region is not alike[position]
    _set_levels(regions)
    headings = [
        region for region in regions if region.kind == "h1" and region.fate in {None, "header"} and not region.hidden
    ]
    if headings and not any(region.level == MAIN for region in headings):
        for region in headings:
            region.pardon()
        _set_levels(regions)


def _set_levels(regions: list[Region]) -> None:
    for region in regions:
        region.decide()
    only_main = any(region.kind == "main" and region.fate is None and not region.hidden for region in regions)
    for region in regions:
        region.set_level(only_main=only_main)


def _without_hidden(pieces: list[tuple[Region, str]], level: int) -> tuple[list[tuple[Region, str]], list[str]]:
    """The pieces that are seen, and those that are not.

    A page that hides nearly all of its text until a script shows it would seem unchanged for ever: all of it is seen.
    """
    if not any(region.hidden for region, _ in pieces):
        return pieces, []
    seen = [(region, piece) for region, piece in pieces if not region.hidden]
    if _next_to_nothing(seen, level, pieces, level) and _characters(pieces, level, LONG) >= LONG:
        return pieces, []
    return seen, [piece for region, piece in pieces if region.hidden]


def _level_with_content(pieces: list[tuple[Region, str]]) -> int:
    """The narrowest selection that holds more than next to nothing of what is seen."""
    narrow = (level for level in (MAIN, UNFRAMED) if not _next_to_nothing(pieces, level, pieces, SEEN))
    return next(narrow, SEEN)


def _next_to_nothing(
    part: list[tuple[Region, str]], level: int, whole: list[tuple[Region, str]], whole_level: int
) -> bool:
    count = _characters(part, level, SHORT)
    return count < SHORT and count <= SMALL_SHARE * _characters(whole, whole_level, math.ceil(SHORT / SMALL_SHARE))


def _characters(pieces: list[tuple[Region, str]], level: int, most: int) -> int:
    """How many characters of text a selection holds beside the title, counted up to `most` or a little beyond."""
    count = 0
    for region, piece in pieces:
        if region.level <= level and region.kind != "title":
            for start in range(0, len(piece), 500):
                count += sum(map(len, piece[start : start + 500].replace(CUT, " ").split()))
                if count >= most:
                    return count
    return count
