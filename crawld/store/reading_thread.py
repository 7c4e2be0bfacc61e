"""A thread with an event loop of its own: what is read for people costs the daemon's loop nothing."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ReadingThread:
    """Runs coroutines in its own thread; it starts with the first and ends with `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._runner: asyncio.Runner | None = None
        self._thread: threading.Thread | None = None

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises; whoever stops waiting cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    async def close(self) -> None:
        """End the thread; what it still runs is cancelled and comes to its end first."""
        runner, thread = self._runner, self._thread
        self._runner = self._thread = None
        if runner is not None and thread is not None:
            loop = runner.get_loop()
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(thread.join)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
            self._runner.get_loop()  # made before the thread starts: two threads that make it would make two
            self._thread = threading.Thread(target=_serve, args=[self._runner], name=self._name, daemon=True)
            self._thread.start()
        return self._runner.get_loop()


def _serve(runner: asyncio.Runner) -> None:
    """Run the loop until it is stopped, then cancel what is left, wait for it, and close."""
    with runner:
        runner.get_loop().run_forever()
