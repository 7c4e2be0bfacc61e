"""Changes that other workers commit: whoever waits for changes in this process is woken by them too."""

import asyncio
import contextlib
from collections.abc import Callable

from crawld.fleet.contracts import FleetStore
from crawld.model.errors import StoreError

LOOK_SECONDS = 0.5


class ChangeWatch:
    """Looks at the fleet's latest number; `tell` wakes those who wait."""

    def __init__(self, store: FleetStore, tell: Callable[[], None]) -> None:
        self._store, self._tell = store, tell

    async def run(self) -> None:
        """Look again and again until cancelled."""
        seen: int | None = None
        while True:
            with contextlib.suppress(StoreError):  # the beats tell of a database that is out of reach
                last = await self._store.last_change()
                if last != seen:
                    self._tell()
                seen = last
            await asyncio.sleep(LOOK_SECONDS)
