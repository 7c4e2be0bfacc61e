"""Effect of more or less bandwidth, the control that sets it, and how well predictions come true."""

from collections.abc import Mapping, Sequence

from crawld.model.errors import InputError
from crawld.model.units import many, parse_rate
from crawld.pages.status import wilson
from crawld.show.charts import Axis, Chart, ChartPoint, Column, Form, Line, Look, Stack
from crawld.show.dashboard.rendering import Sources, View
from crawld.show.report import ForecastPoint, ForecastReport, NextTenth, count, rate, share
from crawld.store.views import CalibrationLine

MIN_REVISITS = 100
"""Revisits below which a verdict would be luck."""


async def show_calibration(sources: Sources, _: Mapping[str, str]) -> View:
    """The chart, the table and a verdict in words."""
    lines = await sources.reading.calibration()
    context = {"charts": [calibration_curve(lines), counts(lines)], "lines": lines, "verdict": verdict(lines)}
    return View("calibration.html", "Calibration", "/calibration", sources.now(), context)


def calibration_curve(lines: Sequence[CalibrationLine]) -> Chart:
    """Seen against predicted freshness with the 95 % interval of what was seen; on the diagonal they are equal."""
    seen = [ChartPoint(line.predicted, line.seen, *wilson(line.seen, line.crawls)) for line in lines if line.crawls]
    equal = Line("as predicted", [ChartPoint(0.0, 0.0), ChartPoint(1.0, 1.0)], Look.QUIET)
    axes = Axis("predicted", Form.SHARE, 0.0, 1.0), Axis("seen", Form.SHARE, 0.0, 1.0)
    return Chart("Seen against predicted freshness", *axes, [Line("seen", seen), equal] if seen else [])


def counts(lines: Sequence[CalibrationLine]) -> Chart:
    """Returns how many revisits each tenth rests on."""
    columns = [Column(line.predicted_low, line.predicted_high, (float(line.crawls),)) for line in lines]
    axes = Axis("predicted", Form.SHARE, 0.0, 1.0), Axis("revisits", low=0.0)
    return Chart("Revisits by what was predicted", *axes, stack=Stack(("revisits",), columns))


def verdict(lines: Sequence[CalibrationLine]) -> str:
    """Returns how far predictions are off, weighted by how often each was made."""
    total = sum(line.crawls for line in lines)
    if total < MIN_REVISITS:
        return f"Too few revisits to judge yet: {total:,} of {MIN_REVISITS}."
    gap = sum(line.crawls * abs(line.seen - line.predicted) for line in lines) / total
    mean = sum(line.crawls * (line.seen - line.predicted) for line in lines) / total
    side = (
        "as fresh as predicted"
        if abs(mean) < 0.005
        else f"{share(abs(mean))} {'more' if mean > 0 else 'less'} fresh than predicted"
    )
    return f"Over {total:,} revisits the copies were {side}; a prediction is off by {100 * gap:.1f} points on average."


PATH = "/forecast"
MULTIPLES = tuple(2.0 ** (step / 2) for step in range(-4, 5))
"""Of the rate set, for which the curve is computed: a quarter of it to four times as much."""
USUAL_RATES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Looked at where the rate set is 0."""


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """The curve, where we stand on it, and what limits it."""
    bandwidth = await _rate_set(sources)
    rates = [bandwidth * multiple for multiple in MULTIPLES] if bandwidth > 0 else list(USUAL_RATES)
    found: ForecastReport | None = None
    try:
        found = await sources.forecasts.of(rates)
        sentence = found.headline
    except InputError as error:  # a policy without values has no forecast; its rate can be set all the same
        sentence = f"{error}"
    here = found.expected if found else None
    context = {
        "sentence": sentence,
        "chart": curve(found.points if found else [], bandwidth),
        "figures": figures(here, found.next_tenth) if found and here and found.next_tenth else [],
        "hosts": here.hosts if here else [],
        "bandwidth": bandwidth,
        "was_set": query.get("set") == "1",
    }
    return View("forecast.html", "Forecast", PATH, sources.now(), context)


async def confirm(sources: Sources, query: Mapping[str, str]) -> View:
    """Returns what a new rate would change, with the button that sets it."""
    wanted = parse_rate(query.get("rate", "").strip())
    before = await _rate_set(sources)
    try:
        found: ForecastReport | None = await sources.forecasts.of([wanted])
    except InputError:
        found = None
    here = found.expected if found else None
    after = next((point for point in (found.points if found else ()) if point.bandwidth == wanted), None)
    context = {
        "before": before,
        "wanted": wanted,
        "given": query["rate"].strip(),
        "changes": compared(here, after) if here and after else [],
    }
    return View("confirm.html", "Change the bandwidth", PATH, sources.now(), context)


async def change(sources: Sources, who: str, form: Mapping[str, Sequence[str]]) -> str:
    """Set the rate that was confirmed; where to go then."""
    rate_wanted = parse_rate("".join(form.get("rate", ())).strip())
    done = await sources.control.actions.act(who, "bandwidth", {"rate": rate_wanted})
    return f"{PATH}?set=1&action={done.id}"


async def _rate_set(sources: Sources) -> float:
    return (await sources.control.status()).bandwidth


def curve(points: Sequence[ForecastPoint], bandwidth: float) -> Chart:
    """Freshness against bandwidth, and that of round robin beside it."""
    known = [point for point in points if point.bandwidth > 0]
    ours = Line("crawld", [ChartPoint(point.bandwidth, point.freshness) for point in known])
    plain = Line("round robin", [ChartPoint(point.bandwidth, point.round_robin) for point in known], Look.DASHED)
    axes = Axis("bandwidth", Form.RATE, logarithmic=True), Axis("expected freshness", Form.SHARE, 0.0, 1.0)
    marker = (bandwidth, "you are here") if bandwidth > 0 else None
    return Chart("Expected freshness against bandwidth", *axes, [ours, plain] if known else [], marker=marker)


def figures(here: ForecastPoint, tenth: NextTenth) -> list[tuple[str, str, str]]:
    """The key figures: what is expected, what a tenth more buys, which pages are given up, what politeness costs."""
    limited, lost = many(here.limited_hosts, "host"), 100 * here.lost_to_politeness
    return [
        ("Expected in the long run", share(here.freshness), f"at {rate(here.bandwidth)}"),
        ("Round robin", share(here.round_robin), "at the same rate"),
        ("10 % more buys", f"{100 * tenth.gain:+.1f} points", f"at {rate(tenth.bandwidth)}"),
        ("Pages given up", count(here.given_up), "crawled at max_interval alone"),
        ("Lost to politeness", f"{lost:.1f} points", f"{limited} would be worth more requests"),
    ]


def compared(before: ForecastPoint, after: ForecastPoint) -> list[tuple[str, str, str]]:
    """Returns what changes with the rate: name, now, then."""
    return [
        ("Expected freshness", share(before.freshness), share(after.freshness)),
        ("Round robin", share(before.round_robin), share(after.round_robin)),
        ("Pages given up", count(before.given_up), count(after.given_up)),
    ]
