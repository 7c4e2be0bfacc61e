"""A saw-tooth: a value that is set anew at certain times and follows a course in between."""

from collections.abc import Callable, Sequence

from crawld.show.chart import Point

SAMPLES = 16
"""Points of each tooth at the most."""


def saw_tooth(
    resets: Sequence[float],
    until: float,
    course: Callable[[float, float], float],
    jumps: Sequence[float] = (),
) -> list[Point]:
    """The points of a line that follows `course(reset, time)` from each reset to the next and may jump at `jumps`."""
    brief = 1e-6 * (until - resets[0]) if resets else 0.0
    points: list[Point] = []
    for start, end in zip(resets, [*resets[1:], until], strict=True):
        steps = SAMPLES if len(resets) <= 60 else 4
        at = [start + (end - start) * step / steps for step in range(steps + 1)]
        inside = [jump for jump in jumps if start < jump < end]
        at = sorted([*at, *inside, *(max(jump - brief, start) for jump in inside)])
        points += [Point(moment, course(start, moment)) for moment in at]
    return points
