"""Axes: where a value is placed, where ticks are and what they say."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from crawld.model.units import format_duration, format_number, format_rate

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
STEPS = (
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
    MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
    DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 182 * DAY, 364 * DAY,
)  # fmt: skip
"""Seconds between the ticks of times and durations."""
UNITS = (("s", 1.0), ("min", MINUTE), ("hour", HOUR), ("day", DAY))
WIDE = 20.0
"""The ratio from which on positive values are spread by their logarithm."""
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Form(Enum):
    """What the values of an axis are, which decides how they are written."""

    NUMBER = "number"
    SHARE = "share"  # 0 to 1, written as percent
    TIME = "time"  # UTC seconds
    DURATION = "duration"  # seconds
    RATE = "rate"  # a second


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows; where an end is not given, the values decide it."""

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
        """Where a value is on the paper; one beyond the ends is placed at the end."""
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
    """Whether values are so far apart that only a logarithmic axis shows them all."""
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
