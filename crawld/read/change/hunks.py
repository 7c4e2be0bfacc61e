"""Where two sequences of blocks differ, found in nearly linear time."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Hunk(NamedTuple):
    """Blocks `old_from:old_to` of the one sequence stand where the other has `new_from:new_to`; one may be empty."""

    old_from: int
    old_to: int
    new_from: int
    new_to: int


def hunks(old: Sequence[int], new: Sequence[int]) -> list[Hunk]:
    """The differences, in order.

    Blocks that occur once in both sequences, and in the same order, hold the two together; between them only equal
    beginnings and ends are matched. That finds no shortest difference, but never takes long.
    """
    found: list[Hunk] = []
    old_at, old_end, new_at, new_end = _trimmed(old, new, Hunk(0, len(old), 0, len(new)))
    between = ((old_at + i, new_at + j) for i, j in _anchors(old[old_at:old_end], new[new_at:new_end]))
    for old_next, new_next in (*between, (old_end, new_end)):
        hunk = _trimmed(old, new, Hunk(old_at, old_next, new_at, new_next))
        if hunk.old_from < hunk.old_to or hunk.new_from < hunk.new_to:
            found.append(hunk)
        old_at, new_at = old_next + 1, new_next + 1
    return found


def kept_blocks(differences: Sequence[Hunk], length: int) -> dict[int, int]:
    """The index each kept block of the old sequence, which has that length, has in the new one."""
    kept: dict[int, int] = {}
    old_at, new_at = 0, 0
    for hunk in differences:
        kept.update(zip(range(old_at, hunk.old_from), range(new_at, hunk.new_from)))
        old_at, new_at = hunk.old_to, hunk.new_to
    kept.update(zip(range(old_at, length), range(new_at, new_at + length - old_at)))
    return kept


def singles(blocks: Sequence[int]) -> dict[int, int]:
    """Where each block is that occurs once."""
    once = {block for block, count in Counter(blocks).items() if count == 1}
    return {block: at for at, block in enumerate(blocks) if block in once}


def _trimmed(old: Sequence[int], new: Sequence[int], hunk: Hunk) -> Hunk:
    old_from, old_to, new_from, new_to = hunk
    while old_from < old_to and new_from < new_to and old[old_from] == new[new_from]:
        old_from, new_from = old_from + 1, new_from + 1
    while old_from < old_to and new_from < new_to and old[old_to - 1] == new[new_to - 1]:
        old_to, new_to = old_to - 1, new_to - 1
    return Hunk(old_from, old_to, new_from, new_to)


def _anchors(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The longest run of pairs of equal single blocks that rises on both sides."""
    where = singles(new)
    pairs = [(at, where[block]) for block, at in singles(old).items() if block in where]
    ends: list[int] = []  # the place in `new` at which the best run of each length ends
    last: list[int] = []  # and the pair that ends it
    before: list[int] = [-1] * len(pairs)
    for index, (_, new_at) in enumerate(pairs):
        length = bisect_left(ends, new_at)
        before[index] = last[length - 1] if length else -1
        if length < len(ends):
            ends[length], last[length] = new_at, index
        else:
            ends.append(new_at)
            last.append(index)
    chain: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return reversed(chain)
