"""Whether a signal came alone, with a few, or with a large part of its site."""

import pytest

from crawld.model.signal import CROWDS, Crowd, crowd_of


@pytest.mark.parametrize(
    ("moved", "listed", "crowd"),
    [
        (1, 1, Crowd.ALONE),
        (1, 20, Crowd.ALONE),
        (2, 20, Crowd.FEW),
        (4, 20, Crowd.BULK),
        (10, 1000, Crowd.ALONE),
        (11, 1000, Crowd.FEW),
        (50, 1000, Crowd.FEW),
        (51, 1000, Crowd.BULK),
        (1000, 1000, Crowd.BULK),
    ],
)
def test_the_share_of_pages_that_moved_together_decides(moved: int, listed: int, crowd: Crowd) -> None:
    """One page or a hundredth of the site is alone, three pages or a twentieth are a few, more is bulk."""
    assert crowd_of(moved, listed) is crowd


def test_more_pages_moving_never_make_a_smaller_crowd() -> None:
    """The kinds come in the order of their size."""
    kinds = [CROWDS.index(crowd_of(moved, 300)) for moved in range(1, 301)]
    assert kinds == sorted(kinds)
