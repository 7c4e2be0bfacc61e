"""The forecast of a daemon that does not run: its pages, hosts and settings as the database has them."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from crawld.config import Settings
from crawld.daemon.control import BANDWIDTH
from crawld.daemon.forecasts import page_share, require_values
from crawld.forecast.forecast import Forecast
from crawld.forecast.report import forecast_report
from crawld.frontier.page_table import Intervals
from crawld.frontier.politeness import HostGate, HostLimits
from crawld.frontier.scan import Scan
from crawld.interfaces import StoredPages
from crawld.model.fetched import IDLE, SKIPPED
from crawld.model.host import HostState
from crawld.policies import policies
from crawld.scheduler import Arrivals, Scheduler
from crawld.store.reports.reader import Reader

MEASURED_SECONDS = 7 * 86400.0
"""How far back the share of pages in all requests is looked for."""


async def stopped_forecast(reader: Reader, settings: Settings, rates: Sequence[float]) -> dict[str, Any]:
    """What the bandwidth that was set last and these rates would buy."""
    policy, now = policies.choose(settings.policy), time.time()
    valuation = require_values(None if policy.valuation is None else policy.valuation())
    limits = settings.politeness
    gate = HostGate(HostLimits(limits.delay, limits.max_delay, limits.per_host))
    intervals = Intervals(longest=settings.max_interval, shortest=settings.min_interval)
    scheduler = Scheduler(Scan(valuation, gate, intervals), most_shape=1.0)
    stored, curves = await reader.stored_pages()
    for name in dict.fromkeys(stored.hosts):
        gate.host_of_pages(name)  # first, because of the others the gate keeps only so many
    for row in await reader.hosts():
        gate.restore(
            HostState(
                row["host"],
                blocked=row["blocked"],
                failures=row["successive_failures"],
                delay=row["delay_seconds"],
                crawl_delay=row["crawl_delay_seconds"],
            )
        )
    _put_in(stored, scheduler, gate)
    for host, curve in curves.items():
        scheduler.age_by(gate.host(host), curve)
    spent: Counter[str] = Counter()
    for row in await reader.slot_history(since=now - MEASURED_SECONDS, bucket=MEASURED_SECONDS):
        spent[row["use"]] += 0 if row["use"] in (IDLE, SKIPPED) else row["slots"]
    kept = await reader.setting(BANDWIDTH)
    bandwidth = settings.bandwidth if kept is None else float(kept)

    def computed() -> dict[str, object]:
        share = page_share(spent, settings.signals.share)
        forecast = Forecast(scheduler.believed(now), gate.least_spacing(), valuation, intervals, share)
        return forecast_report(forecast, bandwidth, rates, gate.name, scheduler.predicted_freshness(now))

    return await asyncio.to_thread(computed)


def _put_in(stored: StoredPages, scheduler: Scheduler, gate: HostGate) -> None:
    index = {name: gate.host_of_pages(name) for name in set(stored.hosts)}
    with np.errstate(invalid="ignore"):
        alpha = stored.shape / stored.rate
    never = np.isnan(stored.last_success) & (stored.failures > 0)
    scheduler.add(
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
            not_before=np.where(never, np.inf, -np.inf),
            gone=stored.gone,
        )
    )
