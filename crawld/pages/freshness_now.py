"""How fresh all pages are predicted to be now, without a look at a million of them on the event loop."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crawld.choose.host_gate import HostGate
from crawld.choose.scheduler import Scheduler
from crawld.model.estimate import Floats, Ints
from crawld.model.web import Clock


@dataclass(frozen=True)
class FreshnessNowLimits:
    """Numbers that bound and tune this module."""

    at_once: int = 20_000
    """Pages that are looked at on the event loop: some 5 ms."""
    renew_seconds: float = 10.0
    """Between two looks at more pages than that, by another thread."""
    kept_seconds: float = 10.0
    """For which the freshness of all pages serves lists: that of a million takes 100 ms, and hardly moves meanwhile."""


LIMITS = FreshnessNowLimits()


class FreshnessNow:
    """The predicted freshness: exact where pages are few, else that of the last seconds."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler, self._clock = scheduler, clock
        self._latest: float | None = None

    def predicted(self) -> float | None:
        """The mean over all pages, weighted by importance; None without pages that weigh anything or before a look."""
        if len(self._scheduler) <= LIMITS.at_once:
            return self._scheduler.predicted_freshness(self._clock.now())
        return self._latest

    async def renew(self) -> None:
        """Look at all pages, beside the loop where they are many."""
        if len(self._scheduler) > LIMITS.at_once:
            self._latest = await asyncio.to_thread(self._scheduler.predicted_freshness, self._clock.now())

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.renew()
            await asyncio.sleep(LIMITS.renew_seconds)


class LivePageView:
    """The `LivePages` of the scheduler and the host gate."""

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
        if abs(at - made) > LIMITS.kept_seconds:
            ids, fresh, _ = self._scheduler.freshness_of_all(at)
            self._kept = at, ids, fresh
        return ids, fresh
