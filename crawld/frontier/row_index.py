"""Rows by page id, at four bytes a page where ids follow one another; a dictionary of integers takes a hundred."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

BITS = 10  # ids that share all but their last bits share a block
NONE = -1


class RowIndex:
    """Finds the row of a page."""

    def __init__(self) -> None:
        self._blocks: dict[int, NDArray[np.int32]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, page_id: int) -> bool:
        return self.get(page_id) is not None

    def __getitem__(self, page_id: int) -> int:
        row = self.get(page_id)
        if row is None:
            raise KeyError(page_id)
        return row

    def get(self, page_id: int) -> int | None:
        """The row of a page, or None if it has none."""
        block = self._blocks.get(page_id >> BITS)
        if block is None:
            return None
        row = int(block[page_id & (1 << BITS) - 1])
        return None if row == NONE else row

    def rows(self, page_ids: Iterable[int]) -> NDArray[np.int64]:
        """The rows of pages that all have one."""
        return np.array([self[page_id] for page_id in page_ids], dtype=np.int64)

    def put(self, page_ids: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Give pages rows."""
        blocks = page_ids >> BITS
        order = np.argsort(blocks, kind="stable")
        numbers, starts = np.unique(blocks[order], return_index=True)
        for number, some in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            if number not in self._blocks:
                self._blocks[number] = np.full(1 << BITS, NONE, dtype=np.int32)
            block, at = self._blocks[number], page_ids[some] & (1 << BITS) - 1
            self._count += int(np.count_nonzero(block[at] == NONE))
            block[at] = rows[some]

    def pop(self, page_id: int) -> int:
        """Take a page's row away and return it."""
        row = self[page_id]
        self._blocks[page_id >> BITS][page_id & (1 << BITS) - 1] = NONE
        self._count -= 1
        return row
