"""Answers that cost their reader more than they cost their sender: floods of framing, headers, segments and bytes."""

import asyncio
import gzip
import zlib

import brotli
from backports import zstd

from tests.support.site import Behaviour, Visit

BLOCK = 1 << 16
"""About as many bytes are written at once."""


async def flood(visit: Visit, head: bytes, piece: bytes) -> None:
    """Send a head, then one piece over and over, as fast as the reader takes it."""
    visit.keep = False
    await visit.write(head)
    block = piece * max(1, BLOCK // len(piece))
    while True:
        await visit.write(block)
        await asyncio.sleep(0)  # over TLS, writing to a client that went away does not wait


_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"


async def interim(visit: Visit) -> None:
    """1xx answers without end."""
    await flood(visit, b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")


async def bare_interim(visit: Visit) -> None:
    """1xx answers without end, as short as they can be."""
    await flood(visit, b"", b"HTTP/1.1 100 \r\n\r\n")


async def tiny_chunks(visit: Visit) -> None:
    """Chunks of one byte without end."""
    await flood(visit, _CHUNKED, b"1\r\nx\r\n")


async def chunk_extensions(visit: Visit) -> None:
    """Chunks with far longer extensions than content."""
    await flood(visit, _CHUNKED, b"1" + b";a=b" * 2000 + b"\r\nx\r\n")


async def endless_extension(visit: Visit) -> None:
    """One chunk extension that never ends."""
    await flood(visit, _CHUNKED + b"5", b";a=b")


async def trailers(visit: Visit) -> None:
    """Trailers without end."""
    await flood(visit, _CHUNKED + b"5\r\nhello\r\n0\r\n", b"X-Trailer: y\r\n")


async def small_headers(visit: Visit) -> None:
    """Small headers without end."""
    await flood(visit, b"HTTP/1.1 200 OK\r\n", b"a: b\r\n")


async def long_headers(visit: Visit) -> None:
    """Headers of 30 KB each, 8 MB in all."""
    visit.keep = False
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n")
    for number in range(250):
        await visit.write(b"X-%d: " % number + b"y" * 32_000 + b"\r\n")
    await visit.write(b"\r\nhello")


async def long_status(visit: Visit) -> None:
    """A status line that never ends."""
    await flood(visit, b"HTTP/1.1 200 ", b"OK ")


async def cookie_flood(visit: Visit) -> None:
    """Thousands of Set-Cookie and Link headers, on a redirect."""
    lines = b"".join(b"Set-Cookie: a%d=b\r\nLink: </%d>; rel=hub\r\n" % (n, n) for n in range(5000))
    visit.keep = False
    await visit.write(b"HTTP/1.1 302 Found\r\nLocation: /ok\r\n" + lines + b"Content-Length: 0\r\n\r\n")


async def tiny_segments(visit: Visit) -> None:
    """A body of `?size=` bytes in TCP segments of a byte each; `?of=chunks` in chunks of a byte as well."""
    visit.keep = False
    size = int(visit.query.get("size", "1000000"))
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % size)
    for number in range(size):
        await visit.write(b"x")
        if number % 16 == 15:
            await asyncio.sleep(0)


async def status_by_bytes(visit: Visit) -> None:
    """A head that comes byte by byte, with a pause of `?every=` seconds between two."""
    visit.keep = False
    every = float(visit.query.get("every", "0"))
    for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 20_000 + b"\r\nContent-Length: 0\r\n\r\n":
        await visit.write(bytes([byte]))
        await asyncio.sleep(every)


async def two_encodings(visit: Visit) -> None:
    """Transfer-Encoding twice."""
    visit.keep = False
    await visit.write(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )


async def redirect_flood(visit: Visit) -> None:
    """A redirect with a body that never ends."""
    await flood(visit, b"HTTP/1.1 302 Found\r\nLocation: /ok\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n")


async def surplus(visit: Visit) -> None:
    """A whole answer, and then answers nobody asked for, without end."""
    whole = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"
    visit.keep = False
    await visit.write(whole)
    await asyncio.sleep(0.05)
    await flood(visit, b"", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def endless_body(visit: Visit) -> None:
    """A body without a length that never ends."""
    await flood(visit, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n", b"<p>more</p>")


async def small_honest_chunks(visit: Visit) -> None:
    """An honest page of 100 KB in chunks of 40 bytes."""
    chunk = b"28\r\n" + b"y" * 40 + b"\r\n"
    await visit.write(_CHUNKED + chunk * 2500 + b"0\r\n\r\n")


def packed_flood(encoding: str) -> bytes:
    """Some KB that unpack to 9.9 MB."""
    body = b"\0" * 9_900_000
    packers = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstd.compress, "deflate": zlib.compress}
    return bytes(packers[encoding](body))


_PACKED: dict[str, bytes] = {}


async def inflates(visit: Visit) -> None:
    """`/inflates/br`: a small body that unpacks to 9.9 MB, which is allowed."""
    encoding = visit.seen.path.partition("/inflates/")[2] or "gzip"
    if encoding not in _PACKED:
        _PACKED[encoding] = await asyncio.to_thread(packed_flood, encoding)
    await visit.reply(_PACKED[encoding], headers={"Content-Encoding": encoding})


FLOODS: dict[str, Behaviour] = {
    "interim": interim, "bare_interim": bare_interim, "tiny_chunks": tiny_chunks, "chunk_extensions": chunk_extensions,
    "endless_extension": endless_extension, "trailers": trailers, "small_headers": small_headers,
    "long_headers": long_headers, "long_status": long_status, "cookie_flood": cookie_flood,
    "tiny_segments": tiny_segments, "status_by_bytes": status_by_bytes, "two_encodings": two_encodings,
    "redirect_flood": redirect_flood, "surplus": surplus, "small_honest_chunks": small_honest_chunks,
    "inflates": inflates, "endless_body": endless_body,
}  # fmt: skip
"""By the first segment of the path."""
