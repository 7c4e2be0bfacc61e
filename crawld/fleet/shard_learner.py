"""The learner of a worker: it learns from the pages of its own shards, and goes on when the database was away."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from crawld.daemon.learner import Learner
from crawld.errors import DamagedError, StoreError
from crawld.interfaces.fleet import ShardStore

log = logging.getLogger("crawld.fleet")

RECALLED_AT_ONCE = 4
"""Shards whose histories are recalled before pages with new crawls have their turn."""
RETRY_SECONDS = 5.0


class ShardLearner:
    """Recalls shards as they are loaded, and learns in between."""

    def __init__(self, store: ShardStore, make: Callable[[], Learner]) -> None:
        """`make` is called when there are pages: what is believed of a new one follows from how many there are."""
        self._store, self._make = store, make
        self._waiting: list[int] = []
        self._come = asyncio.Event()
        self.learner: Learner | None = None

    def recall_later(self, shards: Sequence[int]) -> None:
        """Learn again, beside the loop, what the hosts of these shards have taught."""
        self._waiting.extend(shards)
        self._come.set()

    def forget(self, page_ids: Sequence[int]) -> None:
        """Drop what is kept of pages that are ours no longer."""
        if self.learner is not None:
            self.learner.forget(page_ids)

    async def run(self) -> None:
        """Learn until cancelled."""
        await self._come.wait()
        self.learner = self._make()
        while True:
            try:
                await self._learn(self.learner)
            except DamagedError:
                raise
            except StoreError as error:
                log.warning("the learner waits for the database", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_SECONDS)

    async def _learn(self, learner: Learner) -> None:
        if some := self._waiting[:RECALLED_AT_ONCE]:
            await learner.recall(partial(self._store.crawled_in, some))
            del self._waiting[: len(some)]
        await learner.learn_on()
