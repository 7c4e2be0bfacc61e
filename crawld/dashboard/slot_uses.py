"""What slots were spent on, as a chart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from crawld.charts import Axis, Chart, Column, Form, Stack
from crawld.interfaces.read_model import SlotLine

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
QUIET = frozenset({"idle", "skipped"})
GROUP_OF = {use: name for name, uses in GROUPS.items() for use in uses}


def bucket(seconds: float) -> float:
    """The span of a column where so many seconds are shown: whole minutes."""
    return max(math.ceil(seconds / MOST_COLUMNS / MINUTE), 1) * MINUTE


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time that is shown, in columns of `span` seconds; the first and the last may be cut off."""

    since: float
    now: float
    span: float

    def ends(self, start: float) -> tuple[float, float]:
        """Where the column that begins at `start` is seen."""
        return max(start, self.since), max(min(start + self.span, self.now), start + 1.0)

    def covered(self, start: float) -> float:
        """How many seconds of that column lie within the time shown."""
        first, last = self.ends(start)
        return max(last - first, 1.0)


def slots_chart(lines: Sequence[SlotLine], stretch: Stretch) -> Chart:
    """Slots per second by what they were spent on; what never occurs is not named."""
    sums: dict[float, dict[str, float]] = {}
    for line in lines:
        group, column = GROUP_OF.get(line.use, line.use), sums.setdefault(line.at, {})
        column[group] = column.get(group, 0.0) + line.slots
    found = {group for column in sums.values() for group, slots in column.items() if slots}
    names = [name for name in GROUPS if name in found] + sorted(found - set(GROUPS))
    columns = [
        Column(*stretch.ends(start), [column.get(name, 0.0) / stretch.covered(start) for name in names])
        for start, column in sorted(sums.items())
    ]
    axes = Axis("time", Form.TIME), Axis("slots", Form.RATE, low=0.0)
    return Chart("What slots were spent on", *axes, stack=Stack(names, columns, QUIET))
