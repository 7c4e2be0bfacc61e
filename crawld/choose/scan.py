"""The plain choice: look at every page for every slot. The frontier is tested against it."""

import numpy as np

from crawld.choose.chooser import ValueChooser
from crawld.choose.page_table import WAITING


class Scan(ValueChooser):
    """A chooser that evaluates every page: exact by construction, and slow."""

    def pick(self, now: float) -> int | None:
        """Hold and return the best page that may be asked now."""
        row, value = self.best(now)
        if row is not None:
            if value > 0 and not self._comes_first(row, now):
                self.level = value
            self.pages.hold(row, now)
            self.picks += 1
        return row

    def best(self, now: float) -> tuple[int | None, float]:
        """The best page that may be asked now, and its crawl value (inf if never crawled)."""
        pages, size = self.pages, self.pages.size
        eligible = (pages.state[:size] == WAITING) & (pages.not_before[:size] <= now)
        if self.gate is not None:
            eligible &= self.gate.ready_at[pages.host[:size]] <= now
        rows = np.flatnonzero(eligible)
        never = np.where(pages.due[rows] == -np.inf, pages.mu[rows], 0.0)
        late = rows[np.lexsort((rows, -never, pages.due[rows]))[:1]]
        if len(late) and self._comes_first(int(late[0]), now):
            return int(late[0]), float(self.value_of(late, now)[0])
        values = pages.values(self._valuation, rows, now)  # all have been crawled
        if len(rows) and values.max() > 0:
            return int(rows[values.argmax()]), float(values.max())  # the first of equals: the lowest row
        return (int(late[0]), 0.0) if len(late) and pages.due[late[0]] <= now else (None, 0.0)
