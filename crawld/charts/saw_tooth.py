"""A saw-tooth: a value that is set anew at certain times and follows a course in between."""

from collections.abc import Callable, Sequence

from crawld.charts.chart import Point

SAMPLES = 16
"""Points of each tooth at the most."""


def saw_tooth(resets: Sequence[float], until: float, course: Callable[[float, float], float]) -> list[Point]:
    """The points of a line that jumps at each reset and follows `course(reset, time)` to the next one."""
    points: list[Point] = []
    for start, end in zip(resets, [*resets[1:], until], strict=True):
        steps = SAMPLES if len(resets) <= 60 else 4
        at = [start + (end - start) * step / steps for step in range(steps + 1)]
        points += [Point(moment, course(start, moment)) for moment in at]
    return points
