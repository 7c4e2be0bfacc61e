"""A chart as SVG: a file of its own with title and legend, or a part of a page that has its own."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape as escape_markup

from crawld.show.axis import Axis, Scale, scale, spread_wide
from crawld.show.chart import Chart, Lane, Line, Look, Point, Spread, Stack
from crawld.show.style import COLOURS, STANDALONE

MOST_DOTS = 24
"""Points of a line that are drawn as dots too; more would hide it."""
LANE = 26
"""The height of a row of events."""
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Paper:
    """The size of a drawing and what it leaves free around the plot."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int


FILE = Paper(760, 440, 64, 190, 44, 52)
PART = Paper(640, 250, 62, 14, 12, 34)


def escape(text: str) -> str:
    """Text as XML may hold it, within an element or an attribute."""
    return escape_markup(_NOT_XML.sub("\ufffd", text), {'"': "&quot;"})


def draw(chart: Chart, *, standalone: bool = False, height: int = PART.height) -> str:
    """The SVG of a chart; `standalone` with its style, title and legend, else for a page that brings them."""
    paper = FILE if standalone else PART
    tall = (paper.height if standalone else height) + LANE * len(chart.lanes)
    plot_end = tall - paper.bottom - LANE * len(chart.lanes)
    x = scale(chart.x, _all_x(chart), paper.left, paper.width - paper.right)
    y = scale(chart.y, _all_y(chart), plot_end, paper.top, margin=0.06)
    label = escape(f"{chart.title}. {chart.description()}")
    named = f'viewBox="0 0 {paper.width} {tall}" role="img" aria-label="{label}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" {named}>']
    if standalone:
        parts += [
            f"<title>{escape(chart.title)}</title><style>{STANDALONE}</style>",
            f'<rect class="paper" width="{paper.width}" height="{tall}"/>',
            f'<text x="{paper.left}" y="24" class="title">{escape(chart.title)}</text>',
            *_legend(chart, paper.width - paper.right + 14, paper.top + 8),
        ]
    parts += _grid(x, y, plot_end + LANE * len(chart.lanes))
    parts += _labels(chart, paper, tall, (paper.top + plot_end) / 2)
    if chart.stack is not None:
        parts += _bars(chart.stack, x, y, chart)
    first = len(chart.stack.names) if chart.stack else 0
    for at, line in enumerate(chart.lines):
        parts += _line(line, x, y, series_class(chart, first + at))
    for at, lane in enumerate(chart.lanes):
        parts += _lane(lane, x, plot_end + LANE * at)
    if chart.marker is not None:
        parts += _marker(chart.marker, x, paper.top, plot_end)
    return "\n".join([*parts, "</svg>", ""])


def draw_lines(title: str, x_label: str, y_label: str, lines: Mapping[str, Sequence[Point]]) -> str:
    """A file with one line for each name over plain numbers; x by its logarithm where it spans much."""
    xs = [point.x for line in lines.values() for point in line]
    named = [Line(name, sorted(line, key=lambda point: point.x)) for name, line in lines.items()]
    return draw(Chart(title, Axis(x_label, logarithmic=spread_wide(xs)), Axis(y_label), named), standalone=True)


def series_class(chart: Chart, at: int) -> str:
    """The class that colours the name at that place in the legend; colours go round, quiet names take none."""
    quiet = [name in chart.stack.quiet for name in chart.stack.names] if chart.stack else []
    quiet += [line.look is Look.QUIET for line in chart.lines]
    if quiet[at]:
        return "quiet"
    place = at - sum(quiet[:at])
    dashed = at >= len(quiet) - len(chart.lines) and chart.lines[at - len(quiet)].look is Look.DASHED
    return f"s{place % COLOURS + 1}" + (" dashed" if place >= COLOURS or dashed else "")


def key(chart: Chart, at: int) -> str:
    """A small drawing of how the name at that place in the legend is shown."""
    kind = series_class(chart, at)
    if chart.stack and at < len(chart.stack.names):
        drawn = f'<rect x="5" y="1" width="12" height="12" rx="2" class="bar {kind}"/>'
    else:
        drawn = f'<line x1="1" x2="21" y1="7" y2="7" class="line {kind}"/>'
    return f'<svg class="key" viewBox="0 0 22 14" aria-hidden="true">{drawn}</svg>'


def _all_x(chart: Chart) -> Iterator[float]:
    for line in chart.lines:
        yield from (point.x for point in line.points)
    for column in chart.stack.columns if chart.stack else ():
        yield from (column.start, column.end)
    for lane in chart.lanes:
        yield from (event.x for event in lane.events)
    if chart.marker is not None:
        yield chart.marker[0]


def _all_y(chart: Chart) -> Iterator[float]:
    for line in chart.lines:
        for point in line.points:
            yield from (value for value in (point.y, point.low, point.high) if value is not None)
    for column in chart.stack.columns if chart.stack else ():
        yield from (0.0, math.fsum(column.values))


def _grid(x: Scale, y: Scale, foot: float) -> Iterator[str]:
    for tick, text in y.ticks():
        at = y.place(tick)
        yield f'<line x1="{x.start}" x2="{x.end}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>'
        yield f'<text x="{x.start - 8}" y="{at + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    for tick, text in x.ticks():
        at = x.place(tick)
        yield f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y.end}" y2="{foot:.1f}" class="grid"/>'
        anchor = "end" if at > x.end - 18 else "middle"
        yield f'<text x="{at:.1f}" y="{foot + 18:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _labels(chart: Chart, paper: Paper, tall: int, middle: float) -> Iterator[str]:
    """What the axes show; a part of a page says it in its caption."""
    if paper is not FILE:
        return
    across = (paper.left + paper.width - paper.right) / 2
    yield f'<text x="{across}" y="{tall - 12}" text-anchor="middle">{escape(chart.x.label)}</text>'
    turned = f"translate(16 {middle}) rotate(-90)"
    yield f'<text transform="{turned}" text-anchor="middle">{escape(chart.y.label)}</text>'


def _legend(chart: Chart, left: float, top: float) -> Iterator[str]:
    for at, name in enumerate(chart.names):
        y, kind = top + 20 * at, series_class(chart, at)
        yield f'<line x1="{left}" x2="{left + 22}" y1="{y}" y2="{y}" class="line {kind}"/>'
        yield f'<text x="{left + 28}" y="{y + 4}">{escape(name)}</text>'


def _line(line: Line, x: Scale, y: Scale, kind: str) -> Iterator[str]:
    for run in _runs(line.points):
        places = [(x.place(point.x), y.place(_value(point))) for point in run]
        if line.spread is Spread.BAND:
            yield from _band(run, x, y, kind)
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
        yield f'<polyline points="{path}" class="line {kind}"/>'
        if (len(line.points) <= MOST_DOTS and line.look is Look.SOLID) or len(run) == 1:
            yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" class="mark {kind}"/>' for a, b in places)
        if line.spread is Spread.BARS:
            yield from _error_bars(run, x, y, kind)


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """The stretches of a line between its gaps."""
    run: list[Point] = []
    for point in points:
        if point.y is None:
            if run:
                yield run
            run = []
        else:
            run.append(point)
    if run:
        yield run


def _value(point: Point) -> float:
    return math.nan if point.y is None else point.y


def _band(run: Sequence[Point], x: Scale, y: Scale, kind: str) -> Iterator[str]:
    known = [(x.place(p.x), y.place(p.low), y.place(p.high)) for p in run if p.low is not None and p.high is not None]
    if len(known) > 1:
        outline = [*((at, high) for at, _, high in known), *((at, low) for at, low, _ in reversed(known))]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in outline)
        yield f'<polygon points="{path}" class="band {kind}"/>'


def _error_bars(run: Sequence[Point], x: Scale, y: Scale, kind: str) -> Iterator[str]:
    for point in run:
        if point.low is not None and point.high is not None and point.high > point.low:
            at, low, high = x.place(point.x), y.place(point.low), y.place(point.high)
            yield f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{low:.1f}" y2="{high:.1f}" class="line error {kind}"/>'


def _bars(stack: Stack, x: Scale, y: Scale, chart: Chart) -> Iterator[str]:
    for column in stack.columns:
        left, right = x.place(column.start), x.place(column.end)
        gap = min(1.0, (right - left) / 5)
        below = 0.0
        so_far, part = (" so far", " unfinished") if column.unfinished else ("", "")
        for at, value in enumerate(column.values):
            if value > 0:
                low, high = y.place(below), y.place(below + value)
                below += value
                text = f"{stack.names[at]}: {chart.y.text(value)}{so_far}, {chart.x.text(column.start)}"
                size = f'width="{right - left - gap:.1f}" height="{low - high:.1f}"'
                place = f'<rect x="{left:.1f}" y="{high:.1f}" {size} class="bar {series_class(chart, at)}{part}">'
                yield f"{place}<title>{escape(text)}</title></rect>"


def _lane(lane: Lane, x: Scale, top: float) -> Iterator[str]:
    foot = top + LANE
    yield f'<text x="{x.start - 8}" y="{foot - 6:.1f}" text-anchor="end">{escape(lane.name)}</text>'
    for event in lane.events:
        at, strong = x.place(event.x), " strong" if event.strong else ""
        place = f'x1="{at:.1f}" x2="{at:.1f}" y1="{top + 8:.1f}" y2="{foot - 2:.1f}"'
        yield f'<line {place} class="event{strong}"><title>{escape(event.text)}</title></line>'


def _marker(marker: tuple[float, str], x: Scale, top: float, foot: float) -> Iterator[str]:
    at, text = x.place(marker[0]), marker[1]
    anchor = "end" if at > (x.start + x.end) / 2 else "start"
    shift = -5 if anchor == "end" else 5
    yield f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{foot:.1f}" class="marker"/>'
    yield f'<text x="{at + shift:.1f}" y="{top + 10}" text-anchor="{anchor}">{escape(text)}</text>'
