"""A fast site for the pipeline benchmark, in a process of its own: pages of a given size with validators."""

import asyncio
import hashlib
import sys

FILLER = "Some words that make up a paragraph of ordinary length, as pages have them. "
_RESPONSES: dict[bytes, tuple[bytes, bytes]] = {}


def _response(path: bytes, size: int) -> tuple[bytes, bytes]:
    """The full answer of a page and its ETag, made once."""
    if path == b"/robots.txt":
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b""
    if path not in _RESPONSES:
        paragraph = f"<p>{FILLER * 3}</p>\n"
        inside = paragraph * max(1, (size - 200) // len(paragraph))
        body = f"<!doctype html><html><head><title>{path.decode()}</title></head><body>{inside}</body></html>".encode()
        tag = b'"' + hashlib.blake2b(path, digest_size=6).hexdigest().encode() + b'"'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: %s\r\nContent-Length: %d\r\n\r\n"
        _RESPONSES[path] = (head % (tag, len(body)) + body, tag)
    return _RESPONSES[path]


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
            answer, tag = _response(path, self._size)
            asked = head.find(b"If-None-Match: ")
            if tag and asked >= 0 and head[asked + 15 :].startswith(tag):
                answer = b"HTTP/1.1 304 Not Modified\r\nETag: %s\r\n\r\n" % tag
            self._transport.write(answer)


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
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
