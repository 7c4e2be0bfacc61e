"""The pages that need not be looked at yet, each with a promise.

A promise is a time `until` and a `ceiling`: up to that time the page's crawl value does not exceed the ceiling, or the
page may not be picked anyway. So the level can move freely: a page sleeps on while its promise reaches beyond the
horizon and its ceiling is below the level. A promise is made well short of the moment when the value reaches the level;
the pages that a falling level catches are then few, at the price of looking at each page a handful of times per cycle.

Invariant: a row that does not sleep (free, held, late, or watched) has until = inf and ceiling = -inf.

Of every row, asleep or not, a fact is kept as well: up to the log-staleness `reach` its value does not exceed `cap`.
A promise is tied to a moment; a fact holds for as long as what is believed of the page, over crawls and signals, so
that most of them cost no look at the value at all.
"""

import numpy as np
from numpy.typing import NDArray

from crawld.scheduler.chooser import Ints
from crawld.scheduler.valuation import Floats


class Sleepers:
    """The promises of all rows."""

    def __init__(self) -> None:
        self.until: Floats = np.zeros(0)
        self.ceiling: Floats = np.zeros(0)
        self.facts: Floats = np.zeros((0, 2))  # reach and cap: nothing is worth anything at staleness 0

    @property
    def nbytes(self) -> int:
        """The memory taken."""
        return self.until.nbytes + self.ceiling.nbytes + self.facts.nbytes

    def fit(self, rows: int) -> None:
        """Make room for that many rows."""
        if rows > len(self.until):
            more = rows - len(self.until)
            self.until = np.concatenate([self.until, np.full(more, np.inf)])
            self.ceiling = np.concatenate([self.ceiling, np.full(more, -np.inf)])
            self.facts = np.concatenate([self.facts, np.zeros((more, 2))])

    def promise(self, rows: Ints, until: Floats | float, ceiling: Floats | float) -> None:
        """Let pages sleep."""
        self.until[rows] = until
        self.ceiling[rows] = ceiling

    def rouse(self, rows: Ints | int) -> None:
        """Nothing is promised any more: have the pages looked at in the next sweep."""
        self.until[rows] = -np.inf
        self.ceiling[rows] = np.inf

    def forget(self, rows: Ints | int) -> None:
        """The pages do not sleep here."""
        self.until[rows] = np.inf
        self.ceiling[rows] = -np.inf

    def state(self, rows: Ints, reach: Floats, cap: Floats) -> None:
        """Keep facts about pages."""
        self.facts[rows, 0] = reach * (1 - 1e-12)
        self.facts[rows, 1] = cap

    def doubt(self, rows: Ints) -> None:
        """Nothing that was known of the pages holds any more."""
        self.facts[rows] = 0.0

    def awake(self, horizon: float, level: float) -> Ints:
        """The pages that may reach the level up to the horizon."""
        # Nothing is worth picking at value 0, so at level 0 a ceiling of 0 sleeps on.
        reach = self.ceiling >= level if level > 0 else self.ceiling > 0
        return np.flatnonzero((self.until <= horizon) | reach)

    def quantile(self, count: int) -> float:
        """A level that roughly that many sleeping pages may reach, 0 if fewer are left."""
        ceilings = self.ceiling
        stride = max(1, len(ceilings) // 16384)
        sample = ceilings[::stride]
        sample = sample[sample > 0]
        rank = count // stride
        if rank >= len(sample):
            return 0.0
        return float(np.partition(sample, len(sample) - 1 - rank)[len(sample) - 1 - rank])


def later(base: Floats, value: Floats, x: Floats, alpha: Floats, level: float) -> NDArray[np.float64]:
    """A guess when a value known at `base` reaches the level, on the early side where it can be.

    A crawl value grows at most like the square of the log-staleness x (docs/method.md, "Limits").
    """
    with np.errstate(all="ignore"):
        return base + x * (np.sqrt(level / value) - 1.0) / alpha
