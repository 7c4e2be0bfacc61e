"""HTML to the blocks of text a reader sees, in bounded time whatever the markup."""

import re
from collections.abc import Iterator
from typing import Any

from lxml import etree
from lxml.html import HTMLParser

from crawld.content.charset import encoding_of
from crawld.content.headers import media_type
from crawld.content.patterns import erase
from crawld.content.rules import DigestRule

BLOCKS = (
    "address", "article", "aside", "blockquote", "body", "br", "button", "caption", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "hr", "legend", "li", "main", "nav", "ol", "option", "p", "pre", "section", "select", "summary", "table", "tbody",
    "td", "textarea", "tfoot", "th", "thead", "title", "tr", "ul",
)  # fmt: skip
"""Elements that begin and end a block of text."""
UNSEEN = ("script", "style", "template", "iframe")
"""Elements whose text no reader sees."""
MOST_TAGS = 300_000
MOST_TAGS_SELECTED = 50_000
"""Selectors take time by tags times depth, so fewer tags and fewer levels are read for them."""
MOST_SIBLINGS = 2_000
"""Selectors that count siblings take time by the square of their number."""
MOST_CUTS = 20_000
"""What follows after so many blocks is one more block."""
_CUT = "\ue000"  # private use: marks where blocks meet; inside a text it would only cut a block in two
_WIDE = etree.XPath(f"boolean(//*[count(*) > {MOST_SIBLINGS}])")
_HIDDEN = etree.XPath("//*[@hidden]")
# A style sheet walks the tree several times faster than Python does.
_TEXT = etree.XSLT(
    etree.XML(
        f"""<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
        <xsl:output method="text" encoding="utf-8"/>
        <xsl:template match="{"|".join(BLOCKS)}">
            <xsl:text>{_CUT}</xsl:text><xsl:apply-templates/><xsl:text>{_CUT}</xsl:text>
        </xsl:template>
        <xsl:template match="{"|".join(UNSEEN)}"/>
        </xsl:stylesheet>"""
    )
)
_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_LOOKS_HTML = re.compile(
    rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)


def is_html(body: bytes, content_type: str | None) -> bool:
    """Whether a body is HTML, as declared, or by its beginning where nothing is declared."""
    kind = media_type(content_type)
    return kind in _HTML_TYPES if kind else _LOOKS_HTML.match(body) is not None


def visible_blocks(body: bytes, content_type: str | None, rule: DigestRule) -> list[str] | None:
    """The visible text, block by block, white space evened out; None where it cannot be had.

    It cannot be had where there is none (an empty body, a page drawn by scripts), where there are more tags than can be
    read in a second or so, and where the markup is nested deeper than the parser goes: beyond that depth the parser
    drops text without a word, and the page would seem unchanged for ever.
    """
    if body.count(b"<") > (MOST_TAGS_SELECTED if rule.selectors else MOST_TAGS):
        return None
    root = _parse(body, content_type, deep=not rule.selectors)
    if root is None or (any(one.counts_siblings for one in rule.selectors) and _WIDE(root)):
        return None
    unseen = _HIDDEN(root)
    for selector in rule._selectors:
        unseen += selector.find(root)
    for element in unseen:
        element.clear(keep_tail=True)
    chosen = rule._only.find(root) if rule._only is not None else []
    parts = _outermost(root, chosen) if chosen else [root]
    try:
        blocks = [block for part in parts for block in _blocks(part)]
    except etree.XSLTError:
        return None
    if rule._texts:
        blocks = [" ".join(erase(rule._texts, block).split()) for block in blocks]
    return [block for block in blocks if block] or None


def _parse(body: bytes, content_type: str | None, *, deep: bool) -> Any | None:
    """The tree: down to 2,048 levels where it is `deep`, else 256."""
    encoding = encoding_of(body, content_type)
    if encoding != "utf-8":
        body = body.decode(encoding, "replace").encode("utf-8", "replace")
    parser = HTMLParser(encoding="utf-8", huge_tree=deep, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError):
        return None
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        return None
    return root


def _outermost(root: Any, elements: list[Any]) -> list[Any]:
    """The elements that lie in none of the others, in the order of the page."""
    chosen = set(elements)
    outer = {element for element in chosen if not any(above in chosen for above in element.iterancestors())}
    return [element for element in root.iter() if element in outer]


def _blocks(root: Any) -> Iterator[str]:
    """The text below an element, cut wherever a block begins or ends."""
    pieces = bytes(_TEXT(root)).decode("utf-8", "replace").split(_CUT, MOST_CUTS)
    pieces[-1] = pieces[-1].replace(_CUT, " ")
    for piece in pieces:
        if text := piece.strip():
            # Most blocks have no white space but single spaces; to see that costs half of taking them apart.
            even = text.isprintable() and "  " not in text
            yield text if even else " ".join(text.split())
