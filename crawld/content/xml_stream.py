"""XML as a stream of its entries: bounded memory, no DTD, and a second, lenient try for what is broken."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape
from html.entities import html5
from itertools import chain, islice
from typing import Any, Protocol, TypeVar
from urllib.parse import urljoin

from lxml import etree

from crawld.content.listing import Unreadable, UnreadableError, locate
from crawld.content.unpack import text_pieces

MOST_TAGS = 100_000  # and attributes, within one entry: what it may hold is held in memory
MOST_CHARACTERS = 10_000_000  # within one entry
MOST_BASES = 20  # elements around an entry whose xml:base is looked at
LONGEST_BASE = 500  # every relative address is as long, and it is written only once

_PROLOG = re.compile(r"(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_NAME = re.compile(r"<(?:[\w.-]+:)?([\w.-]+)")
_START = re.compile(r"<\?xml\s|<(?:[\w.-]+:)?(?:urlset|sitemapindex|rss|feed|RDF)[\s>]")
_DOCTYPE = re.compile(r"<!doctype\s*(html)?", re.IGNORECASE)
_HTML_ROOTS = frozenset({"html", "head", "body", "title", "center", "h1", "div", "p", "script", "meta"})
_DTD_MARK = re.compile(r"<!--|<\?|[\"'\[\]>]")
_DTD_ENDS = {"<!--": "-->", "<?": "?>", '"': '"', "'": "'"}
_ENTITY = re.compile(r"<!ENTITY\s+([\w.-]+)\s")
_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_REFERENCE = re.compile(r"&(?:([A-Za-z_][\w.-]{0,63});|#(?:([0-9]{1,7})|[xX]([0-9A-Fa-f]{1,6}));)?")
_XML_NAMES = frozenset({"amp", "lt", "gt", "quot", "apos"})
_CDATA_MARK = re.compile(r"(<!\[CDATA\[|\]\]>)")
_NOT_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

_FLUSH = " " * 4096
"""Fed behind the end of a broken file: the parser may hold back the last bytes until more come."""

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


def locate_in(element: Element, text: str, url: str) -> str | None:
    """The normalised URL that a link in the element means; a relative one counts from its `xml:base` or from `url`."""
    absolute = text.lstrip()[:8].lower().startswith(("http://", "https://"))
    return locate(text, url if absolute else _base_of(element, url))


def _base_of(element: Element, url: str) -> str:
    """`url`, as the element's `xml:base` and those around it change it."""
    around = chain([element], islice(element.iterancestors(), MOST_BASES))
    bases = [base for one in around if (base := one.get(_BASE)) and len(base) <= LONGEST_BASE]
    for base in reversed(bases):
        try:
            joined = urljoin(url, base.strip())
        except ValueError:
            continue  # no address: it says nothing
        if joined.startswith(("http://", "https://")) and len(joined) <= LONGEST_BASE:
            url = joined
    return url


class Taker(Protocol):
    """Takes one entry after the other."""

    def take(self, element: Element) -> bool:
        """Read a finished element; False where enough has been read."""


AnyTaker = TypeVar("AnyTaker", bound=Taker)


def root_name(head: str) -> str:
    """The name of the root element whose text begins with `head`; HTML and what is no XML are refused."""
    document, _ = _without_doctype(head)
    name = _NAME.match(document, _prolog_end(document))
    if name is None:
        raise UnreadableError(Unreadable.NOT_XML, "no root element near the beginning")
    if name[1].lower() in _HTML_ROOTS:
        raise UnreadableError(Unreadable.HTML)
    return name[1]


def _prolog_end(head: str) -> int:
    return _PROLOG.match(head).end()  # type: ignore[union-attr]  # it matches nothing at least


def _without_doctype(head: str) -> tuple[str, frozenset[str]]:
    """The head of a document without its DOCTYPE, and the names of the entities that it defines.

    The parser never sees a DTD, so none is loaded and no entity is expanded.
    """
    entities: frozenset[str] = frozenset()
    start = _prolog_end(head)
    while doctype := _DOCTYPE.match(head, start):
        if doctype[1]:
            raise UnreadableError(Unreadable.HTML)
        end = _doctype_end(head, doctype.end())
        if end is None:
            raise UnreadableError(Unreadable.DOCTYPE, f"that does not end within {len(head):,} characters")
        entities |= frozenset(_ENTITY.findall(head, start, end))
        head = head[:start] + head[end:]
        start = _prolog_end(head)
    return head, entities


def _doctype_end(text: str, at: int) -> int | None:
    """Where a DOCTYPE that has begun ends: behind its `>`, but for those in its internal subset and in quotes."""
    inside = False
    while mark := _DTD_MARK.search(text, at):
        at = mark.end()
        if mark[0] in _DTD_ENDS:
            end = text.find(_DTD_ENDS[mark[0]], at)
            if end < 0:
                return None
            at = end + len(_DTD_ENDS[mark[0]])
        elif mark[0] != ">":
            inside = mark[0] == "["
        elif not inside:
            return at
    return None


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
        pieces, _ = _document(body)
        _give(taker, _elements(pieces, names, lenient=False))
    except etree.XMLSyntaxError:
        taker = new_taker()
        try:
            pieces, entities = _document(body)
            _give(taker, _elements(_mended(pieces, entities), names, lenient=True))
        except (etree.XMLSyntaxError, UnicodeDecodeError) as error:  # the parser lets half of a pair through
            raise UnreadableError(Unreadable.NOT_XML, str(error)[:200]) from None
        return taker, False
    return taker, True


def _give(taker: Taker, elements: Iterator[Element]) -> None:
    for element in elements:
        if not taker.take(element):
            break


def _document(body: bytes) -> tuple[Iterator[str], frozenset[str]]:
    """The text of a document without its DOCTYPE, and the names of the entities that it defines."""
    pieces = text_pieces(body)
    head = next(pieces, "")
    head, entities = _without_doctype(head[begins_at(head) or 0 :])
    return chain([head], pieces), entities


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
    for piece in chain(pieces, [_FLUSH] if lenient else []):
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
    if lenient:  # what ends only now was cut off: half an address would be another one
        return
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


def _mended_reference(match: re.Match[str], entities: frozenset[str]) -> str:
    """The reference as it is, the character of an HTML name, or its ampersand escaped where it means nothing."""
    text, name = match[0], match[1]
    if name in _XML_NAMES:
        return text
    if name in entities and f"{name};" not in html5:
        return "\ufffd"  # what it stands for is not known here, so no address can be made of it
    if name:
        return escape(html5[f"{name};"]) if f"{name};" in html5 else f"&amp;{text[1:]}"
    number = int(match[2]) if match[2] else int(match[3], 16) if match[3] else 0x20
    allowed = number in {0x9, 0xA, 0xD} or 0x20 <= number < 0xD800 or 0xE000 <= number < 0xFFFE
    return text if len(text) > 1 and (allowed or 0x10000 <= number <= 0x10FFFF) else f"&amp;{text[1:]}"


def _mended(pieces: Iterator[str], entities: frozenset[str]) -> Iterator[str]:
    """Bare ampersands escaped outside CDATA and characters that XML forbids left out, cut only behind a `>`."""
    mended_reference = partial(_mended_reference, entities=entities)
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
                part = _REFERENCE.sub(mended_reference, part)  # noqa: PLW2901 - the part as it goes on
            mended.append(part)
        yield "".join(mended)
