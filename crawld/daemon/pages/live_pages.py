"""What the daemon holds of its pages in memory, for whoever lists them: read in other threads than the loop's."""

from collections.abc import Mapping, Sequence

import numpy as np

from crawld.frontier.politeness import HostGate
from crawld.interfaces import Floats, Ints
from crawld.scheduler import Scheduler


class LivePageView:
    """Implements `interfaces.read_model.LivePages` over the scheduler and the hosts' gate."""

    def __init__(self, scheduler: Scheduler, gate: HostGate) -> None:
        self._scheduler = scheduler
        self._gate = gate

    def standings(self, page_ids: Sequence[int], at: float) -> Mapping[int, tuple[float, float | None]]:
        """By page, its freshness and when it is expected to be crawled next; pages that are not here are left out."""
        ids, fresh, expected, hosts = self._scheduler.standings(page_ids, at)
        expected = np.maximum(expected, self._gate.earliest[hosts])
        rows = zip(ids.tolist(), fresh.tolist(), expected.tolist(), np.isfinite(expected).tolist(), strict=True)
        return {page: (freshness, next_at if finite else None) for page, freshness, next_at, finite in rows}

    def freshness(self, at: float) -> tuple[Ints, Floats]:
        """The ids of all pages with their freshness."""
        ids, fresh, _ = self._scheduler.freshness_of_all(at)
        return ids, fresh
