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
_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_LOOKS_HTML = re.compile(
    rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_CUT = "\ue000"  # private use: marks where blocks meet; inside a text it would only cut a block in two


def is_html(body: bytes, content_type: str | None) -> bool:
    """Whether a body is HTML, as declared, or by its beginning where nothing is declared."""
    kind = media_type(content_type)
    return kind in _HTML_TYPES if kind else _LOOKS_HTML.match(body) is not None


def visible_blocks(body: bytes, content_type: str | None, rule: DigestRule) -> list[str] | None:
    """The visible text, block by block, white space evened out; None where it cannot be had.

    It cannot be had where there is none (an empty body, a page drawn by scripts) and where the markup is nested
    deeper than the parser goes: beyond that depth the parser drops text without a word, and the page would seem
    unchanged for ever.
    """
    root = _parse(body, content_type)
    if root is None:
        return None
    for tree in _unseen(root, rule):
        _drop(tree)
    chosen = rule._only(root) if rule._only is not None else []
    blocks = [block for part in _outermost(chosen) or [root] for block in _blocks(part)]
    if rule._texts:
        blocks = [" ".join(erase(rule._texts, block).split()) for block in blocks]
    return [block for block in blocks if block] or None


def _parse(body: bytes, content_type: str | None) -> Any | None:
    encoding = encoding_of(body, content_type)
    if encoding != "utf-8":
        body = body.decode(encoding, "replace").encode("utf-8", "replace")
    parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError):
        return None
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        return None
    return root


def _unseen(root: Any, rule: DigestRule) -> list[Any]:
    """Elements that hold no visible text or are not wanted."""
    found = list(root.iter("script", "style", "template", "iframe"))
    found += root.xpath("//*[@hidden]")
    for selector in rule._selectors:
        found += selector(root)
    return found


def _drop(element: Any) -> None:
    """Empty an element but keep its place and what follows it."""
    tail = element.tail
    element.clear()
    element.tail = tail


def _outermost(elements: list[Any]) -> list[Any]:
    """The elements that lie in none of the others."""
    chosen = set(elements)
    return [element for element in elements if not any(above in chosen for above in element.iterancestors())]


def _blocks(root: Any) -> Iterator[str]:
    for element in root.iter(*BLOCKS):
        element.text = _CUT + (element.text or "")
        if element is not root:
            element.tail = _CUT + (element.tail or "")
    for block in "".join(root.itertext(with_tail=False)).split(_CUT):
        if text := " ".join(block.split()):
            yield text
