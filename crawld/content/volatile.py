"""Blocks that differ at every fetch, learnt from two fetches seconds apart, and left out from then on.

Such a block is never the same twice, so it cannot be known by its own hash. It is known by its place: so many blocks
after, or before, a block that stays. A place is one number, mixed of that neighbour, the distance and the side.
Only neighbours that occur once on the page mark places, lest one repeated line ("Read more") hide real changes.
"""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

from crawld.model.crawl import Digest

REACH = 8
"""How far from a steady neighbour a place may be."""
MOST_PLACES = 256
STEPS = range(1, REACH + 1)
_START, _END = 1, 2  # stand for the edges of the page, which always stay


def volatile_places(first: Digest, second: Digest) -> tuple[int, ...]:
    """The places where two digests taken seconds apart differ; empty where nothing differs or nothing can be told."""
    markers = _single(first.blocks) & _single(second.blocks) | {_START, _END}
    places: set[int] = set()
    matcher = SequenceMatcher(None, first.blocks, second.blocks, autojunk=False)
    for what, first_from, first_to, second_from, second_to in matcher.get_opcodes():
        if what != "equal":
            places |= _places(first.blocks, range(first_from, first_to), markers)
            places |= _places(second.blocks, range(second_from, second_to), markers)
    return tuple(sorted(places))


def add_places(known: Sequence[int], learnt: Sequence[int]) -> tuple[int, ...]:
    """The places known and learnt, newest first, as many as are worth remembering."""
    return tuple(dict.fromkeys((*learnt, *known)))[:MOST_PLACES]


def steady_blocks(blocks: Sequence[int], volatile: Sequence[int]) -> Sequence[int]:
    """The blocks that lie in no volatile place.

    Where blocks in a row are named from both sides, the names from the front decide: of what is put in beside a
    volatile block something then remains, and the page has changed. Where nothing would remain, everything counts: a
    page that is new at every fetch changes, and must not seem to stand still.
    """
    if not volatile:
        return blocks
    known = set(volatile)
    edged = _edged(blocks)
    from_front = [any(_name(edged[at - step], -step) in known for step in STEPS) for at in _inside(edged)]
    from_back = [any(_name(edged[at + step], step) in known for step in STEPS) for at in _inside(edged)]
    steady: list[int] = []
    rows = groupby(range(len(blocks)), key=lambda at: from_front[at] or from_back[at])
    for named, row in rows:
        places = list(row)
        if named:
            by_front = any(from_front[at] for at in places)
            places = [at for at in places if by_front and not from_front[at]]
        steady += [blocks[at] for at in places]
    return tuple(steady) or blocks


def _single(blocks: Sequence[int]) -> set[int]:
    return {block for block, count in Counter(blocks).items() if count == 1}


def _edged(blocks: Sequence[int]) -> list[int]:
    return [*[0] * (REACH - 1), _START, *blocks, _END, *[0] * (REACH - 1)]


def _inside(edged: Sequence[int]) -> range:
    return range(REACH, len(edged) - REACH)


def _places(blocks: Sequence[int], differing: range, markers: set[int]) -> set[int]:
    """The names of the places that differ, by the nearest marker on each side within reach."""
    edged = _edged(blocks)
    names = set()
    for at in (place + REACH for place in differing):
        for side in (-1, 1):
            found = next((side * step for step in STEPS if edged[at + side * step] in markers), None)
            if found is not None:
                names.add(_name(edged[at + found], found))
    return names


def _name(neighbour: int, distance: int) -> int:
    return (neighbour ^ distance * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF
