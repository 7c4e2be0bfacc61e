"""Samples of rows without looking at every row.

Rows drawn by weight: sums of blocks are kept, and a draw reads one block. Waiting pages spread evenly: every so many
rows one is looked at.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from crawld.choose.page_table import WAITING, PageTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 4096
LOOKED_AT = 65_536
"""Rows looked at to find some waiting pages: the slots must not wait for a look at a million."""


def some_waiting(pages: PageTable, now: float, most: int) -> Ints:
    """Some of the waiting pages, spread evenly: of those that may be asked by their own waits, if there are any."""
    step = max(1, pages.size // LOOKED_AT)
    waiting = np.flatnonzero(pages.state[: pages.size : step] == WAITING) * step
    free = waiting[pages.not_before[waiting] <= now]
    found = free if len(free) else waiting
    return found[:: max(1, -(-len(found) // most))]


class WeightedDraw:
    """Rows drawn by their weights; `weights(start, stop)` tells those of the rows in between, 0 for no row."""

    def __init__(self, weights: Callable[[int, int], Floats]) -> None:
        self._weights = weights
        self._sums = np.zeros(0)
        self._changed: set[int] = set()  # blocks whose sum is out of date

    def change(self, rows: Ints) -> None:
        """Note that the weights of these rows have changed."""
        if len(rows):
            self._grow(int(rows.max()) // BLOCK + 1)
            self._changed.update(np.unique(rows // BLOCK).tolist())

    def draw(self, uniform: float) -> int | None:
        """The row that a uniform number in [0, 1) falls on; None where no row has a weight."""
        for block in self._changed:
            self._sums[block] = self._of(block).sum()
        self._changed.clear()
        total = float(self._sums.sum())
        if total <= 0:
            return None
        block, rest = _find(self._sums, uniform * total)
        row, _ = _find(self._of(block), rest)
        return block * BLOCK + row

    def _of(self, block: int) -> Floats:
        return self._weights(block * BLOCK, (block + 1) * BLOCK)

    def _grow(self, blocks: int) -> None:
        if blocks > len(self._sums):
            self._sums = np.append(self._sums, np.zeros(blocks - len(self._sums)))


def _find(weights: Floats, goal: float) -> tuple[int, float]:
    """Where the cumulated weights pass the goal, at a weight above 0, and how far into that weight."""
    reached = np.cumsum(weights)
    last = int(np.flatnonzero(weights)[-1])  # rounding may put the goal behind it
    at = min(int(np.searchsorted(reached, goal, side="right")), last)
    return at, goal - float(reached[at] - weights[at])
