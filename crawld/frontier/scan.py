"""The plain choice: look at every page for every slot. The frontier is tested against it."""

import numpy as np

from crawld.frontier.chooser import ValueChooser
from crawld.frontier.page_table import WAITING


class Scan(ValueChooser):
    """A chooser that evaluates every page: exact by construction, and slow."""

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
        pages, size = self.pages, self.pages.size
        eligible = (pages.state[:size] == WAITING) & (pages.not_before[:size] <= now)
        if self.gate is not None:
            eligible &= self.gate.ready_at[pages.host[:size]] <= now
        rows = np.flatnonzero(eligible)
        late = rows[pages.due[rows] <= now]
        if len(late):
            due = pages.due[late]
            late = late[due == due.min()]
            if due.min() == -np.inf:  # never crawled
                late = late[[pages.mu[late].argmax()]]
            return int(late[0]), float(self.value_of(late[:1], now)[0])
        if not len(rows):
            return None, 0.0
        values = pages.values(self._valuation, rows, now)
        at = int(values.argmax())  # the first of equals: the lowest row
        return (int(rows[at]), float(values[at])) if values[at] > 0 else (None, 0.0)
