"""What every chooser by crawl value has: the pages, how they are valued, and what can be asked of them."""

from crawld.scheduler.chooser import Ints
from crawld.scheduler.columns import Columns, Intervals
from crawld.scheduler.politeness import HostGate
from crawld.scheduler.valuation import Floats, Valuation


class Keeper:
    """Keeps pages and answers for them; how the best one is found is the business of who inherits."""

    def __init__(self, valuation: Valuation, gate: HostGate | None = None, intervals: Intervals | None = None) -> None:
        self._valuation = valuation
        self._gate = gate
        self.pages = Columns(intervals or Intervals())
        self.level = 0.0
        self.picks = 0

    def held(self, row: int) -> bool:
        """Whether the page is out being crawled."""
        return self.pages.held(row)

    def waits_until(self, row: int) -> float:
        """The time before which the page is not picked."""
        return float(self.pages.not_before[row])

    def value_of(self, rows: Ints, now: float) -> Floats:
        """The crawl value of pages, inf for those never crawled."""
        return self.pages.standing(self._valuation, rows, now)

    def expected_at(self, row: int, now: float) -> float:
        """When the page will be picked, if nothing changes."""
        return self.pages.expected_at(self._valuation, row, self.level, now)
