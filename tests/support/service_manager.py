"""A service manager's end of NOTIFY_SOCKET, and the unit that crawld ships."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.process import HANG_SECONDS, ROOT

UNIT = (ROOT / "systemd/crawld.service").read_text(encoding="utf-8")


class Manager:
    """The service manager's end of NOTIFY_SOCKET: collects the lines that are sent to it."""

    def __init__(self, path: Path) -> None:
        self.lines: list[str] = []
        self.environment = {"NOTIFY_SOCKET": str(path)}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))

    async def listen(self) -> None:
        """Collect until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.lines += (await loop.sock_recv(self._socket, 4096)).decode().splitlines()

    async def until_told(self, start: str, times: int = 1) -> str:
        """The line that begins so, once it has come that often."""
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                found = [line for line in self.lines if line.startswith(start)]
                if len(found) >= times:
                    return found[times - 1]
                await asyncio.sleep(0.02)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


@asynccontextmanager
async def manager(folder: Path) -> AsyncIterator[Manager]:
    """A service manager that listens while the block runs."""
    it = Manager(folder / "notify")
    listening = asyncio.create_task(it.listen())
    try:
        yield it
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        it.close()
