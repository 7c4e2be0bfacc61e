"""A chart as SVG: a file of its own with title and legend, or a part of a page that has its own."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from xml.sax.saxutils import escape as escape_markup

from crawld.model.units import format_duration, format_number, format_rate

WIDE = 20.0
"""The ratio from which on positive values are spread by their logarithm."""
COLOURS = 8
LANE = 26
"""The height of a row of events."""
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
STEPS = (
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
    MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
    DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 182 * DAY, 364 * DAY,
)  # fmt: skip
"""Seconds between the ticks of times and durations."""
UNITS = (("s", 1.0), ("min", MINUTE), ("hour", HOUR), ("day", DAY))
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Form(Enum):
    """Kind of the values of an axis, which decides how they are written."""

    NUMBER = "number"
    SHARE = "share"  # 0 to 1, written as percent
    TIME = "time"  # UTC seconds
    DURATION = "duration"  # seconds
    RATE = "rate"  # a second


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis; where an end is not given, the values decide it."""

    label: str = ""
    form: Form = Form.NUMBER
    low: float | None = None
    high: float | None = None
    logarithmic: bool = False

    def text(self, value: float, step: float = math.nan) -> str:
        """A value as a person reads it; ticks so far apart."""
        if self.form is Form.SHARE:
            digits = 0 if math.isnan(step) or step >= 0.01 else math.ceil(-math.log10(step) - 2 - 1e-9)
            return f"{100 * value:.{digits}f} %"
        if self.form is Form.TIME:
            return format_time(value, step)
        if self.form is Form.DURATION:
            return format_duration(value) if value else "0"
        if self.form is Form.RATE:
            return format_rate(value)
        return format_number(value) if 1e-3 <= abs(value) < 1e5 or value == 0 else _by_power(value)


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis laid from `start` to `end` on the paper, with its ends known."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Returns where a value is on the paper; one beyond the ends is placed at the end."""
        low, high = self.low, self.high
        value = min(max(value, low), high)
        if self.axis.logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (self.end - self.start) * ((value - low) / (high - low) if high > low else 0.5)

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Round values within the ends, each with its text."""
        if self.axis.logarithmic:
            values, step = _decades(self.low, self.high, most), math.nan
        else:
            step = _step(self.high - self.low, most, self.axis.form)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            values = [step * k for k in range(first, last + 1)]
        if self.axis.form is Form.RATE:  # one unit for all, so that they can be compared
            unit, seconds = next(unit for unit in UNITS if self.high * unit[1] >= 2 or unit is UNITS[-1])
            return [(value, f"{format_number(value * seconds)}/{unit}") for value in values]
        return [(value, self.axis.text(value, step)) for value in values]


def scale(axis: Axis, values: Iterable[float], start: float, end: float, margin: float = 0.0) -> Scale:
    """Lay an axis over these values, with a margin at the ends that are not given."""
    found = [value for value in values if math.isfinite(value)]
    low, high = min(found, default=0.0), max(found, default=1.0)
    extra = margin * (high - low)
    if high == low:
        extra = 0.05 * abs(high) or 1.0
    if axis.logarithmic:
        extra = 0.0
        low, high = (low, high) if low > 0 else (max(high, 1.0) / WIDE, max(high, 1.0))
    return Scale(
        axis,
        low - extra if axis.low is None else axis.low,
        high + extra if axis.high is None else axis.high,
        start,
        end,
    )


def spread_wide(values: Sequence[float]) -> bool:
    """Tells whether values are so far apart that only a logarithmic axis shows them all."""
    return len(set(values)) > 2 and min(values) > 0 and max(values) / min(values) >= WIDE


def format_time(at: float, step: float = math.nan) -> str:
    """A UTC time as precise as ticks so far apart need it; in full where they are unknown."""
    moment = datetime.fromtimestamp(at, UTC)
    if math.isnan(step):
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    if step < MINUTE:
        return f"{moment:%H:%M:%S}"
    if step < DAY:
        return f"{moment:%H:%M}" if at % DAY else f"{moment.day} {moment:%b}"
    return f"{moment.day} {moment:%b}" if step < 28 * DAY else f"{moment:%b %Y}"


def _by_power(value: float) -> str:
    """`3·10⁻⁴`: short enough for the side of a chart."""
    mantissa, _, power = f"{value:.1e}".partition("e")
    return f"{float(mantissa):g}·10{str(int(power)).translate(RAISED)}"


def _step(span: float, most: int, form: Form) -> float:
    """The least round step that gives no more than so many ticks."""
    if form in {Form.TIME, Form.DURATION} and span >= most:
        return next((step for step in STEPS if span / step <= most), STEPS[-1])
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= most)


def _decades(low: float, high: float, most: int) -> list[float]:
    """Round values of a logarithmic axis: 1, 2 and 5 of each power of ten where there is room, else powers alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= most:
            return found
    return found[:: math.ceil(len(found) / most)]


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A value and, where they are known, the ends of the interval around it; without a value the line has a gap."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def measured(cls, x: float, y: float, error: float = math.nan) -> "ChartPoint":
        """A value with its standard error (nan if unknown)."""
        return cls(x, y) if math.isnan(error) else cls(x, y, y - error, y + error)


class Look(Enum):
    """Style of a line."""

    SOLID = "solid"
    DASHED = "dashed"
    QUIET = "quiet"  # grey, to compare with


class Spread(Enum):
    """Style of the interval around a line's points."""

    BARS = "bars"
    BAND = "band"


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points in the order of x."""

    name: str
    points: Sequence[ChartPoint]
    look: Look = Look.SOLID
    spread: Spread = Spread.BARS


@dataclass(frozen=True, slots=True)
class Column:
    """One bar of a stack, from `start` to `end`: a value for each name."""

    start: float
    end: float
    values: Sequence[float]
    unfinished: bool = False  # its time is not over, or began before what is known


@dataclass(frozen=True, slots=True)
class Stack:
    """Bars of several values on top of each other; `quiet` ones are grey."""

    names: Sequence[str]
    columns: Sequence[Column]
    quiet: Collection[str] = ()


NO_STACK = Stack((), ())


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `strong` where it matters more than the others of its lane."""

    x: float
    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of events below the chart."""

    name: str
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Chart:
    """A title, two axes and whatever is drawn over them."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    stack: Stack = NO_STACK
    lanes: Sequence[Lane] = ()
    marker: tuple[float, str] | None = None
    """A place on the x axis with what it is, as "now"."""

    @property
    def names(self) -> list[str]:
        """Returns what the legend lists, in the order of its colours."""
        return [*self.stack.names, *(line.name for line in self.lines)]

    @property
    def empty(self) -> bool:
        """Tells whether there is nothing to draw."""
        drawn = any(point.y is not None for line in self.lines for point in line.points)
        return not drawn and not self.stack.columns and not any(lane.events for lane in self.lanes)

    def description(self) -> str:
        """The chart in a sentence for each line, for screen readers."""
        if self.empty:
            return "There is nothing to show yet."
        return " ".join([*map(self._line_in_words, self.lines), *self._stack_in_words(), *map(_table_lane, self.lanes)])

    def _line_in_words(self, line: Line) -> str:
        values = [point.y for point in line.points if point.y is not None]
        if not values:
            return f"{line.name}: no values."
        low, high, last = (self.y.text(value) for value in (min(values), max(values), values[-1]))
        return f"{line.name}: from {low} to {high}, last {last}."

    def _stack_in_words(self) -> Iterator[str]:
        for at, name in enumerate(self.stack.names):
            yield f"{name}: {self.y.text(sum(column.values[at] for column in self.stack.columns))} in all."


def _table_lane(lane: Lane) -> str:
    return f"{lane.name}: {len(lane.events)} shown."


def data_table(chart: Chart, most: int = 40) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows of the figures behind a chart; of many rows, some evenly spaced ones and the last."""
    heading = [chart.x.label or "x", *chart.names]
    rows: dict[float, list[str]] = {}
    for row in chart.stack.columns:
        cells = rows.setdefault(row.start, [""] * len(chart.names))
        cells[: len(row.values)] = [chart.y.text(value) for value in row.values]
    before = len(chart.stack.names)
    for at, line in enumerate(chart.lines):
        for point in line.points:
            rows.setdefault(point.x, [""] * len(chart.names))[before + at] = _cell(chart.y, point)
    step = max(math.ceil(len(rows) / most), 1)
    kept = sorted(rows)[::-1][::step][::-1]
    unfinished = {column.start for column in chart.stack.columns if column.unfinished}
    return heading, [[chart.x.text(x) + (" (not over)" if x in unfinished else ""), *rows[x]] for x in kept]


def _cell(axis: Axis, point: ChartPoint) -> str:
    if point.y is None:
        return ""
    if point.low is None or point.high is None:
        return axis.text(point.y)
    return f"{axis.text(point.y)} ({axis.text(point.low)} to {axis.text(point.high)})"


def saw_tooth(
    resets: Sequence[float],
    until: float,
    course: Callable[[float, float], float],
    jumps: Sequence[float] = (),
) -> list[ChartPoint]:
    """The points of a line that follows `course(reset, time)` from each reset to the next and may jump at `jumps`."""
    brief = 1e-6 * (until - resets[0]) if resets else 0.0
    points: list[ChartPoint] = []
    for start, end in zip(resets, [*resets[1:], until], strict=True):
        steps = 16 if len(resets) <= 60 else 4
        at = [start + (end - start) * step / steps for step in range(steps + 1)]
        inside = [jump for jump in jumps if start < jump < end]
        at = sorted([*at, *inside, *(max(jump - brief, start) for jump in inside)])
        points += [ChartPoint(moment, course(start, moment)) for moment in at]
    return points


def _stylesheet() -> str:
    """Every colour is a variable with a value for light and one for dark."""
    light = (
        "--chart-paper:#fff;--chart-ink:#1d2733;--chart-soft:#5a6675;--chart-grid:#e3e7ec;"
        "--series-1:#1f6fb2;--series-2:#c2410c;--series-3:#2b7a4b;--series-4:#7c4dbd;--series-5:#a16207;"
        "--series-6:#0f7c86;--series-7:#be185d;--series-8:#57606d"
    )
    dark = (
        "--chart-paper:#11161d;--chart-ink:#e6ebf1;--chart-soft:#9aa7b5;--chart-grid:#2a333e;"
        "--series-1:#62aef0;--series-2:#f08b5c;--series-3:#64c38a;--series-4:#b596f0;--series-5:#d9ac45;"
        "--series-6:#4fc1cc;--series-7:#f07fb1;--series-8:#9aa7b5"
    )
    rules = (
        ".chart text{font:12px system-ui,sans-serif;fill:var(--chart-soft)}.chart .title{font-size:15px;"
        "font-weight:600;fill:var(--chart-ink)}.chart .paper{fill:var(--chart-paper)}"
        ".chart line,.chart polyline,.key line"
        "{vector-effect:non-scaling-stroke}.chart .grid{stroke:var(--chart-grid)}.line{fill:none;stroke-width:2;"
        "stroke-linejoin:round}.error{stroke-width:1}.dashed{stroke-dasharray:5 4}.band{opacity:.16}.bar{opacity:.85}"
        ".line.quiet{stroke:var(--chart-soft);stroke-width:1.5;stroke-dasharray:2 4}.bar.quiet{fill:var(--chart-grid)}"
        ".bar.unfinished{opacity:.35;stroke:var(--chart-soft);stroke-dasharray:2 2}"
        ".marker{stroke:var(--chart-soft);stroke-dasharray:3 3}.event{stroke:var(--chart-soft);stroke-width:1.5;"
        "opacity:.7}.event.strong{stroke:var(--series-2);stroke-width:2.5;opacity:1}"
    )
    series = "".join(
        f".line.s{n}{{stroke:var(--series-{n})}}.mark.s{n},.band.s{n},.bar.s{n}{{fill:var(--series-{n})}}"
        for n in range(1, COLOURS + 1)
    )
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{rules}{series}"


STYLESHEET = _stylesheet()
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
            f"<title>{escape(chart.title)}</title><style>{STYLESHEET}</style>",
            f'<rect class="paper" width="{paper.width}" height="{tall}"/>',
            f'<text x="{paper.left}" y="24" class="title">{escape(chart.title)}</text>',
            *_legend(chart, paper.width - paper.right + 14, paper.top + 8),
        ]
    parts += _grid(x, y, plot_end + LANE * len(chart.lanes))
    parts += _labels(chart, paper, tall, (paper.top + plot_end) / 2)
    parts += _bars(chart, x, y)
    for at, line in enumerate(chart.lines):
        parts += _line(line, x, y, series_class(chart, len(chart.stack.names) + at))
    for at, lane in enumerate(chart.lanes):
        parts += _lane(lane, x, plot_end + LANE * at)
    if chart.marker is not None:
        parts += _marker(chart.marker, x, paper.top, plot_end)
    return "\n".join([*parts, "</svg>", ""])


def draw_lines(title: str, x_label: str, y_label: str, lines: Mapping[str, Sequence[ChartPoint]]) -> str:
    """A file with one line for each name over plain numbers; x by its logarithm where it spans much."""
    xs = [point.x for line in lines.values() for point in line]
    named = [Line(name, sorted(line, key=lambda point: point.x)) for name, line in lines.items()]
    return draw(Chart(title, Axis(x_label, logarithmic=spread_wide(xs)), Axis(y_label), named), standalone=True)


def series_class(chart: Chart, at: int) -> str:
    """The class that colours the name at that place in the legend; colours go round, quiet names take none."""
    quiet = [name in chart.stack.quiet for name in chart.stack.names]
    quiet += [line.look is Look.QUIET for line in chart.lines]
    if quiet[at]:
        return "quiet"
    place = at - sum(quiet[:at])
    dashed = at >= len(quiet) - len(chart.lines) and chart.lines[at - len(quiet)].look is Look.DASHED
    return f"s{place % COLOURS + 1}" + (" dashed" if place >= COLOURS or dashed else "")


def key(chart: Chart, at: int) -> str:
    """A small drawing of how the name at that place in the legend is shown."""
    kind = series_class(chart, at)
    if at < len(chart.stack.names):
        drawn = f'<rect x="5" y="1" width="12" height="12" rx="2" class="bar {kind}"/>'
    else:
        drawn = f'<line x1="1" x2="21" y1="7" y2="7" class="line {kind}"/>'
    return f'<svg class="key" viewBox="0 0 22 14" aria-hidden="true">{drawn}</svg>'


def _all_x(chart: Chart) -> Iterator[float]:
    for line in chart.lines:
        yield from (point.x for point in line.points)
    for column in chart.stack.columns:
        yield from (column.start, column.end)
    for lane in chart.lanes:
        yield from (event.x for event in lane.events)
    if chart.marker is not None:
        yield chart.marker[0]


def _all_y(chart: Chart) -> Iterator[float]:
    for line in chart.lines:
        for point in line.points:
            yield from (value for value in (point.y, point.low, point.high) if value is not None)
    for column in chart.stack.columns:
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
    """Yields what the axes show; a part of a page says it in its caption."""
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
        if (len(line.points) <= 24 and line.look is Look.SOLID) or len(run) == 1:  # more dots would hide it
            yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" class="mark {kind}"/>' for a, b in places)
        if line.spread is Spread.BARS:
            yield from _error_bars(run, x, y, kind)


def _runs(points: Sequence[ChartPoint]) -> Iterator[list[ChartPoint]]:
    """The stretches of a line between its gaps."""
    run: list[ChartPoint] = []
    for point in points:
        if point.y is None:
            if run:
                yield run
            run = []
        else:
            run.append(point)
    if run:
        yield run


def _value(point: ChartPoint) -> float:
    return math.nan if point.y is None else point.y


def _band(run: Sequence[ChartPoint], x: Scale, y: Scale, kind: str) -> Iterator[str]:
    known = [(x.place(p.x), y.place(p.low), y.place(p.high)) for p in run if p.low is not None and p.high is not None]
    if len(known) > 1:
        outline = [*((at, high) for at, _, high in known), *((at, low) for at, low, _ in reversed(known))]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in outline)
        yield f'<polygon points="{path}" class="band {kind}"/>'


def _error_bars(run: Sequence[ChartPoint], x: Scale, y: Scale, kind: str) -> Iterator[str]:
    for point in run:
        if point.low is not None and point.high is not None and point.high > point.low:
            at, low, high = x.place(point.x), y.place(point.low), y.place(point.high)
            yield f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{low:.1f}" y2="{high:.1f}" class="line error {kind}"/>'


def _bars(chart: Chart, x: Scale, y: Scale) -> Iterator[str]:
    for column in chart.stack.columns:
        left, right = x.place(column.start), x.place(column.end)
        gap = min(1.0, (right - left) / 5)
        below = 0.0
        so_far, part = (" so far", " unfinished") if column.unfinished else ("", "")
        for at, value in enumerate(column.values):
            if value > 0:
                low, high = y.place(below), y.place(below + value)
                below += value
                text = f"{chart.stack.names[at]}: {chart.y.text(value)}{so_far}, {chart.x.text(column.start)}"
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
