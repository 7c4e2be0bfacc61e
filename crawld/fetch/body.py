"""Bodies: received within their limit and the room there is, then unpacked, off the loop where that costs much."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from time import thread_time

from crawld.content.encodings import BrokenOffError, layers, unpack_body, unpacking
from crawld.errors import ParseError
from crawld.fetch.body_memory import BodyMemory, Share
from crawld.fetch.exchange import Answer
from crawld.fetch.faults import FAULTS
from crawld.interfaces import Workers

UNPACKED_IN_PLACE = 1_000_000
"""A body that has no more bytes, packed and unpacked, is unpacked on the event loop in steps: some milliseconds."""
STEP_SECONDS = 0.002
"""After so long the loop serves others before unpacking goes on."""
PROBED = 65_536
"""Of a packed body that is too long, this much is unpacked to tell whether it is one at all."""
DRAINED = 65_536
"""Of an answer that brings no page, at most this much is read: it tells who refused and frees the connection."""
DRAIN_SECONDS = 2.0
"""And no longer than this."""


class BodyReader:
    """Reads the bodies of answers."""

    def __init__(self, room: BodyMemory, workers: Workers | None) -> None:
        self._room, self._workers = room, workers
        # Bodies that take more than one step go on one after the other. Who holds this never waits for room: others
        # may hold room and wait for this.
        self._loop_turn = asyncio.Lock()

    async def read(self, response: Answer, limit: int, share: Share) -> tuple[bytes | None, int]:
        """The body unpacked, and its bytes on the wire.

        One byte beyond the limit where it is longer; None where it is too long as it is packed.
        """
        encoding = response.headers.get("Content-Encoding", "")
        packed = bool(layers(encoding))
        received = await self._receive(response, limit, share)
        wire = len(received)
        if not packed:
            return received[: limit + 1], wire
        if wire > limit:
            with suppress(BrokenOffError):
                unpack_body(received[:PROBED], encoding, PROBED)
            return None, wire
        return await self._unpack(received, encoding, limit, share), wire

    async def _receive(self, response: Answer, limit: int, share: Share) -> bytes:
        """The bytes on the wire, or the first of them that exceed the limit."""
        body = bytearray()
        while chunk := await response.content.readany():
            body += chunk
            if len(body) > limit:
                break
            await self._room.grow(share, len(body))
        return bytes(body)

    async def _unpack(self, packed: bytes, encoding: str, limit: int, share: Share) -> bytes:
        """Unpack a body step by step, and hand it to the workers where it grows long."""
        if len(packed) > UNPACKED_IN_PLACE and self._workers is not None:
            return await self._unpack_in_worker(self._workers, packed, encoding, limit, share)
        steps = unpacking(packed, encoding, limit)
        body = bytearray()
        if _unpack_some(steps, body):
            return bytes(body)
        async with self._loop_turn:
            while len(body) <= UNPACKED_IN_PLACE or self._workers is None:
                await asyncio.sleep(0)
                if _unpack_some(steps, body):
                    return bytes(body)
        body.clear()
        return await self._unpack_in_worker(self._workers, packed, encoding, limit, share)

    async def _unpack_in_worker(
        self, workers: Workers, packed: bytes, encoding: str, limit: int, share: Share
    ) -> bytes:
        await self._room.grow(share, len(packed) + limit)
        return await workers.run(share.host, unpack_body, packed, encoding, limit)


def _unpack_some(steps: Iterator[bytes], body: bytearray) -> bool:
    """Unpack for as long as a step may take; return True at the end of the body."""
    began = thread_time()
    for step in steps:
        body += step
        if thread_time() - began > STEP_SECONDS:
            return False
    return True


async def drain(response: Answer) -> bytes:
    """Read a short body that is no page, so that its connection can serve again; give up on a long or slow one.

    Returns the beginning of it, as it came over the wire.
    """
    received = bytearray()
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while chunk := await response.content.readany():
                received += chunk
                if len(received) > DRAINED:
                    response.close()
                    break
    except FAULTS:
        response.close()  # the status has been told; the body was not wanted
    return bytes(received[:DRAINED])


def unpack_start(packed: bytes, encoding: str) -> bytes:
    """The beginning of a body that may be cut short or broken."""
    body = bytearray()
    with suppress(ParseError):
        if not layers(encoding):
            return packed
        for step in unpacking(packed, encoding, DRAINED):
            body += step
    return bytes(body[:DRAINED])
