"""The contract of whoever chooses the page for a slot, with the verbs that all choosers share."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from crawld.frontier.bidding import Bid, Span, all_wanted, bid_for
from crawld.frontier.page_table import WAITING, Intervals, Ints, PageTable
from crawld.frontier.politeness import HostGate
from crawld.value.valuation import Beliefs, Floats, Valuation

TURN = 10  # a maximum interval that cannot be kept costs no more than one pick in so many (docs/method.md)


class Chooser(ABC):
    """Chooses one page per slot; `pick` holds a page, `settle` or `release` gives it back.

    Pages are rows: small integers handed out by `add`, reused after `retire`. Times are UTC seconds. Every order has
    its ties broken by the lower row. Among the pages that may be asked now (not held, host ready, `not_before` and the
    minimum interval passed), those never crawled come first, by importance; then, once in `TURN` picks, the longest
    overdue of those waiting beyond the maximum interval; then the highest crawl value above zero; then any overdue one.

    The verbs here change the page table. Who keeps an order of pages overrides `_file` and `_withdraw`.
    """

    _valuation: Valuation | None = None  # of those who choose by value

    def __init__(self, gate: HostGate | None, intervals: Intervals | None) -> None:
        self.gate = gate
        self.pages = PageTable(intervals or Intervals())  # to read
        self.level = 0.0  # the crawl value of what is being picked by its value now, 0 before the first such pick
        self.picks = 0  # pages picked so far

    @abstractmethod
    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now, None if there is none."""

    @abstractmethod
    def value_of(self, rows: Ints, now: float) -> Floats:
        """The crawl value of pages, inf for those never crawled."""

    @abstractmethod
    def expected_of(self, rows: Ints, now: float) -> Floats:
        """When pages that are not held will be picked if nothing changes (their hosts aside): never before now."""

    def bid(self, span: Span) -> Bid:
        """How many pages can be crawled in a round, by what they will be worth at its end (`crawld.auction`)."""
        return bid_for(all_wanted(self.pages, self._valuation, span.until), self.pages, self.gate, span)

    @property
    def active(self) -> int:
        """How many pages the choice is being made among."""
        return self.pages.waiting

    def change_bandwidth(self, rate: float, now: float) -> None:  # noqa: B027 - values do not depend on it
        """Tell a policy that allots rates how much there is to allot."""

    def reserve(self, rows: int) -> None:
        """Make room for that many pages at once: to grow step by step copies everything again and again."""
        self.pages.reserve(rows)

    def look_over(self, now: float) -> Iterator[None]:  # noqa: ARG002 - who keeps no order has nothing to do
        """Prepare the first pick among new pages, a few milliseconds at a time."""
        return iter(())

    def add(self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None) -> Ints:
        """Take in pages (`last` is nan where never crawled) and return their rows."""
        rows = self.pages.insert(hosts, beliefs, last, boost, not_before)
        self._file(rows.tolist())
        return rows

    def retire(self, rows: Ints) -> None:
        """Forget pages; the row of a held one is reused only after it is given back."""
        for row in rows.tolist():
            self._withdraw(row)
        self.pages.remove(rows)

    def reweight(self, rows: Ints, mu: Floats) -> None:
        """Change the importance of pages."""
        self.pages.mu[rows] = mu
        self._file_again(rows)

    def learn(self, rows: Ints, beliefs: Beliefs, boost: Floats, last: Floats | None = None) -> None:
        """Replace what is believed of pages; `last`, where given, is when the value takes the copy to be from."""
        self.pages.believe(rows, beliefs)
        self.pages.boost[rows] = boost
        if last is not None:
            self.pages.last[rows] = last
        self._file_again(rows)

    def notice(self, row: int, boost: float) -> None:
        """Set the log-staleness that signals have added since the last successful crawl."""
        self.pages.boost[row] = boost
        if self.pages.state[row] == WAITING:
            self._withdraw(row)
            self._file([row])

    def hold(self, row: int, now: float) -> bool:
        """Hold this very page, whatever its value (an audit, a second look); False if it is held already."""
        if self.pages.held(row):
            return False
        self._withdraw(row)
        self.pages.hold(row, now)
        return True

    def settle(self, row: int, now: float) -> None:
        """Give back a held page that was crawled with success: its copy is as of now, its boost 0."""
        if self.pages.settle(row, now):
            self._file([row])

    def release(self, row: int, not_before: float = -np.inf, *, attempted: bool = True) -> None:
        """Give back a held page as it was; with `not_before`, after an attempt that failed, if one was made."""
        if self.pages.release(row, not_before, attempted=attempted):
            self._file([row])

    def lift(self, row: int, asked_at: float) -> None:
        """Let a page that waits after an attempt at that time wait no longer than the minimum interval."""
        if self.pages.lift(row, asked_at):
            self._file_again(np.array([row]))

    def _file(self, rows: list[int]) -> None:  # noqa: B027 - the scan keeps no order
        """Put waiting pages where they belong."""

    def _withdraw(self, row: int) -> None:  # noqa: B027 - the scan keeps no order
        """Take a page out of where it stands, if it stands anywhere."""

    def _file_again(self, rows: Ints) -> None:
        """Put those pages that wait where they belong now."""
        waiting = rows[self.pages.state[rows] == WAITING].tolist()
        for row in waiting:
            self._withdraw(row)
        self._file(waiting)


class ValueChooser(Chooser):
    """A chooser by crawl value."""

    def __init__(self, valuation: Valuation, gate: HostGate | None = None, intervals: Intervals | None = None) -> None:
        super().__init__(gate, intervals)
        self._valuation: Valuation = valuation

    def _comes_first(self, row: int, now: float) -> bool:
        """Whether this page comes before the valued ones now."""
        return bool(self.pages.due[row] <= (now if self.picks % TURN == 0 else -np.inf))

    def value_of(self, rows: Ints, now: float) -> Floats:
        """The crawl value of pages, inf for those never crawled."""
        values = np.full(len(rows), np.inf)
        crawled = ~np.isnan(self.pages.last[rows])
        values[crawled] = self.pages.values(self._valuation, rows[crawled], now)
        return values

    def expected_of(self, rows: Ints, now: float) -> Floats:
        """When pages will be picked if the level stays and no signal comes: as their value gets there, or when due."""
        *beliefs, last, boost, not_before, due = self.pages.take(rows)
        reached = last + self._valuation.crossing(self.level, boost, Beliefs(*beliefs))
        at = np.minimum(due, np.where(np.isnan(last), now, reached))
        return np.asarray(np.maximum(np.maximum(now, not_before), at))
