"""Blocks of which nothing but times and counters differs from visit to visit, known by the rest of their text.

What is learnt of such a block stays with it wherever it stands on the page: an edit beside it takes nothing away. Each
is one number: 48 bits of hash, how often the block differed (4), and for how many visits in a row it did not (8).
"""

from collections import deque
from collections.abc import Container, Iterator, Sequence

from crawld.model.crawl import Digest
from crawld.read.change.moments import consistent

MAX_VARYING = 256
ENOUGH = 2
"""After so many differences a block is known to vary."""
MAX_REST = 60
"""Visits without a difference after which it is ordinary text again."""
_KEY = (1 << 48) - 1


def key_of(number: int) -> int:
    """A block without its times and counters, as it is remembered."""
    return number >> 8 & _KEY


def keys_of(varying: Sequence[int]) -> set[int]:
    """All blocks that differed lately."""
    return {one & _KEY for one in varying}


def known_keys(varying: Sequence[int]) -> set[int]:
    """The blocks that differed so often that they are known to vary."""
    return {one & _KEY for one in varying if one >> 48 & 15 >= ENOUGH}


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
    """What is remembered after a visit, those that differ most often first."""
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
    kept = sorted((key for key in counts if rests[key] <= MAX_REST), key=lambda key: (-counts[key], key))
    return tuple(key | counts[key] << 48 | rests[key] << 52 for key in kept[:MAX_VARYING])


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
