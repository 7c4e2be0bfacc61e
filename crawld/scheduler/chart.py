"""Models of the crawl value over the near future, with rigorous error bounds.

A chart says of a page: |V(t) − (value + slope·d + bend·d²)| ≤ twist·d³ + error with d = t − `at`, for every time t
from `at` to `until`. A valuation's jet gives a Taylor model that never ends; where there is none, the chart is the
bracket between two values, which is a bound because no crawl value falls with time. `error` also covers the rounding of
the value itself, so that an order that charts call certain is the order of the rounded values too. A value may be
inf (an unbounded one, after a sure signal): its chart is huge instead, and such pages are told apart by exact values.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crawld.scheduler.chooser import Ints
from crawld.scheduler.columns import Columns
from crawld.scheduler.valuation import Beliefs, Floats, Jet, Valuation

HUGE = 1e250
ROUNDING = 1e-10  # relative, far above what a value's own rounding can do


class Chart(NamedTuple):
    """Models of several pages as columns."""

    at: Floats
    value: Floats
    slope: Floats
    bend: Floats
    twist: Floats
    error: Floats
    until: Floats


def draw(valuation: Valuation, pages: Columns, rows: Ints, now: float, until: float) -> Chart:
    """Charts of pages from now on; those without a jet are good until `until` only."""
    boost, beliefs = pages.boost[rows], pages.beliefs(rows)
    at = np.full(len(rows), now)
    tau = np.maximum(now - pages.last[rows], 0.0)
    value, slope, curvature, third = _jet(valuation, tau, boost, beliefs)
    value = np.minimum(value, HUGE)
    # A copy from after `now` (the clock stepped back) does not age before its own time.
    at = np.maximum(at, pages.last[rows])
    forever = np.full(len(rows), np.inf)
    chart = Chart(at, value, slope, curvature / 2, third / 6, ROUNDING * value, forever)
    blurred = np.flatnonzero(~((third < np.inf) & (np.abs(curvature) < np.inf) & (slope < np.inf)))
    if len(blurred):
        _bracket(valuation, pages, rows, chart, blurred, until)
    return chart


def _jet(valuation: Valuation, tau: Floats, boost: Floats, beliefs: Beliefs) -> Jet:
    """The valuation's jet, or nothing but the value."""
    moving: Callable[[Floats, Floats, Beliefs], Jet] | None = getattr(valuation, "jet", None)
    if moving is not None:
        return moving(tau, boost, beliefs)
    unknown = np.full(len(tau), np.inf)
    return Jet(valuation.value(tau, boost, beliefs), unknown, unknown, unknown)


def _bracket(valuation: Valuation, pages: Columns, rows: Ints, chart: Chart, blurred: Ints, until: float) -> None:
    """Replace models without a bound by what lies between now and `until`."""
    rows, low = rows[blurred], chart.value[blurred]
    tau = np.maximum(until - pages.last[rows], 0.0)
    high = np.minimum(valuation.value(tau, pages.boost[rows], pages.beliefs(rows)), HUGE)
    chart.value[blurred] = (low + high) / 2
    chart.error[blurred] = (high - low) / 2 + ROUNDING * high
    chart.until[blurred] = until
    for column in (chart.slope, chart.bend, chart.twist):
        column[blurred] = 0.0


def highest(chart: Chart, at: float) -> Floats:
    """What the value cannot exceed up to that time."""
    ahead = np.maximum(at - chart.at, 0.0)
    return chart.value + ahead * (chart.slope + ahead * (chart.bend + ahead * chart.twist)) + chart.error


def lowest(chart: Chart, at: float) -> Floats:
    """What the value cannot be below from that time on."""
    ahead = at - chart.at
    low = chart.value + ahead * (chart.slope + ahead * (chart.bend - ahead * chart.twist)) - chart.error
    return np.where(ahead >= 0, low, 0.0)
