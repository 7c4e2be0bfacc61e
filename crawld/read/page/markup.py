"""HTML to the blocks of text that are compared, in bounded time whatever the markup."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from html import unescape
from itertools import islice
from typing import Any, NamedTuple

from lxml import etree

from crawld.read.charset import encoding_of
from crawld.read.headers import media_type
from crawld.read.page.cost import is_readable, is_readable_deep
from crawld.read.page.rules import DigestRule, erase


@dataclass(frozen=True)
class MarkupLimits:
    """Numbers that bound and tune this module."""

    short: int = 50
    small_share: float = 1 / 50
    """A text of fewer characters than SHORT that is less than this share of the page is not what the page is about.

    A page with content is far above both, so neither a small edit nor a longer menu takes it across.
    """
    long: int = 500
    """Hidden text of so many characters, where next to nothing else is there, is what a script will show."""
    max_regions: int = 5_000
    """So many parts of a page are told apart; a part that opens after them is taken for a piece of the one around
    it."""
    max_marked: int = 5_000
    """So many attributes of each name are looked at; the next element is taken as if it had none."""
    max_named: int = 100
    """So many elements are recognised by id or class; what is around them is looked at for each."""
    max_headers: int = 10
    max_in_header: int = 300
    """Menus are looked for in the first headers of a page, in so many elements of each."""
    max_style: int = 2_000
    max_class: int = 200
    title_bytes: int = 65_536
    max_title: int = 300
    """Bytes of a page that its title is looked for in, and characters of it that are kept."""
    max_siblings: int = 2_000
    """Selectors that count siblings take time by the square of their number."""
    max_cuts: int = 20_000
    """Blocks of a page; all that follows them is one more block."""
    evened_at_once: int = 65_536
    """Characters of a block whose white space is evened out at once."""


LIMITS = MarkupLimits()


KINDS = (
    "main", "article", "nav", "menu", "search", "header", "banner", "footer", "contentinfo", "aside", "callout", "h1",
    "title", "caption", "hidden", "section", "pre", "svg",
)  # fmt: skip
"""Kinds of parts. `banner` and `contentinfo`: a header and a footer that say they are the page's; `callout`: an
aside that belongs to the text; `caption`: text in SVG that is not drawn."""
_MARK = "\ufdd0"  # followed by what it marks
OPEN = {kind: f"{_MARK}{chr(0xFDD1 + number)}" for number, kind in enumerate(KINDS)}
CLOSE = dict.fromkeys(KINDS, f"{_MARK}\ufdeb")
CLOSE |= {"section": f"{_MARK}\ufde8", "pre": f"{_MARK}\ufde9", "svg": f"{_MARK}\ufdea"}
CUT = "\ufdec"
"""Marks where two blocks of text meet."""
_OPENED = {mark[1]: kind for kind, mark in OPEN.items()}
_CLOSED = {mark[1]: kind for kind, mark in CLOSE.items()}


class PageWords(NamedTuple):
    """Tags, roles, ids and classes that say what a part of a page is."""

    always_out: frozenset[str] = frozenset({"nav", "menu", "search"})
    page_frame: Mapping[str, str] = {
        "header": "header", "banner": "header", "footer": "footer", "contentinfo": "footer", "aside": "aside",
    }  # fmt: skip
    in_svg: frozenset[str] = frozenset({"title", "caption"})
    beside: frozenset[str] = frozenset({"aside", "nav", "hidden"})
    stays: frozenset[str] = frozenset({"main", "title"})
    counted: tuple[str, ...] = ("section", "pre", "svg")
    """Of these there are many, and nothing needs to be known but whether one is around."""
    kind_of_role: Mapping[str, str] = {
        "main": "main", "article": "article", "navigation": "nav", "doc-toc": "nav", "menu": "menu", "menubar": "menu",
        "toolbar": "menu", "search": "search", "banner": "banner", "contentinfo": "contentinfo",
        "complementary": "aside",
    }  # fmt: skip
    kind_of_name: Mapping[str, str] = {
        **dict.fromkeys(
            ("breadcrumb", "breadcrumbs", "main-nav", "main-navigation", "mw-navigation", "navbar", "site-nav",
             "site-navigation", "topnav", "wy-nav-side"), "nav"),
        **dict.fromkeys(("site-header",), "banner"),
        **dict.fromkeys(("site-footer",), "contentinfo"),
        **dict.fromkeys(("sidebar", "sphinxsidebar", "widget-area"), "aside"),
    }  # fmt: skip
    """Ids and classes that say what an element is."""
    kind_of_id: Mapping[str, str] = {
        **kind_of_name,
        "header": "banner", "masthead": "banner", "footer": "contentinfo", "colophon": "contentinfo", "nav": "nav",
        "navigation": "nav", "mw-head": "nav", "mw-panel": "nav", "left-sidebar": "aside", "right-sidebar": "aside",
    }  # fmt: skip
    """Ids, which a page gives to one element only, may be plainer."""
    callouts: frozenset[str] = frozenset(
        {"admonition", "alert", "attention", "callout", "caution", "danger", "definition", "error", "example",
         "footnote", "footnote-list", "footnotes", "hint", "important", "info", "note", "notice", "pull-quote",
         "pullquote", "seealso", "starlight-aside", "success", "tip", "topic", "warning"}
    )  # fmt: skip
    """Classes of an aside that is part of the text: a note, a warning, a quotation."""
    named: tuple[str, ...] = ("div", "ul", "ol", "section", "form")
    menus: frozenset[str] = frozenset({"ul", "ol", "a", "button"})
    headings: frozenset[str] = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
    blocks: tuple[str, ...] = (
        "address", "blockquote", "body", "br", "button", "caption", "center", "dd", "details", "dialog", "dir", "div",
        "dl", "dt", "fieldset", "figcaption", "figure", "form", "h2", "h3", "h4", "h5", "h6", "hgroup", "hr", "legend",
        "li", "menu", "ol", "optgroup", "option", "p", "select", "summary", "table", "tbody", "td", "tfoot", "th",
        "thead", "tr", "ul",
    )  # fmt: skip
    """Elements that begin and end a block of text."""
    parts: Mapping[str, str] = {
        "main": "main", "article": "article", "section": "section", "nav": "nav", "search": "search",
        "header": "header", "footer": "footer", "aside": "aside", "h1": "h1",
        **dict.fromkeys(("pre", "textarea", "listing", "xmp", "plaintext"), "pre"), "dialog[not(@open)]": "hidden",
    }  # fmt: skip
    """Elements that begin and end a block and say what kind of text is inside."""
    inline_parts: Mapping[str, str] = {
        "title": "title", "svg": "svg", **dict.fromkeys(("desc", "metadata", "defs", "symbol"), "caption"),
    }  # fmt: skip
    """Elements that say what kind of text is inside and, in SVG, may stand in the middle of a line."""
    unseen: tuple[str, ...] = (
        "script", "style", "template", "noscript", "iframe", "audio", "video", "canvas", "object", "applet", "noembed",
        "noframes", "datalist", "rp", "annotation", "annotation-xml",
    )  # fmt: skip
    """Elements whose text no reader sees: programs, and what stands in where a browser cannot show the element."""
    html_types: AbstractSet[str] = {"text/html", "application/xhtml+xml"}
    untold_types: AbstractSet[str | None] = {None, "text/plain", "application/octet-stream", "unknown/unknown"}


WORDS = PageWords()


KEPT_SPACES = {" ": "\ufded", "\n": "\ufdee", "\t": "\ufdef"}
"""White space that counts, as it is written until all other white space has been evened out."""


class Breadth(IntEnum):
    """Selections of what is compared, from the narrowest to the widest; each holds those before it."""

    MAIN = 0
    UNFRAMED = 1
    SEEN = 2


HIDDEN, OUTSIDE = "hidden", "outside main"


class Region:
    """A part of the page: what is around it, and why it is left out, if it is."""

    has_article = False
    """Of a main: whether an article says where in it the content is."""
    pardoned = False
    """Of a header or h1: whether it stays because the only heading of the page is in it."""
    of_article = False
    """Of a header or footer: whether it belongs to a part of the page, as another is the page's."""
    inside = False
    """True where it stays although nothing but main does."""
    fate: str | None = None
    """Why it is left out."""
    level = Breadth.MAIN
    """The narrowest selection it belongs to."""

    def __init__(self, kind: str, parent: "Region | None", *, in_section: bool, in_svg: bool) -> None:
        self.kind = kind
        self.parent = parent
        self.in_section = in_section or kind == "article"
        self.hidden = kind == "hidden"
        self.undrawn = in_svg and kind in WORDS.in_svg
        self.in_aside = kind in WORDS.beside
        self.main: Region | None = None  # the outermost one around it
        self.header: Region | None = None  # the nearest header around it that may be the page's
        self.outer_header: Region | None = None
        if parent is None:
            return
        self.hidden = self.hidden or parent.hidden
        self.undrawn = self.undrawn or parent.undrawn
        self.in_section = self.in_section or parent.in_section
        self.in_aside = self.in_aside or parent.in_aside
        self.main, self.header = parent.main, parent.header
        if kind == "main":
            self.main = self.main or self
        elif kind == "article":
            if self.main is not None and not self.in_aside:
                self.main.has_article = True
        elif WORDS.page_frame.get(kind) == "header" and self.main is None and not self.in_section:
            self.outer_header, self.header = self.header, self

    def pardon(self) -> None:
        """Let this heading stay, with the headers around it."""
        header = self.header
        self.pardoned = header is None
        while header is not None and not header.pardoned:
            header.pardoned = True
            header = header.outer_header


@dataclass(frozen=True)
class Selection:
    """The text to compare, still with its cuts; pieces that were left out, by kind; whether main was given up."""

    text: str
    title: str = ""
    """The title of the document, which is no part of `text`."""
    left_out: tuple[tuple[str, str], ...] = ()
    whole: bool = False
    in_main: bool = False
    """True where it all lies in the main part that the page marks."""


def select(text: str, *, main: bool) -> Selection:
    """The part of a marked text that is compared: the main text, or all that is seen."""
    regions, everything = _read(text)
    _decide(regions)
    level = Breadth.MAIN if main else Breadth.SEEN
    pieces, left_out = [], []
    for region, piece in everything:
        if region.hidden:
            left_out.append((HIDDEN, piece))
        else:
            pieces.append((region, piece))
    if left_out and _next_to_nothing(pieces, level, everything, level):
        much = _characters(everything, level, LIMITS.long) >= LIMITS.long
        # A page that hides nearly all of its text until a script shows it would seem unchanged for ever: all is seen.
        pieces, left_out = (everything, []) if much else (pieces, left_out)
    while level < Breadth.SEEN and _next_to_nothing(pieces, level, pieces, Breadth.SEEN):
        level = Breadth(level + 1)
    title, in_main = None, False
    for region in regions:
        in_main = in_main or (region.kind == "main" and region.fate is None)
        if title is None and region.kind == "title" and not region.undrawn:
            title = region
    kept: list[str] = []
    titles: list[str] = []
    for region, piece in pieces:
        if region.level <= level:
            (titles if region is title else kept).append(piece)
        else:
            left_out.append((region.fate or OUTSIDE, piece))
            if CUT in piece:
                kept.append(CUT)
    named = " ".join("".join(titles).replace(CUT, " ").split())
    whole, in_main = main and level == Breadth.SEEN, main and level == Breadth.MAIN and in_main
    return Selection("".join(kept), named, tuple(left_out), whole, in_main)


def _read(text: str) -> tuple[list[Region], list[tuple[Region, str]]]:
    """Every part of the page in the order they open, and the text piece by piece with the part it is in."""
    first, *rest = text.split(_MARK)
    here = Region("page", None, in_section=False, in_svg=False)
    regions = [here]
    pieces = [(here, first)]
    around = dict.fromkeys(WORDS.counted, 0)
    beyond = 0  # parts around that are not told apart
    for marked in rest:
        mark, piece = marked[:1], marked[1:]
        if kind := _OPENED.get(mark):
            if kind in around:
                around[kind] += 1
            elif len(regions) > LIMITS.max_regions:
                beyond += 1
            else:
                if kind == "callout" and here.kind == "aside":  # it is a part of the text around it
                    here.kind, here.in_aside = kind, here.parent is not None and here.parent.in_aside
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
    headers: list[Region] = []
    footers: list[Region] = []
    headings: list[Region] = []
    for region in regions:
        if region.kind == "h1":
            headings.append(region)
        elif region.kind not in {"header", "footer"} or region.main is not None:
            continue
        elif not (region.in_section or region.in_aside or region.hidden):  # nothing says that it is a part's
            (headers if region.kind == "header" else footers).append(region)
    for region in (*headers[1:], *footers[:-1]):
        region.of_article = True
    _set_levels(regions)
    outside: list[Region] = []
    for region in headings:
        if region.fate in {None, "header"} and not region.hidden:
            if region.level == Breadth.MAIN:
                return
            outside.append(region)
    for region in outside:
        region.pardon()
    if outside:
        _set_levels(regions)


def _set_levels(regions: list[Region]) -> None:
    """Set why each part is left out, and the narrowest selection that it belongs to; those around it come first."""
    only_main = False
    for region in regions:
        kind, parent = region.kind, region.parent
        if parent is not None:
            region.fate = parent.fate
            region.inside = region.pardoned or parent.inside or kind in WORDS.stays
        of_part = region.in_section or region.of_article or region.pardoned
        frame = None if of_part else WORDS.page_frame.get(kind)
        if kind in WORDS.always_out:
            region.fate = kind
        elif frame is not None and (region.main is None or (frame != "header" and region.main.has_article)):
            region.fate = frame
        only_main = only_main or (kind == "main" and region.fate is None and not region.hidden)
    for region in regions:
        if region.fate is not None:
            region.level = Breadth.SEEN
        else:
            region.level = Breadth.MAIN if region.inside or not only_main else Breadth.UNFRAMED


def _next_to_nothing(
    part: list[tuple[Region, str]], level: int, whole: list[tuple[Region, str]], whole_level: int
) -> bool:
    count = _characters(part, level, LIMITS.short)
    return count < LIMITS.short and count <= LIMITS.small_share * _characters(
        whole, whole_level, math.ceil(LIMITS.short / LIMITS.small_share)
    )


def _characters(pieces: list[tuple[Region, str]], level: int, most: int) -> int:
    """Counts the characters of a selection beside the title, up to `most` or a little beyond."""
    count = 0
    for region, piece in pieces:
        if region.level <= level and region.kind != "title":
            for start in range(0, len(piece), 500):
                count += sum(map(len, piece[start : start + 500].replace(CUT, " ").split()))
                if count >= most:
                    return count
    return count


class MarkupPatterns(NamedTuple):
    """Questions to a tree, and patterns of text and of bytes."""

    hidden: etree.XPath = etree.XPath("//*/@hidden")
    style: etree.XPath = etree.XPath("//*/@style")
    role: etree.XPath = etree.XPath("//*/@role")
    styles: etree.XPath = etree.XPath("//*/@style", smart_strings=False)
    in_article: etree.XPath = etree.XPath("boolean(ancestor::article)")
    of_page: etree.XPath = etree.XPath(
        "not(ancestor::article or ancestor::section or ancestor::main or ancestor::aside or ancestor::nav)"
    )
    wide: etree.XPath = etree.XPath(f"boolean(//*[count(*) > {LIMITS.max_siblings}])")
    unwritable: re.Pattern[str] = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
    style_that_matters: re.Pattern[str] = re.compile("none|hidden|collapse|pre|break-spaces", re.IGNORECASE)
    space: re.Pattern[str] = re.compile(r"\s")
    kept_space: re.Pattern[str] = re.compile(f"[{''.join(KEPT_SPACES.values())}]")
    title: re.Pattern[bytes] = re.compile(rb"<title", re.IGNORECASE)
    title_end: re.Pattern[bytes] = re.compile(rb"</title", re.IGNORECASE)
    language: re.Pattern[bytes] = re.compile(
        rb"<html\b[^>]{0,2000}?\s(?:xml:)?lang\s*=\s*[\"']?([a-z]{2,8}(?:-[a-z0-9]{1,8}){0,4})[\s\"'/>]", re.IGNORECASE
    )
    noncharacters: re.Pattern[bytes] = re.compile(rb"\xef\xb7[\x90-\xaf]")  # U+FDD0 to U+FDEF in UTF-8
    looks_html: re.Pattern[bytes] = re.compile(
        rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml.{0,200}?\?>\s*)?(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b",
        re.IGNORECASE | re.DOTALL,
    )


PATTERNS = MarkupPatterns()


def mark(element: Any, kind: str) -> None:
    """Mark all that is inside an element as being of a kind."""
    element.text = OPEN[kind] + _writable(element.text)
    if len(element):
        last = element[-1]
        last.tail = _writable(last.tail) + CLOSE[kind]
    else:
        element.text += CLOSE[kind]


def _writable(text: str | None) -> str:
    """The text as the tree takes it: the parser lets characters through that must not be written back."""
    return PATTERNS.unwritable.sub("\ufffd", text) if text else ""


def mark_styles(root: Any) -> None:
    """Mark what is hidden by attribute or inline style, and where white space is kept by inline style.

    `html` and `body` are never hidden: pages that say so show themselves by a script. What is hidden until found
    (`hidden=until-found`) is like a closed `details`: a reader gets to it.
    """
    for value in islice(PATTERNS.hidden(root), LIMITS.max_marked):
        if value.strip().lower() != "until-found":
            _mark_below_body(value.getparent(), "hidden")
    styles = dict.fromkeys(islice(PATTERNS.styles(root), LIMITS.max_marked))  # most are written many times
    kinds: dict[str, str] = {}
    for style in styles:
        if kind := _kind_of_style(style):
            kinds[style] = kind
    if kinds:
        for value in islice(PATTERNS.style(root), LIMITS.max_marked):
            if value in kinds:
                _mark_below_body(value.getparent(), kinds[value])


def hides(element: Any) -> bool:
    """Tells whether attributes or an inline style of an element hide it from readers."""
    if element.get("hidden", "until-found").strip().lower() != "until-found":
        return True
    style = element.get("style")
    return style is not None and _kind_of_style(style) == "hidden"


def _kind_of_style(style: str) -> str | None:
    if not PATTERNS.style_that_matters.search(style, 0, LIMITS.max_style):
        return None
    found = _declarations(style)
    if found.get("display") == "none" or found.get("visibility") in {"hidden", "collapse"}:
        return "hidden"
    if found.get("content-visibility") == "hidden":
        return "hidden"
    return "pre" if found.get("white-space") in {"pre", "pre-wrap", "break-spaces"} else None


def _mark_below_body(element: Any, kind: str) -> None:
    if element.tag not in {"html", "body"}:
        mark(element, kind)


def _declarations(style: str) -> dict[str, str]:
    """The properties an inline style sets; of two, the important one or else the later one holds."""
    found: dict[str, str] = {}
    important = set()
    for declaration in style[: LIMITS.max_style].lower().split(";"):
        name, _, value = declaration.rpartition("*/")[2].partition(":")
        value, mark_, _ = value.partition("!")
        name = name.strip()
        if mark_:
            important.add(name)
        if mark_ or name not in important:
            found[name] = value.strip()
    return found


def mark_frame(root: Any) -> None:
    """Mark what roles, and in a page without a main part ids and classes, say of the frame around the content."""
    has_main = False
    headers: list[Any] = []
    for element in islice(root.iter("main", "header", "aside"), LIMITS.max_marked):
        has_main = has_main or element.tag == "main"
        if element.tag == "header" and len(headers) < LIMITS.max_headers:
            headers.append(element)
        elif element.tag == "aside" and is_callout(element):
            mark(element, "callout")
    banners = list(islice(filter(PATTERNS.of_page, headers), 1))  # the others are headers of posts
    for value in islice(PATTERNS.role(root), LIMITS.max_marked):
        kind = next((WORDS.kind_of_role[role] for role in _words(value) if role in WORDS.kind_of_role), None)
        if kind is not None:
            element = value.getparent()
            has_main = has_main or kind == "main"
            mark(element, kind)
            if kind == "banner":
                banners.append(element)
    if not has_main:
        banners += _mark_named(root)
    for element in banners[: LIMITS.max_headers]:
        if next(element.iter("h1"), None) is not None and PATTERNS.of_page(element):
            _mark_menus(element)


def is_callout(aside: Any) -> bool:
    """Tells whether an aside is a part of the text: a note, a warning, a quotation."""
    role = (aside.get("role") or "").strip().lower()
    return role == "note" or role.startswith("doc-") or not WORDS.callouts.isdisjoint(_words(aside.get("class") or ""))


def _mark_named(root: Any) -> list[Any]:
    """Mark elements by id or class, outside of articles; returns the banners among them."""
    banners = []
    found = 0
    for element in root.iter(*WORDS.named):
        classes = element.get("class")
        kind = _kind_of_classes(classes[: LIMITS.max_class]) if classes else None
        kind = kind or WORDS.kind_of_id.get(element.get("id"))
        found += kind is not None
        if found > LIMITS.max_named:
            break
        if kind is not None and not PATTERNS.in_article(element):
            mark(element, kind)
            if kind == "banner":
                banners.append(element)
    return banners


@lru_cache(4096)
def _kind_of_classes(classes: str) -> str | None:
    return next((WORDS.kind_of_name[word] for word in _words(classes) if word in WORDS.kind_of_name), None)


def _words(text: str) -> list[str]:
    return text[: LIMITS.max_style].lower().split()


def _mark_menus(header: Any) -> None:
    """Mark lists and links in a header, all but those in headings: if it stays for the title in it, its menus don't."""
    waiting = [header]
    for _ in range(LIMITS.max_in_header):
        if not waiting:
            break
        for element in waiting.pop():
            if element.tag in WORDS.menus:
                mark(element, "menu")
            elif element.tag not in WORDS.headings:
                waiting.append(element)


def _templates() -> str:
    """Returns what the style sheet writes for each element; elements without a template give the text inside them."""
    inside = "<xsl:apply-templates/>"
    blocks = {"|".join(WORDS.blocks): (CUT, CUT), "title": (OPEN["title"] + CUT, CUT + CLOSE["title"])}
    blocks |= {name: (CUT + OPEN[kind], CLOSE[kind] + CUT) for name, kind in WORDS.parts.items()}
    blocks |= {name: (OPEN[kind], CLOSE[kind]) for name, kind in WORDS.inline_parts.items() if name != "title"}
    written = [
        f'<xsl:template match="{name}"><xsl:text>{before}</xsl:text>{inside}<xsl:text>{after}</xsl:text></xsl:template>'
        for name, (before, after) in blocks.items()
    ]
    shadow = f'<xsl:template match="template[@shadowrootmode]">{inside}</xsl:template>'  # which browsers do show
    return "".join(written) + f'<xsl:template match="{"|".join(WORDS.unseen)}"/>' + shadow


# A style sheet walks the tree several times faster than Python does.
_TEXT = etree.XSLT(
    etree.XML(
        f"""<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
        <xsl:output method="text" encoding="utf-8"/>{_templates()}</xsl:stylesheet>"""
    )
)


def is_html(body: bytes, content_type: str | None) -> bool:
    """Tells whether a body is HTML, as declared, or by its beginning where plain text is declared, or nothing."""
    kind = media_type(content_type)
    return kind in WORDS.html_types or (kind in WORDS.untold_types and PATTERNS.looks_html.match(body) is not None)


@dataclass(frozen=True)
class PageText:
    """The text of a page that is compared."""

    blocks: list[str]
    whole: bool = False
    """True where the mode is main and the page has no main part: its whole visible text is compared."""
    only: bool = False
    """True where it is the part that the rule's `only` found."""
    titled: bool = False
    """True where the first block is the title of the document."""
    in_main: bool = False
    """True where all but the title lies in the main part that the page marks."""
    _pieces: tuple[tuple[str, str], ...] = ()

    @cached_property
    def left_out(self) -> dict[str, int]:
        """Returns how many blocks of text were left out, by the kind of element they are in."""
        counts: Counter[str] = Counter()
        for kind, piece in self._pieces:
            counts[kind] += sum(1 for block in piece.split(CUT, LIMITS.max_cuts) if block.strip())
        return {kind: count for kind, count in counts.most_common() if count}


def page_title(body: bytes, content_type: str | None) -> str | None:
    """The title of a page, from its first kilobytes: white space evened out, cut where it is very long."""
    start = body[: LIMITS.title_bytes]
    opened = PATTERNS.title.search(start)
    begin = 0 if opened is None else start.find(b">", opened.end()) + 1
    ended = PATTERNS.title_end.search(start, begin) if begin else None
    if ended is None or not is_html(body, content_type):
        return None
    text = start[begin : ended.start()].decode(encoding_of(start, content_type), "replace")
    title = " ".join(unescape(text).split())
    return title[: LIMITS.max_title] or None


def page_language(body: bytes, content_type: str | None) -> str | None:
    """The language that a page says it is in, as `de-AT`."""
    found = PATTERNS.language.search(body[: LIMITS.title_bytes])
    return found[1].decode() if found is not None and is_html(body, content_type) else None


def visible_blocks(body: bytes, content_type: str | None, rule: DigestRule) -> list[str] | None:
    """The blocks of text that are compared, as `page_text` has them."""
    text = page_text(body, content_type, rule)
    return None if text is None else text.blocks


def page_text(body: bytes, content_type: str | None, rule: DigestRule) -> PageText | None:
    """The text that is compared, block by block, white space evened out; None where only bytes can be compared.

    That is where there is no text (an empty body, a page drawn by scripts), where there are more tags and attributes
    than can be read in a second or so, and where the markup is nested deeper than the parser goes: beyond that depth
    the parser drops text silently, and the page would seem unchanged for ever.
    """
    root = parsed_page(body, content_type, rule)
    del body
    if root is None:
        return None
    chosen = rule._only.find(root) if rule._only is not None else []
    main = rule.mode == "main" and not chosen  # what the operator chose is compared as it is
    mark_styles(root)
    if main:
        mark_frame(root)
    try:
        text = bytes(_TEXT(_gathered(root, chosen) if chosen else root)).decode("utf-8", "replace")
    except etree.XSLTError:
        return None
    found = bool(chosen)
    del root, chosen
    selection = select(text, main=main)
    del text
    blocks = list(_blocks(selection.text, rule))
    title = next(_blocks(selection.title, rule), None)
    if title is not None:
        blocks.insert(0, title)
    shape = selection.whole, found, title is not None, selection.in_main
    return PageText(blocks, *shape, selection.left_out) if blocks else None


def parsed_page(body: bytes, content_type: str | None, rule: DigestRule) -> Any | None:
    """The elements of a page without what the rule ignores; None where the page cannot be read."""
    data = _as_utf8(body, content_type)
    del body  # what is not needed any more is let go all the way down: a page may be large, a worker may not
    if not is_readable(data, selected=bool(rule.selectors)):
        return None
    root = _parse(data, deep=not rule.selectors)
    if root is None:
        return None
    if rule.selectors and any(one.counts_siblings for one in rule.selectors) and PATTERNS.wide(root):
        return None
    for selector in rule._selectors:
        for element in selector.find(root):
            element.clear(keep_tail=True)
    return root


def page_tree(body: bytes, content_type: str | None) -> Any | None:
    """The elements of a page that selectors may look through; None where that would take too much."""
    data = _as_utf8(body, content_type)
    return _parse(data, deep=False) if is_readable(data, selected=True) else None


def _as_utf8(body: bytes, content_type: str | None) -> bytes:
    """The body in UTF-8, without what could be taken for our marks."""
    encoding = encoding_of(body, content_type)
    if encoding != "utf-8":
        body = body.decode(encoding, "replace").encode("utf-8", "replace")
    if body.isascii() or b"\xef\xb7" not in body:
        return body
    return PATTERNS.noncharacters.sub("\ufffd".encode(), body)


def _parse(data: bytes, *, deep: bool) -> Any | None:
    """The tree: down to 256 levels, or 2,048 where it may be `deep` and is."""
    for huge in (False, True):
        if huge and not (deep and is_readable_deep(data)):
            break
        # lxml.html's own parser would ask Python for the class of each element.
        parser = etree.HTMLParser(encoding="utf-8", huge_tree=huge, remove_comments=True, remove_pis=True)
        try:
            root = etree.fromstring(data, parser)
        except (etree.LxmlError, ValueError):
            return None
        if not parser.error_log.filter_types(etree.ErrorTypes.ERR_RESOURCE_LIMIT):
            return root
    return None


def outermost(elements: Sequence[Any]) -> list[Any]:
    """Those that lie in none of the others, in the same order; what is around an element comes before it."""
    chosen, inside = set(elements), set[Any]()
    found = []
    for one in elements:
        if one not in inside:
            found.append(one)
            inside.update(below for below in one.iter() if below in chosen)
    return found


def _gathered(root: Any, elements: list[Any]) -> Any:
    """The elements that lie in none of the others, in the order of the page, moved into one of their own."""
    chosen = set(elements)
    gathered = etree.Element("body")
    for element in outermost([one for one in root.iter() if one in chosen]):
        element.tail = None
        etree.SubElement(gathered, "div").append(element)  # which begins and ends a block
    return gathered


_PLAIN = bytes(range(0x20, 0x7F))  # to look for other bytes takes half the time of isprintable


def _blocks(text: str, rule: DigestRule) -> Iterator[str]:
    """The text cut wherever a block begins or ends."""
    pieces = text.split(CUT, LIMITS.max_cuts)
    pieces[-1] = pieces[-1].replace(CUT, " ")
    texts = rule._texts
    for piece in pieces:
        if not (block := piece.strip()):
            continue
        # Most blocks have no white space but single spaces; to see that costs half of taking them apart.
        formatted = False
        plain = block.isprintable() if not block.isascii() else not block.encode().translate(None, _PLAIN)
        if not plain or "  " in block:
            block = _evened(block)
            if formatted := PATTERNS.kept_space.search(block) is not None:
                for space, kept in KEPT_SPACES.items():
                    block = block.replace(kept, space)
                block = "\n".join(_indented(block.split("\n")))
        if texts:
            block = erase(texts, block)
            block = block if formatted else _evened(block)
        if block and not (formatted and block.isspace()):
            yield block


def _evened(text: str) -> str:
    """The text with single spaces, taken apart a stretch at a time: a word takes many times its letters in memory."""
    if len(text) <= LIMITS.evened_at_once:
        return " ".join(text.split())
    stretches: list[str] = []
    start = 0
    while start < len(text):
        space = PATTERNS.space.search(text, start + LIMITS.evened_at_once)
        end = space.start() if space else len(text)
        if stretch := " ".join(text[start:end].split()):
            stretches.append(stretch)
        start = end
    return " ".join(stretches)


def _indented(lines: list[str]) -> list[str]:
    """Lines without white space at their ends, empty ones around them, and the indentation that all of them share.

    What remains of the indentation is told in steps: a block indented by four spaces or by tabs in place of two is the
    same text. Spacing inside a line counts.
    """
    lines = [line.rstrip().expandtabs(4) for line in lines]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    indents = [len(line) - len(line.lstrip()) for line in lines if line]
    if len(indents) < 2:  # perhaps a line of code in an element of its own, which says nothing of the others
        return lines
    least = min(indents, default=0)
    step = math.gcd(*(indent - least for indent in indents)) or 1
    found = []
    for line in lines:
        text = line.lstrip()
        found.append("  " * ((len(line) - len(text) - least) // step) + text if line else "")
    return found
