"""Where requests leave: each waits here until it stands no closer to others than slots are."""

import asyncio
from typing import Protocol

from crawld.interfaces import Clock
from crawld.pacer import Departures


class Door(Protocol):
    """What a request passes between its slot and the wire."""

    async def leave(self) -> float:
        """Wait until the request may leave; the monotonic time at which it does. UnsentError where it may not."""


class PacedDoor:
    """Lets every request out that has its slot, kept apart by `Departures`."""

    def __init__(self, departures: Departures, clock: Clock) -> None:
        self._departures, self._clock = departures, clock

    async def leave(self) -> float:
        """Wait until the request may leave."""
        now = self._clock.monotonic()
        if (early := self._departures.delay(now)) > 0:
            await asyncio.sleep(early)
        return now + early
