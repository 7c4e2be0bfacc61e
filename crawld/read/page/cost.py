"""Cost of reading a page, estimated from its bytes before a parser, which can be made slow, looks at them.

The parser compares each attribute of a tag with all others, looks for each end tag through all open elements, and makes
a node of a few hundred bytes for every tag and every attribute. So tags, attributes and depth are bounded, and what
goes beyond is compared by its bytes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import re2


@dataclass(frozen=True)
class CostLimits:
    """Numbers that bound and tune this module."""

    max_tags: int = 300_000
    """Tags that are read in a second or so."""
    max_tags_selected: int = 50_000
    """Selectors take time by tags times depth, so fewer tags and fewer levels are read for them."""
    max_stray_ends: int = 5_000
    """End tags that close nothing, in a page nested deeper than 256 levels: each is looked for through up to 2,048."""
    max_attributes: int = 256
    """Attributes of one tag; the parser takes time by the square of their number. People write fewer than a hundred."""
    max_bytes_of_tree: int = 80_000_000
    """Memory, as estimated, that the tree of a page may take; a worker that reads pages may use some 128 MB."""
    bytes_of_tag: int = 160
    bytes_of_attribute: int = 250
    bytes_of_text: int = 3
    """Memory of a tag with the text after it, of an attribute with a value, and of a byte of text with its copies."""
    cheap_bytes: int = 16_384
    cheap_tags: int = 400
    cheap_attributes: int = 64
    cheap_marks: int = 60
    """A body within these four bounds is read in a few milliseconds at worst; in one, unless it was made to be slow."""


LIMITS = CostLimits()


PDF_MARK = b"%PDF-"
"""First bytes of a PDF: small ones may take seconds too."""


def _ordinary() -> re.Pattern[bytes]:
    """Goes through a page tag by tag, never back, and stops at the first tag of too many attributes."""
    space = rb"[\t\n\f\r ]"
    name = rb"[A-Za-z][^\t\n\f\r />]{0,200}+"  # what is longer counts as attributes
    attribute = (
        rb"[\t\n\f\r /]*+[^\t\n\f\r />][^\t\n\f\r /=>]*+"
        rb"(?:%(s)s*+=%(s)s*+(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r >\"'][^\t\n\f\r >]*+)?+)?+" % {b"s": space}
    )
    comment = rb"!--(?:[^-]++|-(?!->))*+(?:-->)?+"
    script = rb"(?:script|style)\b(?:[^<]++|<(?!/s(?:cript|tyle)\b))*+"
    return re.compile(
        rb"(?:[^<]++|<(?:%s|%s|%s(?:%s){0,%d}+(?!%s)|(?![A-Za-z])))*+"
        % (comment, script, name, attribute, LIMITS.max_attributes, attribute),
        re.IGNORECASE,
    )


def _large_tag() -> re.Pattern[bytes]:
    """Cuts what is long into several attributes, so that a look at one `<` ends soon.

    It may count too many attributes, never too few.
    """
    return re.compile(
        rb"<[A-Za-z][^\t\n\f\r />]{0,50}+(?:[\t\n\f\r /]*+[^\t\n\f\r />][^\t\n\f\r /=>]{0,50}+"
        rb"(?:%(s)s*+=%(s)s*+(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r >\"'][^\t\n\f\r >]{0,50}+)?+)?+){%(n)d}"
        % {b"s": rb"[\t\n\f\r ]", b"n": LIMITS.cheap_attributes}
    )


_ORDINARY, _LARGE_TAG = _ordinary(), _large_tag()
_TAG_NAMES = re.compile(rb"</?[A-Za-z][^\t\n\f\r />]{0,20}")
_CLOSED_BY_THE_NEXT = frozenset({b"<a", b"<dd", b"<dt", b"<li", b"<option", b"<p", b"<td", b"<th", b"<tr"})
_VOID = (b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta", b"param", b"source",
         b"track", b"wbr")  # fmt: skip
_MARKED = re2.compile(rb"(?i)hidden|style|role|<(?:aside|header|main|nav|footer|article|h1)")
"""Tags that cost a multiple of others: an element is marked, or its surroundings are looked at."""


def is_cheap(body: bytes) -> bool:
    """Tells whether a body may be read at once, on the event loop: whatever is in it, that takes a few milliseconds.

    Looks at every `<` as if a tag began there, so that no quote or comment can hide one.
    """
    if len(body) > LIMITS.cheap_bytes or body.count(b"<") > LIMITS.cheap_tags or b"\0" in body:  # as in UTF-16
        return False
    if body.startswith(PDF_MARK):
        return False
    if next(islice(_MARKED.finditer(body), LIMITS.cheap_marks, None), None) is not None:
        return False
    return _LARGE_TAG.search(body) is None


def is_readable(body: bytes, *, selected: bool) -> bool:
    """Tells whether a page can be parsed in time and memory linear in its size; `selected`: by selectors."""
    tags = body.count(b"<")
    if tags > (LIMITS.max_tags_selected if selected else LIMITS.max_tags):
        return False
    if len(body) <= LIMITS.cheap_bytes and tags <= LIMITS.cheap_tags and _LARGE_TAG.search(body) is None:
        return True  # a third of what the whole look costs
    tree = LIMITS.bytes_of_tag * tags + LIMITS.bytes_of_attribute * body.count(b"=") + LIMITS.bytes_of_text * len(body)
    if tree > LIMITS.max_bytes_of_tree:
        return False
    found = _ORDINARY.match(body)
    return found is not None and found.end() == len(body)


def is_readable_deep(body: bytes) -> bool:
    """Tells whether a page nested deeper than 256 levels can be read in time linear in its size."""
    if body.count(b"</") <= LIMITS.max_stray_ends:
        return True
    tags = _TAG_NAMES.findall(body.lower())
    names = Counter(tags)
    names.subtract(_closed_by_the_next(tags))
    for void in _VOID:
        names.pop(b"<" + void, None)  # never open
    ends = ((name, count) for name, count in names.items() if name.startswith(b"</"))
    return sum(max(0, count - names.get(b"<" + name[2:], 0)) for name, count in ends) <= LIMITS.max_stray_ends


def _closed_by_the_next(tags: Iterable[bytes]) -> Iterator[bytes]:
    """The start tags whose element the next one of its name ended."""
    is_open: set[bytes] = set()
    for tag in tags:
        if tag in _CLOSED_BY_THE_NEXT:
            if tag in is_open:
                yield tag
            is_open.add(tag)
        elif tag.startswith(b"</"):
            is_open.discard(b"<" + tag[2:])
