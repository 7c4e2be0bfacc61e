"""The life of a worker's process: as that of a daemon, but it joins a fleet instead of bringing its pages back."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from crawld.daemon.supervisor import PRUNE_PAUSE, PRUNE_SECONDS, Daemon, Service
from crawld.errors import StoreError
from crawld.fleet.duties import Duty
from crawld.fleet.worker import Worker
from crawld.model.fleet import PRUNE_DUTY

COMMIT_SECONDS = 3.0
"""For which duties and the last records may take to end before the shards are given back without them."""


@dataclass(slots=True, kw_only=True)
class FleetDaemon(Daemon):
    """A daemon that is a worker: history and pruning are the fleet's business, not every worker's."""

    worker: Worker

    async def _begin(self) -> None:
        await self.worker.join()

    def _loops(self) -> Sequence[Service]:
        prune = Duty(PRUNE_DUTY, self.worker, self._prune)
        loops = [self.crawler.run, self._status, self._forget, self._feed_watchdog, self.store.watch]
        return [*loops, prune.run, self._prune_own]

    async def _prune_own(self) -> None:
        """Delete what pages of ours have too much of; what is everybody's is pruned by whoever has the duty."""
        while True:
            await asyncio.sleep(PRUNE_SECONDS)
            with contextlib.suppress(StoreError):  # the beats tell of a database that is out of reach
                while await self.worker.store.prune_own() > 0:  # noqa: ASYNC110 - there is nothing to wait for but time
                    await asyncio.sleep(PRUNE_PAUSE)

    async def _status(self) -> None:
        """A line for the log and one for systemd now and then."""
        while True:
            await asyncio.sleep(self.tick_seconds)
            self._tell_standing()

    async def _end(self) -> None:
        """Give the shards back as soon as everything is committed."""
        self.worker.stop()
        with contextlib.suppress(StoreError, TimeoutError):  # what is not committed now is tried once more at the end
            async with asyncio.timeout(COMMIT_SECONDS):
                await self.worker.finish_duties()
                await self.store.flush()
        await self.worker.leave()

    async def _well(self) -> bool:
        """A database that is away is no reason to be ended: pages are kept in memory until it is back."""
        return self.crawler.serves_slots()

    def _record_last(self) -> None:
        """The fleet's history is written by whoever has that duty."""
