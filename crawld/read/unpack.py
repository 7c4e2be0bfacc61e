"""Bytes to text in small pieces: gzip at any layer, any encoding of the web, never more than a file may hold."""

import codecs
import zlib
from collections.abc import Iterator

from crawld.read.charset import declared_in_xml
from crawld.read.listing import MOST_BYTES, Unreadable, UnreadableError

PIECE = 64 * 1024
GZIP_MAGIC = b"\x1f\x8b"
MOST_LAYERS = 2  # a .gz file that the server compressed once more
MOST_MEMBERS = 1000
"""Gzip members of one layer; honest files have one, or a few where they were joined."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)


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
    pieces: Iterator[bytes] = (body[start : start + PIECE] for start in range(0, len(body), PIECE))
    for layer in range(MOST_LAYERS + 1):
        first = next(pieces, b"")
        pieces = _put_back(first, pieces)
        if not first.startswith(GZIP_MAGIC):
            break
        if layer == MOST_LAYERS:
            raise UnreadableError(Unreadable.GZIP, f"more than {MOST_LAYERS} layers")
        pieces = _bounded(_inflated(pieces))
    return _bounded(pieces)


def _put_back(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _bounded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > MOST_BYTES:
            raise UnreadableError(Unreadable.TOO_LARGE, f"more than {MOST_BYTES // 2**20} MB unpacked")
        yield piece


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What gzip members unpack to, in pieces of full size so that the first one shows the head of the file."""
    waiting = bytearray()
    try:
        for piece in _members(pieces):
            waiting += piece
            if len(waiting) >= PIECE:
                yield bytes(waiting)
                waiting.clear()
    except zlib.error as error:
        raise UnreadableError(Unreadable.GZIP, str(error)) from None
    yield bytes(waiting)


def _members(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What each gzip member in turn unpacks to; bytes behind the last one are padding, and are not looked at."""
    members, inflater = 0, None
    for piece in pieces:
        given = piece
        while given:
            if inflater is None:
                if members and not given.startswith(GZIP_MAGIC[:1]):
                    return
                members += 1
                if members > MOST_MEMBERS:
                    raise UnreadableError(Unreadable.GZIP, f"more than {MOST_MEMBERS} members")
                inflater = zlib.decompressobj(31)
            yield inflater.decompress(given, PIECE)
            given = inflater.unconsumed_tail
            if inflater.eof:
                given, inflater = inflater.unused_data, None
    if inflater is not None:
        raise UnreadableError(Unreadable.GZIP, "cut short")


def _encoding(head: bytes) -> str:
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    start = max(0, head.find(b"<?xml", 0, 1024))  # some put a warning before it
    return declared_in_xml(head[start : start + 1024]) or "utf-8"
