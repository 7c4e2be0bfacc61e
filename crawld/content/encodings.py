"""Compressed bodies unpacked piece by piece, never beyond a limit, and known to be whole at the end.

The HTTP client could do this, but it takes a body that breaks off for a complete one, lets packed bytes that unpack to
nothing flow for ever, and grants a zstd frame 128 MB to work in.
"""

import sys
import zlib
from typing import Any, Protocol

import brotli

from crawld.errors import ParseError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_LAYERS = 2
"""A body may be packed that many times over, as behind a proxy that packs what the server has packed already."""
MOST_MEMBERS = 1_000
"""A body may be that many compressed streams in a row; honest ones are one or a few."""
_ZSTD_WINDOW_LOG = 23  # 8 MB, the most that RFC 9659 lets a server ask of a client


class PackedTooLargeError(ParseError):
    """A body whose inner packing alone exceeds the limit."""


class Unpacker(Protocol):
    """Unpacks one body."""

    def feed(self, data: bytes, most: int) -> bytes:
        """What the next bytes unpack to, at most `most`; ParseError where they are not what they claim."""

    def finish(self) -> None:
        """Raise ParseError where the body broke off."""


class Plain:
    """A body that is sent as it is."""

    def feed(self, data: bytes, most: int) -> bytes:
        """The bytes themselves."""
        return data[:most]

    def finish(self) -> None:
        """Nothing tells how long it should have been."""


class _Members:
    """Streams in a row, each with an end of its own: gzip, deflate and zstd."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stream: Any = None
        self._members = 0

    def feed(self, data: bytes, most: int) -> bytes:
        """What the next bytes unpack to."""
        unpacked = b""
        while data and len(unpacked) < most:
            if self._stream is None or self._stream.eof:
                if self._members and not self._begins(data):
                    break  # padding after the end, which clients have always ignored
                self._members += 1
                if self._members > MOST_MEMBERS:
                    raise ParseError(f"more than {MOST_MEMBERS:,} {self._name} streams in one body")
                self._stream = self._open(data)
            try:
                unpacked += self._stream.decompress(data, max_length=most - len(unpacked))
            except (zlib.error, zstd.ZstdError) as error:
                raise ParseError(f"not {self._name}: {error}") from None
            data = self._stream.unused_data if self._stream.eof else b""
        return unpacked

    def finish(self) -> None:
        """Raise ParseError where the last stream has no end."""
        if self._stream is not None and not self._stream.eof:
            raise ParseError(f"{self._name} body breaks off")

    def _begins(self, data: bytes) -> bool:
        magic = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}.get(self._name)
        return magic is not None and magic.startswith(data[: len(magic)])

    def _open(self, data: bytes) -> Any:
        if self._name == "zstd":
            return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})
        if self._name == "gzip":
            return zlib.decompressobj(wbits=31)
        # "deflate" means zlib, but some servers always sent the bare stream; zlib's first byte tells.
        return zlib.decompressobj(wbits=15 if data[0] & 0x0F == 8 else -15)


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._begun = False

    def feed(self, data: bytes, most: int) -> bytes:
        """What the next bytes unpack to."""
        self._begun = True
        if self._stream.is_finished():
            return b""
        unpacked = b""
        try:
            while data or not self._stream.can_accept_more_data():
                unpacked += self._stream.process(data, output_buffer_limit=most - len(unpacked))
                data = b""
                if len(unpacked) >= most or self._stream.is_finished():
                    break
        except brotli.error:
            raise ParseError("not brotli, or broken") from None
        return unpacked[:most]

    def finish(self) -> None:
        """Raise ParseError where the stream has no end."""
        if self._begun and not self._stream.is_finished():
            raise ParseError("brotli body breaks off")


class _Twice:
    """A body that was packed, and packed again: each layer unpacks to the limit at most."""

    def __init__(self, outer: Unpacker, inner: Unpacker) -> None:
        self._outer, self._inner = outer, inner
        self._limit, self._between = 0, 0

    def feed(self, data: bytes, most: int) -> bytes:
        """What the next bytes unpack to."""
        self._limit = max(self._limit, most)  # what is left of the limit was most at the first bytes
        packed = self._outer.feed(data, self._limit - self._between)
        self._between += len(packed)
        unpacked = self._inner.feed(packed, most) if packed else b""
        if len(unpacked) < most and self._between >= self._limit:
            raise PackedTooLargeError(f"more than {self._limit - 1:,} bytes between two layers of packing")
        return unpacked

    def finish(self) -> None:
        """Raise ParseError where either layer breaks off."""
        self._outer.finish()
        self._inner.finish()


def unpacker(content_encoding: str | None) -> Unpacker:
    """What unpacks a body with that Content-Encoding; an encoding nobody knows is taken for none, as browsers do."""
    names = [name.strip().lower() for name in (content_encoding or "").split(",")]
    known = [name.removeprefix("x-") for name in names if name.removeprefix("x-") in {"gzip", "deflate", "br", "zstd"}]
    if len(known) > MOST_LAYERS:
        raise ParseError(f"body packed {len(known)} times over")
    layers: list[Unpacker] = [_Brotli() if name == "br" else _Members(name) for name in known]
    if len(layers) == MOST_LAYERS:
        return _Twice(layers[1], layers[0])  # the header names them in the order they were applied
    return layers[0] if layers else Plain()
