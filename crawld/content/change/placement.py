"""Where the places of a page lie: found again in another version, moved with their neighbours, and joined."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Protocol

from crawld.content.change.volatile import has_few_variants
from crawld.content.change.words import gap, gap_range, is_gap, is_volatile, varied_of
from crawld.model.crawl import Place

Words = Sequence[int]
MOST_PLACE_WORDS = 600
REACH = 8
"""How far from a difference the block is looked for that marks the place."""
START, END = 1, 2
"""Stand for the edges of the page, which always stay."""
ADRIFT = 3
"""A block beside a place that did not stay at two of three visits does not mark it."""


def located(place: Place, blocks: Sequence[int], where: Mapping[int, int]) -> range | None:
    """Where a place lies in the version it was learnt from, of which `where` tells the single blocks.

    Of two blocks beside it one may occur again, as a title does in the heading: the nearest one is meant.
    """
    left = -1 if place.left == START else where.get(place.left)
    right = len(blocks) if place.right == END else where.get(place.right)
    reach = place.most + REACH
    if left is None and right is not None:
        left = next((at for at in range(right - 1, max(right - reach, 0) - 1, -1) if blocks[at] == place.left), None)
    elif right is None and left is not None:
        right = next((at for at in range(left + 1, min(left + reach, len(blocks))) if blocks[at] == place.right), None)
    return range(left + 1, right) if left is not None and right is not None and left < right else None


def followed(place: Place, span: range, lengths: tuple[int, int], kept: Mapping[int, int]) -> range | None:
    """Where a place of an old version lies in a new one, given their lengths and which blocks were kept.

    A block beside it may have been edited, put in or taken out. Then the other side tells, where the place has always
    had as many blocks, or else the nearest blocks that were kept.
    """
    old_length, new_length = lengths
    left = 0 if span.start == 0 else kept.get(span.start - 1, -2) + 1
    right = new_length if span.stop == old_length else kept.get(span.stop, -1)
    fixed = place.most if place.fewest == place.most else None
    if left < 0 and right >= 0 and fixed is not None:
        left = right - fixed
    elif right < 0 <= left and fixed is not None:
        right = left + fixed
    if left < 0:
        before = range(span.start - 1, max(span.start - 1 - REACH, -1), -1)
        left = next((kept[at] + span.start - at for at in before if at in kept), span.start)
    if right < 0:
        after = range(span.stop, min(span.stop + REACH, old_length))
        right = next((kept[at] + span.stop - at for at in after if at in kept), new_length - old_length + span.stop)
    return range(left, right) if 0 <= left <= right <= new_length else None


def trimmed(place: Place, stood: Sequence[int], stands: Sequence[int]) -> tuple[Place, int, int]:
    """A place that has another number of blocks now, without the steady blocks at its ends, and how many these are."""
    shorter = min(len(stood), len(stands))
    if place.fewest < place.most:
        return _without_steady_ends(place, stood, stands)
    if len(stood) == len(stands):
        return place, 0, 0
    lead = 0
    while lead < shorter and stood[lead] == stands[lead] and not any(map(is_volatile, place.blocks[lead])):
        lead += 1
    trail = 0
    while (
        trail < shorter - lead
        and stood[-1 - trail] == stands[-1 - trail]
        and not any(map(is_volatile, place.blocks[-1 - trail]))
    ):
        trail += 1
    blocks = place.blocks[lead : len(place.blocks) - trail]
    return replace(place, blocks=blocks, fewest=len(blocks), most=len(blocks)), lead, trail


def _without_steady_ends(place: Place, stood: Sequence[int], stands: Sequence[int]) -> tuple[Place, int, int]:
    """A place of varying length without what was put in beside it, which has stayed at two visits; once is chance."""
    most = max(0, min(len(stood), len(stands)) - place.fewest)
    lead = next((at for at in range(most) if stood[at] != stands[at]), most)
    trail = next((at for at in range(most - lead) if stood[-1 - at] != stands[-1 - at]), most - lead)
    steady = tuple(block & 0xFFFF_FFFF for block in (*stands[:lead], *stands[len(stands) - trail :]))
    for_good = [block in place.common for block in steady]
    lead = for_good[:lead].index(False) if False in for_good[:lead] else lead
    ends = for_good[len(steady) - trail :][::-1]
    return replace(place, common=steady), lead, ends.index(False) if False in ends else trail


def anchored(place: Place, *, left: bool, right: bool) -> Place:
    """The place after a visit at which the block before it, and the one after it, stayed or did not."""
    before, after = place.adrift
    return replace(place, adrift=(_drift(before, stays=left), _drift(after, stays=right)))


def _drift(count: int, *, stays: bool) -> int:
    return max(0, count - 1) if stays else min(3, count + 2)


def widened(place: Place, words: Callable[[int], Words], span: range, length: int) -> tuple[Place, range]:
    """The place with the blocks beside it that keep changing: they mark no place, they belong to it."""
    before, after = place.adrift[0] >= ADRIFT and span.start > 0, place.adrift[1] >= ADRIFT and span.stop < length
    if not before and not after:
        return place, span
    wider = range(span.start - before, span.stop + after)
    more = [tuple(words(at)) for at, one in ((wider.start, before), (wider.stop - 1, after)) if one]
    adrift = (0 if before else place.adrift[0], 0 if after else place.adrift[1])
    if place.fewest < place.most:
        fewest, most = gap_range(place.blocks[0][0])
        count = sum(map(len, more))
        whole = place.blocks[0][0] & ~0xFFFF_FFFF | fewest + count | min(most + count, 0xFFFF) << 16
        blocks: tuple[tuple[int, ...], ...] = ((whole,),)
    else:
        blocks = (*more[:before], *place.blocks, *more[before:])
    return replace(
        place,
        blocks=blocks,
        fewest=place.fewest + len(more),
        most=place.most + len(more),
        common=(),
        adrift=adrift,
    ), wider


def joined(place: Place, other: Place) -> Place | None:
    """Two places with nothing between them as one; None where one has yet to show that it varies as the other does."""
    if place.fewest == place.most and other.fewest == other.most:
        blocks = (*place.blocks, *other.blocks)
        still = min(place.still, other.still)
        both = Place(0, 0, blocks, len(blocks), len(blocks), (), still)
        known = next((one for one, beside in ((place, other), (other, place)) if _only_varies(one, beside)), both)
        return replace(both, variants=known.variants, fresh=known.fresh, agreed=known.agreed)
    first, second = (one.blocks[0][0] if one.fewest < one.most else _as_gap(one) for one in (place, other))
    if not varied_of(first) or not varied_of(second):
        return None
    fewest, most = (sum(pair) for pair in zip(gap_range(first), gap_range(second)))
    blocks = ((gap(fewest, most, (first, second)),),)
    still = min(place.still, other.still)
    return Place(0, 0, blocks, place.fewest + other.fewest, place.most + other.most, (), still)


def _only_varies(place: Place, beside: Place) -> bool:
    """Whether the variants of a place, which are few, are those of both: nothing has varied in the other."""
    return has_few_variants(place) and not any(varied_of(word) for block in beside.blocks for word in block)


def _as_gap(place: Place) -> int:
    words = [word for block in place.blocks for word in block]
    count = sum(gap_range(word)[1] if is_gap(word) else 1 for word in words)
    return gap(count, count, words)


class Version(Protocol):
    """A version of a page, as far as a place is made of it."""

    new: Sequence[int]
    """Its blocks."""

    @property
    def single(self) -> Set[int]:
        """Those that it has once."""

    def words(self, at: int) -> tuple[int, ...]:
        """The words of the block at an index."""


def new_place(version: Version, within: range) -> tuple[Place, range] | None:
    """A place for a difference, widened to blocks that occur once; None where they are too far or it is too large."""
    blocks = version.new
    found = _widened(blocks, version.single, within)
    if found is None:
        return None
    patterns: list[tuple[int, ...]] = []
    count = 0
    for at in found:
        patterns.append(version.words(at))
        count += 1 + len(patterns[-1])
        if count > MOST_PLACE_WORDS:
            return None
    left, right = _edges(blocks, found)
    return Place(left, right, tuple(patterns), len(found), len(found)), found


def _widened(blocks: Sequence[int], single: Set[int], within: range) -> range | None:
    start, stop = within.start, within.stop
    for _ in range(REACH):
        if start == 0 or blocks[start - 1] in single:
            break
        start -= 1
    else:
        return None
    for _ in range(REACH):
        if stop == len(blocks) or blocks[stop] in single:
            break
        stop += 1
    else:
        return None
    return range(start, stop)


def _edges(blocks: Sequence[int], within: range) -> tuple[int, int]:
    left = blocks[within.start - 1] if within.start else START
    return left, blocks[within.stop] if within.stop < len(blocks) else END
