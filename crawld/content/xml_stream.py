"""XML as a stream of its entries: bounded memory, no DOCTYPE, and a second, lenient try for what is broken."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol, TypeVar

from lxml import etree

from crawld.content.listing import Unreadable, UnreadableError
from crawld.content.unpack import text_pieces

MOST_TAGS = 100_000  # and attributes, within one entry: what it may hold is held in memory
MOST_CHARACTERS = 10_000_000  # within one entry

_PROLOG = re.compile(r"(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_NAME = re.compile(r"<(?:[\w.-]+:)?([\w.-]+)")
_START = re.compile(r"<\?xml\s|<(?:[\w.-]+:)?(?:urlset|sitemapindex|rss|feed|RDF)[\s>]")
_DOCTYPE = re.compile(r"<!doctype\s*(html)?", re.IGNORECASE)
_HTML_ROOTS = frozenset({"html", "head", "body", "title", "center", "h1", "div", "p", "script", "meta"})
_REFERENCE = re.compile(r"&(?:(?:amp|lt|gt|quot|apos);|#(?:([0-9]{1,7})|[xX]([0-9A-Fa-f]{1,6}));)?")
_CDATA_MARK = re.compile(r"(<!\[CDATA\[|\]\]>)")
_NOT_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

Element = Any  # lxml ships no types


def local_name(element: Element) -> str:
    """The element's name without namespace or prefix, `` for what is no element."""
    tag = element.tag
    return tag.rpartition("}")[2].rpartition(":")[2] if isinstance(tag, str) else ""


def text_of(element: Element) -> str:
    """All text inside the element."""
    return "".join(element.itertext()) if len(element) else element.text or ""


def children(element: Element, patterns: Sequence[str]) -> Iterator[Element]:
    """The children whose names match; all of them where prefixes are not declared and names say less."""
    return iter(element) if ":" in element.tag.rpartition("}")[2] else element.iterchildren(*patterns)


class Taker(Protocol):
    """Takes one entry after the other."""

    def take(self, element: Element) -> bool:
        """Read a finished element; False where enough has been read."""


AnyTaker = TypeVar("AnyTaker", bound=Taker)


def root_name(head: str) -> str:
    """The name of the root element whose text begins with `head`; HTML, a DOCTYPE and what is no XML are refused."""
    rest = head[_PROLOG.match(head).end() :] if head else ""  # type: ignore[union-attr]  # it matches nothing at least
    if doctype := _DOCTYPE.match(rest):
        raise UnreadableError(Unreadable.HTML if doctype[1] else Unreadable.DOCTYPE)
    name = _NAME.match(rest)
    if name is None:
        raise UnreadableError(Unreadable.NOT_XML, "no root element near the beginning")
    if name[1].lower() in _HTML_ROOTS:
        raise UnreadableError(Unreadable.HTML)
    return name[1]


def begins_at(head: str) -> int | None:
    """Where XML begins in the text: behind blanks, a byte order mark, a warning or front matter; None if nowhere."""
    blank = len(head) - len(head.lstrip("\ufeff \t\r\n\0"))
    if head.startswith("<", blank):
        return blank
    start = _START.search(head)
    return start.start() if start else None


def read_entries(body: bytes, names: Sequence[str], new_taker: Callable[[], AnyTaker]) -> tuple[AnyTaker, bool]:
    """Give every element of these names to a taker, and say whether the file was well-formed.

    What is not well-formed is read once more from its beginning, by a new taker, with its commonest faults mended.
    """
    try:
        taker = new_taker()
        _give(taker, _elements(_document(body), names, lenient=False))
    except etree.XMLSyntaxError:
        taker = new_taker()
        try:
            _give(taker, _elements(_mended(_document(body)), names, lenient=True))
        except (etree.XMLSyntaxError, UnicodeDecodeError) as error:  # the parser lets half of a pair through
            raise UnreadableError(Unreadable.NOT_XML, str(error)[:200]) from None
        return taker, False
    return taker, True


def _give(taker: Taker, elements: Iterator[Element]) -> None:
    for element in elements:
        if not taker.take(element):
            break


def _document(body: bytes) -> Iterator[str]:
    pieces = text_pieces(body)
    head = next(pieces, "")
    return chain([head[begins_at(head) or 0 :]], pieces)


def _elements(pieces: Iterator[str], names: Sequence[str], *, lenient: bool) -> Iterator[Element]:
    """Finished elements of these names, each emptied, and what came before it dropped, before the next."""
    wanted = frozenset(names)
    parser = etree.XMLPullParser(
        events=("end",),
        # A prefix that is not declared stays part of the name, so a lenient reader looks at every element.
        tag=None if lenient else [f"{{*}}{name}" for name in names],
        recover=lenient,
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        remove_comments=True,
        remove_pis=True,
    )
    tags = characters = 0
    for piece in pieces:
        for start in range(0, len(piece), 65_536):
            part = piece[start : start + 65_536]
            parser.feed(part.encode("utf-8", "replace"))
            tags += part.count("<") + part.count("=")
            characters += len(part)
            for _, element in parser.read_events():
                if local_name(element) in wanted:
                    yield element
                    tags = characters = 0
                    _forget(element)
            if tags > MOST_TAGS or characters > MOST_CHARACTERS:
                raise UnreadableError(Unreadable.ENTRY_TOO_LARGE)
    parser.close()
    for _, element in parser.read_events():
        if local_name(element) in wanted:
            yield element


def _forget(element: Element) -> None:
    parent = element.getparent()
    if parent is None or local_name(parent) in {"item", "entry"}:  # a link inside is read with its entry
        return
    element.clear()
    while element.getprevious() is not None:
        del parent[0]


def _mended_reference(match: re.Match[str]) -> str:
    """The reference as it is, or its ampersand escaped where it means nothing, or no character that may be."""
    text = match[0]
    number = int(match[1]) if match[1] else int(match[2], 16) if match[2] else 0x20
    allowed = number in {0x9, 0xA, 0xD} or 0x20 <= number < 0xD800 or 0xE000 <= number < 0xFFFE
    return text if len(text) > 1 and (allowed or 0x10000 <= number <= 0x10FFFF) else f"&amp;{text[1:]}"


def _mended(pieces: Iterator[str]) -> Iterator[str]:
    """Bare ampersands escaped outside CDATA and characters that XML forbids left out, cut only behind a `>`."""
    inside, rest = False, ""
    for piece in chain(pieces, [None]):
        text = rest + (piece or "")
        cut = text.rfind(">") + 1 if piece is not None and len(text) < MOST_CHARACTERS else len(text)
        text, rest = text[:cut], text[cut:]
        mended = []
        for part in _CDATA_MARK.split(_NOT_CHARACTERS.sub("", text)):
            if part == "<![CDATA[":
                inside = True
            elif part == "]]>":
                inside = False
            elif not inside:
                part = _REFERENCE.sub(_mended_reference, part)  # noqa: PLW2901 - the part as it goes on
            mended.append(part)
        yield "".join(mended)
