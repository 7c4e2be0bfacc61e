"""The report in a worker's beat: its bid for the next round, and its figures."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import numpy as np

from crawld.choose.chooser import Bid
from crawld.choose.scheduler import Scheduler
from crawld.crawl.loop import Crawler
from crawld.fleet.pacing import NOTHING, DatabaseClock, DatabaseTime, RateSchedule
from crawld.fleet.store.ledger import Report
from crawld.fleet.store.shard_store import SqlShardStore
from crawld.model.shards import LIMITS as SHARDS_LIMITS
from crawld.show.report import Status


@dataclass(frozen=True)
class ReportingLimits:
    """Numbers that bound and tune this module."""

    look_seconds: float = 5.0
    """Between two looks at how fresh all pages are, by another thread, and at what else is to be told."""
    opening_seconds: float = 0.002
    """After a host opens, a slot that waits for it is used: our time follows the database's, and may lose a little of
    what it had to go. A slot a hair too early goes to another page, and the host waits for the next."""
    rate_memory: float = 0.2
    """Weight of the last second's requests in the rate that is reported."""


LIMITS = ReportingLimits()


@dataclass(slots=True)
class Reporter:
    """Makes reports from the parts of the daemon."""

    scheduler: Scheduler
    crawler: Crawler
    store: SqlShardStore
    clock: DatabaseClock
    loading: Callable[[], int]  # how many shards are ours and not loaded yet
    status: Callable[[], Awaitable[Status]]  # what our own control says
    revision: int = 0  # of the fleet's settings that we go by wholly
    level: float = 0.0  # at which the last round was cleared; 0: not known
    held_up: tuple[int, ...] = ()  # hosts whose gates are worth waiting for, by our last bid
    time: DatabaseTime | None = None  # as of the latest beat,
    rates: RateSchedule = NOTHING  # and by its grants
    _fresh: tuple[float, float] = (0.0, 0.0)  # Σ importance · freshness, Σ importance
    _mark: tuple[float, int] = (0.0, 0)
    _rate: float = 0.0
    _status: Status | None = None

    def report(self, *, bids: bool) -> Report:
        """The report of this moment; without a bid where nothing may be sent in the next round."""
        fresh, weight = self._fresh
        level = self.scheduler.chooser.level
        return Report(
            bid=self._bid() if bids else None,
            pages=self.scheduler.documents,
            request_rate=self._request_rate(),
            level=level if level is not None and math.isfinite(level) else None,
            lag=self.store.lag,
            fresh=fresh,
            weight=weight,
            loading=self.loading(),
            stale=self.store.stale,
            revision=self.revision,
            clock_ahead=round(self.clock.ahead(), 3),
            status=self._take_status(),
        )

    def _take_status(self) -> Status | None:
        """Returns the latest status of our own control, once."""
        status, self._status = self._status, None
        return status

    def _bid(self) -> Bid:
        """Bids for the next round by what our pages will be worth, without those that are sent before it."""
        now, boot = self.clock.now(), self.clock.monotonic()
        waits = (
            SHARDS_LIMITS.round_seconds
            if self.time is None
            else SHARDS_LIMITS.round_seconds - self.time.least(boot) % SHARDS_LIMITS.round_seconds
        )
        sent = self.rates.requests(boot, boot + waits)
        start, until = now + waits, now + waits + SHARDS_LIMITS.round_seconds
        bid = self.scheduler.bid(now, until, start=start, sent=sent, level=self.level)
        self.held_up = bid.held_up
        return replace(bid, first=bid.first + self._asked(start, until))

    def _asked(self, start: float, until: float) -> int:
        """Pages that somebody waits for, as many as their hosts may be asked for in the round."""
        gate, total = self.crawler.gate, 0
        for name, count in self.crawler.asked.by_host():
            host = gate.host(name)
            left, delay = until - max(float(gate.earliest[host]), start), float(gate.delay[host])
            if left > 0:
                total += count if delay <= 0 else min(count, math.ceil(left / delay))
        return total

    def openings(self) -> list[float]:
        """Returns the times at which those hosts open, by the monotonic clock."""
        earliest = self.crawler.gate.earliest
        behind = self.clock.monotonic() - self.clock.now() + LIMITS.opening_seconds
        return [float(earliest[host]) + behind for host in self.held_up if host < len(earliest)]

    def _request_rate(self) -> float:
        (before, count), now = self._mark, self.clock.monotonic()
        self._mark = now, self.crawler.status.requests
        if before:
            self._rate += LIMITS.rate_memory * ((self._mark[1] - count) / max(now - before, 1e-3) - self._rate)
        return self._rate

    async def run(self) -> None:
        """Look at how fresh the pages are and how the daemon stands, again and again, until cancelled."""
        while True:
            _, fresh, weight = await asyncio.to_thread(self.scheduler.freshness_of_all, self.clock.now())
            self._fresh = float(np.sum(fresh * weight)), float(np.sum(weight))
            self._status = await self.status()
            await asyncio.sleep(LIMITS.look_seconds)
