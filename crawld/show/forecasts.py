"""Forecasts of a running daemon: computed beside the loop, and kept for a minute."""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from crawld.choose.forecast import Forecast, PartForecast, Point
from crawld.choose.frontier import Scan
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.sample import Believed
from crawld.choose.scheduler import Scheduler
from crawld.choose.valuation import Valuation
from crawld.model.errors import InputError
from crawld.model.estimate import AgeCurve
from crawld.model.fetched import Use
from crawld.model.host import HostState
from crawld.model.units import format_rate
from crawld.model.web import Clock
from crawld.pages.page_set import arrivals_of
from crawld.pages.status import Counters, FreshnessNow
from crawld.show.report import ForecastPoint, ForecastReport, NextTenth, SlowHost, share
from crawld.store.restoring import StoredPages


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings of how pages are valued and hosts are asked."""

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
        # These first: of hosts without pages the gate keeps only so many.
        index = {name: self.gate.host_of_pages(name) for name in dict.fromkeys(stored.hosts)}
        for state in hosts:
            self.gate.restore(state)
        hosts_of = np.array([index[name] for name in stored.hosts], dtype=np.int64)
        never = np.isnan(stored.last_success) & (stored.failures > 0)
        self.scheduler.add(arrivals_of(stored, hosts_of, np.where(never, np.inf, -np.inf)))
        for host, curve in curves.items():
            self.scheduler.set_age_curve(self.gate.host(host), curve)

    def forecast(
        self, bandwidth: float, rates: Sequence[float], spent: Mapping[str, int], now: float, part: float = 1.0
    ) -> ForecastReport:
        """Returns what that bandwidth and these rates buy, where requests were spent so; takes a while for many pages.

        `part` is the share of all pages that these are.
        """
        share = page_share(spent, self._terms.poll_share)
        believed = self.scheduler.believed(now)
        forecast = Forecast(believed, self.gate.min_spacing(), self._valuation, self._terms.intervals, share)
        fresh = self.scheduler.predicted_freshness(now)
        whole = PartForecast(forecast, part) if 0 < part < 1 else forecast
        return forecast_report(whole, bandwidth, rates, self.gate.name, fresh)


def forecast_report(
    forecast: Forecast | PartForecast,
    bandwidth: float,
    others: Sequence[float],
    name: Callable[[int], str],
    fresh_now: float | None,
) -> ForecastReport:
    """Returns what the bandwidth set, a tenth more and others buy; `name` gives the name of a host."""
    report = ForecastReport(
        bandwidth=bandwidth,
        pages=forecast.pages,
        sampled_pages=forecast.sampled,
        page_share=forecast.page_share,
        freshness_now=fresh_now,
        headline="There are no pages yet.",
    )
    if not forecast.pages:
        return report
    here, tenth = forecast.at(bandwidth), forecast.at(1.1 * bandwidth)
    rates = [*others] or [share * bandwidth for share in (0.25, 0.5, 2.0, 4.0)]
    points = {rate: forecast.at(rate) for rate in rates if rate not in (bandwidth, tenth.bandwidth)}
    points |= {point.bandwidth: point for point in (here, tenth)}
    return replace(
        report,
        headline=headline(here, tenth, fresh_now),
        expected=_told(here, name),
        next_tenth=NextTenth(tenth.bandwidth, tenth.freshness, tenth.freshness - here.freshness),
        points=[_told(points[rate], name) for rate in sorted(points)],
    )


def _told(point: Point, name: Callable[[int], str]) -> ForecastPoint:
    return ForecastPoint(
        bandwidth=point.bandwidth,
        freshness=point.freshness,
        round_robin=point.round_robin,
        used=point.used,
        level=point.level if math.isfinite(point.level) else None,
        given_up=point.given_up,
        limited_hosts=len(point.limited),
        lost_to_politeness=sum(host.costs for host in point.limited),
        hosts=[SlowHost(**asdict(host) | {"host": name(host.host)}) for host in point.limited[:10]],
    )


def headline(here: Point, tenth: Point, fresh_now: float | None) -> str:
    """Sums up a forecast in a sentence: freshness now and in the long run, round robin, and a tenth more."""
    if here.bandwidth == 0:
        return "No request may leave: set a bandwidth above 0."
    held = "" if fresh_now is None else f"{share(fresh_now)} of what you care about is current. "
    rate = format_rate(here.bandwidth)
    settles = f"At {rate} {share(here.freshness)} stays current; round robin would hold about "
    gain = 100 * (tenth.freshness - here.freshness)
    more = f"10 % more bandwidth buys {gain:.1f} points" if gain >= 0.05 else "more bandwidth buys next to nothing"
    return f"{held}{settles}{share(here.round_robin)}, and {more}."


VISITS = frozenset({Use.PAGE, Use.AUDIT, Use.REDIRECT, Use.SECOND_LOOK, Use.CHECK})
"""Uses of requests that are part of a visit to a page."""


MAX_RATES = 100
"""Of one forecast."""


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

    async def report(self, bandwidth: float, others: Sequence[float], poll_share: float) -> ForecastReport:
        """Returns what that bandwidth and others buy; polls take `poll_share` of it while nothing is measured."""
        if len(others) > MAX_RATES:
            raise InputError(f"{len(others)} rates are too many for one forecast: ask for at most {MAX_RATES}")
        valuation = require_values(self._valuation)
        async with self._one_at_a_time:
            share = page_share(self._status.by_purpose(), poll_share)
            forecast, fresh = await self._forecast(valuation, share), self.freshness.predicted()
            return await asyncio.to_thread(forecast_report, forecast, bandwidth, others, self._gate.name, fresh)

    async def _forecast(self, valuation: Valuation, share: float) -> Forecast:
        """A forecast of the last minute."""
        monotonic = self._clock.monotonic()
        if self._made is None or monotonic - self._made[0] > 60.0:  # estimates move slowly
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
    if total < 1_000:  # robots.txt comes first everywhere
        return 1.0 - poll_share
    return sum(spent.get(use.value, 0) for use in VISITS) / total
