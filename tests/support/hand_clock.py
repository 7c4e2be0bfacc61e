"""A clock for tests: it shows what they set."""

import asyncio


class HandClock:
    """Stands still until told; counts how often somebody slept."""

    def __init__(self, now: float = 0.0) -> None:
        self.time, self.sleeps = now, 0

    def now(self) -> float:
        """The time it was set to."""
        return self.time

    def monotonic(self) -> float:
        """The same."""
        return self.time

    async def sleep_until(self, monotonic: float) -> None:
        """Jump there, never back, and let others run."""
        self.time, self.sleeps = max(self.time, monotonic), self.sleeps + 1
        await asyncio.sleep(0)
