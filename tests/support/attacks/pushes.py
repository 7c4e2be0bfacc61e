"""Attacks at `api.listen`: whoever can reach it sends pings and opens connections."""

import asyncio
import contextlib
import json

from tests.support.attacks.attack import Attack, Door, long_name

CONNECTIONS = 1_000
PAUSE = 0.2  # seconds between two pings


async def _again_and_again(door: Door, path: str, *bodies: bytes) -> None:
    while True:
        for body in bodies:
            with contextlib.suppress(OSError):
                await door.send("POST", path, body)
            await asyncio.sleep(PAUSE)


async def _idn(door: Door) -> None:
    names = [f"http://{'ü' * 40}{number}.{'ö' * 50}.example/" for number in range(10_000)]
    long = [long_name(7_900) for _ in range(140)]
    await _again_and_again(door, "/signals", *(json.dumps(one, ensure_ascii=False).encode() for one in (names, long)))


async def _deep(door: Door) -> None:
    nested = b"[" * 2_000_000
    objects = b'{"a":' * 400_000
    dates = json.dumps([{"url": "http://127.1.0.1/", "at": "9" * 200} for _ in range(9_000)]).encode()
    await _again_and_again(door, "/signals", nested, objects, b'["' + b"\\u0041" * 600_000 + b'"]', dates)


async def _indexnow(door: Door) -> None:
    number = 0
    while True:
        number += 1
        urls = [f"http://ü{page}.example/{number}" for page in range(10_000)]
        ping = {"host": "a.example", "key": f"key-{number:08d}", "urlList": urls}
        with contextlib.suppress(OSError):
            await door.send("POST", "/indexnow", json.dumps(ping).encode())
        await asyncio.sleep(PAUSE)


async def _websub(door: Door) -> None:
    entry = b"<entry><id>a</id>" + b'<link href="http://a.example/"/>' * 100 + b"</entry>"
    await _again_and_again(door, "/websub/unknown", b"<feed>" + entry * 1_000 + b"</feed>")


async def _connections(door: Door) -> None:
    """A thousand connections: half say nothing, half send one byte of a header a second."""
    opened: list[asyncio.StreamWriter] = []
    try:
        for _ in range(CONNECTIONS):
            with contextlib.suppress(OSError):
                _, writer = await door.open()
                opened.append(writer)
        while True:
            for number, writer in enumerate(opened):
                if number % 2 and not writer.is_closing():
                    writer.write(b"G" if number % 4 == 1 else b"GET /status HTTP/1.1\r\nX-Slow: ")
            await asyncio.sleep(1.0)
    finally:
        for writer in opened:
            writer.transport.abort()


PUSH_ATTACKS = (
    Attack(
        "ping_idn",
        "Pings of 2 MB name 10,000 international addresses, or 140 that are as long as a URL may be.",
        push=_idn,
    ),
    Attack("ping_deep", "Pings are JSON of two million brackets, nested objects, escapes and odd dates.", push=_deep),
    Attack("indexnow_idn", "IndexNow pings name 10,000 foreign addresses, each time with another key.", push=_indexnow),
    Attack("websub_unknown", "Feeds of 3 MB are delivered for a subscription that does not exist.", push=_websub),
    Attack("listener_connections", "A thousand connections say nothing, or one byte a second.", push=_connections),
)
"""Attacks that need no page at all."""
