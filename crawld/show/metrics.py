"""The daemon in figures, for a monitoring system.

What is held as a number is read; what takes a query or a walk over hosts is found out at most once a minute, beside the
event loop or a little at a time. So a scrape costs the event loop a few milliseconds, however many pages there are.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from crawld import __version__
from crawld.crawl.loop import Crawler
from crawld.model.fetched import TURNED_AWAY
from crawld.model.metrics import HookStanding
from crawld.model.web import Clock
from crawld.pages.status import FreshnessNow
from crawld.store.read_model import SqlReadModel

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopLag:
    """Sleeps again and again, and counts by how much it was woken late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0  # of all looks together

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            due = self._clock.monotonic() + 0.1
            await self._clock.sleep_until(due)
            self.note(max(0.0, self._clock.monotonic() - due))

    def note(self, lag: float) -> None:
        """Count one look."""
        self._counts[bisect_left(BOUNDS, lag)] += 1
        self.seconds += lag

    def buckets(self) -> list[tuple[str, float]]:
        """Returns how many looks were at most so late, by bound."""
        bounds = (*map(repr, BOUNDS), "+Inf")
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))


COUNTER, GAUGE = CounterMetricFamily, GaugeMetricFamily


@dataclass(frozen=True, slots=True)
class Costly:
    """Figures that take time to find out."""

    calibration_gap: float | None
    store_bytes: int
    free_bytes: int | None
    overdue: int
    hosts: dict[str, int]


@dataclass(slots=True)
class DaemonMetrics:
    """Figures for Prometheus, read from the daemon's parts."""

    crawler: Crawler
    read: SqlReadModel
    lag: LoopLag
    freshness: FreshnessNow
    signals: Callable[[], dict[tuple[str, str], int]]
    hooks: Callable[[], Sequence[HookStanding]]
    learner_lag: Callable[[], float | None]
    _costly: Costly | None = None
    _costly_at: float = 0.0
    _one: asyncio.Lock | None = None

    async def figures(self) -> list[Metric]:
        """The figures as they are now."""
        costly = await self._costly_figures()
        late = "How late the event loop was woken, looked at ten times a second."
        lag = HistogramMetricFamily("crawld_event_loop_lag_seconds", late)
        lag.add_metric([], self.lag.buckets(), self.lag.seconds)
        return [*self._spending(), *self._standing(costly), *self._behind(costly), *self._hooks(), lag]

    def forget_costly(self) -> None:
        """Find everything out anew at the next scrape."""
        self._costly = None

    async def _costly_figures(self) -> Costly:
        """Returns the costly figures, renewed once where they are a minute old, however many ask."""
        self._one = self._one or asyncio.Lock()
        async with self._one:
            now = self.crawler.clock.monotonic()
            if self._costly is None or now - self._costly_at >= 60.0:
                hosts = await self._count_hosts()
                lines = await self.read.calibration()
                crawls = sum(line.crawls for line in lines)
                gaps = sum(line.crawls * abs(line.seen - line.predicted) for line in lines)
                stored = await self.read.overview()
                longest = self.crawler.scheduler.chooser.pages.intervals.longest
                late = await self.read.overdue(self.crawler.clock.now() - longest)
                gap = gaps / crawls if crawls else None
                self._costly = Costly(gap, stored.database_bytes, stored.free_bytes, late.count, hosts)
                self._costly_at = now
            return self._costly

    async def _count_hosts(self) -> dict[str, int]:
        """Hosts with pages that may not be asked, by why, some at a time."""
        found = {"blocked": 0, "asked_to_wait": 0, "backoff": 0}
        now, gate = self.crawler.clock.now(), self.crawler.gate
        for at, host in enumerate(np.flatnonzero(gate.earliest[: gate.size] > now).tolist(), 1):
            state = gate.export(host)
            if (state.blocked or state.blocked_until > now) and self.crawler.pages.on_host(state.name):
                found["blocked" if state.blocked else "asked_to_wait" if state.asked_until > now else "backoff"] += 1
            if at % 500 == 0:
                await asyncio.sleep(0)
        return found

    def _spending(self) -> list[Metric]:
        """Returns what slots and requests came to."""
        status = self.crawler.status
        served = "Slots that a request left in."
        idle = "Slots in which no page could be asked, by reason."
        skipped = "Slots lost because the daemon came late."
        sent = "Finished requests, by what they were for and how they ended."
        crawls = "Finished attempts at pages, by verdict."
        signals = "Signals of changes, by source, and whether they counted or were stale."
        return [
            _one("crawld_slots_served", COUNTER, served, status.slots - status.idle_slots),
            _many("crawld_slots_idle", COUNTER, idle, status.idle, "reason"),
            _one("crawld_slots_skipped", COUNTER, skipped, status.skipped_slots),
            _many("crawld_requests", COUNTER, sent, status.by_use, "purpose", "outcome"),
            _many("crawld_crawls", COUNTER, crawls, status.verdicts, "verdict"),
            _many("crawld_signals", COUNTER, signals, self.signals(), "source", "fate"),
            _one("crawld_received_bytes", COUNTER, "Bytes of pages, as they came over the wire.", status.bytes),
            _one("crawld_internal_errors", COUNTER, "Crawls that ended in an error of crawld itself.", status.faults),
        ]

    def _standing(self, costly: Costly) -> list[Metric]:
        """Returns how things stand."""
        status, chooser = self.crawler.status, self.crawler.scheduler.chooser
        slots = self.crawler.slots.report(self.crawler.clock.monotonic())
        sent = (slots.slots - slots.idle) / slots.seconds if slots.seconds else 0.0
        mean, low, high = self.crawler.audits.measured() or (None, None, None)
        well = self.crawler.serves_slots() and self.crawler.store.healthy
        measured = {"mean": mean, "low": low, "high": high}
        of_audits = "Freshness found by audits, with its 95 % interval."
        barred = "Hosts with pages that may not be asked now, by reason."
        reached = "Requests per second over the last two minutes."
        away = "Pages whose site turned us away at the last crawl, by trouble."
        return [
            _many("crawld_build_info", GAUGE, "The version that runs.", {__version__: 1}, "version"),
            _one("crawld_start_time_seconds", GAUGE, "When the daemon started (UTC).", status.started_at),
            _one("crawld_healthy", GAUGE, "1 while slots are served and the store writes.", float(well)),
            _one("crawld_bandwidth_per_second", GAUGE, "Requests per second that may leave.", status.bandwidth),
            _one("crawld_request_rate_per_second", GAUGE, reached, sent),
            _one("crawld_pages", GAUGE, "Pages that are kept fresh.", self.crawler.scheduler.documents),
            _one("crawld_pages_overdue", GAUGE, "Pages not crawled with success for max_interval.", costly.overdue),
            _many("crawld_pages_turned_away", GAUGE, away, self._turned_away(), "trouble"),
            _one("crawld_pages_active", GAUGE, "Pages whose value may reach the level soon.", chooser.active),
            _one("crawld_level", GAUGE, "The crawl value of the pages being picked.", chooser.level),
            _one("crawld_freshness_predicted_ratio", GAUGE, "Freshness by the estimates.", self.freshness.predicted()),
            _many("crawld_freshness_measured_ratio", GAUGE, of_audits, measured, "bound"),
            _one("crawld_requests_in_flight", GAUGE, "Requests sent, answered or read now.", status.in_flight),
            _one("crawld_requests_waiting", GAUGE, "Requests that wait for a slot or a host.", status.waiting),
            _many("crawld_hosts_blocked", GAUGE, barred, costly.hosts, "reason"),
        ]

    def _turned_away(self) -> dict[str, int]:
        """Pages whose site turned us away, by trouble."""
        counts = dict.fromkeys((trouble.value for trouble in TURNED_AWAY), 0)
        for (_, trouble), pages in self.crawler.pages.turned_away().items():
            counts[trouble.value] += pages
        return counts

    def _behind(self, costly: Costly) -> list[Metric]:
        """Returns how far what follows a crawl is behind it, and what the store holds."""
        gap = "Mean distance of seen from predicted freshness, over tenths of the prediction."
        learner = "Seconds since the learner had learnt from every crawl."
        writer = "Seconds that the oldest record waits to be committed."
        store, lost = self.crawler.store, "Records that the database refused for good."
        return [
            _one("crawld_calibration_gap_ratio", GAUGE, gap, costly.calibration_gap),
            _one("crawld_learner_lag_seconds", GAUGE, learner, self.learner_lag()),
            _one("crawld_writer_lag_seconds", GAUGE, writer, store.lag),
            _one("crawld_writer_waiting_records", GAUGE, "Records that wait to be committed.", store.backlog),
            _one("crawld_lost_records", COUNTER, lost, store.lost),
            _one("crawld_store_size_bytes", GAUGE, "Size of the database.", costly.store_bytes),
            _one("crawld_disk_free_bytes", GAUGE, "Free space where the SQLite database is.", costly.free_bytes),
        ]

    def _hooks(self) -> list[Metric]:
        """Returns what waits for hooks, and what became of the rest; hooks are those of the settings."""
        hooks, now = self.hooks(), self.crawler.clock.now()
        waiting = {hook.name: hook.waiting for hook in hooks}
        oldest = {hook.name: now - hook.waiting_since if hook.waiting_since else 0.0 for hook in hooks}
        failed = {hook.name: hook.failed for hook in hooks}
        ended = {(hook.name, "delivered"): hook.delivered for hook in hooks}
        ended |= {(hook.name, "dropped"): hook.dropped for hook in hooks}
        since = "Seconds that the oldest change waits for a hook."
        told = "Changes delivered to a hook or dropped, also before this start."
        return [
            _many("crawld_hook_waiting_changes", GAUGE, "Changes that wait for a hook.", waiting, "hook"),
            _many("crawld_hook_oldest_seconds", GAUGE, since, oldest, "hook"),
            _many("crawld_hook_changes", COUNTER, told, ended, "hook", "fate"),
            _many("crawld_hook_failed_sendings", COUNTER, "Sendings to a hook that failed.", failed, "hook"),
        ]


Kind = type[CounterMetricFamily] | type[GaugeMetricFamily]


def _one(name: str, kind: Kind, meaning: str, value: float | None) -> Metric:
    """A family of one figure."""
    return _many(name, kind, meaning, {(): value})


def _many(name: str, kind: Kind, meaning: str, values: Mapping[Any, float | None], *labels: str) -> Metric:
    """A family of figures by one label or several, whose values are few; those not known are left out.

    A counter's name has no `_total` here.
    """
    found = kind(name, meaning, labels=labels)
    samples = {key if isinstance(key, tuple) else (key,): value for key, value in values.items()}
    for given, value in sorted(samples.items()):
        if value is not None:
            found.add_metric(given, value)
    return found


class _Collected(Collector):
    """Figures that were collected already, for the library to write down."""

    def __init__(self, figures: Sequence[Metric]) -> None:
        self._figures = figures

    def collect(self) -> Sequence[Metric]:
        """Every family."""
        return self._figures


def exposition(figures: Sequence[Metric]) -> bytes:
    """The figures in Prometheus's text format; there is no global registry."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(figures))
    return generate_latest(registry)
