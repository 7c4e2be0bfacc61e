"""Rows by page id: columns of pages are kept by row, because ids are sparse (`crawld.model.shards`) and rows are not.

An index takes four bytes a page where ids follow one another; a dictionary of integers takes a hundred.
"""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)

BITS = 10  # ids that share all but their last bits share a block
LAST_BITS = (1 << BITS) - 1
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
        if (row := self.get(page_id)) is None:
            raise KeyError(page_id)
        return row

    def get(self, page_id: int) -> int | None:
        """The row of a page, or None if it has none."""
        block = self._blocks.get(page_id >> BITS)
        if block is None:
            return None
        row: int = block.item(page_id & LAST_BITS)  # half the time of int(block[…])
        return None if row == NONE else row

    def rows(self, page_ids: Iterable[int]) -> Ints:
        """The rows of pages that all have one."""
        return np.array([self[page_id] for page_id in page_ids], dtype=np.int64)

    def find(self, page_ids: Ints) -> Ints:
        """The rows of pages, -1 for those that have none."""
        rows = np.full(len(page_ids), NONE, dtype=np.int64)
        for number, some in _by_block(page_ids):
            if number in self._blocks:
                rows[some] = self._blocks[number][page_ids[some] & LAST_BITS]
        return rows

    def put(self, page_ids: Ints, rows: Ints) -> None:
        """Give pages rows."""
        for number, some in _by_block(page_ids):
            if number not in self._blocks:
                self._blocks[number] = np.full(1 << BITS, NONE, dtype=np.int32)
            block, at = self._blocks[number], page_ids[some] & LAST_BITS
            self._count += int(np.count_nonzero(block[at] == NONE))
            block[at] = rows[some]

    def remove(self, page_ids: Ints) -> None:
        """Take the rows of pages away, and free the memory of ids no longer in use."""
        for number, some in _by_block(page_ids):
            block = self._blocks.get(number)
            if block is not None:
                at = np.unique(page_ids[some] & LAST_BITS)
                self._count -= int(np.count_nonzero(block[at] != NONE))
                block[at] = NONE
                if not (block != NONE).any():
                    del self._blocks[number]


class PageRows:
    """Hands rows out to pages as they turn up, and reuses those of pages that were forgotten."""

    def __init__(self) -> None:
        self._index = RowIndex()
        self.get = self._index.get
        self._free: list[int] = []
        self.size = 0  # rows ever handed out: columns must be as long
        self.page_id: Ints = np.zeros(0, dtype=np.int64)  # by row; -1 where it is free

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, page_id: int) -> int:
        return self._index[page_id]

    def ids(self) -> Ints:
        """The ids of all pages."""
        return np.compress(self.page_id != NONE, self.page_id)

    def find(self, page_ids: Ints) -> Ints:
        """The rows of pages, -1 for those that have none."""
        return self._index.find(page_ids)

    def take(self, page_ids: Ints) -> Ints:
        """The rows of pages; those that have none get one."""
        rows = self._index.find(page_ids)
        new = np.unique(page_ids[rows == NONE])
        if len(new):
            reused = [self._free.pop() for _ in range(min(len(new), len(self._free)))]
            fresh = np.arange(self.size, self.size + len(new) - len(reused))
            self.size += len(fresh)
            self.page_id = grown(self.page_id, self.size, NONE)
            given = np.concatenate([np.array(reused, dtype=np.int64), fresh])
            self.page_id[given] = new
            self._index.put(new, given)
            rows = self._index.find(page_ids)
        return rows

    def remove(self, page_ids: Ints) -> Ints:
        """Forget pages; the rows that they had, to be wiped before others get them."""
        rows = self._index.find(page_ids)
        rows = np.unique(rows[rows != NONE])
        self._index.remove(page_ids)
        self.page_id[rows] = NONE
        self._free.extend(rows.tolist())
        return rows


def grown(column: NDArray[Number], size: int, empty: float) -> NDArray[Number]:
    """The column, made longer where it is shorter than that, with room for more."""
    have, more = len(column), size - len(column)
    if more <= 0:
        return column
    longer = np.zeros((have + max(more, have // 8), *column.shape[1:]), dtype=column.dtype)
    some = np.flatnonzero(column.any(axis=1)) if column.ndim == 2 and empty == 0 else slice(have)
    longer[some] = column[some]
    if empty != 0:  # unwritten zeros take no memory
        longer[have:] = empty
    return longer


def _by_block(page_ids: Ints) -> Iterable[tuple[int, Ints]]:
    """The numbers of the blocks that these ids are in, and where in the array those of each are."""
    if not len(page_ids):
        return ()
    blocks = page_ids >> BITS
    order = np.argsort(blocks, kind="stable")
    numbers, starts = np.unique(blocks[order], return_index=True)
    return zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)
