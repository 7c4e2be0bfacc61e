"""A wire between one worker and PostgreSQL that can be cut or held up: a TCP proxy in the benchmark's own loop."""

import asyncio
from contextlib import suppress

CHUNK = 1 << 16


class Wire:
    """Listens on a port of its own and passes everything on, both ways, while it is whole."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self._far = port
        self._cut = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._ends: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def drop(self) -> None:
        """Break every connection, and each new one at once."""
        self._cut = True
        self._break()

    def stall(self) -> None:
        """Let nothing through; connections stay open, as where packets vanish."""
        self._flows.clear()

    def mend(self, *, late: bool = True) -> None:
        """Let everything through again. What was held up arrives late, or is lost with its connections."""
        if not late:
            self._break()
        self._cut = False
        self._flows.set()

    async def close(self) -> None:
        """Stop listening."""
        self.drop()
        self._flows.set()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _break(self) -> None:
        for writer in self._ends:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            await self._flows.wait()
            if self._cut:
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._far)
            self._ends.add(far_writer)
            try:
                there = asyncio.create_task(self._pass_on(reader, far_writer))
                back = asyncio.create_task(self._pass_on(far_reader, writer))
                await asyncio.wait([there, back])
            finally:
                self._ends.discard(far_writer)
                far_writer.transport.abort()
        except OSError:
            pass  # PostgreSQL is away: the worker sees its connection closed
        finally:
            self._ends.discard(writer)
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # either end may break
            while data := await reader.read(CHUNK):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
            await self._flows.wait()
            writer.write_eof()
