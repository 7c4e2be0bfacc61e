"""Places of a page that differ from visit to visit, learnt word by word from the history of its versions.

A place lies between two blocks that stay. Of its words is remembered how often each differed, so that what is noise is
left out and everything else in the place still counts: an edited word, a word more, a block more. What stops varying
counts again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeVar
from zlib import crc32

from crawld.model.crawl import Place
from crawld.read.change.words import LIMITS as WORDS_LIMITS
from crawld.read.change.words import (
    SLOW,
    WordKind,
    as_words,
    differed,
    differed_in_pair,
    disproved,
    edited,
    gap,
    gap_range,
    is_edited,
    is_gap,
    is_volatile,
    kind_of,
    needs_proof,
    pairs_of,
    rest_of,
    same_word,
    spans_of,
    stayed,
    varied_of,
    with_pairs,
)

T = TypeVar("T")


@dataclass(frozen=True)
class VolatileLimits:
    """Numbers that bound and tune this module."""

    max_places: int = 256
    max_page_words: int = 2_000
    pooled: int = 3  # visits after which a word may be judged by its neighbours' pairs
    check_every: int = 16
    """One explained difference in so many is checked by a pair of fetches."""
    like_words: int = 3
    """Words that a new block must share with one that varies, to be taken for one more of its kind."""
    max_variants: int = 16
    news: int = 3
    """Added to a place's freshness by a variant that was never there; a known one takes one away. Where new ones
    are one in four or fewer, the place has few variants."""
    long_rest: int = 4
    """Visits for which a place of few variants may show one of them before a difference is in doubt."""
    max_agreed: int = 7
    """Pairs in a row that may bring one variant of a few by chance."""
    few_blocks: int = 3
    max_lent_words: int = 200
    lent_slack: int = 8
    doubt_bits: int = 2
    doubt_reason: int = 3
    max_doubted: int = 32
    """Above the reason is a bit for each of the first blocks that had rested."""
    forget_after: int = 3  # visits without a difference; times and counters may be slow
    forget_slow_after: int = 12


LIMITS = VolatileLimits()


Words = Sequence[int]
Pattern = tuple[int, ...]
Patterns = dict[tuple[int, tuple[int, ...]], dict[Pattern, Pattern]]


class Doubt(IntEnum):
    """Why a pair of fetches is wanted."""

    NONE = 0
    CHECKED = 1  # it is time for one
    RESTED = 2  # the place had rested
    KNOWN = 3  # either of these, at a variant known before


def revisited(place: Place, found: Sequence[Words], same: Sequence[bool]) -> tuple[Place, bool]:
    """The place after a visit at which these blocks were found in it; `same` tells those that are what they were.

    Also whether the difference is explained: every word that differs is volatile, and nothing was added or lost.
    """
    if place.fewest < place.most:
        return _revisited_loose(place, found)
    if len(found) != len(place.blocks):
        words = [word for block in place.blocks for word in block]
        if any(map(is_volatile, words)) and not any(map(is_edited, words)):
            return _edited(place, found), False
        return _loosened(place, found), False
    results = [
        (tuple(map(stayed, block)), True) if stays else revisited_block(block, words)
        for block, words, stays in zip(place.blocks, found, same)
    ]
    patterns = _pooled([pattern for pattern, _ in results])
    settled = [
        stays or is_settled(before, after, words)
        for before, after, words, stays in zip(place.blocks, patterns, found, same)
    ]
    explained = all(one for _, one in results) and all(settled) and _lengths_fit(place.blocks, found, same)
    spaced = any(  # the very words, and yet another block: spacing that counts
        not stays and len(block) == len(words) and all(map(same_word, block, words))
        for block, words, stays in zip(place.blocks, found, same)
    )
    explained = explained and not spaced
    common, kept = _in_common(place, found)
    if common and kept and same.count(False) > 1:  # the same words in another order, whatever stands where
        explained = explained or any(
            pairs_of(word) >= WORDS_LIMITS.enough_pairs for block in patterns for word in block
        )
    return replace(place, blocks=patterns, common=common, still=0), explained and kept


def variant_of(place: Place, found: Sequence[Words]) -> int:
    """A hash of what stands where the place varies; times and counters are left out."""
    if place.fewest < place.most or len(found) != len(place.blocks):
        words = [word for block in found for word in block]
    else:
        varies = is_volatile if volatile_words(place) else varied_of  # what was edited once is no part of a variant
        words = [word for block, now in zip(place.blocks, found) for word in varying_part(block, now, varies)]
    return crc32(b"".join((word & 0xFFFF_FFFF).to_bytes(4, "big") for word in words if kind_of(word) not in SLOW))


def has_few_variants(place: Place) -> bool:
    """Tells whether what stands in the place is one of a few, so that another one is an edit."""
    return len(place.variants) > 1 and place.fresh <= LIMITS.news


def comes_back(place: Place) -> bool:
    """Tells whether what stood in the place before came back: then two fetches may agree by chance."""
    return 1 < len(place.variants) < times_varied(place)


def weighed(
    before: Place, after: Place, found: Sequence[Words], same: Sequence[bool], *, explained: bool
) -> tuple[Place, bool]:
    """The place after a visit at which it differed, with its doubt, and whether the difference is explained after all.

    1. In a place of few variants, one that was never there is an edit. 2. A difference after a rest, and one in so
    many, is explained only until a pair of fetches has shown that the place still varies by itself.
    """
    variant = variant_of(after, found)
    known = variant in before.variants
    variants = (variant, *(one for one in before.variants if one != variant))[: LIMITS.max_variants]
    fresh = max(0, before.fresh - 1) if known else min(15, before.fresh + LIMITS.news)
    after = replace(after, variants=variants, fresh=fresh, doubt=Doubt.NONE)
    if not any(needs_proof(word) for block in before.blocks for word in block):
        return after, explained
    if has_few_variants(before):
        loose = before.fewest < before.most
        explained = known and (explained or loose)
    if not explained:
        return after, False
    unchecked = min(before.unchecked + 1, 31)
    rests = _rests(before, same)
    if known:
        rests = rests if max(rests.values(), default=0) >= LIMITS.long_rest else {}
    if rests:
        mask = sum(1 << at for at in rests if at < LIMITS.max_doubted)
        return replace(
            after, unchecked=unchecked, doubt=(Doubt.KNOWN if known else Doubt.RESTED) | mask << LIMITS.doubt_bits
        ), True
    doubt = Doubt.NONE if unchecked < LIMITS.check_every else Doubt.KNOWN if known else Doubt.CHECKED
    return replace(after, unchecked=unchecked, doubt=doubt), True


def _rests(place: Place, same: Sequence[bool]) -> dict[int, int]:
    """The blocks that differ now after they had rested, and for how many visits.

    Of many blocks that vary, some are the same at the next visit by chance: these must have rested longer.
    """
    if place.fewest < place.most or len(same) != len(place.blocks):
        rest = min((rest_of(word) for block in place.blocks for word in block if needs_proof(word)), default=0)
        return {0: rest} if rest else {}
    claims = {at: [rest_of(word) for word in block if needs_proof(word)] for at, block in enumerate(place.blocks)}
    rests = {at: min(rest) for at, rest in claims.items() if rest}
    least = 1 if len(rests) <= LIMITS.few_blocks or all(rests.values()) else 3
    if place.common and not all(rests.values()):  # in another order, some of it is where it was
        return {}
    return {at: rest for at, rest in rests.items() if rest >= least and not same[at]}


def agreed_in_pair(place: Place, agreeing: Sequence[bool]) -> tuple[Place, bool]:
    """The place after a pair of fetches whose blocks agreed so; also whether what was explained is an edit.

    What differed in the pair besides is noise still.
    """
    reason, mask = place.doubt & LIMITS.doubt_reason, place.doubt >> LIMITS.doubt_bits
    whole = all(agreeing)
    fixed = place.fewest == place.most and len(agreeing) == len(place.blocks)
    against = [whole or (fixed and bool(mask >> at & 1) and agreeing[at]) for at in range(len(place.blocks))]
    if reason == Doubt.NONE or not any(against):
        return place, False
    if reason == Doubt.KNOWN and place.agreed + 1 < LIMITS.max_agreed:
        return replace(place, agreed=place.agreed + 1), False
    by_pairs = any(pairs_of(word) >= WORDS_LIMITS.enough_pairs for block in place.blocks for word in block)
    if reason == Doubt.CHECKED and not by_pairs:  # a number that differs at every visit, but may be one for a while
        return place, False
    blocks = tuple(
        tuple(disproved(word, wholly=reason != Doubt.CHECKED) for word in block) if one else block
        for block, one in zip(place.blocks, against)
    )
    return replace(place, blocks=blocks, agreed=0, variants=place.variants[:1], fresh=LIMITS.news), True


def rested(place: Place) -> Place:
    """The place after a visit at which nothing of it differed."""
    blocks = tuple(tuple(stayed(word) for word in block) for block in place.blocks)
    return replace(place, blocks=blocks, still=min(place.still + 1, 255), doubt=Doubt.NONE)


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
            blocks=((differed_in_pair(widened_gap(loose.blocks[0][0], count), differs=True),),),
            fewest=min(loose.fewest, len(found)),
            most=max(loose.most, len(found)),
        )
    return replace(place, blocks=tuple(paired_block(block, words) for block, words in zip(place.blocks, found)))


def is_forgotten(place: Place) -> bool:
    """Tells whether a place is not worth remembering any more."""
    words = [word for block in place.blocks for word in block]
    if any(varied_of(word) or pairs_of(word) for word in words):
        return False
    slow = any(kind_of(word) in SLOW for word in words)
    return place.still >= (LIMITS.forget_slow_after if slow else LIMITS.forget_after)


def volatile_words(place: Place) -> int:
    """Counts the volatile words of a place."""
    words = (word for block in place.blocks for word in block if is_volatile(word))
    return sum(gap_range(word)[1] if is_gap(word) else 1 for word in words)


def was_paired(place: Place) -> bool:
    """Tells whether a pair of fetches differed in the place."""
    return any(map(pairs_of, (word for block in place.blocks for word in block)))


def lent(place: Place) -> Place | None:
    """A place as other pages of its template borrow it; None where it is too large.

    What varied may have another number of words there. What is steady in it is steady there too.
    """
    blocks = tuple(_generalised(block) for block in place.blocks)
    if sum(map(len, blocks)) > LIMITS.max_lent_words:
        return None
    return Place(place.left, place.right, blocks, place.fewest, place.most, fresh=15)


def varying_blocks(place: Place) -> int:
    """Counts the blocks of a place that varied."""
    return sum(1 for block in place.blocks if any(map(_is_varied, block)))


def _is_varied(word: int) -> bool:
    return is_gap(word) or bool((varied_of(word) or pairs_of(word)) and kind_of(word) not in SLOW)


def _generalised(block: Words) -> tuple[int, ...]:
    varied = [at for at, word in enumerate(block) if _is_varied(word)]
    if not varied:
        return tuple(block)
    first, stop = varied[0], varied[-1] + 1
    inside = block[first:stop]
    most = sum(gap_range(word)[1] if is_gap(word) else 1 for word in inside)
    borrowed = len(inside) == 1 and is_gap(inside[0]) and gap_range(inside[0])[0] == 0
    hole = gap(0, most if borrowed else 2 * most + LIMITS.lent_slack, inside)
    return (*block[:first], with_pairs(as_words(differed(hole, 0)), WORDS_LIMITS.enough_pairs), *block[stop:])


def awaits_pair(place: Place) -> bool:
    """Tells whether a second fetch could tell if the words that varied are noise."""
    words = (word for block in place.blocks for word in block)
    return any(varied_of(word) and not is_volatile(word) for word in words)


def varied_in_words(place: Place) -> bool:
    """Tells whether something varied in the place that is no time and no counter."""
    return any(map(_is_varied, (word for block in place.blocks for word in block)))


def times_varied(place: Place) -> int:
    """At how many visits the words that vary most did so."""
    return max((varied_of(word) for block in place.blocks for word in block), default=0)


def half_proven(place: Place) -> bool:
    """Tells whether one pair of fetches differed in the place, and one more is needed."""
    return any(pairs_of(word) == 1 and not is_volatile(word) for block in place.blocks for word in block)


def bounded(places: Sequence[Place]) -> tuple[Place, ...]:
    """Keeps as many places as may be remembered, those with volatile words first."""
    ranked = sorted(places, key=lambda place: not volatile_words(place))
    kept: list[Place] = []
    words = 0
    for place in ranked[: LIMITS.max_places]:
        words += sum(map(len, place.blocks)) + len(place.common) + len(place.variants)
        if words > LIMITS.max_page_words:
            break
        kept.append(place)
    return tuple(kept)


def _pooled(blocks: Sequence[Words]) -> tuple[tuple[int, ...], ...]:
    """Words that varied often share what pairs of fetches said of any of them: a list varies as a whole.

    A price is edited on its own: of it only its own pairs tell.
    """
    most = max((pairs_of(word) for block in blocks for word in block), default=0)
    if most == 0:
        return tuple(map(tuple, blocks))
    return tuple(
        tuple(
            with_pairs(word, most)
            if varied_of(word) >= LIMITS.pooled
            and pairs_of(word) < most
            and (kind_of(word) != WordKind.MONEY or pairs_of(word))
            else word
            for word in block
        )
        for block in blocks
    )


def _lengths_fit(blocks: Sequence[Words], found: Sequence[Words], same: Sequence[bool]) -> bool:
    """Tells whether blocks that vary as a whole, and differ, are as long as any of them ever was."""
    whole = [block[0] for block in blocks if len(block) == 1 and is_gap(block[0])]
    if len(whole) < 2:
        return True
    fewest, most = min(gap_range(word)[0] for word in whole), max(gap_range(word)[1] for word in whole)
    return all(
        in_range(len(words), fewest, most)
        for block, words, stays in zip(blocks, found, same)
        if len(block) == 1 and is_gap(block[0]) and not stays
    )


def _hashes(blocks: Sequence[Words]) -> tuple[int, ...]:
    """Hashes of the words, sorted; times and counters, which vary by themselves, are left out."""
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
    whole = as_words(differed(gap(min(most, len(words)), max(most, len(words)), known), 0))
    fewest, most_blocks = min(place.fewest, len(found)), max(place.most, len(found))
    return replace(place, blocks=((whole,),), fewest=fewest, most=most_blocks, common=(), still=0)


def _revisited_loose(place: Place, found: Sequence[Words]) -> tuple[Place, bool]:
    count = sum(map(len, found))
    before = place.blocks[0][0]
    expected = in_range(count, *gap_range(before)) and in_range(len(found), place.fewest, place.most)
    after = differed(widened_gap(before, count), 0)
    grown = replace(
        place, blocks=((after,),), fewest=min(place.fewest, len(found)), most=max(place.most, len(found)), still=0
    )
    return grown, expected and is_volatile(after)


def _edited(place: Place, found: Sequence[Words]) -> Place:
    """A place of which the volatile words are known, after blocks were added or lost: the rest keeps its patterns."""
    blocks = place.blocks
    shorter = min(len(blocks), len(found))
    start, stop = _ends_alike(blocks, found, fits_in_length)
    patterns = patterns_of((place,))
    middle = [_with_known_pattern(tuple(words), patterns) for words in found[start : len(found) - stop]]
    if start and start + stop == shorter < len(found) and len(blocks[start - 1]) == 1 and is_gap(blocks[start - 1][0]):
        item = blocks[start - 1]  # one more of a varying list
        middle = [item if fits_in_length(item, words) else words for words in middle]
    kept = tuple(  # should the number differ again at once, it varies
        tuple(edited(word) if is_gap(word) or all(map(is_volatile, block)) else word for word in block)
        for block in (*blocks[:start], *middle, *blocks[len(blocks) - stop :])
    )
    return replace(place, blocks=kept, fewest=len(found), most=len(found), common=(), still=0)


def patterns_of(places: Iterable[Place]) -> Patterns:
    """The blocks of which some words are volatile, by their length and where these are, and then by the others."""
    found: Patterns = {}
    for block in (block for place in places if place.fewest == place.most for block in place.blocks):
        volatile = tuple(at for at, word in enumerate(block) if is_volatile(word))
        if volatile and len(block) - len(volatile) >= LIMITS.like_words and not any(map(is_gap, block)):
            steady = tuple(word & 0xFFFF_FFFF for word in block if not is_volatile(word))
            found.setdefault((len(block), volatile), {})[steady] = block
    return found


def with_known_patterns(place: Place, patterns: Patterns) -> Place:
    """A new place, in which a block that is like others of the page varies where these do: one more of a list."""
    if not patterns:
        return place
    return replace(place, blocks=tuple(_with_known_pattern(block, patterns) for block in place.blocks))


def _with_known_pattern(block: Pattern, patterns: Patterns) -> Pattern:
    for (length, volatile), known in patterns.items():
        if length != len(block):
            continue
        steady = tuple(word & 0xFFFF_FFFF for at, word in enumerate(block) if at not in volatile)
        if (pattern := known.get(steady)) is not None:
            return tuple(like & ~0xFFFF_FFFF | word & 0xFFFF_FFFF for like, word in zip(pattern, block))
    return block


# -- the pattern of one block: its words with what was seen of each, and perhaps a gap --------------------------------


def _gap_at(block: Words) -> int | None:
    return next((at for at, word in enumerate(block) if is_gap(word)), None)


def revisited_block(block: Words, words: Words) -> tuple[tuple[int, ...], bool]:
    """The pattern after a visit, and whether these words fit it as far as its steady words go."""
    hole = _gap_at(block)
    if hole is None and len(block) == len(words):
        return _with_times(tuple(_step(word, now) for word, now in zip(block, words))), True
    if hole is not None:
        before, after = block[:hole], block[hole + 1 :]
        held = len(words) - len(before) - len(after)
        if held >= 0 and _matches(before, words[: len(before)]) and _matches(after, words[len(words) - len(after) :]):
            middle = differed(widened_gap(block[hole], held), 0)
            end = len(words) - len(after)
            return (
                *(_step(word, now) for word, now in zip(before, words)),
                middle,
                *(_step(word, now) for word, now in zip(after, words[end:])),
            ), in_range(held, *gap_range(block[hole]))
        return _regapped(block, hole, words), False
    volatile = [at for at, word in enumerate(block) if is_volatile(word)]
    if any(kind_of(block[at]) == WordKind.WORD for at in volatile):  # a run of words, the number of which varies too
        first, last = volatile[0], volatile[-1] + 1
        run = gap(last - first, last - first, block[first:last])
        return revisited_block((*block[:first], run, *block[last:]), words)[0], False
    if volatile:
        start, stop = _common_ends(block, words, wild=True)
        tail = len(words) - stop
        return (*block[:start], *words[start:tail], *block[len(block) - stop :]), False
    start, stop = _common_ends(block, words, wild=False)
    inside = [*block[start : len(block) - stop], *words[start : len(words) - stop]]
    counts = len(block) - start - stop, len(words) - start - stop
    middle = differed(gap(min(counts), max(counts), inside), 0)
    return (*block[:start], middle, *block[len(block) - stop :]), False


def _with_times(block: tuple[int, ...]) -> tuple[int, ...]:
    """A pattern in which a date that has differed is volatile beside a clock that is."""
    clocks = {at for at, word in enumerate(block) if kind_of(word) == WordKind.TIME and is_volatile(word)}
    if not clocks:
        return block
    return tuple(
        differed(word, word)
        if kind_of(word) == WordKind.TIME and varied_of(word) == 1 and clocks & {at - 2, at - 1, at + 1, at + 2}
        else word
        for at, word in enumerate(block)
    )


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
    middle = differed(widened_gap(block[hole], max(0, len(words) - start - stop)), 0)
    return (*words[:start], edited(middle), *words[len(words) - stop :])


def _shifted(steady: Words, words: Words) -> int:
    """Counts the words before the gap, by the last of them, which an insertion has shifted."""
    if not steady:
        return 0
    for shift in (0, 1, -1, 2, -2, 3, -3):
        at = len(steady) - 1 + shift
        if 0 <= at < len(words) and same_word(words[at], steady[-1]):
            return at + 1
    kept = sum(1 for word, now in zip(steady, words) if same_word(word, now))
    return min(len(steady), len(words)) if kept >= len(steady) - 1 else 0


def _common_ends(block: Words, words: Words, *, wild: bool) -> tuple[int, int]:
    """Counts the words at both ends that are the same; volatile ones may differ where it is `wild`."""

    def same(one: int, other: int) -> bool:
        if wild and is_volatile(one):
            return kind_of(one) == kind_of(other)
        return same_word(one, other) and not varied_of(one)

    return _ends_alike(block, words, same)


def _ends_alike(before: Sequence[T], now: Sequence[T], alike: Callable[[T, T], bool]) -> tuple[int, int]:
    """Counts the entries at the beginning and at the end that are alike in both, none of them twice."""
    shorter = min(len(before), len(now))
    start = stop = 0
    while start < shorter and alike(before[start], now[start]):
        start += 1
    while stop < shorter - start and alike(before[-1 - stop], now[-1 - stop]):
        stop += 1
    return start, stop


def widened_gap(word: int, held: int) -> int:
    """A gap after it held so many words."""
    fewest, most = gap_range(word)
    return word & ~0xFFFF_FFFF | min(fewest, held) | min(max(most, held), 0xFFFF) << 16


def in_range(count: int, fewest: int, most: int) -> bool:
    """Tells whether so many are to be expected by the least and most seen; some more where the number varies."""
    slack = (most - fewest + 1) // 2 if most > fewest else 0
    return fewest - slack <= count <= most + slack


def paired_block(block: Words, words: Words) -> tuple[int, ...]:
    """The pattern after a quick second fetch that found these words."""
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
        differed_in_pair(widened_gap(word, held), differs=True) if at == hole else word for at, word in enumerate(block)
    )


def is_settled(before: Words, after: Words, words: Words) -> bool:
    """Tells whether every word that differs is volatile by now."""
    if _gap_at(after) is None:
        return all(same_word(word, now) or is_volatile(new) for word, now, new in zip(before, words, after))
    hole = _gap_at(after)
    return hole is not None and is_volatile(after[hole])


def varying_part(block: Words, words: Words, varies: Callable[[int], bool | int]) -> Words:
    """Words that stand where the pattern varies."""
    hole = _gap_at(block)
    if hole is not None:
        return words[hole : max(hole, len(words) - (len(block) - hole - 1))] if varies(block[hole]) else ()
    return [now for word, now in zip(block, words) if varies(word)] if len(block) == len(words) else words


def steady_text(block: Words, text: str) -> str:
    """The text of a block, with an ellipsis in place of what is volatile in its pattern."""
    spans = spans_of(text)
    hole = _gap_at(block)
    if hole is not None and is_volatile(block[hole]):
        left, right = hole, len(block) - hole - 1
        start = spans[left - 1][1] if 0 < left <= len(spans) else 0
        end = spans[-right][0] if 0 < right <= len(spans) - left else len(text)
        return f"{text[:start]} … {text[end:]}".strip()
    if hole is not None or len(spans) != len(block):
        return text
    for (start, end), word in reversed(list(zip(spans, block))):
        if is_volatile(word):
            text = f"{text[:start]}…{text[end:]}"
    return text


def fits_in_length(block: Words, words: Words) -> bool:
    """Tells whether these words fit a pattern as far as its steady words go, and are as many as it ever had.

    Times and counters may be known by their block, and be steady words of its pattern.
    """
    hole = _gap_at(block)
    if hole is None:
        return len(block) == len(words) and all(
            same_word(word, now) or is_volatile(word) or (kind_of(word) in SLOW and kind_of(word) == kind_of(now))
            for word, now in zip(block, words)
        )
    before, after = block[:hole], block[hole + 1 :]
    held = len(words) - len(before) - len(after)
    if held < 0 or not in_range(held, *gap_range(block[hole])):
        return False
    return _matches(before, words[: len(before)]) and _matches(after, words[len(words) - len(after) :])
