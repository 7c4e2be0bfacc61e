"""The contract of whoever chooses the page for a slot, and what every chooser by crawl value shares."""

from typing import Protocol

import numpy as np

from crawld.frontier.page_table import Intervals, Ints, PageTable
from crawld.frontier.politeness import HostGate
from crawld.value.valuation import Beliefs, Floats, Valuation


class Chooser(Protocol):
    """Chooses one page per slot; `pick` holds a page, `settle` or `release` gives it back.

    Pages are rows: small integers handed out by `add`, reused after `retire`. Times are UTC seconds. Every order has
    its ties broken by the lower row. Among the pages that may be asked now (not held, host ready, `not_before` and the
    minimum interval passed), those never crawled come first, by importance; then those waiting longer than the
    maximum interval, the longest overdue first; then the page of the highest crawl value, if that is above zero.
    """

    def change_bandwidth(self, rate: float, now: float) -> None:
        """Tell a policy that allots rates how much there is to allot; values do not depend on it."""

    def add(self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None) -> Ints:
        """Take in pages (`last` is nan where never crawled) and return their rows."""

    def retire(self, rows: Ints) -> None:
        """Forget pages; the row of a held one is reused only after it is given back."""

    def reweight(self, rows: Ints, mu: Floats) -> None:
        """Change the importance of pages."""

    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now, None if there is none."""

    def hold(self, row: int, now: float) -> bool:
        """Hold this very page, whatever its value (an audit, a second look); False if it is held already."""

    def settle(self, row: int, now: float) -> None:
        """Give back a held page that was crawled with success: its copy is as of now, its boost 0."""

    def release(self, row: int, not_before: float = -np.inf) -> None:
        """Give back a held page as it was; with `not_before`, after an attempt that failed."""

    def lift(self, row: int, asked_at: float) -> None:
        """Let a page that waits after an attempt at that time wait no longer than the minimum interval."""

    def notice(self, row: int, boost: float) -> None:
        """Set the log-staleness that signals have added since the last successful crawl."""

    def learn(self, rows: Ints, beliefs: Beliefs, boost: Floats, last: Floats | None = None) -> None:
        """Replace what is believed of pages; `last`, where given, is when the value takes the copy to be from."""

    def held(self, row: int) -> bool:
        """Whether the page is out being crawled."""

    def waits_until(self, row: int) -> float:
        """The time before which the page is not picked, whatever its value."""

    def value_of(self, rows: Ints, now: float) -> Floats:
        """The crawl value of pages, inf for those never crawled."""

    def expected_of(self, rows: Ints, now: float) -> Floats:
        """When pages that are not held will be picked if nothing changes (their hosts aside): never before now."""

    @property
    def pages(self) -> PageTable:
        """The state of every page, to read."""

    @property
    def level(self) -> float:
        """The crawl value of what is being picked by its value now, 0 before the first such pick."""

    @property
    def active(self) -> int:
        """How many pages the choice is being made among."""

    @property
    def evaluations(self) -> int:
        """How many crawl values have been evaluated so far."""

    @property
    def picks(self) -> int:
        """How many pages have been picked so far."""


class ValueChooser:
    """Keeps pages and answers for them; how the best one is found is the business of who inherits.

    The verbs here do to the page table what they say, which is all that the plain scan needs.
    """

    def __init__(self, valuation: Valuation, gate: HostGate | None = None, intervals: Intervals | None = None) -> None:
        self._valuation = valuation
        self._gate = gate
        self.pages = PageTable(intervals or Intervals())
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

    def expected_of(self, rows: Ints, now: float) -> Floats:
        """When the pages will be picked, if nothing changes."""
        return self.pages.expected_of(self._valuation, rows, self.level, now)

    def change_bandwidth(self, rate: float, now: float) -> None:
        """Nothing: values do not depend on the bandwidth."""

    def add(self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None) -> Ints:
        """Take in pages and return their rows."""
        return self.pages.insert(hosts, beliefs, last, boost, not_before)

    def retire(self, rows: Ints) -> None:
        """Forget pages."""
        self.pages.remove(rows)

    def reweight(self, rows: Ints, mu: Floats) -> None:
        """Change the importance of pages."""
        self.pages.mu[rows] = mu

    def learn(self, rows: Ints, beliefs: Beliefs, boost: Floats, last: Floats | None = None) -> None:
        """Replace what is believed of pages."""
        self.pages.believe(rows, beliefs)
        self.pages.boost[rows] = boost
        if last is not None:
            self.pages.last[rows] = last

    def hold(self, row: int, now: float) -> bool:
        """Hold this very page; False if it is held already."""
        if self.pages.held(row):
            return False
        self.pages.hold(row, now)
        return True

    def settle(self, row: int, now: float) -> None:
        """Give back a page crawled with success."""
        self.pages.settle(row, now)

    def release(self, row: int, not_before: float = -np.inf) -> None:
        """Give back a page as it was."""
        self.pages.release(row, not_before)

    def lift(self, row: int, asked_at: float) -> None:
        """Let a page wait no longer than the minimum interval."""
        self.pages.lift(row, asked_at)

    def notice(self, row: int, boost: float) -> None:
        """Set the log-staleness that signals have added."""
        self.pages.boost[row] = boost
