"""Compressed bodies unpacked in small steps, never beyond a limit, and known to be whole at the end.

The HTTP client could do this, but it takes a body that breaks off for a complete one, lets packed bytes that unpack to
nothing flow for ever, and grants a zstd frame 128 MB to work in.
"""

import sys
import zlib
from collections.abc import Iterator
from typing import Any

import brotli

from crawld.model.errors import ParseError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_LAYERS = 2
"""A body may be packed that many times over, as behind a proxy that packs what the server has packed already."""
MOST_MEMBERS = 1_000
"""A body may be that many compressed streams in a row; honest ones are one or a few."""
STEP_IN, STEP_OUT = 16_384, 65_536
"""Bytes that one step takes and, more or less, gives: a fraction of a millisecond, however well a body is packed."""
_ZSTD_WINDOW_LOG = 23  # 8 MB, the most that RFC 9659 lets a server ask of a client
_KNOWN = {"gzip", "deflate", "br", "zstd"}
_MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}


class PackedTooLargeError(ParseError):
    """A body whose inner packing alone exceeds the limit."""


class BrokenOffError(ParseError):
    """A body that ends in the middle."""


def layers(content_encoding: str | None) -> list[str]:
    """The packings that a Content-Encoding names, in the order they were applied; ParseError where they are too many.

    An encoding nobody knows is taken for none, as browsers do.
    """
    names = [name.strip().lower().removeprefix("x-") for name in (content_encoding or "").split(",")]
    known = [name for name in names if name in _KNOWN]
    if len(known) > MOST_LAYERS:
        raise ParseError(f"body packed {len(known)} times over")
    return known


def unpack_body(packed: bytes, content_encoding: str, limit: int) -> bytes:
    """The unpacked body; one byte beyond the limit where it is longer. ParseError where it is not what it claims."""
    return b"".join(unpacking(packed, content_encoding, limit))


def unpacking(packed: bytes, content_encoding: str, limit: int) -> Iterator[bytes]:
    """The same in steps, each of some STEP_OUT bytes at most, some of none."""
    stream = _slices(packed)
    for number, name in enumerate(reversed(layers(content_encoding))):
        if number:
            stream = _within(stream, limit)
        stream = _brotli(stream) if name == "br" else _members(stream, name)
    total = 0
    for step in stream:
        total += len(step)
        if total > limit:
            yield step[: len(step) - (total - limit - 1)]
            return
        yield step


def _slices(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), STEP_IN):
        yield data[at : at + STEP_IN]


def _within(stream: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """What lies between two layers of packing, itself no longer than the limit."""
    total = 0
    for step in stream:
        total += len(step)
        if total > limit:
            raise PackedTooLargeError(f"more than {limit:,} bytes between two layers of packing")
        yield step


def _members(stream: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Streams in a row, each with an end of its own: gzip, deflate and zstd."""
    decoder: Any = None
    members = 0
    for given in stream:
        data = given
        yield b""  # bytes that unpack to nothing are work too
        while data:
            if decoder is None or decoder.eof:
                if members and not _begins(name, data):
                    yield from _padding(stream)
                    return
                members += 1
                if members > MOST_MEMBERS:
                    raise ParseError(f"more than {MOST_MEMBERS:,} {name} streams in one body")
                decoder = _decoder(name, data)
            try:
                yield from _decoded(decoder, data)
            except (zlib.error, zstd.ZstdError) as error:
                raise ParseError(f"not {name}: {error}") from None
            data = decoder.unused_data if decoder.eof else b""
    if decoder is not None and not decoder.eof:
        raise BrokenOffError(f"{name} body breaks off")


def _decoded(decoder: Any, data: bytes) -> Iterator[bytes]:
    """What some bytes of one stream unpack to."""
    while True:
        step = decoder.decompress(data, max_length=STEP_OUT)
        yield step
        data = getattr(decoder, "unconsumed_tail", b"")  # zlib gives back what did not fit, zstd keeps it
        if decoder.eof or (not data and len(step) < STEP_OUT):
            return


def _begins(name: str, data: bytes) -> bool:
    magic = _MAGIC.get(name)
    return magic is not None and magic.startswith(data[: len(magic)])


def _padding(stream: Iterator[bytes]) -> Iterator[bytes]:
    """What follows the end of a body, which clients have always ignored; an outer layer must still be whole."""
    for _ in stream:
        yield b""


def _decoder(name: str, data: bytes) -> Any:
    if name == "zstd":
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})
    if name == "gzip":
        return zlib.decompressobj(wbits=31)
    # "deflate" means zlib, but some servers always sent the bare stream; zlib's first byte tells.
    return zlib.decompressobj(wbits=15 if data[0] & 0x0F == 8 else -15)


def _brotli(stream: Iterator[bytes]) -> Iterator[bytes]:
    decoder = brotli.Decompressor()
    begun = False
    for given in stream:
        data = given
        yield b""
        begun = begun or bool(data)
        try:
            step = b""
            while data or step or not decoder.can_accept_more_data():
                step = decoder.process(data, output_buffer_limit=STEP_OUT)
                data = b""
                yield step
                if decoder.is_finished():
                    yield from _padding(stream)
                    return
        except brotli.error:
            raise ParseError("not brotli, or broken") from None
    if begun and not decoder.is_finished():
        raise BrokenOffError("brotli body breaks off")
