"""The only module that reads time. Everything else is told what time it is."""

import asyncio
import time
from collections.abc import Callable

SLEW = 0.1
"""How much faster or slower than true our time runs until it has met a wall clock that was set."""


class SystemClock:
    """Time for records, and monotonic time for pacing.

    `now` follows the wall clock, but where that is set by an hour it neither jumps nor goes back, or ages would all be
    wrong at once and pages crawled "in the future" be asked for no more. It runs a little faster or slower instead.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._at = monotonic()
        self._shown = wall()

    def now(self) -> float:
        """UTC seconds since the epoch; never less than before."""
        at = self._monotonic()
        passed, self._at = at - self._at, at
        behind = self._wall() - (self._shown + passed)
        self._shown += passed + min(max(behind, -SLEW * passed), max(SLEW * passed, 0.0))
        return self._shown

    def monotonic(self) -> float:
        """Seconds on a clock that is never set."""
        return self._monotonic()

    async def sleep_until(self, monotonic: float) -> None:
        """Sleep until that moment of the monotonic clock; return at once if it has passed."""
        await asyncio.sleep(max(0.0, monotonic - self._monotonic()))
