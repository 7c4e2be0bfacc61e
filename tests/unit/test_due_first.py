"""Late pages come in their order, however they were taken in."""

from typing import Any, ClassVar

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crawld.choose.chooser import DueFirst
from crawld.choose.page_table import Intervals, Ints, PageTable
from crawld.choose.valuation import Beliefs, Floats


def columns(hosts: Ints, mu: Floats, last: Floats) -> PageTable:
    """Pages that were crawled at `last`, nan for never."""
    pages = PageTable(Intervals(longest=10.0, shortest=0.0))
    count = len(hosts)
    believed = Beliefs(mu, np.ones(count), np.full(count, np.inf), np.zeros(count), np.zeros(count))
    pages.insert(hosts, believed, last, np.zeros(count))
    return pages


class LookedAt(np.ndarray):
    """A column that notes how many of its entries each look asks for."""

    counts: ClassVar[list[int]] = []

    def __getitem__(self, rows: Any) -> Any:
        self.counts.append(np.size(rows))
        return np.asarray(self)[rows]


@given(pieces=st.lists(st.integers(1, 60), min_size=1, max_size=12), seed=st.integers(0, 999))
def test_pieces_come_out_as_one_list_would(pieces: list[int], seed: int) -> None:
    """The longest overdue first, never crawled before all, then by importance; some leave and some are reweighted."""
    rng = np.random.default_rng(seed)
    count = sum(pieces)
    last = np.where(rng.random(count) < 0.6, np.nan, rng.integers(0, 5, count))
    pages = columns(rng.integers(0, 4, count), rng.integers(1, 4, count).astype(float), last)
    late = DueFirst(pages)
    here: set[int] = set()
    for rows in np.split(rng.permutation(count), np.cumsum(pieces)[:-1]):
        late.insert(rows)
        here |= set(rows.tolist())
        for row in rng.choice(sorted(here), len(here) // 5, replace=False).tolist():
            if rng.random() < 0.5:
                late.remove(row)
                here.remove(row)
            else:
                pages.mu[row] = rng.integers(1, 4)
                late.remove(row)
                late.insert(np.array([row]))
    order = sorted(here, key=lambda r: (pages.due[r], -pages.mu[r] if pages.due[r] == -np.inf else 0.0, r))
    found = []
    while (row := late.best(100.0, None)) is not None:
        late.remove(row)
        found.append(row)
    assert found == order
    assert late.count == 0


def test_a_host_that_gets_pages_again_and_again_has_few_runs() -> None:
    """Five hundred pieces of a long list stay a handful of runs: each look at a host's first page passes them all."""
    count = 5_000
    pages = columns(np.zeros(count, np.int64), np.ones(count), np.full(count, np.nan))
    late = DueFirst(pages)
    for rows in np.split(np.arange(count), 500):
        late.insert(rows)
    assert late.count == count
    pages.due = pages.due.view(LookedAt)
    first = late.best(0.0, None)
    assert first is not None
    late.remove(first)
    [looked_at] = LookedAt.counts
    assert 1 <= looked_at <= 10
