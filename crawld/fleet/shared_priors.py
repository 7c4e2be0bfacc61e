"""What hosts in general are like, learnt by all workers together: each tells the others what its own hosts say."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crawld.crawl.learner import Learner
from crawld.fleet.contracts import Ledger
from crawld.model.errors import StoreError

EXCHANGE_SECONDS = 10.0
WAIT_SECONDS = 1.0
"""Until it is looked again whether there is a learner yet, and a worker."""


@dataclass(frozen=True, slots=True)
class SharedPriors:
    """Tells and hears, again and again."""

    ledger: Ledger
    learner: Callable[[], Learner | None]  # once there is one
    worker: Callable[[], str | None]  # its id, while it has one

    async def run(self) -> None:
        """Exchange until cancelled; while the database is out of reach what was heard last goes on to count."""
        while True:
            done = await self.exchange()
            await asyncio.sleep(EXCHANGE_SECONDS if done else WAIT_SECONDS)

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
