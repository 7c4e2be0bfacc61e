"""Compressed bodies: unpacked, bounded, known to be whole."""

import gzip
import zlib

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from crawld.fetch.body import LIMITS as BODY_LIMITS
from crawld.fetch.body import PackedTooLargeError, layers, unpack_body, unpacking
from crawld.model.errors import ParseError

PACK = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}
EVERY = pytest.mark.parametrize("encoding", PACK)


def unpack(encoding: str, packed: bytes, most: int = 10**9) -> bytes:
    """The whole body, or one byte beyond `most`."""
    return unpack_body(packed, encoding, most)


@given(st.sampled_from(list(PACK)), st.binary(max_size=5000), st.integers(1, 100))
def test_round_trip(encoding: str, body: bytes, times: int) -> None:
    """A body comes out as it went in, however many steps it takes."""
    assert unpack(encoding, PACK[encoding](body * times)) == body * times


@given(st.sampled_from(list(PACK)), st.binary(max_size=300))
def test_junk_is_named(encoding: str, junk: bytes) -> None:
    """Bytes that are not what they claim are refused, never an exception of another kind."""
    try:
        body = unpack(encoding, junk, most=10_000)
    except ParseError:
        return
    assert len(body) <= 10_001


@EVERY
def test_a_bomb_stops_at_the_limit(encoding: str) -> None:
    """One byte beyond the limit is unpacked, and no step gives more than a step may."""
    packed = PACK[encoding](bytes(5_000_000))
    assert len(unpack(encoding, packed, most=100_000)) == 100_001
    assert max(map(len, unpacking(packed, encoding, 5_000_000))) <= 2 * BODY_LIMITS.step_out  # brotli gives some more


@EVERY
def test_a_body_that_breaks_off(encoding: str) -> None:
    """Half a body is not a body."""
    with pytest.raises(ParseError, match="breaks off"):
        unpack(encoding, PACK[encoding](bytes(range(256)) * 50)[:-3])


@EVERY
def test_no_bytes_are_no_body(encoding: str) -> None:
    """An empty body is whole, whatever its encoding."""
    assert unpack(encoding, b"") == b""


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_streams_in_a_row(encoding: str) -> None:
    """Streams may follow one another, padding after the last is ignored, and too many are refused."""
    one = PACK[encoding](b"x")
    assert unpack(encoding, one * 3 + bytes(20)) == b"xxx"
    with pytest.raises(ParseError, match="more than"):
        unpack(encoding, PACK[encoding](b"") * 2000)


def test_bare_deflate() -> None:
    """Servers that send deflate without its zlib header are understood."""
    packer = zlib.compressobj(wbits=-15)
    assert unpack("deflate", packer.compress(b"bare") + packer.flush()) == b"bare"


def test_other_encodings() -> None:
    """An unknown encoding is none, an old name is known, and packing three times over is refused."""
    assert unpack("utf-8", b"plain") == b"plain"
    assert unpack("x-gzip", gzip.compress(b"old")) == b"old"
    with pytest.raises(ParseError, match="3 times"):
        layers("gzip, br, gzip")


@given(st.sampled_from(list(PACK)), st.sampled_from(list(PACK)), st.binary(max_size=3000))
def test_packed_twice(first: str, second: str, body: bytes) -> None:
    """A body packed twice comes out as it went in, and half of it is refused, whichever layer it breaks off in."""
    encoding = f"{first}, {second}"
    assert unpack(encoding, PACK[second](PACK[first](body))) == body
    if len(body) > 100:
        for half in (PACK[second](PACK[first](body))[:-3], PACK[second](PACK[first](body)[:-3])):
            with pytest.raises(ParseError, match="breaks off"):
                unpack(encoding, half)


def test_a_bomb_packed_twice_stops_at_the_limit() -> None:
    """Neither layer unpacks to more than the limit."""
    bomb = gzip.compress(gzip.compress(bytes(50_000_000)))
    assert len(bomb) < 1_000
    assert len(unpack("gzip, gzip", bomb, most=100_000)) == 100_001
    wide = gzip.compress(gzip.compress(b"") + bytes(5_000_000))
    with pytest.raises(PackedTooLargeError):
        unpack("gzip, gzip", wide, most=100_000)
