"""One block whose words vary: its pattern, which is its words with what was seen of each, and perhaps a gap."""

from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass

from crawld.model.crawl import Digest
from crawld.read.change.moments import consistent
from crawld.read.change.words import (
    SLOW,
    WordKind,
    differed,
    differed_in_pair,
    edited,
    gap,
    gap_range,
    is_edited,
    is_gap,
    is_volatile,
    kind_of,
    same_word,
    spans_of,
    stayed,
    varied_of,
)


@dataclass(frozen=True)
class VaryingLimits:
    """Numbers that bound and tune this module."""

    max_varying: int = 256
    enough: int = 2
    """After so many differences a block is known to vary."""
    max_rest: int = 60
    """Visits without a difference after which it is ordinary text again."""


LIMITS = VaryingLimits()


_KEY = (1 << 48) - 1


def key_of(number: int) -> int:
    """A block without its times and counters, as it is remembered."""
    return number >> 8 & _KEY


def keys_of(varying: Sequence[int]) -> set[int]:
    """All blocks that differed lately."""
    return {one & _KEY for one in varying}


def known_keys(varying: Sequence[int]) -> set[int]:
    """The blocks that differed so often that they are known to vary."""
    return {one & _KEY for one in varying if one >> 48 & 15 >= LIMITS.enough}


def canonical(digest: Digest, keys: Container[int]) -> tuple[int, ...]:
    """The blocks of a version, where those that vary count without their times and counters."""
    found = [(index, number) for index, number, _ in digest.times if key_of(number) in keys]
    if not found:
        return digest.blocks
    blocks = list(digest.blocks)
    for index, number in found:
        blocks[index] = number
    return tuple(blocks)


def timely_blocks(known: Digest, seen: Digest, elapsed: float) -> tuple[int, ...]:
    """The blocks seen, where those whose expressions of time only moved with time count as those known."""
    if not known.times or not seen.times:
        return seen.blocks
    blocks = list(seen.blocks)
    for (before, old), (index, moments), _ in _pairs(known, seen):
        if consistent(old, moments, elapsed):
            blocks[index] = known.blocks[before]
    return tuple(blocks)


def _pairs(known: Digest, seen: Digest) -> list[tuple[tuple[int, tuple[int, ...]], tuple[int, tuple[int, ...]], int]]:
    """Blocks of both versions that are the same but for their times and counters, in order."""
    waiting: dict[int, deque[tuple[int, tuple[int, ...]]]] = {}
    for index, number, moments in known.times:
        waiting.setdefault(number, deque()).append((index, moments))
    found = []
    for index, number, moments in seen.times:
        if queue := waiting.get(number):
            found.append((queue.popleft(), (index, moments), number))
    return found


def learnt_counts(varying: Sequence[int], known: Digest, seen: Digest, elapsed: float) -> tuple[int, ...]:
    """Counts to remember after a visit, those that differ most often first."""
    if not varying and not (known.times and seen.times):
        return ()
    differing = {
        key_of(number)
        for (_, old), (_, moments), number in _pairs(known, seen)
        if len(old) == len(moments) and not consistent(old, moments, elapsed)
    }
    counts, rests = {}, {}
    for one in varying:
        key = one & _KEY
        counts[key], rests[key] = one >> 48 & 15, (one >> 52 & 255) + 1
    for key in differing:
        counts[key], rests[key] = min(counts.get(key, 0) + 1, 15), 0
    for before, after in _edited(known, seen):
        if (count := counts.get(before, 0)) > counts.get(after, 0):
            counts[after], rests[after] = count, 0
    kept = sorted((key for key in counts if rests[key] <= LIMITS.max_rest), key=lambda key: (-counts[key], key))
    return tuple(key | counts[key] << 48 | rests[key] << 52 for key in kept[: LIMITS.max_varying])


def _edited(known: Digest, seen: Digest) -> Iterator[tuple[int, int]]:
    """Blocks whose words were edited beside their times and counters: what is known of these stays."""
    old, new = {number for _, number, _ in known.times}, {number for _, number, _ in seen.times}
    if old == new:
        return
    gone = [(tuple(one & 7 for one in moments), number) for _, number, moments in known.times if number not in new]
    for _, number, moments in seen.times:
        kinds = tuple(one & 7 for one in moments)
        if number not in old and (before := next((one for one in gone if one[0] == kinds), None)) is not None:
            gone.remove(before)
            yield key_of(before[1]), key_of(number)


Words = Sequence[int]


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

    shorter = min(len(block), len(words))
    start = 0
    while start < shorter and same(block[start], words[start]):
        start += 1
    stop = 0
    while stop < shorter - start and same(block[-1 - stop], words[-1 - stop]):
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
