"""The daemon's figures as Prometheus reads them, at `/metrics`; there is no global registry."""

import math
from collections.abc import Iterable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from crawld.model.metrics import Distribution, Family, FamilyKind, Figures
from crawld.show.metrics import DaemonMetrics


class _Collected(Collector):
    """Figures that were collected already, for the library to write down."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """Every family."""
        yield from map(_family, self._figures.families)
        yield from map(_histogram, self._figures.distributions)


def exposition(figures: Figures) -> bytes:
    """The figures in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(figures))
    return generate_latest(registry)


def add_metrics(app: web.Application, metrics: DaemonMetrics) -> None:
    """Let an application answer `/metrics`."""

    async def answer(_: web.Request) -> web.Response:
        body = exposition(await metrics.figures())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.router.add_get("/metrics", answer)


def _family(family: Family) -> Metric:
    kind = CounterMetricFamily if family.kind is FamilyKind.COUNTER else GaugeMetricFamily
    found = kind(family.name, family.meaning, labels=list(family.labels))
    for labels, value in sorted(family.samples.items()):
        if value is not None:
            found.add_metric(list(labels), value)
    return found


def _histogram(one: Distribution) -> Metric:
    buckets = [("+Inf" if math.isinf(bound) else repr(bound), float(count)) for bound, count in one.at_most]
    found = HistogramMetricFamily(one.name, one.meaning)
    found.add_metric([], buckets, one.total)
    return found
