"""Workers learn together what hosts in general are like: a real ledger on PostgreSQL, and two learners."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crawld.crawl.learner import Learner
from crawld.fleet.learner import SharedPriors
from crawld.fleet.store.ledger import SqlLedger
from crawld.fleet.store.making import make_fleet
from tests.support.learning import DAY, HandClock, RecordingSink, crawled
from tests.support.store_builders import NOW


async def test_a_worker_without_crawls_hears_the_hosts_of_another(postgres_url: str, tmp_path: Path) -> None:
    """What the one has been taught by its hosts is what the other hears."""
    await make_fleet(postgres_url, 4, 10.0)
    sides, stores = [], []
    for name, seen in (("taught", {1: [True] * 20, 2: [True] * 20}), ("new", {1: []})):
        (tmp_path / name).mkdir()
        store = await crawled(tmp_path / name, seen)
        ledger = SqlLedger(postgres_url)
        sides.append(Side(Learner(store, RecordingSink(), HandClock(NOW + 21 * DAY)), ledger, await ledger.join(name)))
        await sides[-1].learner.learn()
        stores.append(store)
    taught, new = sides
    assert taught.learner.taught.sum() > 0
    assert await taught.priors.exchange()
    assert await new.priors.exchange()
    online = new.learner._online_learner
    priors = [online.deaf, *(ear.priors for ear in online.ears)]
    heard = np.concatenate([one._others for one in priors])  # nothing else shows it before later fits
    np.testing.assert_allclose(heard, taught.learner.taught)
    for side, store in zip(sides, stores, strict=True):
        await side.ledger.close()
        await store.close()


@dataclass(frozen=True, slots=True)
class Side:
    """One worker: its learner, and how it reaches the others."""

    learner: Learner
    ledger: SqlLedger
    worker: str

    @property
    def priors(self) -> SharedPriors:
        """Its exchange."""
        return SharedPriors(self.ledger, lambda: self.learner, lambda: self.worker)
