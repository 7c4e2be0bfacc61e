"""The last two looks at a request of a fleet: at the door, where it waits for its place, and on the wire."""

import asyncio
import contextlib
import math

from crawld.errors import UnsentError
from crawld.fleet.pacing.grant_pacer import GrantPacer
from crawld.fleet.pacing.grants import NOTHING, RateSchedule
from crawld.interfaces import Clock

LONGEST_WAIT = 5.0
"""Seconds that a request waits at the door for a grant; after that its page is picked anew when there is one."""


class GrantDoor:
    """Implements `crawld.daemon.slots.admission.Door`: requests leave by grants, and only while the lease lasts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pacer = GrantPacer(clock.monotonic())
        self._schedule = NOTHING
        self._deadline = -math.inf
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def follow(self, schedule: RateSchedule, deadline: float) -> None:
        """From now on requests leave by this schedule, and until that time at most."""
        self._schedule, self._deadline = schedule, deadline
        self._pacer.follow(schedule, self._clock.monotonic())
        self._changed.set()

    def may_send(self) -> bool:
        """The last look, right before a byte leaves: whether there are a lease and a grant at this moment."""
        now = self._clock.monotonic()
        return now < self._deadline and self._schedule.rate(now) > 0

    async def leave(self) -> float:
        """Wait until the request may leave, first come first served; UnsentError where no grant comes in time."""
        until = self._clock.monotonic() + LONGEST_WAIT
        async with self._turn:
            while (now := self._clock.monotonic()) < until:
                if now < self._deadline and self._pacer.take(now) is not None:
                    return now
                await self._wait(min(self._pacer.next_at() if now < self._deadline else math.inf, until) - now)
        raise UnsentError("no grant for this request came in time")

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until the schedule changes."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._changed.wait()
