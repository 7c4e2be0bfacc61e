"""Figures of a running daemon: counters, the predicted freshness and the measured one."""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from crawld.choose.host_gate import HostGate
from crawld.choose.pacer import Share
from crawld.choose.scheduler import Scheduler
from crawld.model.crawl import AUDITS_KEPT, Crawl
from crawld.model.estimate import Floats, Ints
from crawld.model.fetched import IDLE, SKIPPED
from crawld.model.web import Clock


@dataclass(frozen=True)
class StatusLimits:
    """Numbers that bound and tune this module."""

    at_once: int = 20_000
    """Pages that are looked at on the event loop: some 5 ms."""
    renew_seconds: float = 10.0
    """Between two looks at more pages than that, by another thread."""
    kept_seconds: float = 10.0
    """For which the freshness of all pages serves lists: that of a million takes 100 ms, and hardly moves meanwhile."""


LIMITS = StatusLimits()


@dataclass(slots=True)
class Counters:
    """Counters since the start. Slots are used, idle (nothing could be asked) or skipped (the loop came late)."""

    started_at: float
    bandwidth: float = 0.0
    requests: int = 0
    by_use: Counter[tuple[str, str]] = field(default_factory=Counter)  # finished requests, by use and outcome
    verdicts: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    slots: int = 0  # that came: used or idle
    idle: Counter[str] = field(default_factory=Counter)  # slots, by reason
    idle_slots: int = 0
    skipped_slots: int = 0
    in_flight: int = 0
    waiting: int = 0  # requests that wait for a slot, a host or a robots.txt; they are not in flight
    bytes: int = 0
    last_slot_at: float = 0.0  # monotonic: for the watchdog
    faults: int = 0  # crawls that ended in an internal error
    list_held_back: str | None = None  # why pages that the URL list no longer names stay
    starting: str | None = None  # how far the start is, until slots are served
    reload_refused: str | None = None  # when and why the last reload was refused, until one is taken over

    def spent(self) -> Counter[tuple[str, str]]:
        """Counts the slots so far: requests by use and outcome, idle slots by reason, and skipped ones."""
        spent = self.by_use.copy()
        spent.update({(IDLE, why): count for why, count in self.idle.items()})
        spent[SKIPPED, ""] = self.skipped_slots
        return spent

    def by_purpose(self) -> dict[str, int]:
        """Finished requests by use alone."""
        return self._summed(0)

    def by_outcome(self) -> dict[str, int]:
        """Finished requests by outcome alone."""
        return self._summed(1)

    def _summed(self, part: int) -> dict[str, int]:
        found: Counter[str] = Counter()
        for key, count in self.by_use.items():
            found[key[part]] += count
        return dict(found)

    def count(self, crawl: Crawl) -> None:
        """Count a finished attempt."""
        self.verdicts[crawl.verdict] += 1
        self.bytes += crawl.bytes
        if crawl.trouble:
            self.troubles[crawl.trouble] += 1


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
        """Returns by page its freshness and when it is expected to be crawled next; pages not here are left out."""
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


class Audits:
    """Measured freshness: pages drawn at random, crawled, and compared with what we held.

    Each draw is by importance, so the plain mean of the latest audits is without bias.
    """

    def __init__(self, share: float = 0.0, *, window: int = AUDITS_KEPT) -> None:
        """`share` is the part of the slots that audits may take."""
        self.share = Share(share)
        self._fresh: deque[bool] = deque(maxlen=window)

    def __len__(self) -> int:
        return len(self._fresh)

    def record(self, *, fresh: bool) -> None:
        """Note whether the copy of a page that was drawn still equalled the page."""
        self._fresh.append(fresh)

    def measured(self) -> tuple[float, float, float] | None:
        """Mean freshness of the latest audits with its 95 % interval (Wilson); None without audits."""
        n = len(self._fresh)
        if n == 0:
            return None
        mean = sum(self._fresh) / n
        return mean, *wilson(mean, n)


def wilson(mean: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share that was found in so many draws."""
    z = 1.959963984540054
    centre = (mean + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(mean * (1 - mean) / n + z**2 / (4 * n * n)) / (1 + z**2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)
