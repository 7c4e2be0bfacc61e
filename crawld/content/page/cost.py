"""What reading a page will cost, seen from its bytes alone: before a parser, which can be made slow, looks at them.

The parser compares each attribute of a tag with all others, looks for each end tag through all open elements, and makes
a node of a few hundred bytes for every tag and every attribute. So tags, attributes and depth are bounded, and what
goes beyond is compared by its bytes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import re2

MOST_TAGS = 300_000
"""Tags that are read in a second or so."""
MOST_TAGS_SELECTED = 50_000
"""Selectors take time by tags times depth, so fewer tags and fewer levels are read for them."""
MOST_STRAY_ENDS = 5_000
"""End tags that close nothing, in a page nested deeper than 256 levels: each is looked for through up to 2,048."""
MOST_ATTRIBUTES = 256
"""Attributes of one tag; the parser takes time by the square of their number. People write fewer than a hundred."""
MOST_BYTES_OF_TREE = 80_000_000
"""Memory, as estimated, that the tree of a page may take; a worker that reads pages may use some 128 MB."""
BYTES_OF_TAG, BYTES_OF_ATTRIBUTE, BYTES_OF_TEXT = 160, 250, 3
"""Memory of a tag with the text after it, of an attribute with a value, and of a byte of text with its copies."""

CHEAP_BYTES = 16_384
CHEAP_TAGS = 400
CHEAP_ATTRIBUTES = 64
CHEAP_MARKS = 60
"""A body within these four bounds is read in a few milliseconds at worst; in one, if nobody made it to be slow."""

PDF_MARK = b"%PDF-"
"""How a PDF begins: small ones may take seconds too."""

_SPACE = rb"[\t\n\f\r ]"
_NAME = rb"[A-Za-z][^\t\n\f\r />]{0,200}+"  # what is longer counts as attributes
_ATTRIBUTE = (
    rb"[\t\n\f\r /]*+[^\t\n\f\r />][^\t\n\f\r /=>]*+"
    rb"(?:%(s)s*+=%(s)s*+(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r >\"'][^\t\n\f\r >]*+)?+)?+" % {b"s": _SPACE}
)
_COMMENT = rb"!--(?:[^-]++|-(?!->))*+(?:-->)?+"
_SCRIPT = rb"(?:script|style)\b(?:[^<]++|<(?!/s(?:cript|tyle)\b))*+"
# Goes through a page tag by tag, never back, and stops at the first tag of too many attributes.
_ORDINARY = re.compile(
    rb"(?:[^<]++|<(?:%s|%s|%s(?:%s){0,%d}+(?!%s)|(?![A-Za-z])))*+"
    % (_COMMENT, _SCRIPT, _NAME, _ATTRIBUTE, MOST_ATTRIBUTES, _ATTRIBUTE),
    re.IGNORECASE,
)
# Cuts what is long into several attributes, so that a look at one `<` ends soon: it may count too many, never too few.
_LARGE_TAG = re.compile(
    rb"<[A-Za-z][^\t\n\f\r />]{0,50}+(?:[\t\n\f\r /]*+[^\t\n\f\r />][^\t\n\f\r /=>]{0,50}+"
    rb"(?:%(s)s*+=%(s)s*+(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r >\"'][^\t\n\f\r >]{0,50}+)?+)?+){%(n)d}"
    % {b"s": _SPACE, b"n": CHEAP_ATTRIBUTES}
)
_TAG_NAMES = re.compile(rb"</?[A-Za-z][^\t\n\f\r />]{0,20}")
_CLOSED_BY_THE_NEXT = frozenset({b"<a", b"<dd", b"<dt", b"<li", b"<option", b"<p", b"<td", b"<th", b"<tr"})
_VOID = (b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta", b"param", b"source",
         b"track", b"wbr")  # fmt: skip
_MARKED = re2.compile(rb"(?i)hidden|style|role|<(?:aside|header|main|nav|footer|article|h1)")
"""What each of these costs is a multiple of what a tag costs: an element is marked, or what is around it looked at."""


def is_cheap(body: bytes) -> bool:
    """Whether a body may be read at once, on the event loop: whatever is in it, that takes a few milliseconds.

    Looks at every `<` as if a tag began there, so that no quote or comment can hide one.
    """
    if len(body) > CHEAP_BYTES or body.count(b"<") > CHEAP_TAGS or b"\0" in body:  # as in UTF-16
        return False
    if body.startswith(PDF_MARK):
        return False
    if next(islice(_MARKED.finditer(body), CHEAP_MARKS, None), None) is not None:
        return False
    return _LARGE_TAG.search(body) is None


def is_readable(body: bytes, *, selected: bool) -> bool:
    """Whether a parser can read a page in time and memory linear in its size; `selected`: a rule has selectors."""
    tags = body.count(b"<")
    if tags > (MOST_TAGS_SELECTED if selected else MOST_TAGS):
        return False
    if len(body) <= CHEAP_BYTES and tags <= CHEAP_TAGS and _LARGE_TAG.search(body) is None:
        return True  # a third of what the whole look costs
    tree = BYTES_OF_TAG * tags + BYTES_OF_ATTRIBUTE * body.count(b"=") + BYTES_OF_TEXT * len(body)
    if tree > MOST_BYTES_OF_TREE:
        return False
    found = _ORDINARY.match(body)
    return found is not None and found.end() == len(body)


def is_readable_deep(body: bytes) -> bool:
    """Whether a page nested deeper than 256 levels can be read in time linear in its size."""
    if body.count(b"</") <= MOST_STRAY_ENDS:
        return True
    tags = _TAG_NAMES.findall(body.lower())
    names = Counter(tags)
    names.subtract(_closed_by_the_next(tags))
    for void in _VOID:
        names.pop(b"<" + void, None)  # never open
    ends = ((name, count) for name, count in names.items() if name.startswith(b"</"))
    return sum(max(0, count - names.get(b"<" + name[2:], 0)) for name, count in ends) <= MOST_STRAY_ENDS


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
