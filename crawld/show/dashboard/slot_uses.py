"""What slots were spent on, as a chart, and the columns of time that charts of counts have."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from crawld.show.axis import Axis, Form
from crawld.show.chart import Chart, Column, Stack
from crawld.store.views import SlotLine

GROUPS = {
    "pages": ("page",),
    "sitemaps and feeds": ("sitemap", "feed", "websub", "ping"),
    "robots.txt": ("robots",),
    "audits": ("audit",),
    "redirects": ("redirect",),
    "second looks": ("second_look", "check_304"),
    "idle": ("idle",),
    "skipped": ("skipped",),
}
MOST_COLUMNS = 48
MINUTE = 60.0
LONGEST_TICK = 3.0
"""Of the usual length: a longer one spans a time in which no daemon ran."""
QUIET = frozenset({"idle", "skipped"})
GROUP_OF = {use: name for name, uses in GROUPS.items() for use in uses}


def bucket(seconds: float) -> float:
    """The span of a column where so many seconds are shown: whole minutes."""
    return max(math.ceil(seconds / MOST_COLUMNS / MINUTE), 1) * MINUTE


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
    """By column, the seconds that its ticks count; a tick after a pause counts no more than others do."""
    lengths = [after - before for before, after in pairwise(ticks)]
    usual = statistics.median(lengths) if lengths else MINUTE
    sums: dict[float, float] = {}
    for at, length in zip(ticks, (usual, *lengths)):
        start = at // span * span
        sums[start] = sums.get(start, 0.0) + (length if length <= LONGEST_TICK * usual else usual)
    return sums.items()


def slots_chart(lines: Sequence[SlotLine], stretch: Stretch) -> Chart:
    """Slots per second by what they were spent on; what never occurs is not named."""
    sums: dict[float, dict[str, float]] = {}
    for line in lines:
        group, column = GROUP_OF.get(line.use, line.use), sums.setdefault(line.at, {})
        column[group] = column.get(group, 0.0) + line.slots
    found = {group for column in sums.values() for group, slots in column.items() if slots}
    names = [name for name in GROUPS if name in found] + sorted(found - set(GROUPS))
    columns = [
        stretch.column(start, [stretch.rate(start, column.get(name, 0.0)) for name in names])
        for start, column in sorted(sums.items())
    ]
    axes = Axis("time", Form.TIME), Axis("slots", Form.RATE, low=0.0)
    return Chart("What slots were spent on", *axes, stack=Stack(names, columns, QUIET))
