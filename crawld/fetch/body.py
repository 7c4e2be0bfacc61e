"""Bodies: received within their limit and the room there is, then unpacked, off the loop where that costs much."""

import asyncio
import sys
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

import brotli
from aiohttp import StreamReader

from crawld.fetch.exchange import Deadlines, Exchanged, Wait
from crawld.fetch.faults import FAULTS
from crawld.model.errors import ParseError
from crawld.model.web import Workers


@dataclass(frozen=True)
class BodyLimits:
    """Numbers that bound and tune this module."""

    max_layers: int = 2
    """A body may be packed that many times over, as behind a proxy that packs what the server has packed already."""
    max_members: int = 1_000
    """A body may be that many compressed streams in a row; honest ones are one or a few."""
    step_in: int = 16_384
    step_out: int = 65_536
    """Bytes that one step takes and, more or less, gives: a fraction of a millisecond, however well a body is
    packed."""
    zstd_window_log: int = 23  # 8 MB, the most that RFC 9659 lets a server ask of a client
    small_body: int = 65_536
    """Bytes that every body may have without asking for room: most pages, as they are packed, have less."""
    max_bytes: int = 32_000_000
    """Bytes of all bodies being received beyond that: three of the longest at once, or hundreds of ordinary ones."""
    max_of_one_host: int = max_bytes // 2
    """Bytes of the bodies of one host, unless it is a single body."""
    grace_seconds: float = 5.0
    """Seconds a large body may take, however slowly it arrives, while others wait for room."""
    slowest: int = 50_000
    """Bytes a second at which a large body must arrive after that while others wait for room."""
    unpacked_in_place: int = 1_000_000
    """A body that has no more bytes, packed and unpacked, is unpacked on the event loop in steps: some milliseconds."""
    step_seconds: float = 0.002
    """After so long the loop serves others before unpacking goes on."""
    probed: int = 65_536
    """Of a packed body that is too long, this much is unpacked to tell whether it is one at all."""
    hashed_in_place: int = 1_000_000
    """Bytes up to which a body is hashed on the event loop: a millisecond or two."""
    drained: int = 65_536
    """Of an answer that brings no page, at most this much is read: it tells who refused and frees the connection."""
    drain_seconds: float = 2.0
    """And no longer than this."""


LIMITS = BodyLimits()


# Compressed bodies unpacked in small steps, never beyond a limit, and known to be whole at the end.

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class PackedTooLargeError(ParseError):
    """A body whose inner packing alone exceeds the limit."""


class BrokenOffError(ParseError):
    """A body that ends in the middle."""


def layers(content_encoding: str | None) -> list[str]:
    """The packings that a Content-Encoding names, in the order they were applied; ParseError where they are too many.

    An unknown encoding is taken for none, as browsers do.
    """
    if not content_encoding:
        return []
    names = [name.strip().lower().removeprefix("x-") for name in content_encoding.split(",")]
    known = [name for name in names if name in {"gzip", "deflate", "br", "zstd"}]
    if len(known) > LIMITS.max_layers:
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
    for at in range(0, len(data), LIMITS.step_in):
        yield data[at : at + LIMITS.step_in]


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
                if members > LIMITS.max_members:
                    raise ParseError(f"more than {LIMITS.max_members:,} {name} streams in one body")
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
        step = decoder.decompress(data, max_length=LIMITS.step_out)
        yield step
        data = getattr(decoder, "unconsumed_tail", b"")  # zlib gives back what did not fit, zstd keeps it
        if decoder.eof or (not data and len(step) < LIMITS.step_out):
            return


def _begins(name: str, data: bytes) -> bool:
    magic = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}.get(name)
    return magic is not None and magic.startswith(data[: len(magic)])


def _padding(stream: Iterator[bytes]) -> Iterator[bytes]:
    """What follows the end of a body, which clients have always ignored; an outer layer must still be whole."""
    for _ in stream:
        yield b""


def _decoder(name: str, data: bytes) -> Any:
    if name == "zstd":
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: LIMITS.zstd_window_log})
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
                step = decoder.process(data, output_buffer_limit=LIMITS.step_out)
                data = b""
                yield step
                if decoder.is_finished():
                    yield from _padding(stream)
                    return
        except brotli.error:
            raise ParseError("not brotli, or broken") from None
    if begun and not decoder.is_finished():
        raise BrokenOffError("brotli body breaks off")


# Memory for the bodies being received: small ones always fit, large ones wait until others are done.


@dataclass(slots=True, eq=False)
class BodyRoom:
    """The room that one body has."""

    host: str
    deadline: Wait  # of the whole answer: it passes early where others need the room
    began: float
    held: int = 0


@dataclass(slots=True, eq=False)
class _Wanted:
    share: BodyRoom
    more: int
    granted: "asyncio.Future[None]"


@dataclass(slots=True)
class BodyMemory:
    """Who holds how much, and who waits for more."""

    deadlines: Deadlines
    most: int = LIMITS.max_bytes
    most_of_one_host: int = LIMITS.max_of_one_host
    held: int = 0
    _shares: dict[BodyRoom, None] = field(default_factory=dict)  # by age
    _hosts: Counter[str] = field(default_factory=Counter)
    _queue: deque[_Wanted] = field(default_factory=deque)
    _timer: asyncio.TimerHandle | None = None

    def begin(self, host: str, deadline: Wait) -> BodyRoom:
        """A body begins; it holds nothing yet."""
        return BodyRoom(host, deadline, asyncio.get_running_loop().time())

    async def grow(self, share: BodyRoom, size: int) -> None:
        """Wait until the body may have so many bytes; room is given in steps that double."""
        if size <= max(LIMITS.small_body, share.held):
            return
        more = max(size, 2 * share.held) - share.held
        self._shares.setdefault(share)
        if self._fits(share, more):
            self._give(share, more)
            return
        loop = asyncio.get_running_loop()
        wanted = _Wanted(share, size - share.held, loop.create_future())
        self._queue.append(wanted)
        if self._timer is None:
            self._timer = loop.call_later(LIMITS.grace_seconds / 5, self._look)
        try:
            await wanted.granted
        finally:
            if not wanted.granted.done() or wanted.granted.cancelled():
                self._queue.remove(wanted)

    def end(self, share: BodyRoom) -> None:
        """The body has been passed on or given up: others may have its room."""
        if share in self._shares:
            del self._shares[share]
            self._give(share, -share.held)
            if not self._hosts[share.host]:
                del self._hosts[share.host]
            self._grant()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give(self, share: BodyRoom, more: int) -> None:
        self.held += more
        share.held += more
        self._hosts[share.host] += more

    def _fits(self, share: BodyRoom, more: int) -> bool:
        if share is next(iter(self._shares)):
            return True
        of_host = self._hosts[share.host]
        alone = of_host == share.held
        return self.held + more <= self.most and (alone or of_host + more <= self.most_of_one_host)

    def _grant(self) -> None:
        """Give room to those who have waited longest and fit."""
        still: deque[_Wanted] = deque()
        for wanted in self._queue:
            if not wanted.granted.done() and self._fits(wanted.share, wanted.more):
                self._give(wanted.share, wanted.more)
                wanted.granted.set_result(None)
            else:
                still.append(wanted)
        self._queue = still

    def _look(self) -> None:
        """While somebody waits, let the deadline pass of the body that arrives most slowly."""
        self._timer = None
        if not self._queue:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        waiting = {wanted.share for wanted in self._queue}
        slow = [
            (share.held / (now - share.began), number, share)
            for number, share in enumerate(self._shares)
            if share not in waiting and now - share.began > LIMITS.grace_seconds
        ]
        rate, _, slowest = min(slow, default=(LIMITS.slowest, 0, None))
        if slowest is not None and rate < LIMITS.slowest:
            self.deadlines.expire(slowest.deadline)
        self._timer = loop.call_later(LIMITS.grace_seconds / 5, self._look)


class BodyReader:
    """Reads the bodies of answers."""

    def __init__(self, room: BodyMemory, workers: Workers | None) -> None:
        self._room, self._workers = room, workers
        # Bodies that take more than one step go on one after the other. Who holds this never waits for room: others
        # may hold room and wait for this.
        self._loop_turn = asyncio.Lock()

    async def read(self, response: Exchanged, limit: int, host: str, deadline: Wait) -> tuple[bytes | None, int]:
        """The body unpacked, and its bytes on the wire, for a host and within the deadline of the whole answer.

        One byte beyond the limit where it is longer; None where it is too long as it is packed.
        """
        content, encoding = response.content, response.headers.get("Content-Encoding")
        if not encoding and content.is_eof() and content.total_bytes <= LIMITS.small_body:  # it came with its head
            body = content.read_nowait()
            return body[: limit + 1], len(body)
        share = self._room.begin(host, deadline)
        try:
            return await self._read(response, encoding, limit, share)
        finally:
            self._room.end(share)

    async def _read(
        self, response: Exchanged, encoding: str | None, limit: int, share: BodyRoom
    ) -> tuple[bytes | None, int]:
        packed = bool(layers(encoding))
        received = await self._receive(response.content, limit, share)
        wire = len(received)
        if not packed or encoding is None:
            return received[: limit + 1], wire
        if wire > limit:
            with suppress(BrokenOffError):
                unpack_body(received[: LIMITS.probed], encoding, LIMITS.probed)
            return None, wire
        return await self._unpack(received, encoding, limit, share), wire

    async def _receive(self, content: StreamReader, limit: int, share: BodyRoom) -> bytes:
        """The bytes on the wire, or the first of them that exceed the limit."""
        body = bytearray()
        while chunk := await content.readany():
            body += chunk
            if len(body) > limit:
                break
            if len(body) > LIMITS.small_body:
                await self._room.grow(share, len(body))
        return bytes(body)

    async def _unpack(self, packed: bytes, encoding: str, limit: int, share: BodyRoom) -> bytes:
        """Unpack a body step by step, and hand it to the workers where it grows long."""
        if len(packed) > LIMITS.unpacked_in_place and self._workers is not None:
            return await self._unpack_in_worker(self._workers, packed, encoding, limit, share)
        steps = unpacking(packed, encoding, limit)
        body = bytearray()
        if _unpack_some(steps, body):
            return bytes(body)
        async with self._loop_turn:
            while len(body) <= LIMITS.unpacked_in_place or self._workers is None:
                await asyncio.sleep(0)
                if _unpack_some(steps, body):
                    return bytes(body)
        body.clear()
        return await self._unpack_in_worker(self._workers, packed, encoding, limit, share)

    async def _unpack_in_worker(
        self, workers: Workers, packed: bytes, encoding: str, limit: int, share: BodyRoom
    ) -> bytes:
        await self._room.grow(share, len(packed) + limit)
        return await workers.run(share.host, unpack_body, packed, encoding, limit)


def _unpack_some(steps: Iterator[bytes], body: bytearray) -> bool:
    """Unpack for as long as a step may take; return True at the end of the body."""
    began = thread_time()
    for step in steps:
        body += step
        if thread_time() - began > LIMITS.step_seconds:
            return False
    return True


async def drain(response: Exchanged) -> bytes:
    """Read a short body that is no page, so that its connection can serve again; give up on a long or slow one.

    Returns the beginning of it, as it came over the wire.
    """
    received = bytearray()
    try:
        async with asyncio.timeout(LIMITS.drain_seconds):
            while chunk := await response.content.readany():
                received += chunk
                if len(received) > LIMITS.drained:
                    response.close()
                    break
    except FAULTS:
        response.close()  # the status has been told; the body was not wanted
    return bytes(received[: LIMITS.drained])


def unpack_start(packed: bytes, encoding: str) -> bytes:
    """The beginning of a body that may be cut short or broken."""
    body = bytearray()
    with suppress(ParseError):
        if not layers(encoding):
            return packed
        for step in unpacking(packed, encoding, LIMITS.drained):
            body += step
    return bytes(body[: LIMITS.drained])
