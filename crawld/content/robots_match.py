"""Whether the rules of one robots.txt group allow a URL: RFC 9309 section 2.2.2, with bounded work per URL.

The longest pattern that matches decides, and Allow wins a tie. Rules without a wildcard inside are found by looking up
the beginnings of the URL, so their number hardly matters; only rules with a wildcard are tried one by one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

MOST_STEPS = 10_000_000
"""Characters of wildcard patterns times characters of a URL. Beyond it the URL is not allowed: better than a guess."""

Key = TypeVar("Key")
Verdict = tuple[int, bool]  # the weight of a match, and whether it allows: the greatest decides
_NO_MATCH: Verdict = (0, True)
_PLAIN = re.compile(r"[A-Za-z0-9_.~/?&=-]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNSAFE = re.compile(r"%(?![0-9A-F]{2})|[^A-Za-z0-9_.~/?&=%-]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PATH = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://[^/?#]*)?([^#]*)")
_INDEX = re.compile(r"(.*/)index\.html?[^/]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """One Allow or Disallow line with its pattern as written."""

    allow: bool
    pattern: str


@dataclass(frozen=True, slots=True)
class _Wildcard:
    """A pattern with a `*` inside: its pieces must follow one another in the URL."""

    weight: int
    allow: bool
    pieces: tuple[str, ...]
    anchored: bool  # the last piece must end the URL

    def matches(self, path: str) -> bool:
        if not path.startswith(self.pieces[0]):
            return False
        at = len(self.pieces[0])
        for piece in self.pieces[1:-1]:
            found = path.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        last = self.pieces[-1]
        if self.anchored:
            return len(path) - len(last) >= at and path.endswith(last)
        return path.find(last, at) >= 0


class RuleMatcher:
    """The rules of one group, ready to be asked about URLs."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._prefixes: dict[str, Verdict] = {}
        self._whole: dict[str, Verdict] = {}  # patterns that end with `$`
        wildcards: dict[tuple[tuple[str, ...], bool], Verdict] = {}
        for rule in rules:
            self._add(rule, wildcards)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})
        self._wildcards = sorted(
            (_Wildcard(weight, allow, *key) for key, (weight, allow) in wildcards.items()),
            key=lambda wildcard: (wildcard.weight, wildcard.allow),
            reverse=True,
        )
        self._characters = sum(sum(map(len, pieces)) + len(pieces) for pieces, _ in wildcards)

    def allows(self, url: str) -> bool:
        """Whether the URL may be asked for."""
        path = path_of(url)
        if path == "/robots.txt":
            return True
        forms = _forms(path)
        if self._characters * len(forms[0]) > MOST_STEPS:
            return False
        return max(self._verdict(form) for form in forms)[1]

    def _verdict(self, path: str) -> Verdict:
        best = max(_NO_MATCH, self._whole.get(path, _NO_MATCH))
        for length in self._lengths:
            if length > len(path):
                break
            best = max(best, self._prefixes.get(path[:length], _NO_MATCH))
        for wildcard in self._wildcards:  # the greatest first
            if (wildcard.weight, wildcard.allow) <= best:
                break
            if wildcard.matches(path):
                return wildcard.weight, wildcard.allow
        return best

    def _add(self, rule: Rule, wildcards: dict[tuple[tuple[str, ...], bool], Verdict]) -> None:
        weight = len(_decoded(rule.pattern))
        if not weight:
            return  # an empty pattern matches nothing
        anchored = rule.pattern.endswith("$")
        verdict = (weight, rule.allow)
        for form in _forms(rule.pattern[:-1] if anchored else rule.pattern, wildcard=True):
            pieces = tuple(re.split(r"\*+", form))
            if len(pieces) == 1:
                _keep(self._whole if anchored else self._prefixes, form, verdict)
            elif len(pieces) == 2 and not pieces[1]:
                _keep(self._prefixes, pieces[0], verdict)  # `/a*` and `/a*$` match what `/a` matches
            else:
                _keep(wildcards, (pieces, anchored), verdict)
        if rule.allow and (index := _INDEX.fullmatch(rule.pattern)):
            self._add(Rule(True, f"{index[1]}$"), wildcards)  # the index page of a directory means the directory


def path_of(url: str) -> str:
    """Path and query of a URL, without its fragment."""
    match = _PATH.match(url)
    path = match[1] if match else ""
    return path if path.startswith("/") else f"/{path}"


def _keep(table: dict[Key, Verdict], key: Key, verdict: Verdict) -> None:
    table[key] = max(verdict, table.get(key, verdict))


def _decoded(text: str) -> str:
    """The text with octets beyond ASCII escaped, and escapes of unreserved characters decoded."""
    if not text.isascii():
        text = _BEYOND_ASCII.sub(lambda odd: _escaped(odd[0]), text)
    return _ESCAPE.sub(_respelt, text) if "%" in text else text


def _respelt(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def _escaped(character: str) -> str:
    """Every octet as an escape; one that was not UTF-8 came as a lone surrogate."""
    raw = character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "replace")
    return "".join(f"%{octet:02X}" for octet in raw)


def _forms(text: str, *, wildcard: bool = False) -> tuple[str, ...]:
    """The spellings of a path or pattern under which it is compared: one, rarely two.

    Reserved characters are escaped, but for those that divide a URL: an escaped slash is no slash. In a query they
    divide nothing, and `?to=https://a` is `?to=https%3A%2F%2Fa`, so a query with an escaped slash has both spellings.
    """
    if _PLAIN.fullmatch(text):
        return (text,)
    text = _UNSAFE.sub(lambda odd: "*" if wildcard and odd[0] == "*" else _escaped(odd[0]), _decoded(text))
    path, mark, query = text.partition("?")
    return (text, f"{path}?{query.replace('%2F', '/')}") if mark and "%2F" in query else (text,)
