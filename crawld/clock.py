"""The only module that reads time. Everything else is told what time it is."""

import asyncio
import time


class SystemClock:
    """Wall time for records, monotonic time for pacing: a step of the wall clock moves no slot."""

    def now(self) -> float:
        """UTC seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds on a clock that is never set."""
        return time.monotonic()

    async def sleep_until(self, monotonic: float) -> None:
        """Sleep until that moment of the monotonic clock; return at once if it has passed."""
        await asyncio.sleep(max(0.0, monotonic - time.monotonic()))
