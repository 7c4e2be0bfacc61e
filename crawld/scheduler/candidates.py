"""Which near pages a block of slots is decided among, and charts sharp enough to decide by."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.chart import Chart, draw, highest, lowest
from crawld.scheduler.chooser import Ints
from crawld.scheduler.columns import Columns
from crawld.scheduler.near import Near
from crawld.scheduler.politeness import HostGate
from crawld.scheduler.valuation import Floats, Valuation

CANDIDATES = 256  # near pages in a block, at most
BLUR = 1e-6  # the relative error from which on neighbours may not be told apart


class Chosen(NamedTuple):
    """Places of near pages, and what is left out."""

    places: Ints
    followed: NDArray[np.bool_]  # whose host has pages that are left out without being under the bar
    bar: float
    complete: bool


def choose(
    pages: Columns, near: Near, gate: HostGate | None, span: tuple[float, float], most: int = CANDIDATES
) -> Chosen:
    """At most so many pages of the highest values among those that may be picked within the span."""
    now, end = span
    chart = near.chart()
    rows = near.row[: near.size]
    high = highest(chart, end)
    possible = (rows >= 0) & (pages.not_before[rows] <= end)
    follow = np.zeros(0, dtype=np.bool_)
    if gate is not None:
        host = near.host[: near.size]
        possible &= gate.earliest[host] <= end
        behind = possible & _outranked(
            pages, near, gate, (now, end), np.where(possible, lowest(chart, now), -np.inf), high
        )
        possible &= ~behind
        follow = np.zeros(len(gate.delay), dtype=np.bool_)
        follow[host[behind]] = True
    places = np.flatnonzero(possible)
    bar, spare = -np.inf, len(places) - most
    if spare > 0:
        order = np.argpartition(high[places], spare)
        bar = float(high[places[order[:spare]]].max())
        places = places[order[spare:]]
    followed = follow[near.host[places]] if len(follow) else np.zeros(len(places), dtype=np.bool_)
    return Chosen(places, followed, bar, complete=spare <= 0)


def _outranked(
    pages: Columns, near: Near, gate: HostGate, span: tuple[float, float], low: Floats, high: Floats
) -> NDArray[np.bool_]:
    """The pages surely below another of their host, where that host cannot be asked twice within the span."""
    now, end = span
    host = near.host[: near.size]
    low = np.where(pages.not_before[near.row[: near.size]] <= now, low, -np.inf)
    best = np.full(len(gate.delay), -np.inf)
    np.maximum.at(best, host, low)
    return np.asarray((gate.delay[host] >= end - now) & (high < best[host]))


def sharpen(
    valuation: Valuation, pages: Columns, near: Near, places: Ints, now: float, end: float
) -> tuple[Chart, int]:
    """The charts of some places, drawn anew where they are too coarse to tell neighbours apart, and how many were."""
    chart = near.chart_of(places)
    ahead = end - chart.at
    coarse = np.flatnonzero(
        (chart.twist * ahead**3 + chart.error > BLUR * chart.value)
        & ((now - chart.at > 0.5 * (end - now)) | (chart.until < np.inf) | (chart.at > now))
    )
    if len(coarse):
        drawn = draw(valuation, pages, near.row[places[coarse]], now, end)
        for old, new in zip(chart, drawn, strict=True):
            old[coarse] = new
        lasting = np.flatnonzero(drawn.until == np.inf)  # a bracket is good for this block only
        near.redraw(places[coarse[lasting]], Chart(*(column[lasting] for column in drawn)))
    return chart, len(coarse)
