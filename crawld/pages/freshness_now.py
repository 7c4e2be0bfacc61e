"""How fresh all pages are predicted to be now, without a look at a million of them on the event loop."""

import asyncio

from crawld.choose.scheduler import Scheduler
from crawld.model.web import Clock

AT_ONCE = 20_000
"""Pages that are looked at on the event loop: some 5 ms."""
RENEW_SECONDS = 10.0
"""Between two looks at more pages than that, by another thread."""


class FreshnessNow:
    """The predicted freshness: exact where pages are few, else that of the last seconds."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler, self._clock = scheduler, clock
        self._latest: float | None = None

    def predicted(self) -> float | None:
        """The mean over all pages, weighted by importance; None without pages that weigh anything or before a look."""
        if len(self._scheduler) <= AT_ONCE:
            return self._scheduler.predicted_freshness(self._clock.now())
        return self._latest

    async def renew(self) -> None:
        """Look at all pages, beside the loop where they are many."""
        if len(self._scheduler) > AT_ONCE:
            self._latest = await asyncio.to_thread(self._scheduler.predicted_freshness, self._clock.now())

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.renew()
            await asyncio.sleep(RENEW_SECONDS)
