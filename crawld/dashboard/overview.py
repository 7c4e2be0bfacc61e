"""The first view: how fresh the copy is, how it got there, and what is wrong."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawld.charts import Axis, Chart, Form, Line, Look, Point, Spread, Stack
from crawld.dashboard.headline import headline
from crawld.dashboard.rendering import View
from crawld.dashboard.slot_uses import MINUTE, Stretch, slots_chart
from crawld.dashboard.sources import Sources
from crawld.dashboard.troubles import MORE, told
from crawld.dashboard.words import NOTHING, count, duration, rate, share
from crawld.interfaces import FreshnessPoint
from crawld.interfaces.read_model import Overview
from crawld.model.page import PageState

HOUR, DAY = 3600.0, 86400.0
WINDOWS = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 30 * DAY}
MAX_AGE_OF_RATE = 300.0
"""Seconds after which a rate that was reached says nothing of now."""
MOST_POINTS = 240
"""Of a line: more than a screen can show apart."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure: what it is, its value, and what to know about it."""

    name: str
    value: str
    note: str = ""


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """The overview over a window of time, or as much of it as there is a history."""
    now = sources.now()
    status: Mapping[str, Any] = await sources.control.status()
    window = query.get("window", "day")
    window = window if window in WINDOWS else "day"
    points = await sources.reading.freshness_history(now - WINDOWS[window])
    since = max(now - WINDOWS[window], first_seen(points)) if points else now - min(HOUR, status["uptime_seconds"])
    stretch = Stretch.of(since, now, [point.at for point in points])
    begin = since // stretch.span * stretch.span  # of the column that it is in
    reading = sources.reading
    overview, changes, uses, overdue, expected = await asyncio.gather(
        reading.overview(),
        reading.change_counts(begin, stretch.span),
        reading.slots(begin, stretch.span),
        reading.overdue(now - status["max_interval_seconds"]),
        sources.forecasts.latest(status["bandwidth"]),
    )
    shown, troubles = thinned(points), told(status, overview, overdue, now)
    context = {
        "figures": _figures(status, overview, sum(changes.values()), now - begin, now),
        "freshness": freshness_chart(shown),
        "charts": [
            (slots_chart(uses, stretch), "Slots per second, by what each was used for. A pale bar is not over."),
            (rate_chart(shown), "Requests per second that left, against what is allowed."),
            (
                changes_chart(changes, stretch),
                "Crawls that found a page other than it was; first copies are no changes. A pale bar is not over.",
            ),
            (level_chart(shown), "It rises where more pages are worth a request, and falls with bandwidth."),
        ],
        "window": window,
        "windows": list(WINDOWS),
        "headline": headline(status, overview, expected, troubles),
        "troubles": troubles,
        "more": MORE,
    }
    return View("overview.html", "Overview", "/", now, context)


def first_seen(points: Sequence[FreshnessPoint]) -> float:
    """When the history begins: each point tells of the time since the one before."""
    return points[0].at - (points[1].at - points[0].at if len(points) > 1 else MINUTE)


def thinned(points: Sequence[FreshnessPoint]) -> list[FreshnessPoint]:
    """Points evenly taken from many, always with the last."""
    step = -(-len(points) // MOST_POINTS) or 1
    return list(points[::-1][::step][::-1])


def freshness_chart(points: Sequence[FreshnessPoint]) -> Chart:
    """Freshness over time, predicted and measured with its 95 % interval."""
    predicted = [Point(point.at, point.predicted) for point in points]
    measured = [Point(point.at, point.measured, point.measured_low, point.measured_high) for point in points]
    lines = [Line("predicted", predicted), Line("measured by audits", measured, Look.DASHED, Spread.BAND)]
    values = [value for p in points for value in (p.predicted, p.measured_low) if value is not None]
    low = max(0.0, min(values, default=0.0) - 0.05)
    return Chart(
        "Freshness", Axis("time", Form.TIME), Axis("fresh", Form.SHARE, low if low > 0.15 else 0.0, 1.0), lines
    )


def rate_chart(points: Sequence[FreshnessPoint]) -> Chart:
    """Requests per second allowed and sent."""
    allowed = Line("set", [Point(point.at, point.bandwidth) for point in points], Look.QUIET)
    sent = Line("reached", [Point(point.at, point.request_rate) for point in points])
    return Chart("Request rate", Axis("time", Form.TIME), Axis("requests", Form.RATE, low=0.0), [sent, allowed])


def level_chart(points: Sequence[FreshnessPoint]) -> Chart:
    """The crawl value of what was picked."""
    level = Line("level", [Point(point.at, point.level) for point in points])
    return Chart("Level: the crawl value a page needs", Axis("time", Form.TIME), Axis("level", low=0.0), [level])


def changes_chart(changes: Mapping[float, int], stretch: Stretch) -> Chart:
    """Changes found per hour, over time; a bar that is not over shows those so far, and only grows."""
    columns = [stretch.column(at, (number * HOUR / stretch.span,)) for at, number in sorted(changes.items())]
    axes = Axis("time", Form.TIME), Axis("changes", low=0.0)
    return Chart("Changes found per hour", *axes, stack=Stack(("changes",), columns))


def _figures(status: Mapping[str, Any], overview: Overview, changes: int, seconds: float, now: float) -> list[Figure]:
    measured, latest = status["measured_freshness"], overview.latest
    interval = "" if measured is None else f"95 %: {share(measured['low'])} to {share(measured['high'])}"
    stopped = not status["store"]["healthy"]
    known = latest is not None and now - latest.at < MAX_AGE_OF_RATE and not stopped
    reached = rate(latest.request_rate) if latest is not None and known else NOTHING
    allowed = f"of {rate(status['bandwidth'])} set" + (", paused" if status["paused"] else "")
    allowed = "stopped" if stopped else allowed
    waiting = overview.states.get(PageState.WAITING, 0)
    return [
        Figure("Fresh, predicted", share(status["predicted_freshness"]), "weighted by importance"),
        Figure("Fresh, measured", share(measured["mean"] if measured else None), interval or "no audit yet"),
        Figure("Rate reached", reached, allowed),
        Figure("Changes found", count(changes), f"in the last {duration(seconds)}"),
        Figure("Pages", count(overview.pages), f"{count(waiting)} not fetched yet" if waiting else "all fetched once"),
    ]
