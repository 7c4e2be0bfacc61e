"""Forecasts of a running daemon: computed beside the loop, and kept for a minute."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crawld.choose.forecast import Forecast, PartForecast, forecast_report
from crawld.choose.frontier import Scan
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.sample import Believed
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.choose.valuation import Valuation
from crawld.model.errors import InputError
from crawld.model.estimate import AgeCurve
from crawld.model.fetched import Use
from crawld.model.host import HostState
from crawld.model.web import Clock
from crawld.pages.status import Counters, FreshnessNow
from crawld.store.restoring import StoredPages


@dataclass(frozen=True)
class ForecastsLimits:
    """Numbers that bound and tune this module."""

    kept_seconds: float = 60.0
    """For which one sample of the pages serves: estimates move slowly."""
    few_requests: int = 1_000
    """With fewer the share of pages is not measured yet: robots.txt comes first everywhere."""
    max_rates: int = 100


LIMITS = ForecastsLimits()


@dataclass(frozen=True, slots=True)
class Terms:
    """What the settings say about how pages are valued and hosts are asked."""

    valuation: Valuation | None  # None where the policy goes by rates
    limits: HostLimits
    intervals: Intervals
    poll_share: float  # of the requests, while nothing is measured


class StoredScheduler:
    """Pages, hosts and how copies age, put into a scheduler that crawls nothing."""

    def __init__(
        self, terms: Terms, stored: StoredPages, hosts: Iterable[HostState], curves: Mapping[str, AgeCurve]
    ) -> None:
        self._terms = terms
        self._valuation = require_values(terms.valuation)
        self.gate = HostGate(terms.limits)
        self.scheduler = Scheduler(Scan(self._valuation, self.gate, terms.intervals))
        for name in dict.fromkeys(stored.hosts):
            self.gate.host_of_pages(name)  # first, because of the others the gate keeps only so many
        for state in hosts:
            self.gate.restore(state)
        self._put_in(stored)
        for host, curve in curves.items():
            self.scheduler.set_age_curve(self.gate.host(host), curve)

    def forecast(
        self, bandwidth: float, rates: Sequence[float], spent: Mapping[str, int], now: float, part: float = 1.0
    ) -> dict[str, object]:
        """Returns what that bandwidth and these rates buy, where requests were spent so; takes a while for many pages.

        `part` is the share of all pages that these are.
        """
        share = page_share(spent, self._terms.poll_share)
        believed = self.scheduler.believed(now)
        forecast = Forecast(believed, self.gate.min_spacing(), self._valuation, self._terms.intervals, share)
        fresh = self.scheduler.predicted_freshness(now)
        whole = PartForecast(forecast, part) if 0 < part < 1 else forecast
        return forecast_report(whole, bandwidth, rates, self.gate.name, fresh)

    def _put_in(self, stored: StoredPages) -> None:
        index = {name: self.gate.host_of_pages(name) for name in set(stored.hosts)}
        with np.errstate(invalid="ignore"):
            alpha = stored.shape / stored.rate
        never = np.isnan(stored.last_success) & (stored.failures > 0)
        self.scheduler.add(
            Arrivals(
                ids=stored.ids,
                hosts=np.array([index[name] for name in stored.hosts], dtype=np.int64),
                importance=stored.importance,
                last=stored.last_success,
                signals=stored.signals,
                alpha=alpha,
                shape=stored.shape,
                kappa=stored.kappa,
                gamma=stored.gamma,
                mixed=stored.mixed,
                not_before=np.where(never, np.inf, -np.inf),
                gone=stored.gone,
            )
        )


VISITS = frozenset({Use.PAGE, Use.AUDIT, Use.REDIRECT, Use.SECOND_LOOK, Use.CHECK})
"""What visits to pages consist of; the rest is asked beside them."""


class Forecasts:
    """Answers what bandwidths buy; `valuation` is that of the policy, None where it goes by rates."""

    def __init__(
        self,
        scheduler: Scheduler,
        gate: HostGate,
        status: Counters,
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
        """Returns what that bandwidth and others buy; polls take `poll_share` of it while nothing is measured."""
        if len(others) > LIMITS.max_rates:
            raise InputError(f"{len(others)} rates are too many for one forecast: ask for at most {LIMITS.max_rates}")
        valuation = require_values(self._valuation)
        async with self._one_at_a_time:
            share = page_share(self._status.by_purpose(), poll_share)
            forecast, fresh = await self._forecast(valuation, share), self.freshness.predicted()
            return await asyncio.to_thread(forecast_report, forecast, bandwidth, others, self._gate.name, fresh)

    async def _forecast(self, valuation: Valuation, share: float) -> Forecast:
        """A forecast of the last minute."""
        monotonic = self._clock.monotonic()
        if self._made is None or monotonic - self._made[0] > LIMITS.kept_seconds:
            believed = self._scheduler.believed(self._clock.now())
            self._made = monotonic, await asyncio.to_thread(self._make, valuation, share, believed)
        return self._made[1]

    def _make(self, valuation: Valuation, share: float, believed: Believed) -> Forecast:
        intervals = self._scheduler.chooser.pages.intervals
        return Forecast(believed, self._gate.min_spacing(), valuation, intervals, share)


def require_values(valuation: Valuation | None) -> Valuation:
    """The valuation of a policy that has one; else an InputError."""
    if valuation is None:
        raise InputError("a forecast needs a policy of crawl values, such as greedy-ncis; this policy goes by rates")
    return valuation


def page_share(spent: Mapping[str, int], poll_share: float) -> float:
    """The part of all requests that visits to pages take, as measured, or what polls leave of it."""
    total = sum(spent.values())
    if total < LIMITS.few_requests:
        return 1.0 - poll_share
    return sum(spent.get(use.value, 0) for use in VISITS) / total
