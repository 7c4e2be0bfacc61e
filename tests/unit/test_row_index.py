"""Rows of pages by id, however sparse the ids are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crawld.model.row_index import PageRows, RowIndex, grown
from crawld.model.shards import first_id
from tests.support.held_bytes import held_bytes

IDS = st.builds(lambda shard, number: first_id(shard) + number, st.integers(0, 300), st.integers(1, 3000))


@given(st.lists(st.tuples(st.booleans(), st.lists(IDS, max_size=20)), max_size=12))
def test_rows_are_given_once_and_used_again(steps: list[tuple[bool, list[int]]]) -> None:
    """A page keeps its row until it is forgotten; no two have the same one, and no more are made than were needed."""
    rows, most = PageRows(), 0
    there: dict[int, int] = {}
    for come, ids in steps:
        pages = np.array(ids, dtype=np.int64)
        if come:
            found = rows.take(pages).tolist()
            there |= {page: there.get(page, row) for page, row in zip(ids, found, strict=True)}
            assert found == [there[page] for page in ids]
        else:
            gone = {there.pop(page) for page in set(ids) & set(there)}
            assert set(rows.remove(pages).tolist()) == gone
        most = max(most, len(there))
        assert len(set(there.values())) == len(there) == len(rows)
        assert rows.size == most
        assert all(rows.page_id[row] == page for page, row in there.items())
        assert rows.find(pages).tolist() == [there.get(page, -1) for page in ids]


def test_an_index_without_pages_takes_no_memory() -> None:
    """A shard that leaves leaves nothing behind."""
    index, ids = RowIndex(), first_id(200) + np.arange(5000)
    index.put(ids, np.arange(5000))
    assert len(index) == 5000
    assert held_bytes(index) > 4 * 5000
    index.remove(ids)
    assert len(index) == 0
    assert held_bytes(index) < 1000


def test_columns_grow_with_room_for_more() -> None:
    """A column is made longer by an eighth at least, and what is new is empty."""
    column = grown(np.ones((100, 2), np.uint8), 101, 0)
    assert column.shape == (112, 2)
    assert column.dtype == np.uint8
    assert int(column.sum()) == 200
    assert grown(column, 112, 0) is column
