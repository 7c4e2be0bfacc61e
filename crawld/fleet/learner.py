"""The learner of a worker: it learns from the pages of its own shards, and goes on when the database was away."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from crawld.crawl.learner import Learner
from crawld.fleet.store.ledger import SqlLedger
from crawld.fleet.store.shard_store import SqlShardStore
from crawld.model.errors import DamagedError, StoreError
from crawld.model.estimate import Ints


@dataclass(frozen=True)
class LearnerLimits:
    """Numbers that bound and tune this module."""

    exchange_seconds: float = 10.0
    wait_seconds: float = 1.0
    """Until it is looked again whether there is a learner yet, and a worker."""
    recalled_at_once: int = 4
    """Shards whose histories are recalled before pages with new crawls have their turn."""
    recall_seconds: float = 3.0
    """Between two readings of histories while shards wait to be recalled."""
    retry_seconds: float = 5.0


LIMITS = LearnerLimits()


@dataclass(frozen=True, slots=True)
class SharedPriors:
    """Exchanges host priors with the other workers, again and again."""

    ledger: SqlLedger
    learner: Callable[[], Learner | None]  # once there is one
    worker: Callable[[], str | None]  # its id, while it has one

    async def run(self) -> None:
        """Exchange until cancelled; while the database is out of reach what was heard last goes on to count."""
        while True:
            done = await self.exchange()
            await asyncio.sleep(LIMITS.exchange_seconds if done else LIMITS.wait_seconds)

    async def exchange(self) -> bool:
        """Tell ours and hear the others'; False where that could not be done now."""
        learner, worker = self.learner(), self.worker()
        if learner is None or worker is None:
            return False
        ours = learner.taught
        try:
            others = await self.ledger.teach(worker, ours.tolist())
        except StoreError:  # the beats tell of a database that is out of reach
            return False
        learner.hear(np.sum([np.zeros_like(ours), *map(np.array, others)], axis=0))
        return True


log = logging.getLogger("crawld.fleet")


class ShardLearner:
    """Recalls shards as they are loaded, and learns in between."""

    def __init__(self, store: SqlShardStore, make: Callable[[], Learner]) -> None:
        """`make` is called when there are pages: what is believed of a new one follows from how many there are."""
        self._store, self._make = store, make
        self._waiting: dict[int, None] = {}  # shards to recall, in order
        self._come = asyncio.Event()
        self.learner: Learner | None = None

    def recall_later(self, shards: Sequence[int]) -> None:
        """Learn again, beside the loop, what the hosts of these shards have taught."""
        self._waiting.update(dict.fromkeys(shards))
        self._come.set()

    def forget(self, shards: Sequence[int], page_ids: Sequence[int]) -> None:
        """Drop what is kept of shards that are ours no longer, and of their pages."""
        for shard in shards:
            self._waiting.pop(shard, None)
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
                await asyncio.sleep(LIMITS.retry_seconds)

    async def _learn(self, learner: Learner) -> None:
        if some := list(islice(self._waiting, LIMITS.recalled_at_once)):
            await learner.recall(partial(self._crawled_in, some))
            for shard in some:
                self._waiting.pop(shard, None)
        if self._waiting:
            await learner.learn()
            await asyncio.sleep(LIMITS.recall_seconds)
        else:
            await learner.learn_on()

    async def _crawled_in(self, shards: Sequence[int], after: int, limit: int) -> Ints:
        """Crawled pages of these shards, as far as they are still waiting: one may be given away meanwhile."""
        return await self._store.crawled_in([shard for shard in shards if shard in self._waiting], after, limit)
