"""The words of a block as numbers: a hash, what kind of word it is, and what was seen of it over the visits.

A word varies where it differs between visits, and is volatile where it varied so often, and in such a way, that a
difference says nothing about the page. A gap stands for a run of words of which even the number varies.
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from itertools import islice
from zlib import crc32

from crawld.content.change.moments import COUNTED, COUNTER, EXPRESSION, NUMBER, names_a_time

MOST_WORDS = 400
"""The words of a block beyond these are one more word."""


class Kind(IntEnum):
    """What a word is, as far as that says how it may vary."""

    WORD = 0
    NUMBER = 1
    TIME = 2  # a date or a clock
    COUNTER = 3  # "1,234 views"
    MONEY = 4  # a price, which is edited at many visits in a row where goods are traded
    NAME = 5  # a number that names something, as in "version 7" or "a3f9"
    AGE = 6  # "3 hours ago"


_SIGN = r"[$€£¥₹₽₺₩₪¢]"
_CODE = r"(?:EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|CAD|AUD|NZD|BRL|RUB|kr|zł|Kč|euros?|dollars?)\b"
_PLAIN = (
    rf"(?P<money>{_SIGN}\s?(?:{NUMBER})|(?:{NUMBER})\s?(?:{_SIGN}|{_CODE}))"
    rf"|(?P<counter>(?<!\w){COUNTER})"
    rf"|(?P<number>[\w-]{{0,40}}\d[\w-]{{0,200}}(?:[.,:'’\u202f\u00a0]\w{{0,20}}\d\w{{0,20}}){{0,20}})|(?P<word>[^\W\d]+|[^\w\s])"
)
_WORDS, _TIMED_WORDS = (re.compile(text, re.IGNORECASE) for text in (_PLAIN, f"{EXPRESSION}|{_PLAIN}"))
_KINDS = {
    "relative": Kind.AGE, "date": Kind.TIME, "clock": Kind.TIME, "money": Kind.MONEY, "counter": Kind.COUNTER,
    "number": Kind.NUMBER, "word": Kind.WORD,
}  # fmt: skip
_COUNTING = re.compile(rf"(?:{COUNTED}|counter|count|total)\Z", re.IGNORECASE)
_NAMING = frozenset(
    (
        "version", "release", "edition", "revision", "rev", "build", "chapter", "part", "issue", "episode", "volume",
        "section", "step", "article", "page", "number", "nr", "v", "update", "draft", "season", "round",
    )
)  # fmt: skip
_NAMED, _SPAN = re.compile(r"v\d", re.IGNORECASE), re.compile(r"\d{1,4}[smhdw]\Z", re.IGNORECASE)
_UNITS = frozenset(
    ("s", "sec", "second", "seconds", "m", "min", "minute", "minutes", "h", "hour", "hours", "day", "days", "weeks")
)
_PURE = re.compile(r"[\d.,:'’\u202f\u00a0/+-]+[a-zµ]{0,3}\Z", re.IGNORECASE)
_WEEKDAYS = frozenset(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))

# One number for each word: 32 bits of hash, 3 of kind, then counts of what was seen: visits at which it differed (4),
# pairs of quick fetches in which it differed (2), visits in a row at which it did not (4), the longest such row before
# it differed again (4), whether it is a gap (1), and whether the words beside that gap were edited last time (1).
# In place of a hash a gap has the fewest and the most words it held.
_KIND, _VARIED, _PAIRS, _STILL, _CALM, _GAP, _EDITED = 32, 35, 39, 41, 45, 49, 50
MOST_VARIED = MOST_STILL = 15
ENOUGH_PAIRS = 2
_ENOUGH_VISITS: dict[int, int] = {Kind.AGE: 1, Kind.TIME: 2, Kind.COUNTER: 2, Kind.NUMBER: 7}
SLOW = frozenset({Kind.AGE, Kind.TIME, Kind.COUNTER})
"""Kinds that vary by their nature, though perhaps not at every visit."""
_SLOW_PATIENCE, _PATIENCE = 12, 2


def words_of(text: str) -> list[int]:
    """The words of a block, none of which has varied yet."""
    matches = _matches(text)
    found = [(match.group(), _KINDS[match.lastgroup or "word"]) for match in matches[:MOST_WORDS]]
    words = [_hash(word) | _refined(found, at) << _KIND for at, (word, _) in enumerate(found)]
    return [*words, _hash(text[matches[MOST_WORDS].start() :])] if len(matches) > MOST_WORDS else words


def spans_of(text: str) -> list[tuple[int, int]]:
    """Where each of the words of a block begins and ends."""
    spans = [match.span() for match in _matches(text)]
    return [*spans[:MOST_WORDS], (spans[MOST_WORDS][0], len(text))] if len(spans) > MOST_WORDS else spans


def _matches(text: str) -> list[re.Match[str]]:
    """The words as they are found, and one more where there are too many."""
    return list(islice((_TIMED_WORDS if names_a_time(text) else _WORDS).finditer(text), MOST_WORDS + 1))


def _hash(text: str) -> int:
    return crc32(text.encode("utf-8", "replace"))


def _refined(words: Sequence[tuple[str, Kind]], at: int) -> Kind:
    """The kind of a word, in the light of its neighbours."""
    word, kind = words[at]
    if kind is not Kind.NUMBER:
        return Kind.TIME if kind is Kind.WORD and word.lower() in _WEEKDAYS else kind
    before = [other.lower() for other, _ in words[max(0, at - 4) : at] if other not in ":#.=("]
    if _NAMED.match(word) or (before and before[-1] in _NAMING) or (at and words[at - 1][0] == "#"):
        return Kind.NAME if not any(_COUNTING.match(other) for other in before[-2:]) else Kind.COUNTER
    if _SPAN.match(word) or (at + 1 < len(words) and words[at + 1][0].lower() in _UNITS):
        return Kind.TIME
    if _PURE.match(word) is None:
        return Kind.NAME
    around = [*before[-3:], *(other.lower() for other, _ in words[at + 1 : at + 3])]
    return Kind.COUNTER if any(_COUNTING.match(other) for other in around) else kind


def kind_of(word: int) -> int:
    """What kind of word it is."""
    return word >> _KIND & 7


def is_gap(word: int) -> bool:
    """Whether it stands for a run of words."""
    return bool(word >> _GAP & 1)


def gap(fewest: int, most: int, like: Sequence[int]) -> int:
    """A gap that held so few and so many words, with the evidence there is of any of the words it replaces."""
    numbers = all(kind_of(word) in _ENOUGH_VISITS for word in like) and bool(like)
    kind = min((kind_of(word) for word in like), default=Kind.WORD) if numbers else Kind.WORD
    varied, pairs, calm = (
        max((field(word) for word in like), default=0) for field in (varied_of, pairs_of, lambda w: w >> _CALM & 15)
    )
    bounds = min(fewest, 0xFFFF) | min(most, 0xFFFF) << 16
    return bounds | kind << _KIND | varied << _VARIED | pairs << _PAIRS | calm << _CALM | 1 << _GAP


def as_words(word: int) -> int:
    """A gap in which any words may stand."""
    return word & ~(7 << _KIND)


def gap_range(word: int) -> tuple[int, int]:
    """The fewest and the most words a gap held."""
    return word & 0xFFFF, word >> 16 & 0xFFFF


def is_edited(word: int) -> bool:
    """Whether the words beside a gap differed at the last visit."""
    return bool(word >> _EDITED & 1)


def edited(word: int) -> int:
    """A gap beside which words differ."""
    return word | 1 << _EDITED


def varied_of(word: int) -> int:
    """At how many visits it differed."""
    return word >> _VARIED & 15


def pairs_of(word: int) -> int:
    """In how many pairs of quick fetches, each at a visit of its own, it differed."""
    return word >> _PAIRS & 3


def with_pairs(word: int, pairs: int) -> int:
    """The word as if it had differed in so many pairs."""
    return word & ~(3 << _PAIRS) | pairs << _PAIRS


def same_word(one: int, other: int) -> bool:
    """Whether the words are the same, whatever was seen of them."""
    return (one ^ other) & 0xFFFF_FFFF == 0


def is_volatile(word: int) -> bool:
    """Whether a difference in it says nothing.

    Times and counters may differ at every visit by their nature. Of other words that is no proof, since headlines do
    so too: they must also differ between quick fetches, at more than one visit.
    """
    varied = word >> _VARIED & 15
    kind = word >> _KIND & 7
    if not varied:
        return False
    return varied >= _ENOUGH_VISITS.get(kind, MOST_VARIED + 1) or pairs_of(word) >= ENOUGH_PAIRS


def differed(word: int, now: int) -> int:
    """The word after a visit at which another one stood in its place."""
    kind = kind_of(word) if is_gap(word) else _worse(kind_of(word), kind_of(now))
    varied = min(varied_of(word) + 1, MOST_VARIED)
    calm = max(word >> _CALM & 15, word >> _STILL & 15)
    held = word & 0xFFFF_FFFF | 1 << _GAP if is_gap(word) else now & 0xFFFF_FFFF
    return held | kind << _KIND | varied << _VARIED | pairs_of(word) << _PAIRS | calm << _CALM


def stayed(word: int) -> int:
    """The word after a visit at which it stood in its place: what stops varying is forgotten."""
    word &= ~(1 << _EDITED)
    if not varied_of(word) and not pairs_of(word):
        return word
    still, calm = (word >> _STILL & 15) + 1, word >> _CALM & 15
    kind = Kind(kind_of(word))
    fleeting = not is_volatile(word) and kind in {Kind.NUMBER, Kind.NAME}  # only a row of differences tells of these
    # What differed in a pair of fetches may rest: when it differs again, a pair tells what it is.
    slow = _SLOW_PATIENCE if kind in SLOW else _PATIENCE
    paired = pairs_of(word) and varied_of(word)
    patience = MOST_STILL if is_volatile(word) or paired else slow + 3 * calm
    if still > min(patience, MOST_STILL - 1) or (fleeting and not pairs_of(word)):
        return word & ~(0x3FFF << _VARIED) | calm << _CALM
    return word & ~(15 << _STILL) | still << _STILL


def differed_in_pair(word: int, *, differs: bool) -> int:
    """The word after a quick second fetch."""
    pairs = min(pairs_of(word) + 1, 3) if differs else (pairs_of(word) if pairs_of(word) != 1 else 0)
    return word & ~(3 << _PAIRS) | pairs << _PAIRS


def rest_of(word: int) -> int:
    """At how many visits in a row it has not differed."""
    return word >> _STILL & 15


def needs_proof(word: int) -> bool:
    """Whether it is volatile by what was seen of it, and not by its nature as times and counters are."""
    return is_volatile(word) and kind_of(word) not in SLOW


def disproved(word: int, *, wholly: bool) -> int:
    """A volatile word after a pair of fetches that agreed: one more pair must prove it again, or all of it anew."""
    if not needs_proof(word):
        return word
    if wholly or not pairs_of(word):
        return word & ~(0x3FFF << _VARIED)
    return with_pairs(word & ~(15 << _VARIED) | 1 << _VARIED, 1)


def _worse(one: int, other: int) -> int:
    """The kind of a place that held both."""
    if one == other:
        return one
    if Kind.MONEY in {one, other}:
        return Kind.MONEY
    if {one, other} <= SLOW:
        return Kind.TIME
    if {one, other} == {Kind.NUMBER, Kind.COUNTER}:
        return Kind.COUNTER
    return Kind.WORD if Kind.WORD in {one, other} else Kind.NUMBER
