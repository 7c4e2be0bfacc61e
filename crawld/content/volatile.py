"""Places of a page that differ from visit to visit, learnt word by word from the history of its versions.

A place lies between two blocks that stay. Of its words is remembered how often each differed, so that what is noise is
left out and everything else in the place still counts: an edited word, a word more, a block more. What stops varying
counts again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from crawld.content.words import (
    SLOW,
    Kind,
    differed,
    differed_in_pair,
    edited,
    gap,
    gap_range,
    is_edited,
    is_gap,
    is_volatile,
    kind_of,
    pairs_of,
    same_word,
    stayed,
    varied_of,
)
from crawld.model.crawl import Place

Words = Sequence[int]
MOST_PLACES = 256
MOST_PLACE_WORDS = 600
MOST_PAGE_WORDS = 2_000
REACH = 8
"""How far from a difference the block is looked for that marks the place."""
START, END = 1, 2
"""Stand for the edges of the page, which always stay."""
ADRIFT = 3
"""A block beside a place that did not stay at two of three visits does not mark it."""
POOLED = 3  # visits after which a word may be judged by its neighbours' pairs
FORGET_AFTER, FORGET_SLOW_AFTER = 3, 12  # visits without a difference; times and counters may be slow


def located(place: Place, blocks: Sequence[int], where: Mapping[int, int]) -> range | None:
    """Where a place lies in the version it was learnt from, of which `where` tells the single blocks."""
    left = -1 if place.left == START else where.get(place.left)
    right = len(blocks) if place.right == END else where.get(place.right)
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
        return Place(0, 0, blocks, len(blocks), len(blocks), (), min(place.still, other.still))
    first, second = (one.blocks[0][0] if one.fewest < one.most else _as_gap(one) for one in (place, other))
    if not varied_of(first) or not varied_of(second):
        return None
    fewest, most = (sum(pair) for pair in zip(gap_range(first), gap_range(second)))
    blocks = ((gap(fewest, most, (first, second)),),)
    still = min(place.still, other.still)
    return Place(0, 0, blocks, place.fewest + other.fewest, place.most + other.most, (), still)


def _as_gap(place: Place) -> int:
    words = [word for block in place.blocks for word in block]
    count = sum(gap_range(word)[1] if is_gap(word) else 1 for word in words)
    return gap(count, count, words)


def new_place(blocks: Sequence[int], within: range, words: Callable[[int], list[int]]) -> tuple[Place, range] | None:
    """A place for a difference, widened to blocks that occur once; None where that is too far or the place too large.

    `words` gives the words of the block at an index.
    """
    found = _widened(blocks, within)
    if found is None:
        return None
    if len(found) > MOST_PLACE_WORDS:
        return None
    patterns = tuple(tuple(words(at)) for at in found)
    if sum(map(len, patterns)) > MOST_PLACE_WORDS:
        return None
    left, right = _edges(blocks, found)
    return Place(left, right, patterns, len(found), len(found)), found


def _widened(blocks: Sequence[int], within: range) -> range | None:
    start, stop = within.start, within.stop
    for _ in range(REACH):
        if start == 0 or blocks.count(blocks[start - 1]) == 1:
            break
        start -= 1
    else:
        return None
    for _ in range(REACH):
        if stop == len(blocks) or blocks.count(blocks[stop]) == 1:
            break
        stop += 1
    else:
        return None
    return range(start, stop)


def _edges(blocks: Sequence[int], within: range) -> tuple[int, int]:
    left = blocks[within.start - 1] if within.start else START
    return left, blocks[within.stop] if within.stop < len(blocks) else END


def revisited(place: Place, found: Sequence[Words], same: Sequence[bool]) -> tuple[Place, bool]:
    """The place after a visit at which these blocks were found in it; `same` tells those that are what they were.

    Also whether the difference is explained: every word that differs is volatile, and nothing was added or lost.
    """
    if place.fewest < place.most:
        return _revisited_loose(place, found)
    if len(found) != len(place.blocks):
        if any(is_volatile(word) for block in place.blocks for word in block):
            return _edited(place, found), False
        return _loosened(place, found), False
    results = [
        (tuple(map(stayed, block)), True) if stays else _revisited_block(block, words)
        for block, words, stays in zip(place.blocks, found, same)
    ]
    patterns = _pooled([pattern for pattern, _ in results])
    settled = [
        stays or _settled(before, after, words)
        for before, after, words, stays in zip(place.blocks, patterns, found, same)
    ]
    explained = all(fits for _, fits in results) and all(settled) and _lengths_fit(place.blocks, found)
    common, fits = _in_common(place, found)
    if common and fits and same.count(False) > 1:  # the same words in another order, whatever stands where
        explained = any(is_volatile(word) for block in patterns for word in block)
    return replace(place, blocks=patterns, common=common, still=0), explained and fits


def rested(place: Place) -> Place:
    """The place after a visit at which nothing of it differed."""
    blocks = tuple(tuple(stayed(word) for word in block) for block in place.blocks)
    return replace(place, blocks=blocks, still=min(place.still + 1, 255))


def paired(place: Place, found: Sequence[Words], *, differs: bool) -> Place:
    """The place after a quick second fetch that found these blocks in it."""
    if not differs:
        blocks = tuple(tuple(differed_in_pair(word, differs=False) for word in block) for block in place.blocks)
        return replace(place, blocks=blocks)
    if place.fewest < place.most or len(found) != len(place.blocks):
        loose = place if place.fewest < place.most else _loosened(place, found)
        count = sum(map(len, found))
        return replace(
            loose,
            blocks=((differed_in_pair(_widened_gap(loose.blocks[0][0], count), differs=True),),),
            fewest=min(loose.fewest, len(found)),
            most=max(loose.most, len(found)),
        )
    return replace(place, blocks=tuple(_paired_block(block, words) for block, words in zip(place.blocks, found)))


def is_forgotten(place: Place) -> bool:
    """Whether a place is not worth remembering any more."""
    words = [word for block in place.blocks for word in block]
    if any(varied_of(word) or pairs_of(word) for word in words):
        return False
    slow = any(kind_of(word) in SLOW for word in words)
    return place.still >= (FORGET_SLOW_AFTER if slow else FORGET_AFTER)


def volatile_words(place: Place) -> int:
    """How many words of the place are volatile."""
    words = (word for block in place.blocks for word in block if is_volatile(word))
    return sum(gap_range(word)[1] if is_gap(word) else 1 for word in words)


def awaits_pair(place: Place) -> bool:
    """Whether a second fetch could tell if the words that varied are noise."""
    words = (word for block in place.blocks for word in block)
    return any(varied_of(word) and not is_volatile(word) and kind_of(word) != Kind.MONEY for word in words)


def times_varied(place: Place) -> int:
    """At how many visits the words that vary most did so."""
    return max((varied_of(word) for block in place.blocks for word in block), default=0)


def half_proven(place: Place) -> bool:
    """Whether one pair of fetches differed in the place, and one more is needed."""
    return any(pairs_of(word) == 1 and not is_volatile(word) for block in place.blocks for word in block)


def bounded(places: Sequence[Place]) -> tuple[Place, ...]:
    """As many of the places as are remembered, those with volatile words first."""
    ranked = sorted(places, key=lambda place: not volatile_words(place))
    kept: list[Place] = []
    words = 0
    for place in ranked[:MOST_PLACES]:
        words += sum(map(len, place.blocks)) + len(place.common)
        if words > MOST_PAGE_WORDS:
            break
        kept.append(place)
    return tuple(kept)


# -- one block -----------------------------------------------------------------------------------------------------


def _gap_at(block: Words) -> int | None:
    return next((at for at, word in enumerate(block) if is_gap(word)), None)


def _revisited_block(block: Words, words: Words) -> tuple[tuple[int, ...], bool]:
    """The pattern after a visit, and whether these words fit it as far as its steady words go."""
    hole = _gap_at(block)
    if hole is None and len(block) == len(words):
        return tuple(_step(word, now) for word, now in zip(block, words)), True
    if hole is not None:
        before, after = block[:hole], block[hole + 1 :]
        held = len(words) - len(before) - len(after)
        if held >= 0 and _matches(before, words[: len(before)]) and _matches(after, words[len(words) - len(after) :]):
            middle = differed(_widened_gap(block[hole], held), 0)
            end = len(words) - len(after)
            return (
                *(_step(word, now) for word, now in zip(before, words)),
                middle,
                *(_step(word, now) for word, now in zip(after, words[end:])),
            ), _in_range(held, *gap_range(block[hole]))
        return _regapped(block, hole, words), False
    if any(is_volatile(word) for word in block) and not any(
        is_volatile(word) and kind_of(word) in {Kind.WORD, Kind.NAME} for word in block
    ):
        start, stop = _common_ends(block, words, wild=True)
        tail = len(words) - stop
        return (*block[:start], *words[start:tail], *block[len(block) - stop :]), False
    start, stop = _common_ends(block, words, wild=False)
    inside = [*block[start : len(block) - stop], *words[start : len(words) - stop]]
    counts = len(block) - start - stop, len(words) - start - stop
    middle = differed(gap(min(counts), max(counts), inside), 0)
    return (*block[:start], middle, *block[len(block) - stop :]), False


def _step(word: int, now: int) -> int:
    return stayed(word) if same_word(word, now) else differed(word, now)


def _matches(pattern: Words, words: Words) -> bool:
    return all(same_word(word, now) or is_volatile(word) for word, now in zip(pattern, words, strict=True))


def _regapped(block: Words, hole: int, words: Words) -> tuple[int, ...]:
    """A block with a gap whose steady words differ: where that is an edit, they are taken over as they are now."""
    start = _shifted(block[:hole], words)
    stop = _shifted(block[:hole:-1], words[::-1])
    doubtful = is_edited(block[hole]) or not is_volatile(block[hole])
    if doubtful or start + stop > len(words):  # words that differ twice in a row were never steady
        start, stop = _common_ends(block, words, wild=False)
        start, stop = min(start, hole), min(stop, len(block) - hole - 1)
    middle = differed(_widened_gap(block[hole], max(0, len(words) - start - stop)), 0)
    return (*words[:start], edited(middle), *words[len(words) - stop :])


def _shifted(steady: Words, words: Words) -> int:
    """How many words now stand before the gap: found by the last of them, which an insertion has shifted."""
    if not steady:
        return 0
    for shift in (0, 1, -1, 2, -2, 3, -3):
        at = len(steady) - 1 + shift
        if 0 <= at < len(words) and same_word(words[at], steady[-1]):
            return at + 1
    kept = sum(1 for word, now in zip(steady, words) if same_word(word, now))
    return min(len(steady), len(words)) if kept >= len(steady) - 1 else 0


def _common_ends(block: Words, words: Words, *, wild: bool) -> tuple[int, int]:
    """How many words at the beginning and at the end are the same; volatile ones may differ where it is `wild`."""

    def same(one: int, other: int) -> bool:
        if wild and is_volatile(one):
            return kind_of(one) == kind_of(other)
        return same_word(one, other) and not varied_of(one)

    shorter = min(len(block), len(words))
    start = 0
    while start < shorter and same(block[start], words[start]):
        start += 1
    stop = 0
    while stop < shorter - start and same(block[-1 - stop], words[-1 - stop]):
        stop += 1
    return start, stop


def _widened_gap(word: int, held: int) -> int:
    fewest, most = gap_range(word)
    return word & ~0xFFFF_FFFF | min(fewest, held) | min(max(most, held), 0xFFFF) << 16


def _in_range(count: int, fewest: int, most: int) -> bool:
    slack = (most - fewest + 1) // 2 if most > fewest else 0
    return fewest - slack <= count <= most + slack


def _paired_block(block: Words, words: Words) -> tuple[int, ...]:
    hole = _gap_at(block)
    if hole is None and len(block) == len(words):
        return tuple(
            word if same_word(word, now) else differed_in_pair(word, differs=True) for word, now in zip(block, words)
        )
    if hole is None:
        start, stop = _common_ends(block, words, wild=False)
        inside = [*block[start : len(block) - stop], *words[start : len(words) - stop]]
        counts = len(block) - start - stop, len(words) - start - stop
        middle = differed_in_pair(gap(min(counts), max(counts), inside), differs=True)
        return (*block[:start], middle, *block[len(block) - stop :])
    held = max(0, len(words) - len(block) + 1)
    return tuple(
        differed_in_pair(_widened_gap(word, held), differs=True) if at == hole else word
        for at, word in enumerate(block)
    )


# -- the blocks of a place together --------------------------------------------------------------------------------


def _pooled(blocks: Sequence[Words]) -> tuple[tuple[int, ...], ...]:
    """Words that varied often share what pairs of fetches said of any of them: a list varies as a whole."""
    most = max((pairs_of(word) for block in blocks for word in block), default=0)
    if most == 0:
        return tuple(map(tuple, blocks))
    return tuple(
        tuple(
            word & ~(3 << 39) | most << 39 if varied_of(word) >= POOLED and pairs_of(word) < most else word
            for word in block
        )
        for block in blocks
    )


def _settled(before: Words, after: Words, words: Words) -> bool:
    """Whether every word that differs is volatile by now."""
    if _gap_at(after) is None:
        return all(same_word(word, now) or is_volatile(new) for word, now, new in zip(before, words, after))
    hole = _gap_at(after)
    return hole is not None and is_volatile(after[hole])


def _lengths_fit(blocks: Sequence[Words], found: Sequence[Words]) -> bool:
    """Whether blocks that vary as a whole are as long as any of them ever was."""
    whole = [block[0] for block in blocks if len(block) == 1 and is_gap(block[0])]
    if len(whole) < 2:
        return True
    fewest, most = min(gap_range(word)[0] for word in whole), max(gap_range(word)[1] for word in whole)
    return all(
        _in_range(len(words), fewest, most)
        for block, words in zip(blocks, found)
        if len(block) == 1 and is_gap(block[0])
    )


def _hashes(blocks: Sequence[Words]) -> tuple[int, ...]:
    """What the words are, in no order; times and counters, which vary by themselves, are left out."""
    return tuple(sorted(word & 0xFFFF_FFFF for block in blocks for word in block if kind_of(word) not in SLOW))


def _in_common(place: Place, found: Sequence[Words]) -> tuple[tuple[int, ...], bool]:
    """The words of a place that is only ever put in another order, and whether it still has just these."""
    now = _hashes(found)
    fresh = not any(varied_of(word) or is_gap(word) for block in place.blocks for word in block)
    known = _hashes(place.blocks) if fresh else place.common
    if not known or now == known:
        return known if now == known else (), True
    if fresh:
        return (), True
    missing = set(known) - set(now)
    return (now, False) if len(missing) <= 0.3 * len(known) else ((), True)


def _loosened(place: Place, found: Sequence[Words]) -> Place:
    """A place whose number of blocks varies: one gap between its two neighbours."""
    known = [word for block in place.blocks for word in block]
    most = sum(gap_range(word)[1] if is_gap(word) else 1 for word in known)
    words = [word for block in found for word in block]
    whole = differed(gap(min(most, len(words)), max(most, len(words)), known), 0)
    whole &= ~(7 << 32)  # a run of words, whatever they are
    fewest, most_blocks = min(place.fewest, len(found)), max(place.most, len(found))
    return replace(place, blocks=((whole,),), fewest=fewest, most=most_blocks, common=(), still=0)


def _revisited_loose(place: Place, found: Sequence[Words]) -> tuple[Place, bool]:
    count = sum(map(len, found))
    before = place.blocks[0][0]
    fits = _in_range(count, *gap_range(before)) and _in_range(len(found), place.fewest, place.most)
    after = differed(_widened_gap(before, count), 0)
    grown = replace(
        place,
        blocks=((after,),),
        fewest=min(place.fewest, len(found)),
        most=max(place.most, len(found)),
        still=0,
    )
    return grown, fits and is_volatile(after)


def _edited(place: Place, found: Sequence[Words]) -> Place:
    """A place of which the volatile words are known, after blocks were added or lost: the rest keeps its patterns."""
    blocks = place.blocks
    shorter = min(len(blocks), len(found))
    start = 0
    while start < shorter and _fits(blocks[start], found[start]):
        start += 1
    stop = 0
    while stop < shorter - start and _fits(blocks[-1 - stop], found[-1 - stop]):
        stop += 1
    if start + stop == shorter < len(found) and start and len(blocks[start - 1]) == 1 and is_gap(blocks[start - 1][0]):
        middle: list[tuple[int, ...]] = [blocks[start - 1]] * (len(found) - shorter)  # one more of a varying list
    else:
        middle = [tuple(words) for words in found[start : len(found) - stop]]
    kept = (*blocks[:start], *middle, *blocks[len(blocks) - stop :])
    return replace(place, blocks=kept, fewest=len(found), most=len(found), common=(), still=0)


def _fits(block: Words, words: Words) -> bool:
    hole = _gap_at(block)
    if hole is None:
        return len(block) == len(words) and _matches(block, words)
    before, after = block[:hole], block[hole + 1 :]
    if len(words) < len(before) + len(after):
        return False
    return _matches(before, words[: len(before)]) and _matches(after, words[len(words) - len(after) :])
