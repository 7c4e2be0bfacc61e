"""How many shards a worker holds, and when it beats."""

import pytest

from crawld.fleet.store.ledger import Beat
from crawld.fleet.worker import Grid, Move, move
from crawld.model.shards import shard_of_host


@pytest.mark.parametrize(
    ("workers", "draining", "free", "held", "expected"),
    [
        pytest.param(1, False, 256, 0, Move(claim=256), id="alone it takes everything"),
        pytest.param(3, False, 256, 0, Move(claim=86), id="a third, rounded up"),
        pytest.param(3, False, 10, 80, Move(claim=6), id="no more than its share"),
        pytest.param(3, False, 2, 80, Move(claim=2), id="no more than are free"),
        pytest.param(2, False, 0, 256, Move(give=128), id="a newcomer gets its share"),
        pytest.param(2, False, 5, 128, Move(), id="enough"),
        pytest.param(2, True, 5, 128, Move(give=128), id="one that drains keeps none"),
        pytest.param(0, True, 5, 0, Move(), id="and takes none"),
    ],
)
def test_a_worker_keeps_its_fair_share(workers: int, draining: bool, free: int, held: int, expected: Move) -> None:
    """It claims what is free up to an equal part of all shards, and gives back what is above it."""
    beat = Beat(now=0.0, expires=5.0, bandwidth=1.0, workers=workers, draining=draining, free=free)
    assert move(beat, held, 256) == expected


def test_beats_lie_on_a_grid() -> None:
    """A beat that took long does not move those after it."""
    grid = Grid(100.25, 1.0)
    assert grid.after(100.3) == 101.25
    assert grid.after(101.25) == 102.25
    assert grid.after(104.9) == 105.25


def test_a_site_has_one_owner_with_www_and_without() -> None:
    """The sitemap of one often lists the pages of the other."""
    assert shard_of_host("www.example.org", 4096) == shard_of_host("example.org", 4096)
    assert shard_of_host("www.example.org:8080", 4096) == shard_of_host("example.org:8080", 4096)
    assert len({shard_of_host(f"h{i}.example.org", 4096) for i in range(100)}) > 90
