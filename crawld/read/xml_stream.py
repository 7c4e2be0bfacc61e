"""XML as a stream of its entries: bounded memory, no DTD, and a second, lenient try for what is broken."""

import codecs
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape
from html.entities import html5
from itertools import chain, pairwise
from typing import Any, Protocol, TypeVar
from urllib.parse import urljoin

from lxml import etree

from crawld.read.charset import declared_in_xml
from crawld.read.listing import LIMITS as LISTING_LIMITS
from crawld.read.listing import Addresses, Unreadable, UnreadableError


@dataclass(frozen=True)
class XmlStreamLimits:
    """Numbers that bound and tune this module."""

    piece: int = 64 * 1024
    max_layers: int = 2  # a .gz file that the server compressed once more
    max_members: int = 1000
    """Gzip members of one layer; honest files have one, or a few where they were joined."""
    max_tags: int = 50_000
    """Tags, attributes, comments and the like within one entry, which are held in memory until it ends. A thousand
    pictures, as the protocol allows, have ten thousand."""
    max_characters: int = 4_000_000
    """Characters within one entry: more than the longest articles that feeds carry whole."""
    max_tags_of_file: int = 4_000_000
    """Tags of one file, as 50,000 entries have with dozens of pictures and languages each."""
    max_tags_mended: int = 2_000_000
    """Tags of a file that is not well-formed: each is looked at by itself, which takes longer."""
    max_faults: int = 500_000
    """Ampersands and characters of one file that are mended, one by one: ten for each entry that a file may have."""
    max_names: int = 2_000
    """Different names of elements and attributes in one file; the parser remembers each for good."""
    typical_name: int = 100  # characters
    max_taken: int = 250_000
    """Elements of one file that are looked at: its entries, and the links between them."""
    max_depth: int = 8
    """Elements around an entry, the root included; entries of all known formats have one or two."""
    max_doctypes: int = 4
    """DOCTYPEs in a row that are left out; faulty generators write two."""
    max_uncut: int = 500_000
    """Characters without a `>` that are put together before they are mended."""
    max_base: int = 500  # every relative address is as long, and it is written only once


LIMITS = XmlStreamLimits()


def text_pieces(body: bytes) -> Iterator[str]:
    """The body as text, unpacked and decoded piece by piece; what cannot be decoded becomes U+FFFD."""
    decoder: codecs.IncrementalDecoder | None = None
    for piece in _unpacked(body):
        if decoder is None:
            decoder = codecs.getincrementaldecoder(_encoding(piece))(errors="replace")
        yield decoder.decode(piece)
    if decoder is not None and (rest := decoder.decode(b"", final=True)):
        yield rest


def _unpacked(body: bytes) -> Iterator[bytes]:
    pieces: Iterator[bytes] = (body[start : start + LIMITS.piece] for start in range(0, len(body), LIMITS.piece))
    for layer in range(LIMITS.max_layers + 1):
        first = next(pieces, b"")
        pieces = chain([first], pieces)
        if not first.startswith(b"\x1f\x8b"):
            break
        if layer == LIMITS.max_layers:
            raise UnreadableError(Unreadable.GZIP, f"more than {LIMITS.max_layers} layers")
        pieces = _bounded(_inflated(pieces))
    return _bounded(pieces)


def _bounded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > LISTING_LIMITS.max_bytes:
            raise UnreadableError(Unreadable.TOO_LARGE, f"more than {LISTING_LIMITS.max_bytes // 2**20} MB unpacked")
        yield piece


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Inflates gzip members in pieces of full size, so that the first one shows the head of the file."""
    waiting = bytearray()
    try:
        for piece in _members(pieces):
            waiting += piece
            if len(waiting) >= LIMITS.piece:
                yield bytes(waiting)
                waiting.clear()
    except zlib.error as error:
        raise UnreadableError(Unreadable.GZIP, str(error)) from None
    yield bytes(waiting)


def _members(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Inflates each gzip member in turn; bytes behind the last one are padding, and are not looked at."""
    members, inflater = 0, None
    for piece in pieces:
        given = piece
        while given:
            if inflater is None:
                if members and not given.startswith(b"\x1f"):
                    return
                members += 1
                if members > LIMITS.max_members:
                    raise UnreadableError(Unreadable.GZIP, f"more than {LIMITS.max_members} members")
                inflater = zlib.decompressobj(31)
            yield inflater.decompress(given, LIMITS.piece)
            given = inflater.unconsumed_tail
            if inflater.eof:
                given, inflater = inflater.unused_data, None
    if inflater is not None:
        raise UnreadableError(Unreadable.GZIP, "cut short")


def _encoding(head: bytes) -> str:
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # the first begins like the mark of UTF-16
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if head.startswith((b"<\0", b"\0<")):
        return "utf-16-le" if head.startswith(b"<") else "utf-16-be"
    start = max(0, head.find(b"<?xml", 0, 1024))  # some put a warning before it
    return declared_in_xml(head[start : start + 1024]) or "utf-8"


class _Syntax:
    """Patterns of what is read of XML without a parser."""

    prolog = re.compile(r"(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
    name = re.compile(r"<(?:[\w.-]+:)?([\w.-]+)")
    start = re.compile(r"<\?xml\s|<(?:[\w.-]+:)?(?:urlset|sitemapindex|rss|feed|RDF)[\s>]")
    doctype = re.compile(r"<!doctype\s*(html)?", re.IGNORECASE)
    dtd_mark = re.compile(r"<!--|<\?|[\"'\[\]>]")
    entity = re.compile(r"<!ENTITY\s+([\w.-]+)\s")
    reference = re.compile(r"&(?:([A-Za-z_][\w.-]{0,63});|#(?:([0-9]{1,7})|[xX]([0-9A-Fa-f]{1,6}));)?")
    cdata_mark = re.compile(r"(<!\[CDATA\[|\]\]>)")
    tag_name = re.compile(r"<([^\s<>/!?]+)")
    attribute_name = re.compile(r"[ \n\t\r]([^\s<>/=\"'&]+)[ \n\t\r]*=")
    not_characters = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


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


def locate_in(element: Element, text: str, addresses: Addresses) -> str | None:
    """The target that a link in the element means; a relative one counts from its `xml:base` or from the file's URL."""
    absolute = text.lstrip()[:8].lower().startswith(("http://", "https://"))
    return addresses.locate(text, None if absolute else _base_of(element, addresses.url))


def _base_of(element: Element, url: str) -> str:
    """`url`, as the element's `xml:base` and those around it change it."""
    bases = [
        base
        for one in chain([element], element.iterancestors())
        if (base := one.get("{http://www.w3.org/XML/1998/namespace}base"))
    ]
    for base in reversed(bases):
        url = _joined(url, base)
    return url


@lru_cache(maxsize=100)
def _joined(url: str, base: str) -> str:
    """`url` as one `xml:base` changes it; one that is no address, or too long, says nothing."""
    try:
        joined = urljoin(url, base.strip()) if len(base) <= LIMITS.max_base else ""
    except ValueError:
        return url
    return joined if joined.startswith(("http://", "https://")) and len(joined) <= LIMITS.max_base else url


class Taker(Protocol):
    """Takes one entry after the other."""

    def take(self, element: Element) -> bool:
        """Read a finished element; False where enough has been read."""


AnyTaker = TypeVar("AnyTaker", bound=Taker)


def root_name(head: str) -> str:
    """The name of the root element whose text begins with `head`; HTML and what is no XML are refused."""
    document, _ = _without_doctype(head)
    name = _Syntax.name.match(document, _prolog_end(document))
    if name is None:
        raise UnreadableError(Unreadable.NOT_XML, "no root element near the beginning")
    if name[1].lower() in {"html", "head", "body", "title", "center", "h1", "div", "p", "script", "meta"}:
        raise UnreadableError(Unreadable.HTML)
    return name[1]


def _prolog_end(head: str) -> int:
    return _Syntax.prolog.match(head).end()  # type: ignore[union-attr]  # it matches nothing at least


def _without_doctype(head: str) -> tuple[str, frozenset[str]]:
    """The head of a document without its DOCTYPE, and the names of the entities that it defines.

    The parser never sees a DTD, so none is loaded and no entity is expanded.
    """
    entities: frozenset[str] = frozenset()
    start, doctypes = _prolog_end(head), 0
    while doctype := _Syntax.doctype.match(head, start):
        doctypes += 1
        if doctype[1]:
            raise UnreadableError(Unreadable.HTML)
        if doctypes > LIMITS.max_doctypes:
            raise UnreadableError(Unreadable.DOCTYPE, "and another one")
        end = _doctype_end(head, doctype.end())
        if end is None:
            raise UnreadableError(Unreadable.DOCTYPE, f"that does not end within {len(head):,} characters")
        entities |= frozenset(_Syntax.entity.findall(head, start, end))
        head = head[:start] + head[end:]
        start = _prolog_end(head)
    return head, entities


def _doctype_end(text: str, at: int) -> int | None:
    """Finds the end of a DOCTYPE: behind its `>`, but for those in its internal subset and in quotes."""
    inside, ends = False, {"<!--": "-->", "<?": "?>", '"': '"', "'": "'"}
    while mark := _Syntax.dtd_mark.search(text, at):
        at = mark.end()
        if mark[0] in ends:
            end = text.find(ends[mark[0]], at)
            if end < 0:
                return None
            at = end + len(ends[mark[0]])
        elif mark[0] != ">":
            inside = mark[0] == "["
        elif not inside:
            return at
    return None


def begins_at(head: str) -> int | None:
    """Finds the start of XML in a text: behind blanks, a byte order mark, a warning or front matter; None if absent."""
    blank = len(head) - len(head.lstrip("\ufeff \t\r\n\0"))
    if head.startswith("<", blank):
        return blank
    start = _Syntax.start.search(head)
    return start.start() if start else None


def read_entries(
    body: bytes, names: Sequence[str], new_taker: Callable[[], AnyTaker], *, enough: str = ""
) -> tuple[AnyTaker, bool]:
    """Give every element of these names to a taker, and say whether the file was well-formed.

    What is not well-formed is read once more from its beginning, by a new taker, with its commonest faults mended. An
    element that the end of the file cut off counts where its child of the name `enough` is whole.
    """
    try:
        taker = new_taker()
        pieces, _ = _document(body)
        _give(taker, _elements(pieces, names, lenient=False))
    except etree.XMLSyntaxError:
        taker = new_taker()
        try:
            pieces, entities = _document(body)
            _give(taker, _elements(_mended(pieces, entities), names, lenient=True, enough=enough))
        except (etree.XMLSyntaxError, UnicodeDecodeError) as error:  # the parser lets half of a pair through
            raise UnreadableError(Unreadable.NOT_XML, str(error)[:200]) from None
        return taker, False
    return taker, True


def _give(taker: Taker, elements: Iterator[Element]) -> None:
    for taken, element in enumerate(elements):
        if taken >= LIMITS.max_taken:
            raise UnreadableError(Unreadable.TOO_LARGE, f"more than {LIMITS.max_taken:,} elements that matter")
        if not taker.take(element):
            break


def _document(body: bytes) -> tuple[Iterator[str], frozenset[str]]:
    """The text of a document without its DOCTYPE, and the names of the entities that it defines."""
    pieces = text_pieces(body)
    head = next(pieces, "")
    head, entities = _without_doctype(head[begins_at(head) or 0 :])
    return chain([head], pieces), entities


def _elements(pieces: Iterator[str], names: Sequence[str], *, lenient: bool, enough: str = "") -> Iterator[Element]:
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
    meter = _Meter(LIMITS.max_tags_mended if lenient else LIMITS.max_tags_of_file)
    whole: list[Element] = []  # children of the present entry, where `enough` names one
    # The parser may hold back the last bytes of a broken file until more come.
    for piece in chain(pieces, [" " * 4096] if lenient else []):
        for start in range(0, len(piece), 65_536):
            part = piece[start : start + 65_536]
            meter.count(part)
            parser.feed(part.encode("utf-8", "replace"))
            for _, element in parser.read_events():
                if local_name(element) in wanted:
                    yield element
                    whole.clear()
                    if _forget(element):
                        meter.begin_entry()
                elif enough and (parent := element.getparent()) is not None and local_name(parent) in wanted:
                    whole.append(element)
            meter.check_entry()
    parser.close()
    for _, element in parser.read_events():
        if local_name(element) not in wanted:
            continue
        if lenient:  # what ends only now was cut off: half an address would be another one
            if enough not in {local_name(child) for child in whole}:
                continue
            for child in [child for child in element if child not in whole]:
                element.remove(child)
        yield element


class _Meter:
    """Counts what a file and its present entry hold, before and after the parser has seen it."""

    def __init__(self, max_tags: int) -> None:
        self._max_tags = max_tags
        self._names: set[str] = set()
        self._tags_of_file = self._tags = self._characters = self._name_characters = 0

    def count(self, part: str) -> None:
        """Another part of the file is about to be parsed; UnreadableError where that is too much for one file."""
        tags = part.count("<")
        self._tags_of_file += tags
        self._tags += tags + part.count("=")
        self._characters += len(part)
        if self._tags_of_file > self._max_tags:
            raise UnreadableError(Unreadable.TOO_LARGE, f"more than {self._max_tags:,} tags")
        names = {*_Syntax.tag_name.findall(part), *_Syntax.attribute_name.findall(part)} - self._names
        self._names |= names
        self._name_characters += sum(map(len, names))
        if len(self._names) > LIMITS.max_names or self._name_characters > LIMITS.max_names * LIMITS.typical_name:
            raise UnreadableError(
                Unreadable.TOO_LARGE, f"more than {LIMITS.max_names:,} names of elements and attributes"
            )

    def begin_entry(self) -> None:
        """The present entry ended, and what it held is free again."""
        self._tags = self._characters = 0

    def check_entry(self) -> None:
        """UnreadableError where the present entry is too large."""
        if self._tags > LIMITS.max_tags or self._characters > LIMITS.max_characters:
            raise UnreadableError(Unreadable.ENTRY_TOO_LARGE)


def _forget(element: Element) -> bool:
    """Drop an element and everything that ended before it; False where it is kept, inside an entry or too deep."""
    around = [element, *element.iterancestors()]
    if len(around) > LIMITS.max_depth + 1 or any(
        local_name(one) in {"item", "entry", "url", "sitemap"} for one in around[1:]
    ):
        return False  # a link inside an entry is read with it
    element.clear()
    for one, parent in pairwise(around):
        while one.getprevious() is not None:
            del parent[0]
    return True


def _mended_reference(match: re.Match[str], entities: frozenset[str]) -> str:
    """The reference as it is, the character of an HTML name, or its ampersand escaped where it means nothing."""
    text, name = match[0], match[1]
    if name in {"amp", "lt", "gt", "quot", "apos"}:
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
    inside, rest, faults = False, "", 0
    for piece in chain(pieces, [None]):
        text = rest + (piece or "")
        cut = text.rfind(">") + 1 if piece is not None and len(text) < LIMITS.max_uncut else len(text)
        text, rest = text[:cut], text[cut:]
        text, dropped = _Syntax.not_characters.subn("", text)
        faults += dropped + text.count("&")
        if faults > LIMITS.max_faults:
            raise UnreadableError(Unreadable.NOT_XML, f"and more than {LIMITS.max_faults:,} characters to mend")
        mended = []
        for part in _Syntax.cdata_mark.split(text):
            if part == "<![CDATA[":
                inside = True
            elif part == "]]>":
                inside = False
            elif not inside:
                part = _Syntax.reference.sub(mended_reference, part)  # noqa: PLW2901 - the part as it goes on
            mended.append(part)
        yield "".join(mended)
