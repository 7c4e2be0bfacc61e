"""What the daemon holds of its pages in memory, for whoever lists them: read in other threads than the loop's."""

from collections.abc import Mapping, Sequence

import numpy as np

from crawld.choose.host_gate import HostGate
from crawld.choose.scheduler import Scheduler
from crawld.store.contract import Floats, Ints

KEPT_SECONDS = 10.0
"""For which the freshness of all pages serves lists: that of a million takes 100 ms, and hardly moves meanwhile."""


class LivePageView:
    """Implements `interfaces.read_model.LivePages` over the scheduler and the hosts' gate."""

    def __init__(self, scheduler: Scheduler, gate: HostGate, *, whole: bool = True) -> None:
        self.whole = whole
        self._scheduler = scheduler
        self._gate = gate
        self._kept: tuple[float, Ints, Floats] = (-np.inf, np.zeros(0, dtype=np.int64), np.zeros(0))

    def standings(self, page_ids: Sequence[int], at: float) -> Mapping[int, tuple[float, float | None]]:
        """By page, its freshness and when it is expected to be crawled next; pages that are not here are left out."""
        ids, fresh, expected, hosts = self._scheduler.standings(page_ids, at)
        expected = np.maximum(expected, self._gate.earliest[hosts])
        rows = zip(ids.tolist(), fresh.tolist(), expected.tolist(), np.isfinite(expected).tolist(), strict=True)
        return {page: (freshness, next_at if finite else None) for page, freshness, next_at, finite in rows}

    def freshness(self, at: float) -> tuple[Ints, Floats]:
        """The ids of all pages with their freshness, as of that time or a few seconds from it."""
        made, ids, fresh = self._kept
        if abs(at - made) > KEPT_SECONDS:
            ids, fresh, _ = self._scheduler.freshness_of_all(at)
            self._kept = at, ids, fresh
        return ids, fresh
