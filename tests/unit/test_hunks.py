"""Where two sequences of blocks differ."""

from hypothesis import given
from hypothesis import strategies as st

from crawld.read.change.words import Hunk, hunks, kept_blocks

BLOCKS = st.lists(st.integers(0, 12), max_size=40)


@given(BLOCKS, BLOCKS)
def test_differences_turn_the_one_into_the_other(old: list[int], new: list[int]) -> None:
    """Putting the new blocks in place of the old ones gives the new sequence, and kept blocks are equal."""
    made = list(old)
    for hunk in reversed(hunks(old, new)):
        made[hunk.old_from : hunk.old_to] = new[hunk.new_from : hunk.new_to]
    assert made == new
    kept = kept_blocks(hunks(old, new), len(old))
    assert all(old[at] == new[there] for at, there in kept.items())


def test_an_edit_between_blocks_that_stay() -> None:
    """A block that was replaced, one put in and one taken out are three differences."""
    assert hunks([1, 2, 3, 4, 5, 6], [1, 9, 3, 8, 4, 6]) == [Hunk(1, 2, 1, 2), Hunk(3, 3, 3, 4), Hunk(4, 5, 5, 5)]


def test_equal_blocks_in_great_number() -> None:
    """Ten thousand equal blocks against nine thousand are one difference."""
    assert hunks([7] * 10_000, [7] * 9_000) == [Hunk(9_000, 10_000, 9_000, 9_000)]
