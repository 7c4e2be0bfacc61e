"""Lines over an axis, as an SVG file that needs nothing else to be seen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 44, 52
COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#8e5ea2", "#e08e0b", "#3c3c3c", "#17a2a2", "#a0522d", "#7a8b00", "#b5179e")
STYLE = "text{font:12px system-ui,sans-serif;fill:#222}.title{font-size:15px;font-weight:600}.grid{stroke:#e4e4e4}"


@dataclass(frozen=True, slots=True)
class Point:
    """One measured value with its standard error (nan if unknown)."""

    x: float
    y: float
    error: float = math.nan


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (self.end - self.start) * ((value - low) / (high - low) if high > low else 0.5)


def draw_lines(title: str, x_label: str, y_label: str, lines: Mapping[str, Sequence[Point]]) -> str:
    """The whole SVG document: one line with error bars per name, and a legend."""
    points = [point for line in lines.values() for point in line]
    xs = sorted({point.x for point in points})
    wide = len(xs) > 2 and xs[0] > 0 and xs[-1] / xs[0] >= 20
    x_axis = _Axis(xs[0], xs[-1], LEFT, WIDTH - RIGHT, wide)
    low, high = _limits([p.y + side * (0 if math.isnan(p.error) else p.error) for p in points for side in (-1, 1)])
    y_axis = _Axis(low, high, HEIGHT - BOTTOM, TOP)
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" class="title">{escape(title)}</text>',
        *_grid(x_axis, y_axis, xs if len(xs) <= 8 else [xs[0] + (xs[-1] - xs[0]) * i / 5 for i in range(6)]),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
    ]
    for index, (name, line) in enumerate(lines.items()):
        parts += _line(name, sorted(line, key=lambda point: point.x), (x_axis, y_axis), index)
    return "\n".join([*parts, "</svg>", ""])


def _limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def _ticks(axis: _Axis) -> list[float]:
    step = 10 ** math.floor(math.log10((axis.high - axis.low) / 4))
    step *= next((factor for factor in (5, 2) if (axis.high - axis.low) / (step * factor) >= 4), 1)
    first = math.ceil(axis.low / step)
    return [step * k for k in range(first, math.floor(axis.high / step) + 1)]


def _grid(x_axis: _Axis, y_axis: _Axis, x_ticks: Sequence[float]) -> list[str]:
    parts = []
    for tick in _ticks(y_axis):
        y = y_axis.place(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    for tick in x_ticks:
        x = x_axis.place(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="grid"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:.4g}</text>')
    return parts


def _line(name: str, line: Sequence[Point], axes: tuple[_Axis, _Axis], index: int) -> list[str]:
    x_axis, y_axis = axes
    colour = COLOURS[index % len(COLOURS)]
    dash = ' stroke-dasharray="5 3"' if index >= len(COLOURS) else ""
    places = [(x_axis.place(point.x), y_axis.place(point.y)) for point in line]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']
    if len(line) <= 20:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    for (x, _), point in zip(places, line, strict=True):
        if point.error > 0:
            low, high = y_axis.place(point.y - point.error), y_axis.place(point.y + point.error)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>')
    y = TOP + 8 + 20 * index
    left = WIDTH - RIGHT + 14
    parts.append(f'<line x1="{left}" x2="{left + 22}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"{dash}/>')
    parts.append(f'<text x="{left + 28}" y="{y + 4}">{escape(name)}</text>')
    return parts
