"""Forecasts of a running daemon: computed beside the loop, and kept for a minute."""

import asyncio
from collections.abc import Mapping, Sequence

from crawld.choose.forecast import Forecast
from crawld.choose.host_gate import HostGate
from crawld.choose.report import forecast_report
from crawld.choose.sample import Believed
from crawld.choose.scheduler import Scheduler
from crawld.choose.valuation import Valuation
from crawld.model.errors import InputError
from crawld.model.fetched import Use
from crawld.model.web import Clock
from crawld.pages.freshness_now import FreshnessNow
from crawld.pages.status import Status

KEPT_SECONDS = 60.0
"""For which one sample of the pages serves: estimates move slowly."""
FEW_REQUESTS = 1_000
"""With fewer the share of pages is not measured yet: robots.txt comes first everywhere."""
MOST_RATES = 100
VISITS = frozenset({Use.PAGE, Use.AUDIT, Use.REDIRECT, Use.SECOND_LOOK, Use.CHECK})
"""What visits to pages consist of; the rest is asked beside them."""


class Forecasts:
    """Answers what bandwidths buy; `valuation` is that of the policy, None where it goes by rates."""

    def __init__(
        self,
        scheduler: Scheduler,
        gate: HostGate,
        status: Status,
        clock: Clock,
        valuation: Valuation | None,
        freshness: FreshnessNow,
    ) -> None:
        self._scheduler, self._gate, self._status, self._clock = scheduler, gate, status, clock
        self._valuation = valuation
        self.freshness = freshness
        self._one_at_a_time = asyncio.Lock()
        self._made: tuple[float, Forecast] | None = None

    async def report(self, bandwidth: float, others: Sequence[float], poll_share: float) -> dict[str, object]:
        """What that bandwidth and others buy; polls take `poll_share` of it while nothing is measured."""
        if len(others) > MOST_RATES:
            raise InputError(f"{len(others)} rates are too many for one forecast: ask for at most {MOST_RATES}")
        valuation = require_values(self._valuation)
        async with self._one_at_a_time:
            share = page_share(self._status.by_purpose(), poll_share)
            forecast, fresh = await self._forecast(valuation, share), self.freshness.predicted()
            return await asyncio.to_thread(forecast_report, forecast, bandwidth, others, self._gate.name, fresh)

    async def _forecast(self, valuation: Valuation, share: float) -> Forecast:
        """A forecast of the last minute."""
        monotonic = self._clock.monotonic()
        if self._made is None or monotonic - self._made[0] > KEPT_SECONDS:
            believed = self._scheduler.believed(self._clock.now())
            self._made = monotonic, await asyncio.to_thread(self._make, valuation, share, believed)
        return self._made[1]

    def _make(self, valuation: Valuation, share: float, believed: Believed) -> Forecast:
        intervals = self._scheduler.chooser.pages.intervals
        return Forecast(believed, self._gate.least_spacing(), valuation, intervals, share)


def require_values(valuation: Valuation | None) -> Valuation:
    """The valuation of a policy that has one; else an InputError."""
    if valuation is None:
        raise InputError("a forecast needs a policy of crawl values, such as greedy-ncis; this policy goes by rates")
    return valuation


def page_share(spent: Mapping[str, int], poll_share: float) -> float:
    """The part of all requests that visits to pages take, as measured, or what polls leave of it."""
    total = sum(spent.values())
    if total < FEW_REQUESTS:
        return 1.0 - poll_share
    return sum(spent.get(use.value, 0) for use in VISITS) / total
