"""What a chart shows, and the same figures as a table."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from crawld.show.axis import Axis

MOST_ROWS = 40
"""Of the table behind a chart: enough to follow its course, few enough to read."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value and, where they are known, the ends of the interval around it; without a value the line has a gap."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def measured(cls, x: float, y: float, error: float = math.nan) -> "Point":
        """A value with its standard error (nan if unknown)."""
        return cls(x, y) if math.isnan(error) else cls(x, y, y - error, y + error)


class Look(Enum):
    """How a line is drawn."""

    SOLID = "solid"
    DASHED = "dashed"
    QUIET = "quiet"  # grey, to compare with


class Spread(Enum):
    """How the interval around a line's points is drawn."""

    BARS = "bars"
    BAND = "band"


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points in the order of x."""

    name: str
    points: Sequence[Point]
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
    stack: Stack | None = None
    lanes: Sequence[Lane] = ()
    marker: tuple[float, str] | None = None
    """A place on the x axis with what it is, as "now"."""

    @property
    def names(self) -> list[str]:
        """What the legend lists, in the order of its colours."""
        return [*(self.stack.names if self.stack else ()), *(line.name for line in self.lines)]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        drawn = any(point.y is not None for line in self.lines for point in line.points)
        return not drawn and not (self.stack and self.stack.columns) and not any(lane.events for lane in self.lanes)

    def description(self) -> str:
        """The chart in a sentence for each line, for whoever cannot see it."""
        if self.empty:
            return "There is nothing to show yet."
        return " ".join([*map(self._line_in_words, self.lines), *self._stack_in_words(), *map(_lane, self.lanes)])

    def _line_in_words(self, line: Line) -> str:
        values = [point.y for point in line.points if point.y is not None]
        if not values:
            return f"{line.name}: no values."
        low, high, last = (self.y.text(value) for value in (min(values), max(values), values[-1]))
        return f"{line.name}: from {low} to {high}, last {last}."

    def _stack_in_words(self) -> Iterator[str]:
        for at, name in enumerate(self.stack.names if self.stack else ()):
            assert self.stack is not None  # noqa: S101 - else there are no names
            yield f"{name}: {self.y.text(sum(column.values[at] for column in self.stack.columns))} in all."


def _lane(lane: Lane) -> str:
    return f"{lane.name}: {len(lane.events)} shown."


def data_table(chart: Chart, most: int = MOST_ROWS) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows of the figures behind a chart; of many rows, some evenly spaced ones and the last."""
    heading = [chart.x.label or "x", *chart.names]
    rows: dict[float, list[str]] = {}
    for row in chart.stack.columns if chart.stack else ():
        cells = rows.setdefault(row.start, [""] * len(chart.names))
        cells[: len(row.values)] = [chart.y.text(value) for value in row.values]
    before = len(chart.stack.names) if chart.stack else 0
    for at, line in enumerate(chart.lines):
        for point in line.points:
            rows.setdefault(point.x, [""] * len(chart.names))[before + at] = _cell(chart.y, point)
    step = max(math.ceil(len(rows) / most), 1)
    kept = sorted(rows)[::-1][::step][::-1]
    unfinished = {column.start for column in chart.stack.columns if column.unfinished} if chart.stack else set()
    return heading, [[chart.x.text(x) + (" (not over)" if x in unfinished else ""), *rows[x]] for x in kept]


def _cell(axis: Axis, point: Point) -> str:
    if point.y is None:
        return ""
    if point.low is None or point.high is None:
        return axis.text(point.y)
    return f"{axis.text(point.y)} ({axis.text(point.low)} to {axis.text(point.high)})"
