"""The plain choice: look at every page for every slot. The frontier is tested against it."""

import numpy as np

from crawld.scheduler.chooser import Ints
from crawld.scheduler.columns import WAITING, Intervals
from crawld.scheduler.keeper import Keeper
from crawld.scheduler.politeness import HostGate
from crawld.scheduler.valuation import Beliefs, Floats, Valuation


class Scan(Keeper):
    """A chooser that evaluates every page: exact by construction, and slow."""

    def __init__(self, valuation: Valuation, gate: HostGate | None = None, intervals: Intervals | None = None) -> None:
        super().__init__(valuation, gate, intervals)
        self.evaluations = 0

    @property
    def active(self) -> int:
        """How many pages the choice is being made among: all that wait."""
        return self.pages.waiting

    def add(self, hosts: Ints, beliefs: Beliefs, last: Floats, boost: Floats, not_before: Floats | None = None) -> Ints:
        """Take in pages and return their rows."""
        return self.pages.insert(hosts, beliefs, last, boost, not_before)

    def retire(self, rows: Ints) -> None:
        """Forget pages."""
        self.pages.remove(rows)

    def reweight(self, rows: Ints, mu: Floats) -> None:
        """Change the importance of pages."""
        self.pages.mu[rows] = mu

    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now."""
        row, value = self.best(now)
        if row is not None:
            self.pages.hold(row, now)
            if self.pages.due[row] > now:
                self.level = value
            self.picks += 1
        return row

    def best(self, now: float) -> tuple[int | None, float]:
        """The best page that may be asked now, and its crawl value (inf if never crawled)."""
        pages = self.pages
        size = pages.size
        eligible = (pages.state[:size] == WAITING) & (pages.not_before[:size] <= now)
        if self._gate is not None:
            eligible &= self._gate.ready_at[pages.host[:size]] <= now
        rows = np.flatnonzero(eligible)
        due = pages.due[rows]
        late = rows[due <= now]
        if len(late):
            due = pages.due[late]
            late = late[due == due.min()]
            if due.min() == -np.inf:  # never crawled
                late = late[[pages.mu[late].argmax()]]
            return int(late[0]), float(pages.standing(self._valuation, late[:1], now)[0])
        if not len(rows):
            return None, 0.0
        values = pages.value(self._valuation, rows, now)
        self.evaluations += len(rows)
        at = int(values.argmax())  # the first of equals: the lowest row
        return (int(rows[at]), float(values[at])) if values[at] > 0 else (None, 0.0)

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

    def learn(self, rows: Ints, beliefs: Beliefs, boost: Floats, last: Floats | None = None) -> None:
        """Replace what is believed of pages."""
        self.pages.believe(rows, beliefs)
        self.pages.boost[rows] = boost
        if last is not None:
            self.pages.last[rows] = last
