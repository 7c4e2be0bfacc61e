"""A fast site for the pipeline benchmark, in a process of its own: pages of a given size with validators."""

import argparse
import asyncio
import hashlib
from functools import lru_cache

FILLER = "Some words that make up a paragraph of ordinary length, as pages have them. "
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: %s\r\nContent-Length: %d\r\n\r\n"
_STARTS: dict[bytes, tuple[bytes, bytes]] = {}
_ANSWERED = [0]
"""Pages that were asked for, as /answered says."""


@lru_cache
def _end(size: int) -> bytes:
    """The part that all pages share."""
    paragraph = f"<p>{FILLER * 3}</p>\n"
    inside = paragraph * max(1, (size - 200) // len(paragraph))
    return f"</title></head><body>{inside}</body></html>".encode()


def _beginning(path: bytes, size: int) -> tuple[bytes, bytes]:
    """The beginning of a page's answer, up to what all pages share, and its ETag; made once."""
    end = _end(size)
    if path not in _STARTS:
        start = b"<!doctype html><html><head><title>" + path
        tag = b'"' + hashlib.blake2b(path, digest_size=6).hexdigest().encode() + b'"'
        _STARTS[path] = HEAD % (tag, len(start) + len(end)) + start, tag
    return _STARTS[path]


class _Answer(asyncio.Protocol):
    """Answers GETs from memory; speaks just enough HTTP for well-behaved clients."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to answer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._waiting += data
        while (end := self._waiting.find(b"\r\n\r\n")) >= 0:
            head, self._waiting = self._waiting[:end], self._waiting[end + 4 :]
            path = head.split(b" ", 2)[1]
            if path == b"/robots.txt":
                self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                continue
            if path == b"/answered":
                said = b"%d" % _ANSWERED[0]
                self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))
                continue
            _ANSWERED[0] += 1
            start, tag = _beginning(path, self._size)
            asked = head.find(b"If-None-Match: ")
            if asked >= 0 and head[asked + 15 :].startswith(tag):
                self._transport.write(b"HTTP/1.1 304 Not Modified\r\nETag: %s\r\n\r\n" % tag)
            else:
                self._transport.write(start + _end(self._size))


def address(host: int) -> str:
    """The loopback address of a host, by its number from 0 on."""
    return f"127.0.{host // 250}.{1 + host % 250}"


async def serve(size: int, hosts: int) -> None:
    """Listen on loopback addresses with one port, say which, and serve until killed."""
    loop = asyncio.get_running_loop()
    first = await loop.create_server(lambda: _Answer(size), "127.0.0.1", 0, backlog=1024)
    port = first.sockets[0].getsockname()[1]
    for host in range(1, hosts):
        await loop.create_server(lambda: _Answer(size), address(host), port, backlog=1024)
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", type=int, help="bytes of a page")
    parser.add_argument("hosts", type=int)
    asyncio.run(serve(**vars(parser.parse_args())))
