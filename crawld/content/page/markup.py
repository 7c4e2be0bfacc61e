"""HTML to the blocks of text that are compared, in bounded time whatever the markup."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from typing import Any

from lxml import etree

from crawld.content.charset import encoding_of
from crawld.content.headers import media_type
from crawld.content.page.cost import is_readable, is_readable_deep
from crawld.content.page.landmarks import mark_frame, mark_styles
from crawld.content.page.patterns import erase
from crawld.content.page.regions import CLOSE, CUT, KEPT_SPACES, OPEN, select
from crawld.content.page.rules import DigestRule

BLOCKS = (
    "address", "blockquote", "body", "br", "button", "caption", "center", "dd", "details", "dialog", "dir", "div", "dl",
    "dt", "fieldset", "figcaption", "figure", "form", "h2", "h3", "h4", "h5", "h6", "hgroup", "hr", "legend", "li",
    "menu", "ol", "optgroup", "option", "p", "select", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr",
    "ul",
)  # fmt: skip
"""Elements that begin and end a block of text."""
PARTS = {
    **{name: name for name in ("main", "article", "section", "nav", "search", "header", "footer", "aside", "h1")},
    **dict.fromkeys(("pre", "textarea", "listing", "xmp", "plaintext"), "pre"),
    "dialog[not(@open)]": "hidden",
}
"""Elements that begin and end a block and say what kind of text is inside."""
INLINE_PARTS = {"title": "title", "svg": "svg", **dict.fromkeys(("desc", "metadata", "defs", "symbol"), "caption")}
"""Elements that say what kind of text is inside and, in SVG, may stand in the middle of a line."""
UNSEEN = (
    "script", "style", "template", "noscript", "iframe", "audio", "video", "canvas", "object", "applet", "noembed",
    "noframes", "datalist", "rp", "annotation", "annotation-xml",
)  # fmt: skip
"""Elements whose text no reader sees: programs, and what stands in where a browser cannot show the element."""
TITLE_BYTES, MAX_TITLE = 65_536, 300
"""Bytes of a page that its title is looked for in, and characters of it that are kept."""
_TITLE, _TITLE_END = re.compile(rb"<title", re.IGNORECASE), re.compile(rb"</title", re.IGNORECASE)
_LANGUAGE = re.compile(
    rb"<html\b[^>]{0,2000}?\s(?:xml:)?lang\s*=\s*[\"']?([a-z]{2,8}(?:-[a-z0-9]{1,8}){0,4})[\s\"'/>]", re.IGNORECASE
)
MOST_SIBLINGS = 2_000
"""Selectors that count siblings take time by the square of their number."""
MOST_CUTS = 20_000
"""What follows after so many blocks is one more block."""
EVENED_AT_ONCE = 65_536
"""Characters of a block whose white space is evened out at once."""
WIDE = etree.XPath(f"boolean(//*[count(*) > {MOST_SIBLINGS}])")


def _templates() -> str:
    """What the style sheet writes for each element; elements without a template give the text inside them."""
    inside = "<xsl:apply-templates/>"
    blocks = {"|".join(BLOCKS): (CUT, CUT), "title": (OPEN["title"] + CUT, CUT + CLOSE["title"])}
    blocks |= {name: (CUT + OPEN[kind], CLOSE[kind] + CUT) for name, kind in PARTS.items()}
    blocks |= {name: (OPEN[kind], CLOSE[kind]) for name, kind in INLINE_PARTS.items() if name != "title"}
    written = [
        f'<xsl:template match="{name}"><xsl:text>{before}</xsl:text>{inside}<xsl:text>{after}</xsl:text></xsl:template>'
        for name, (before, after) in blocks.items()
    ]
    shadow = f'<xsl:template match="template[@shadowrootmode]">{inside}</xsl:template>'  # which browsers do show
    return "".join(written) + f'<xsl:template match="{"|".join(UNSEEN)}"/>' + shadow


# A style sheet walks the tree several times faster than Python does.
_TEXT = etree.XSLT(
    etree.XML(
        f"""<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
        <xsl:output method="text" encoding="utf-8"/>{_templates()}</xsl:stylesheet>"""
    )
)
_NONCHARACTERS = re.compile(rb"\xef\xb7[\x90-\xaf]")  # U+FDD0 to U+FDEF in UTF-8
_SPACE = re.compile(r"\s")
_KEPT = re.compile(f"[{''.join(KEPT_SPACES.values())}]")
_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_UNTOLD = {None, "text/plain", "application/octet-stream", "unknown/unknown"}
_LOOKS_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml.{0,200}?\?>\s*)?(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)


def is_html(body: bytes, content_type: str | None) -> bool:
    """Whether a body is HTML, as declared, or by its beginning where plain text is declared, or nothing."""
    kind = media_type(content_type)
    return kind in _HTML_TYPES or (kind in _UNTOLD and _LOOKS_HTML.match(body) is not None)


@dataclass(frozen=True)
class PageText:
    """What of a page is compared."""

    blocks: list[str]
    whole: bool = False
    """Whether the mode is main and the whole visible text is compared all the same, there being no other content."""
    only: bool = False
    """Whether it is what the rule's `only` found."""
    titled: bool = False
    """Whether the first block is the title of the document."""
    in_main: bool = False
    """Whether all of it but the title lies in the main part that the page says it has."""
    _pieces: tuple[tuple[str, str], ...] = ()

    @cached_property
    def left_out(self) -> dict[str, int]:
        """How many blocks of text were left out, by the kind of element they are in."""
        counts: Counter[str] = Counter()
        for kind, piece in self._pieces:
            counts[kind] += sum(1 for block in piece.split(CUT, MOST_CUTS) if block.strip())
        return {kind: count for kind, count in counts.most_common() if count}


def page_title(body: bytes, content_type: str | None) -> str | None:
    """The title of a page, from its first kilobytes: white space evened out, cut where it is very long."""
    start = body[:TITLE_BYTES]
    opened = _TITLE.search(start)
    begin = 0 if opened is None else start.find(b">", opened.end()) + 1
    ended = _TITLE_END.search(start, begin) if begin else None
    if ended is None or not is_html(body, content_type):
        return None
    text = start[begin : ended.start()].decode(encoding_of(start, content_type), "replace")
    title = " ".join(unescape(text).split())
    return title[:MAX_TITLE] or None


def page_language(body: bytes, content_type: str | None) -> str | None:
    """The language that a page says it is in, as `de-AT`."""
    found = _LANGUAGE.search(body[:TITLE_BYTES])
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
    if root is None or (any(one.counts_siblings for one in rule.selectors) and WIDE(root)):
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
    return _NONCHARACTERS.sub("\ufffd".encode(), body)


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
        if not any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
            return root
    return None


def _gathered(root: Any, elements: list[Any]) -> Any:
    """The elements that lie in none of the others, in the order of the page, moved into one of their own."""
    chosen = set(elements)
    inside: set[Any] = set()
    outermost = []
    for element in root.iter():
        if element in chosen and element not in inside:
            outermost.append(element)
            inside.update(below for below in element.iter() if below in chosen)
    gathered = etree.Element("body")
    for element in outermost:
        element.tail = None
        etree.SubElement(gathered, "div").append(element)  # which begins and ends a block
    return gathered


def _blocks(text: str, rule: DigestRule) -> Iterator[str]:
    """The text cut wherever a block begins or ends."""
    pieces = text.split(CUT, MOST_CUTS)
    pieces[-1] = pieces[-1].replace(CUT, " ")
    texts = rule._texts
    for piece in pieces:
        if not (block := piece.strip()):
            continue
        # Most blocks have no white space but single spaces; to see that costs half of taking them apart.
        formatted = False
        if not block.isprintable() or "  " in block:
            block = _evened(block)
            if formatted := _KEPT.search(block) is not None:
                block = _with_spaces(block)
        if texts:
            block = erase(texts, block)
            block = block if formatted else _evened(block)
        if block and not (formatted and block.isspace()):
            yield block


def _evened(text: str) -> str:
    """The text with single spaces, taken apart a stretch at a time: a word takes many times its letters in memory."""
    if len(text) <= EVENED_AT_ONCE:
        return " ".join(text.split())
    stretches: list[str] = []
    start = 0
    while start < len(text):
        space = _SPACE.search(text, start + EVENED_AT_ONCE)
        end = space.start() if space else len(text)
        if stretch := " ".join(text[start:end].split()):
            stretches.append(stretch)
        start = end
    return " ".join(stretches)


def _with_spaces(block: str) -> str:
    """The block with the white space that counts."""
    for space, kept in KEPT_SPACES.items():
        block = block.replace(kept, space)
    return "\n".join(_indented(block.split("\n")))


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
