"""A forecast as plain data, ready for JSON, with the same in a sentence for people."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict

from crawld.choose.forecast import Forecast, Point
from crawld.choose.part import PartForecast
from crawld.model.units import format_rate

USUAL = (0.25, 0.5, 2.0, 4.0)
"""Of the bandwidth set: what is forecast where nobody asks for other rates."""
TENTH = 1.1
MOST_HOSTS = 10
"""Hosts named one by one."""


def forecast_report(
    forecast: Forecast | PartForecast,
    bandwidth: float,
    others: Sequence[float],
    name: Callable[[int], str],
    fresh_now: float | None,
) -> dict[str, object]:
    """What the bandwidth set, a tenth more and others buy; `name` gives the name of a host.

    Without pages there is nothing to expect: `expected` and `next_tenth` are None and there are no points.
    """
    about = {
        "bandwidth": bandwidth,
        "pages": forecast.pages,
        "sampled_pages": forecast.sampled,
        "page_share": forecast.page_share,
        "freshness_now": fresh_now,
    }
    if not forecast.pages:
        return about | {"headline": "There are no pages yet.", "expected": None, "next_tenth": None, "points": []}
    here, tenth = forecast.at(bandwidth), forecast.at(TENTH * bandwidth)
    rates = [*others] or [share * bandwidth for share in USUAL]
    points = {rate: forecast.at(rate) for rate in rates if rate not in (bandwidth, tenth.bandwidth)}
    points |= {point.bandwidth: point for point in (here, tenth)}
    return about | {
        "headline": headline(here, tenth, fresh_now),
        "expected": _document(here, name),
        "next_tenth": {
            "bandwidth": tenth.bandwidth,
            "freshness": tenth.freshness,
            "gain": tenth.freshness - here.freshness,
        },
        "points": [_document(points[rate], name) for rate in sorted(points)],
    }


def headline(here: Point, tenth: Point, fresh_now: float | None) -> str:
    """What is held, what it comes to, what round robin would hold and what a tenth more buys."""
    if here.bandwidth == 0:
        return "No request may leave: set a bandwidth above 0."
    held = "" if fresh_now is None else f"{_percent(fresh_now)} of what you care about is current. "
    rate = format_rate(here.bandwidth)
    settles = f"At {rate} {_percent(here.freshness)} stays current; round robin would hold about "
    gain = 100 * (tenth.freshness - here.freshness)
    more = f"10 % more bandwidth buys {gain:.1f} points" if gain >= 0.05 else "more bandwidth buys next to nothing"
    return f"{held}{settles}{_percent(here.round_robin)}, and {more}."


def _percent(share: float) -> str:
    """A share in words: all and nothing only where they are meant."""
    if 0.005 <= share < 0.995 or share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"


def _document(point: Point, name: Callable[[int], str]) -> dict[str, object]:
    document = {key: value for key, value in asdict(point).items() if key != "limited"}
    document["level"] = point.level if math.isfinite(point.level) else None
    document["limited_hosts"] = len(point.limited)
    document["lost_to_politeness"] = sum(host.costs for host in point.limited)
    document["hosts"] = [asdict(host) | {"host": name(host.host)} for host in point.limited[:MOST_HOSTS]]
    return document
