"""The control of a whole fleet in one of its workers: what its listener and dashboard show."""

import asyncio
from collections.abc import Awaitable, Callable

from crawld.fleet.change_watch import ChangeWatch
from crawld.fleet.steering import FleetSteering
from crawld.fleet.store.fleet_store import SqlFleetStore
from crawld.main.settings import Settings
from crawld.main.terms import terms_of
from crawld.model.web import Clock
from crawld.read.page.rules import DigestRules
from crawld.store.control import Reload


class FleetControl:
    """Open it with `start`, and let `run` run; `tell` is told of changes, whichever worker committed them."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        tell: Callable[[], None],
        rules: DigestRules,
        *,
        healthy: Callable[[], bool],
        reload: Callable[[bool], Awaitable[Reload]],
    ) -> None:
        self.store = SqlFleetStore(settings.database, clock.monotonic)
        self.steering = FleetSteering(self.store, terms_of(settings), clock, rules, healthy=healthy, reload=reload)
        self._watch = ChangeWatch(self.store, tell)

    async def start(self) -> None:
        """Open the database; StoreError where it is no fleet's."""
        await self.store.start()

    async def run(self) -> None:
        """Wake those who wait for changes, until cancelled; then let the database go."""
        try:
            await self._watch.run()
        finally:
            await asyncio.shield(self.store.close())
