"""The thread that reads for people."""

import asyncio
import sys

from crawld.store.read_model import ReadingThread
from tests.support.process import HANG_SECONDS


async def _read() -> int:
    return 7


async def test_the_first_read_comes_however_the_threads_take_turns() -> None:
    """A thread serves its first read, though it starts while the loop it is sent to is being made."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            thread = ReadingThread("reads")
            assert await asyncio.wait_for(thread.run(_read()), HANG_SECONDS) == 7
            await thread.close()
    finally:
        sys.setswitchinterval(interval)
