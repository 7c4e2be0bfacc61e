"""The rules of one robots.txt group, made ready for quick answers and packed into few bytes.

Whoever packs does all the work that grows with the number of rules; whoever unpacks and asks (robots_match) must not
stop a slot. Patterns without a wildcard inside become a sorted table that is searched by bisection: each entry knows
the longest other entry that it begins with, and the weightiest verdict among all that it begins with.
"""

import re
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from crawld.read.spelling import forms_of, weight_of

FORMAT = 1
"""Of packed rules: those of another format are not read, and their robots.txt is asked for again."""
MOST_WILDCARDS = 1_000
"""Patterns with a wildcard inside that are kept; real files have up to some 200. With more, everything is forbidden."""
MOST_WILDCARD_CHARACTERS = 64 * 1024
"""Of all these patterns together; real files have up to some 5,000. With more, everything is forbidden."""
LARGEST_UNPACKED = 1 << 20
"""Bytes that packed rules unpack to, in a millisecond or two; real files need some 200 KB. With more, everything is
forbidden."""

Key = TypeVar("Key")
Verdict = tuple[int, bool]  # the weight of a match, and whether it allows: the greatest decides
HEADER = struct.Struct("<B?IIIII")  # format, forbidden; number and bytes of prefixes and of whole patterns; wildcards
_EVERYTHING_FORBIDDEN = zlib.compress(HEADER.pack(FORMAT, True, 0, 0, 0, 0, 0))
_STARS = re.compile(r"\*+")
Wildcards = dict[tuple[str, bool], Verdict]  # by pattern, and whether it must match to the end


@dataclass(frozen=True, slots=True)
class Rule:
    """One Allow or Disallow line with its pattern as written."""

    allow: bool
    pattern: str


def pack_rules(rules: Iterable[Rule]) -> bytes | None:
    """The rules in the form that `RuleMatcher` reads; None where there are none."""
    prefixes: dict[str, Verdict] = {}
    whole: dict[str, Verdict] = {}
    wildcards: Wildcards = {}
    for rule in dict.fromkeys(rules):
        _add(rule, prefixes, whole, wildcards)
    if not (prefixes or whole or wildcards):
        return None
    characters = sum(len(pattern) for pattern, _ in wildcards)
    if len(wildcards) > MOST_WILDCARDS or characters > MOST_WILDCARD_CHARACTERS:
        return _EVERYTHING_FORBIDDEN
    unpacked = _laid_out(prefixes, whole, wildcards)
    return zlib.compress(unpacked) if len(unpacked) <= LARGEST_UNPACKED else _EVERYTHING_FORBIDDEN


def _add(rule: Rule, prefixes: dict[str, Verdict], whole: dict[str, Verdict], wildcards: Wildcards) -> None:
    weight = weight_of(rule.pattern)
    if not weight:
        return  # an empty pattern matches nothing
    anchored = rule.pattern.endswith("$")
    verdict = (weight, rule.allow)
    for form in forms_of(rule.pattern[:-1] if anchored else rule.pattern, pattern=True):
        form = _STARS.sub("*", form)  # noqa: PLW2901 - several mean what one means
        literal = form.rstrip("*")
        if "*" in literal:
            # `/*a*` and `/*a*$` match what `/*a` matches.
            _keep(wildcards, (literal, anchored and literal == form), verdict)
        elif anchored and literal == form:
            _keep(whole, form, verdict)
        else:
            _keep(prefixes, literal, verdict)  # `/a*` and `/a*$` match what `/a` matches
    if rule.allow and (index := _directory_of_index(rule.pattern)) is not None:
        _add(Rule(True, f"{index}$"), prefixes, whole, wildcards)


def _directory_of_index(pattern: str) -> str | None:
    """The directory of an index page: a rule that allows the one allows the other."""
    directory, slash, page = pattern.rpartition("/")
    return directory + slash if slash and page.startswith("index.htm") else None


def _keep(table: dict[Key, Verdict], key: Key, verdict: Verdict) -> None:
    table[key] = max(verdict, table.get(key, verdict))


def _laid_out(prefixes: dict[str, Verdict], whole: dict[str, Verdict], wildcards: Wildcards) -> bytes:
    greatest_first = sorted(wildcards.items(), key=lambda item: (item[1], item[0]), reverse=True)
    lines = [f"{number_of(verdict)} {'$' if end else '-'}{text}" for (text, end), verdict in greatest_first]
    tried = "\n".join(lines).encode("ascii")
    tables = [_table(prefixes), _table(whole, nested=False)]
    sizes = [size for count, blob, _ in tables for size in (count, len(blob))]
    header = HEADER.pack(FORMAT, False, *sizes, len(tried))
    return b"".join([header, *(part for _, blob, numbers in tables for part in (numbers, blob)), tried])


def _table(patterns: dict[str, Verdict], *, nested: bool = True) -> tuple[int, bytes, bytes]:
    """How many patterns there are, their text, and where each ends with its parent and verdict.

    Where they are `nested`, what begins with a pattern is subject to it.
    """
    ordered = sorted(patterns)
    verdicts = [number_of(patterns[pattern]) for pattern in ordered]
    parents, best = array("I", bytes(4 * len(ordered))), array("I", verdicts)
    if nested:
        parents, best = _parents(ordered, verdicts)
    ends = array("I", accumulate(map(len, ordered)))
    numbers = b"".join(little_endian(column).tobytes() for column in (ends, parents, best))
    return len(ordered), "".join(ordered).encode("ascii"), numbers


def _parents(ordered: Sequence[str], verdicts: Sequence[int]) -> tuple["array[int]", "array[int]"]:
    """Of each pattern: one more than the index of the longest other it begins with, and their greatest verdict."""
    parents, best = array("I"), array("I")
    open_: list[int] = []  # those that the current one may begin with, shortest first
    for at, pattern in enumerate(ordered):
        while open_ and not pattern.startswith(ordered[open_[-1]]):
            open_.pop()
        parents.append(open_[-1] + 1 if open_ else 0)
        best.append(max(verdicts[at], best[open_[-1]] if open_ else 0))
        open_.append(at)
    return parents, best


def number_of(verdict: Verdict) -> int:
    """A verdict as a number of the same order."""
    return 2 * verdict[0] + verdict[1]


def little_endian(table: "array[int]") -> "array[int]":
    """The table as it is stored, or back: the database may move to another machine."""
    if sys.byteorder == "big":
        table.byteswap()
    return table
