"""The words of a block as numbers: a hash, what kind of word it is, and what was seen of it over the visits.

A word varies where it differs between visits, and is volatile where it varied so often, and in such a way, that a
difference says nothing about the page. A gap stands for a run of words of which even the number varies.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import ClassVar, NamedTuple
from zlib import crc32

from crawld.read.change.moments import TimeGrammar, names_a_time


@dataclass(frozen=True)
class WordsLimits:
    """Numbers that bound and tune this module."""

    max_words: int = 400
    """The words of a block beyond these are one more word."""
    # One number for each word: 32 bits of hash, 3 of kind, then counts of what was seen: visits at which it differed
    # (4), pairs of quick fetches in which it differed (2), visits in a row at which it did not (4), the longest such
    # row before it differed again (4), whether it is a gap (1), and whether the words beside that gap were edited
    # last time (1). In place of a hash a gap has the fewest and the most words it held.
    kind: int = 32
    varied: int = 35
    pairs: int = 39
    still: int = 41
    calm: int = 45
    gap: int = 49
    edited: int = 50
    enough_pairs: int = 2
    slow_patience: int = 12
    patience: int = 2
    max_varied: int = 15
    max_still: int = 15
    """Counts of visits end here: they have four bits each."""


LIMITS = WordsLimits()


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
    whole = _trimmed(old, new, Hunk(0, len(old), 0, len(new)))
    old_at, old_end, new_at, new_end = whole
    if set(old[old_at:old_end]).isdisjoint(new[new_at:new_end]):  # one text in place of another
        return [whole] if old_at < old_end or new_at < new_end else []
    for old_next, new_next in (*_anchors(old, new, whole), (old_end, new_end)):
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
    """Indices of the blocks that occur once."""
    counts = Counter(blocks)
    return {block: at for at, block in enumerate(blocks) if counts[block] == 1}


def _trimmed(old: Sequence[int], new: Sequence[int], hunk: Hunk) -> Hunk:
    old_from, old_to, new_from, new_to = hunk
    while old_from < old_to and new_from < new_to and old[old_from] == new[new_from]:
        old_from, new_from = old_from + 1, new_from + 1
    while old_from < old_to and new_from < new_to and old[old_to - 1] == new[new_to - 1]:
        old_to, new_to = old_to - 1, new_to - 1
    return Hunk(old_from, old_to, new_from, new_to)


def _anchors(old: Sequence[int], new: Sequence[int], within: Hunk) -> Iterator[tuple[int, int]]:
    """The longest run of pairs of equal blocks, single in the hunk, that rises on both sides."""
    where = singles(new[within.new_from : within.new_to])
    before = singles(old[within.old_from : within.old_to])
    pairs = [(within.old_from + at, within.new_from + where[block]) for block, at in before.items() if block in where]
    ends: list[int] = []  # the place in `new` at which the best run of each length ends
    last: list[int] = []  # and the pair that ends it
    previous: list[int] = [-1] * len(pairs)
    for index, (_, new_at) in enumerate(pairs):
        length = bisect_left(ends, new_at)
        previous[index] = last[length - 1] if length else -1
        if length < len(ends):
            ends[length], last[length] = new_at, index
        else:
            ends.append(new_at)
            last.append(index)
    chain: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        chain.append(pairs[at])
        at = previous[at]
    return reversed(chain)


class WordKind(IntEnum):
    """Kinds of words, by how they may vary."""

    WORD = 0
    NUMBER = 1
    TIME = 2  # a date or a clock
    COUNTER = 3  # "1,234 views"
    MONEY = 4  # a price, which is edited at many visits in a row where goods are traded
    NAME = 5  # a number that names something, as in "version 7" or "a3f9"
    AGE = 6  # "3 hours ago"


class WordGrammar:
    """Patterns of words and the vocabulary by which their kinds are told."""

    currency_sign = r"[$€£¥₹₽₺₩₪¢]"
    currency_code = (
        r"(?:EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|CAD|AUD|NZD|BRL|RUB|kr|zł|Kč|euros?|dollars?)\b"
    )
    plain = (
        rf"(?P<money>{currency_sign}\s?(?:{TimeGrammar.number})|(?:{TimeGrammar.number})\s?(?:{currency_sign}|{currency_code}))"
        rf"|(?P<counter>(?<!\w){TimeGrammar.counter})"
        rf"|(?P<number>(?!(?<=\d)T\d\d:)[\w-]{{0,40}}\d[\w-]{{0,200}}(?:[.,:'’\u202f\u00a0]\w{{0,20}}\d\w{{0,20}}){{0,20}})|(?P<word>[^\W\d]+|[^\w\s])"
    )
    words, timed_words = (re.compile(text, re.IGNORECASE) for text in (plain, f"{TimeGrammar.expression}|{plain}"))
    kinds: ClassVar[dict[str, WordKind]] = {
        "relative": WordKind.AGE, "date": WordKind.TIME, "clock": WordKind.TIME, "money": WordKind.MONEY,
        "counter": WordKind.COUNTER, "number": WordKind.NUMBER, "word": WordKind.WORD,
    }  # fmt: skip
    counting = re.compile(rf"(?:{TimeGrammar.counted}|counter|count|total)\Z", re.IGNORECASE)
    naming = frozenset(
        (
            "version", "release", "edition", "revision", "rev", "build", "chapter", "part", "issue", "episode",
            "volume", "section", "step", "article", "page", "number", "nr", "v", "update", "draft", "season", "round",
        )
    )  # fmt: skip
    named, span = re.compile(r"v\d", re.IGNORECASE), re.compile(r"\d{1,4}[smhdw]\Z", re.IGNORECASE)
    units = frozenset(
        ("s", "sec", "second", "seconds", "m", "min", "minute", "minutes", "h", "hour", "hours", "day", "days", "weeks")
    )
    pure_number = re.compile(r"[\d.,:'’\u202f\u00a0/+-]+[a-zµ]{0,3}\Z", re.IGNORECASE)
    weekdays = frozenset(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))


_ENOUGH_VISITS: dict[int, int] = {WordKind.AGE: 1, WordKind.TIME: 2, WordKind.COUNTER: 2, WordKind.NUMBER: 7}
SLOW = frozenset({WordKind.AGE, WordKind.TIME, WordKind.COUNTER})
"""Kinds that vary by their nature, though perhaps not at every visit."""


def words_of(text: str) -> list[int]:
    """The words of a block, none of which has varied yet."""
    matches = _matches(text)
    found = [(match.group(), WordGrammar.kinds[match.lastgroup or "word"]) for match in matches[: LIMITS.max_words]]
    words = [_hash(word) | _refined(found, at) << LIMITS.kind for at, (word, _) in enumerate(found)]
    return [*words, _hash(text[matches[LIMITS.max_words].start() :])] if len(matches) > LIMITS.max_words else words


def spans_of(text: str) -> list[tuple[int, int]]:
    """Start and end of each word of a block."""
    spans = [match.span() for match in _matches(text)]
    return (
        [*spans[: LIMITS.max_words], (spans[LIMITS.max_words][0], len(text))]
        if len(spans) > LIMITS.max_words
        else spans
    )


def _matches(text: str) -> list[re.Match[str]]:
    """The words as they are found, and one more where there are too many."""
    return list(
        islice(
            (WordGrammar.timed_words if names_a_time(text) else WordGrammar.words).finditer(text), LIMITS.max_words + 1
        )
    )


def _hash(text: str) -> int:
    return crc32(text.encode("utf-8", "replace"))


def _refined(words: Sequence[tuple[str, WordKind]], at: int) -> WordKind:
    """Refines the kind of a word by its neighbours."""
    word, kind = words[at]
    if kind is not WordKind.NUMBER:
        return WordKind.TIME if kind is WordKind.WORD and word.lower() in WordGrammar.weekdays else kind
    before = [other.lower() for other, _ in words[max(0, at - 4) : at] if other not in ":#.=("]
    if (
        WordGrammar.named.match(word)
        or (before and before[-1] in WordGrammar.naming)
        or (at and words[at - 1][0] == "#")
    ):
        return (
            WordKind.NAME if not any(WordGrammar.counting.match(other) for other in before[-2:]) else WordKind.COUNTER
        )
    if WordGrammar.span.match(word) or (at + 1 < len(words) and words[at + 1][0].lower() in WordGrammar.units):
        return WordKind.TIME
    if WordGrammar.pure_number.match(word) is None:
        return WordKind.NAME
    around = [*before[-3:], *(other.lower() for other, _ in words[at + 1 : at + 3])]
    return WordKind.COUNTER if any(WordGrammar.counting.match(other) for other in around) else kind


def kind_of(word: int) -> int:
    """Kind of a word."""
    return word >> LIMITS.kind & 7


def is_gap(word: int) -> bool:
    """Tells whether it stands for a run of words."""
    return bool(word >> LIMITS.gap & 1)


def gap(fewest: int, most: int, like: Sequence[int]) -> int:
    """A gap that held so few and so many words, with the evidence there is of any of the words it replaces."""
    numbers = all(kind_of(word) in _ENOUGH_VISITS for word in like) and bool(like)
    kind = min((kind_of(word) for word in like), default=WordKind.WORD) if numbers else WordKind.WORD
    varied, pairs, calm = (
        max((field(word) for word in like), default=0)
        for field in (varied_of, pairs_of, lambda w: w >> LIMITS.calm & 15)
    )
    bounds = min(fewest, 0xFFFF) | min(most, 0xFFFF) << 16
    return (
        bounds
        | kind << LIMITS.kind
        | varied << LIMITS.varied
        | pairs << LIMITS.pairs
        | calm << LIMITS.calm
        | 1 << LIMITS.gap
    )


def as_words(word: int) -> int:
    """A gap in which any words may stand."""
    return word & ~(7 << LIMITS.kind)


def gap_range(word: int) -> tuple[int, int]:
    """The fewest and the most words a gap held."""
    return word & 0xFFFF, word >> 16 & 0xFFFF


def is_edited(word: int) -> bool:
    """Tells whether the words beside a gap differed at the last visit."""
    return bool(word >> LIMITS.edited & 1)


def edited(word: int) -> int:
    """A gap beside which words differ."""
    return word | 1 << LIMITS.edited


def varied_of(word: int) -> int:
    """At how many visits it differed."""
    return word >> LIMITS.varied & 15


def pairs_of(word: int) -> int:
    """In how many pairs of quick fetches, each at a visit of its own, it differed."""
    return word >> LIMITS.pairs & 3


def with_pairs(word: int, pairs: int) -> int:
    """The word as if it had differed in so many pairs."""
    return word & ~(3 << LIMITS.pairs) | pairs << LIMITS.pairs


def same_word(one: int, other: int) -> bool:
    """Tells whether the words are the same, whatever was seen of them."""
    return (one ^ other) & 0xFFFF_FFFF == 0


def is_volatile(word: int) -> bool:
    """Tells whether a difference in it says nothing.

    Times and counters may differ at every visit by their nature. Of other words that is no proof, since headlines do
    so too: they must also differ between quick fetches, at more than one visit.
    """
    varied = word >> LIMITS.varied & 15
    kind = word >> LIMITS.kind & 7
    if not varied:
        return False
    return varied >= _ENOUGH_VISITS.get(kind, LIMITS.max_varied + 1) or pairs_of(word) >= LIMITS.enough_pairs


def differed(word: int, now: int) -> int:
    """The word after a visit at which another one stood in its place."""
    kind = kind_of(word) if is_gap(word) else _worse(kind_of(word), kind_of(now))
    varied = min(varied_of(word) + 1, LIMITS.max_varied)
    calm = max(word >> LIMITS.calm & 15, word >> LIMITS.still & 15)
    held = word & 0xFFFF_FFFF | 1 << LIMITS.gap if is_gap(word) else now & 0xFFFF_FFFF
    return held | kind << LIMITS.kind | varied << LIMITS.varied | pairs_of(word) << LIMITS.pairs | calm << LIMITS.calm


def stayed(word: int) -> int:
    """The word after a visit at which it stood in its place: what stops varying is forgotten."""
    word &= ~(1 << LIMITS.edited)
    if not varied_of(word) and not pairs_of(word):
        return word
    still, calm = (word >> LIMITS.still & 15) + 1, word >> LIMITS.calm & 15
    kind = WordKind(kind_of(word))
    fleeting = not is_volatile(word) and kind in {
        WordKind.NUMBER,
        WordKind.NAME,
    }  # only a row of differences tells of these
    # What differed in a pair of fetches may rest: when it differs again, a pair tells what it is.
    slow = LIMITS.slow_patience if kind in SLOW else LIMITS.patience
    paired = pairs_of(word) and varied_of(word)
    patience = LIMITS.max_still if is_volatile(word) or paired else slow + 3 * calm
    if still > min(patience, LIMITS.max_still - 1) or (fleeting and not pairs_of(word)):
        return word & ~(0x3FFF << LIMITS.varied) | calm << LIMITS.calm
    return word & ~(15 << LIMITS.still) | still << LIMITS.still


def differed_in_pair(word: int, *, differs: bool) -> int:
    """The word after a quick second fetch."""
    pairs = min(pairs_of(word) + 1, 3) if differs else (pairs_of(word) if pairs_of(word) != 1 else 0)
    return word & ~(3 << LIMITS.pairs) | pairs << LIMITS.pairs


def rest_of(word: int) -> int:
    """At how many visits in a row it has not differed."""
    return word >> LIMITS.still & 15


def needs_proof(word: int) -> bool:
    """Tells whether it is volatile by what was seen of it, and not by its nature as times and counters are."""
    return is_volatile(word) and kind_of(word) not in SLOW


def disproved(word: int, *, wholly: bool) -> int:
    """A volatile word after a pair of fetches that agreed: one more pair must prove it again, or all of it anew."""
    if not needs_proof(word):
        return word
    if wholly or not pairs_of(word):
        return word & ~(0x3FFF << LIMITS.varied)
    return with_pairs(word & ~(15 << LIMITS.varied) | 1 << LIMITS.varied, 1)


def _worse(one: int, other: int) -> int:
    """The kind of a place that held both."""
    if one == other:
        return one
    if WordKind.MONEY in {one, other}:
        return WordKind.MONEY
    if {one, other} <= SLOW:
        return WordKind.TIME
    if {one, other} == {WordKind.NUMBER, WordKind.COUNTER}:
        return WordKind.COUNTER
    return WordKind.WORD if WordKind.WORD in {one, other} else WordKind.NUMBER
