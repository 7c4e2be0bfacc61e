"""A scheduler of pages as the database has them, for whoever is no daemon: what it would believe and expect."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crawld.choose.forecast import Forecast
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.part import PartForecast
from crawld.choose.report import forecast_report
from crawld.choose.scan import Scan
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.choose.valuation import Valuation
from crawld.model.age_curve import AgeCurve
from crawld.model.host import HostState
from crawld.show.forecasts import page_share, require_values
from crawld.store.contract import StoredPages


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
            self.scheduler.age_by(self.gate.host(host), curve)

    def forecast(
        self, bandwidth: float, rates: Sequence[float], spent: Mapping[str, int], now: float, part: float = 1.0
    ) -> dict[str, object]:
        """What that bandwidth and these rates buy, where requests were spent so; takes a while for many pages.

        `part` is the share of all pages that these are.
        """
        share = page_share(spent, self._terms.poll_share)
        believed = self.scheduler.believed(now)
        forecast = Forecast(believed, self.gate.least_spacing(), self._valuation, self._terms.intervals, share)
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
