"""The first view: how fresh the copy is, how it got there, and what is wrong."""

import asyncio
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from crawld.model.fetched import TURNED_AWAY
from crawld.model.page import OverduePages, PageState
from crawld.model.units import many
from crawld.show.charts import DAY, HOUR, MINUTE, Axis, Chart, ChartPoint, Column, Form, Line, Look, Spread, Stack
from crawld.show.dashboard.rendering import Sources, View
from crawld.show.report import (
    NOTHING,
    ForecastPoint,
    Status,
    Summary,
    TroubleReport,
    count,
    duration,
    rate,
    share,
    troubles,
)
from crawld.store.batch import FreshnessPoint
from crawld.store.views import Overview, SlotLine


@dataclass(frozen=True, slots=True)
class Headline:
    """The sentence, what continues it, and whether it says that crawling has stopped against the operator's will."""

    sentence: str
    more: str = ""
    stopped: bool = False


def headline(
    status: Status, overview: Overview, expected: ForecastPoint | None, troubles: Sequence[TroubleReport] = ()
) -> Headline:
    """Returns what matters most now.

    1. Nothing can be written: crawling has stopped, and why.
    2. There are no pages.
    3. The operator has paused it, or set a rate of 0.
    4. The first round goes on.
    5. How fresh the copy is now; in the long run, how fresh it would be with crawld and with round robin.
    """
    fresh, pages, waiting = status.predicted_freshness, overview.pages, overview.states.get(PageState.WAITING, 0)
    if not status.store.healthy:
        why = next((trouble.sentence for trouble in troubles if trouble.kind == "store"), "the store cannot write")
        return Headline("Crawling has stopped.", f"{why[:1].upper()}{why[1:]}.", stopped=True)
    if pages == 0 or fresh is None:
        return Headline("There are no pages yet.", "Add some under Pages, with `crawld urls add URL…`, or as a list.")
    current = f"{share(fresh)} of what you care about is current."
    if status.paused:
        return Headline("Crawling is paused.", f"{current} `crawld resume` goes on.")
    if status.bandwidth == 0:
        return Headline("The bandwidth is 0: nothing is crawled.", current)
    if waiting == pages:
        return Headline("Nothing is fetched yet.", f"{many(pages, 'page')} on the list; each is fetched once first.")
    if waiting > 0.1 * pages:  # the first round matters, not freshness
        fetched = f"{pages - waiting:,} of {pages:,} pages are fetched."
        return Headline(fetched, "The first round goes on; a page without a copy counts as stale.")
    if expected is None:
        return Headline(current)
    long_run = f"about {share(expected.freshness)} with crawld, about {share(expected.round_robin)} with round robin"
    return Headline(current, f"Expected in the long run at this rate: {long_run}.")


GROUP_OF = {
    "page": "pages",
    **dict.fromkeys(("sitemap", "feed", "websub", "ping"), "sitemaps and feeds"),
    "robots": "robots.txt",
    "audit": "audits",
    "redirect": "redirects",
    **dict.fromkeys(("second_look", "check_304"), "second looks"),
    "idle": "idle",
    "skipped": "skipped",
}
"""Uses of slots by the name that a chart gives them, in the order of its stack."""


def bucket(seconds: float) -> float:
    """The span of a column where so many seconds are shown in 48 columns at the most: whole minutes."""
    return max(math.ceil(seconds / 48 / MINUTE), 1) * MINUTE


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time that is shown, in whole columns of `span` seconds: from when on something is known, until now.

    Slots are counted tick by tick, and a tick belongs to the column that it ends in. `covered` tells how many seconds
    the ticks of a column count, which is what their slots are a rate over.
    """

    since: float
    now: float
    span: float
    covered: Mapping[float, float] = field(default_factory=dict)

    @classmethod
    def of(cls, since: float, now: float, ticks: Sequence[float]) -> "Stretch":
        """The time since then, in which slots were counted at these times."""
        span = bucket(now - since)
        return cls(since, now, span, dict(_covered(ticks, span)))

    def column(self, start: float, values: Sequence[float]) -> Column:
        """The column that begins there, with these values."""
        unfinished = start + self.span > self.now or start < self.since
        return Column(start, start + self.span, values, unfinished)

    def rate(self, start: float, count: float) -> float:
        """So many slots of the ticks of a column, a second."""
        return count / self.covered.get(start, self.span)


def _covered(ticks: Sequence[float], span: float) -> Iterable[tuple[float, float]]:
    """Yields by column the seconds that its ticks count; a tick after a pause counts no more than others do."""
    lengths = [after - before for before, after in pairwise(ticks)]
    usual = statistics.median(lengths) if lengths else MINUTE
    sums: dict[float, float] = {}
    for at, length in zip(ticks, (usual, *lengths)):
        start = at // span * span
        ran = length <= 3.0 * usual  # in a longer one no daemon ran for a while
        sums[start] = sums.get(start, 0.0) + (length if ran else usual)
    return sums.items()


def slots_chart(lines: Sequence[SlotLine], stretch: Stretch) -> Chart:
    """Slots per second by what they were spent on; what never occurs is not named."""
    sums: dict[float, dict[str, float]] = {}
    for line in lines:
        group, column = GROUP_OF.get(line.use, line.use), sums.setdefault(line.at, {})
        column[group] = column.get(group, 0.0) + line.slots
    found = {group for column in sums.values() for group, slots in column.items() if slots}
    known = list(dict.fromkeys(GROUP_OF.values()))
    names = [name for name in known if name in found] + sorted(found.difference(known))
    columns = [
        stretch.column(start, [stretch.rate(start, column.get(name, 0.0)) for name in names])
        for start, column in sorted(sums.items())
    ]
    axes = Axis("time", Form.TIME), Axis("slots", Form.RATE, low=0.0)
    return Chart("What slots were spent on", *axes, stack=Stack(names, columns, frozenset({"idle", "skipped"})))


MORE = {
    "failing": "/pages?state=failing",
    "overdue": "/pages?sort=last_crawl",
    "host_backoff": "/hosts",
    "host_asked_to_wait": "/hosts",
    "host_blocked": "/hosts",
    "robots_unavailable": "/hosts",
    **{trouble.value: f"/pages?trouble={trouble.value}" for trouble in TURNED_AWAY},
    "no_bandwidth": "/forecast",
}
"""Where a trouble is seen closer."""


def told(status: Status, overview: Overview, overdue: OverduePages, now: float) -> Sequence[TroubleReport]:
    """Every trouble of the running daemon in a sentence, the worst first."""
    summary = Summary(
        daemon=status,
        pages=overview.pages,
        states={state.value: count for state, count in overview.states.items()},
        last_crawl_at=overview.last_crawl_at,
        overdue=overdue,
        max_interval_seconds=status.max_interval_seconds,
    )
    return troubles(summary, now)


WINDOWS = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 30 * DAY}


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure: what it is, its value, and what to know about it."""

    name: str
    value: str
    note: str = ""


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """The overview over a window of time, or as much of it as there is a history."""
    now = sources.now()
    status = await sources.control.status()
    window = query.get("window", "day")
    window = window if window in WINDOWS else "day"
    points = await sources.reading.freshness_history(now - WINDOWS[window])
    since = max(now - WINDOWS[window], first_seen(points)) if points else now - min(HOUR, status.uptime_seconds)
    stretch = Stretch.of(since, now, [point.at for point in points])
    begin = since // stretch.span * stretch.span  # of the column that it is in
    reading = sources.reading
    overview, changes, uses, overdue, expected = await asyncio.gather(
        reading.overview(),
        reading.change_counts(begin, stretch.span),
        reading.slots(begin, stretch.span),
        reading.overdue(now - status.max_interval_seconds),
        sources.forecasts.latest(status.bandwidth),
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
    """Returns when the history begins: each point tells of the time since the one before."""
    return points[0].at - (points[1].at - points[0].at if len(points) > 1 else MINUTE)


def thinned(points: Sequence[FreshnessPoint], most: int = 240) -> list[FreshnessPoint]:
    """Points evenly taken from many, always with the last: as many as a screen can show apart."""
    step = -(-len(points) // most) or 1
    return list(points[::-1][::step][::-1])


def freshness_chart(points: Sequence[FreshnessPoint]) -> Chart:
    """Freshness over time, predicted and measured with its 95 % interval."""
    predicted = [ChartPoint(point.at, point.predicted) for point in points]
    measured = [ChartPoint(point.at, point.measured, point.measured_low, point.measured_high) for point in points]
    lines = [Line("predicted", predicted), Line("measured by audits", measured, Look.DASHED, Spread.BAND)]
    values = [value for p in points for value in (p.predicted, p.measured_low) if value is not None]
    low = max(0.0, min(values, default=0.0) - 0.05)
    return Chart(
        "Freshness", Axis("time", Form.TIME), Axis("fresh", Form.SHARE, low if low > 0.15 else 0.0, 1.0), lines
    )


def rate_chart(points: Sequence[FreshnessPoint]) -> Chart:
    """Requests per second allowed and sent."""
    allowed = Line("set", [ChartPoint(point.at, point.bandwidth) for point in points], Look.QUIET)
    sent = Line("reached", [ChartPoint(point.at, point.request_rate) for point in points])
    return Chart("Request rate", Axis("time", Form.TIME), Axis("requests", Form.RATE, low=0.0), [sent, allowed])


def level_chart(points: Sequence[FreshnessPoint]) -> Chart:
    """The crawl value of what was picked."""
    level = Line("level", [ChartPoint(point.at, point.level) for point in points])
    return Chart("Level: the crawl value a page needs", Axis("time", Form.TIME), Axis("level", low=0.0), [level])


def changes_chart(changes: Mapping[float, int], stretch: Stretch) -> Chart:
    """Changes found per hour, over time; a bar that is not over shows those so far, and only grows."""
    columns = [stretch.column(at, (number * HOUR / stretch.span,)) for at, number in sorted(changes.items())]
    axes = Axis("time", Form.TIME), Axis("changes", low=0.0)
    return Chart("Changes found per hour", *axes, stack=Stack(("changes",), columns))


def _figures(status: Status, overview: Overview, changes: int, seconds: float, now: float) -> list[Figure]:
    measured, latest = status.measured_freshness, overview.latest
    interval = "" if measured is None else f"95 %: {share(measured.low)} to {share(measured.high)}"
    stopped = not status.store.healthy
    known = latest is not None and now - latest.at < 300.0 and not stopped  # an older rate says nothing of now
    reached = rate(latest.request_rate) if latest is not None and known else NOTHING
    allowed = f"of {rate(status.bandwidth)} set" + (", paused" if status.paused else "")
    allowed = "stopped" if stopped else allowed
    waiting = overview.states.get(PageState.WAITING, 0)
    return [
        Figure("Fresh, predicted", share(status.predicted_freshness), "weighted by importance"),
        Figure("Fresh, measured", share(measured.mean if measured else None), interval or "no audit yet"),
        Figure("Rate reached", reached, allowed),
        Figure("Changes found", count(changes), f"in the last {duration(seconds)}"),
        Figure("Pages", count(overview.pages), f"{count(waiting)} not fetched yet" if waiting else "all fetched once"),
    ]
