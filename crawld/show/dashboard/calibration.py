"""Whether predictions come true: predicted against seen freshness."""

import math
from collections.abc import Mapping, Sequence

from crawld.show.axis import Axis, Form
from crawld.show.chart import Chart, Column, Line, Look, Point, Stack
from crawld.show.dashboard.rendering import View
from crawld.show.dashboard.sources import Sources
from crawld.show.dashboard.words import share
from crawld.store.views import CalibrationLine

FEWEST = 100
"""Revisits below which a verdict would be luck."""


async def show(sources: Sources, _: Mapping[str, str]) -> View:
    """The chart, the table and a verdict in words."""
    lines = await sources.reading.calibration()
    context = {"charts": [curve(lines), counts(lines)], "lines": lines, "verdict": verdict(lines)}
    return View("calibration.html", "Calibration", "/calibration", sources.now(), context)


def curve(lines: Sequence[CalibrationLine]) -> Chart:
    """Seen against predicted freshness with the 95 % interval of what was seen; on the diagonal they are equal."""
    seen = [Point(line.predicted, line.seen, *_interval(line)) for line in lines if line.crawls]
    equal = Line("as predicted", [Point(0.0, 0.0), Point(1.0, 1.0)], Look.QUIET)
    axes = Axis("predicted", Form.SHARE, 0.0, 1.0), Axis("seen", Form.SHARE, 0.0, 1.0)
    return Chart("Seen against predicted freshness", *axes, [Line("seen", seen), equal] if seen else [])


def counts(lines: Sequence[CalibrationLine]) -> Chart:
    """How many revisits each tenth rests on."""
    columns = [Column(line.predicted_low, line.predicted_high, (float(line.crawls),)) for line in lines]
    axes = Axis("predicted", Form.SHARE, 0.0, 1.0), Axis("revisits", low=0.0)
    return Chart("Revisits by what was predicted", *axes, stack=Stack(("revisits",), columns))


def verdict(lines: Sequence[CalibrationLine]) -> str:
    """How far predictions are off, weighted by how often each was made."""
    total = sum(line.crawls for line in lines)
    if total < FEWEST:
        return f"Too few revisits to judge yet: {total:,} of {FEWEST}."
    gap = sum(line.crawls * abs(line.seen - line.predicted) for line in lines) / total
    mean = sum(line.crawls * (line.seen - line.predicted) for line in lines) / total
    side = (
        "as fresh as predicted"
        if abs(mean) < 0.005
        else f"{share(abs(mean))} {'more' if mean > 0 else 'less'} fresh than predicted"
    )
    return f"Over {total:,} revisits the copies were {side}; a prediction is off by {100 * gap:.1f} points on average."


def _interval(line: CalibrationLine) -> tuple[float, float]:
    """Wilson's 95 % interval of the share seen."""
    n, z = line.crawls, 1.96
    middle = (line.seen + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(line.seen * (1 - line.seen) / n + z * z / (4 * n * n))
    return max(middle - half, 0.0), min(middle + half, 1.0)
