"""Workers learn together what hosts in general are like: a real ledger on PostgreSQL, and two learners."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crawld.crawl.learner import Learner
from crawld.fleet.learner import SharedPriors
from crawld.fleet.store.ledger import SqlLedger
from crawld.fleet.store.making import make_fleet
from crawld.model.estimate import Floats
from tests.support.hand_clock import HandClock
from tests.support.learning import DAY, RecordingSink, crawled
from tests.support.store_builders import NOW


async def test_a_worker_without_crawls_hears_the_hosts_of_another(postgres_url: str, tmp_path: Path) -> None:
    """What the one has been taught by its hosts is what the other hears."""
    await make_fleet(postgres_url, 4, 10.0)
    sides, stores = [], []
    for name, seen in (("taught", {1: [True] * 20, 2: [True] * 20}), ("new", {1: []})):
        (tmp_path / name).mkdir()
        store = await crawled(tmp_path / name, seen)
        ledger = SqlLedger(postgres_url)
        learner = NotingLearner(store, RecordingSink(), HandClock(NOW + 21 * DAY))
        sides.append(Side(learner, ledger, await ledger.join(name)))
        await sides[-1].learner.learn()
        stores.append(store)
    taught, new = sides
    assert taught.learner.taught.sum() > 0
    assert await taught.priors.exchange()
    assert await new.priors.exchange()
    assert new.learner.heard is not None
    np.testing.assert_allclose(new.learner.heard, taught.learner.taught)
    for side, store in zip(sides, stores, strict=True):
        await side.ledger.close()
        await store.close()


class NotingLearner(Learner):
    """A learner that notes what it hears: its estimates show that only after later fits."""

    heard: Floats | None = None

    def hear(self, others: Floats) -> None:
        """Note it and take it over."""
        self.heard = others
        super().hear(others)


@dataclass(frozen=True, slots=True)
class Side:
    """One worker: its learner, and how it reaches the others."""

    learner: NotingLearner
    ledger: SqlLedger
    worker: str

    @property
    def priors(self) -> SharedPriors:
        """Its exchange."""
        return SharedPriors(self.ledger, lambda: self.learner, lambda: self.worker)
