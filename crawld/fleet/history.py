"""The fleet's history of freshness: one point a tick for all workers, written by the one that has the duty."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable

from crawld.crawl.audits import Audits
from crawld.fleet.contracts import FleetStore
from crawld.fleet.status import of_processes, slots_by_use
from crawld.fleet.view import FleetView
from crawld.model.crawl import AUDITS_KEPT
from crawld.store.contract import FreshnessPoint

Spent = Counter[tuple[str, str]]


class FleetHistory:
    """Adds up what the workers reported; `record` is how the worker that does it writes a point."""

    def __init__(self, store: FleetStore, record: Callable[[FreshnessPoint], None], tick_seconds: float) -> None:
        self._store, self._record, self._tick = store, record, tick_seconds

    async def run(self) -> None:
        """Write a point every tick until cancelled; slots are counted from now on."""
        spent = slots_spent(await self._store.view())
        while True:
            await asyncio.sleep(self._tick)
            view = await self._store.view()
            audits = Audits()
            for fresh in await self._store.audits(AUDITS_KEPT):
                audits.record(fresh=fresh)
            now = slots_spent(view)
            self._record(point_of(view, audits, now - spent))
            spent = now


def slots_spent(view: FleetView) -> Spent:
    """What became of all slots so far, by use and outcome."""
    by_use = slots_by_use(of_processes(view.workers))
    return Counter({(use, outcome): count for use, counts in by_use.items() for outcome, count in counts.items()})


def point_of(view: FleetView, audits: Audits, slots: Spent) -> FreshnessPoint:
    """The fleet at this moment, as a daemon records itself."""
    verdicts: Counter[str] = Counter()
    skipped = 0
    for status in of_processes(view.workers):
        verdicts.update(status["verdicts"])
        skipped += status["skipped_slots"]
    judged = verdicts["changed"] + verdicts["unchanged"]
    mean, low, high = audits.measured() or (None, None, None)
    return FreshnessPoint(
        at=view.now,
        bandwidth=0.0 if view.paused else view.bandwidth,
        request_rate=sum(worker.request_rate for worker in view.live),
        predicted=view.freshness,
        measured=mean,
        measured_low=low,
        measured_high=high,
        level=view.level if view.level is not None and math.isfinite(view.level) else None,
        pages=sum(worker.pages for worker in view.live),
        changed_share=verdicts["changed"] / judged if judged else None,
        skipped_slots=skipped,
        slots=dict(slots),
    )
