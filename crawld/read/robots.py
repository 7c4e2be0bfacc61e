"""robots.txt: the rules for one crawler, packed, and whether they allow a URL (RFC 9309).

The longest pattern that matches decides, and Allow wins a tie. Rules without a wildcard inside are found by bisection,
so their number hardly matters; only rules with a wildcard are tried one by one, the weightiest first, and their work
is metered. The bounds hold for whatever rules and URLs there are: a verdict is asked for on the event loop.
"""

import codecs
import json
import re
import struct
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from string import hexdigits
from typing import ClassVar, TypeVar
from urllib.parse import quote, quote_from_bytes

from crawld.model.errors import ParseError
from crawld.model.fetched import RobotsReading
from crawld.model.usage import SaidIn, Statement
from crawld.read.listing import locate


@dataclass(frozen=True)
class RobotsLimits:
    """Numbers that bound and tune this module."""

    format: int = 1
    """Of packed rules: those of another format are not read, and their robots.txt is asked for again."""
    max_wildcards: int = 1_000
    """Patterns with a wildcard inside that are kept; real files have up to some 200. With more, everything is
    forbidden."""
    max_wildcard_characters: int = 64 * 1024
    """Of all these patterns together; real files have up to some 5,000. With more, everything is forbidden."""
    max_steps: int = 1_500_000
    """Work of wildcards on one URL, about a nanosecond each at worst. A URL that takes more is forbidden, not
    guessed."""
    steps_per_piece: int = 300
    """Cost of trying a piece of a pattern, however short it is."""
    max_path: int = 24_000
    """Characters of path and query, escaped, that are looked at; three times the longest URL. A longer one is
    forbidden."""
    allowed: int = 1  # the number of the verdict where nothing matches
    max_robots: int = 500 * 1024
    """Bytes of a file that are read; the RFC asks for at least that many."""
    max_line: int = 2083 * 8 - 1
    """Bytes of a line that are read, as in Google's parser."""
    max_sitemaps: int = 1_000
    """Different Sitemap lines that are looked at; what else there is of them is passed over. Real files have up to
    100."""
    max_sitemap_characters: int = 128 * 1024
    """Of those lines together: the URL parser can take a thousand times as long for a strange URL as for a plain
    one."""
    max_unpacked: int = 1 << 20
    """Bytes that packed rules unpack to, in a millisecond or two; real files need some 200 KB. With more, everything is
    forbidden."""
    max_usages: int = 20
    max_usage_characters: int = 300
    """Lines of each kind that say what pages may be used for, and characters of each."""


LIMITS = RobotsLimits()


class _Spelling:
    """Patterns of the spellings under which a URL and a rule are compared: RFC 9309 section 2.2.2."""

    plain = re.compile(r"[A-Za-z0-9_.~/?&=-]*")
    beyond_ascii = re.compile(r"[^\x00-\x7f]+")
    path = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://[^/?#]*)?([^#]*)")
    escapes: ClassVar[dict[str, str]] = {
        high + low: quote_from_bytes(bytes.fromhex(high + low), safe="") for high in hexdigits for low in hexdigits
    }
    """Spelling of an escape by its two digits: an unreserved character, or the escape in capitals."""


def path_of(url: str) -> str:
    """Path and query of a URL, without its fragment."""
    match = _Spelling.path.match(url)
    path = match[1] if match else ""
    return path if path.startswith("/") else f"/{path}"


def weight_of(pattern: str) -> int:
    """Length of a pattern, for the rule that the longest decides: an escape counts as one character."""
    return len(_decoded(pattern, stray="%"))


def forms_of(text: str, *, pattern: bool = False) -> tuple[str, ...]:
    """The spellings of a path or pattern under which it is compared, all ASCII: one, rarely two.

    Reserved characters are escaped, but for those that divide a URL: an escaped slash is no slash. In a query they
    divide nothing, and `?to=https://a` is `?to=https%3A%2F%2Fa`, so a query with an escaped slash has both spellings.
    """
    if _Spelling.plain.fullmatch(text):
        return (text,)
    text = quote(_decoded(text, stray="%25"), safe="/?&=%*" if pattern else "/?&=%")
    path, mark, query = text.partition("?")
    return (text, f"{path}?{query.replace('%2F', '/')}") if mark and "%2F" in query else (text,)


def _decoded(text: str, *, stray: str) -> str:
    """The text with octets beyond ASCII escaped, and escapes of unreserved characters decoded.

    A `stray` percent sign, one that begins no escape, is spelt as given.
    """
    if not text.isascii():
        text = _Spelling.beyond_ascii.sub(_escaped, text)
    if "%" not in text:
        return text
    head, *rest = text.split("%")
    escapes, parts = _Spelling.escapes, [head]
    for part in rest:
        spelt = escapes.get(part[:2])
        parts.append(stray + part if spelt is None else spelt + part[2:])
    return "".join(parts)


def _escaped(run: re.Match[str]) -> str:
    """Every octet as an escape; those that were not UTF-8 came as lone surrogates, and other halves are `?`."""
    try:
        raw = run[0].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        octets = (
            one.encode("utf-8", "surrogateescape" if "\udc80" <= one <= "\udcff" else "replace") for one in run[0]
        )
        raw = b"".join(octets)
    return quote_from_bytes(raw, safe="")


Key = TypeVar("Key")
Verdict = tuple[int, bool]  # the weight of a match, and whether it allows: the greatest decides
HEADER = struct.Struct("<B?IIIII")  # format, forbidden; number and bytes of prefixes and of whole patterns; wildcards
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
    if len(wildcards) <= LIMITS.max_wildcards and characters <= LIMITS.max_wildcard_characters:
        unpacked = _laid_out(prefixes, whole, wildcards)
        if len(unpacked) <= LIMITS.max_unpacked:
            return zlib.compress(unpacked)
    return zlib.compress(HEADER.pack(LIMITS.format, True, 0, 0, 0, 0, 0))  # everything is forbidden


def _add(rule: Rule, prefixes: dict[str, Verdict], whole: dict[str, Verdict], wildcards: Wildcards) -> None:
    weight = weight_of(rule.pattern)
    if not weight:
        return  # an empty pattern matches nothing
    anchored = rule.pattern.endswith("$")
    verdict = (weight, rule.allow)
    for form in forms_of(rule.pattern[:-1] if anchored else rule.pattern, pattern=True):
        if "**" in form:
            form = re.sub(r"\*+", "*", form)  # noqa: PLW2901 - several mean what one means
        literal = form.rstrip("*")
        if "*" in literal:
            # `/*a*` and `/*a*$` match what `/*a` matches.
            _keep(wildcards, (literal, anchored and literal == form), verdict)
        elif anchored and literal == form:
            _keep(whole, form, verdict)
        else:
            _keep(prefixes, literal, verdict)  # `/a*` and `/a*$` match what `/a` matches
    directory, slash, page = rule.pattern.rpartition("/")
    if rule.allow and slash and page.startswith("index.htm"):  # a rule that allows the page allows its directory
        _add(Rule(True, f"{directory}/$"), prefixes, whole, wildcards)


def _keep(table: dict[Key, Verdict], key: Key, verdict: Verdict) -> None:
    table[key] = max(verdict, table.get(key, verdict))


def _laid_out(prefixes: dict[str, Verdict], whole: dict[str, Verdict], wildcards: Wildcards) -> bytes:
    greatest_first = sorted(wildcards.items(), key=lambda item: (item[1], item[0]), reverse=True)
    lines = [f"{number_of(verdict)} {'$' if end else '-'}{text}" for (text, end), verdict in greatest_first]
    tried = "\n".join(lines).encode("ascii")
    tables = [_table(prefixes), _table(whole, nested=False)]
    sizes = [size for count, blob, _ in tables for size in (count, len(blob))]
    header = HEADER.pack(LIMITS.format, False, *sizes, len(tried))
    return b"".join([header, *(part for _, blob, numbers in tables for part in (numbers, blob)), tried])


def _table(patterns: dict[str, Verdict], *, nested: bool = True) -> tuple[int, bytes, bytes]:
    """Lays patterns out: their number, their text, and where each ends with its parent and verdict.

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


class RuleMatcher:
    """The rules of one group, ready to be asked about URLs."""

    __slots__ = ("_prefixes", "_whole", "_wildcards", "forbidden", "size")

    def __init__(self, packed: bytes) -> None:
        """Unpack what `pack_rules` made; ParseError where that is no such thing."""
        inflating = zlib.decompressobj()
        try:
            unpacked = inflating.decompress(packed, LIMITS.max_unpacked)
        except zlib.error as error:
            raise ParseError("packed rules that are broken") from error
        if not inflating.eof or len(unpacked) < HEADER.size:
            raise ParseError("packed rules without an end or a header")
        version, self.forbidden, *sizes, wildcards = HEADER.unpack_from(unpacked)
        lengths = [12 * sizes[0] + sizes[1], 12 * sizes[2] + sizes[3], wildcards]
        if version != LIMITS.format or len(unpacked) != HEADER.size + sum(lengths):
            raise ParseError("packed rules of another format")
        first, second = HEADER.size + lengths[0], HEADER.size + lengths[0] + lengths[1]
        self._prefixes = _Patterns(unpacked[HEADER.size : first], sizes[0])
        self._whole = _Patterns(unpacked[first:second], sizes[2])
        try:
            self._wildcards = [_Wildcard(line) for line in unpacked[second:].split(b"\n") if line]
        except ValueError as error:
            raise ParseError("packed rules that are broken") from error
        self.size = 1_000 + len(unpacked) + 250 * len(self._wildcards)  # bytes of memory, about

    def allows(self, url: str) -> bool:
        """Tells whether the URL may be asked for."""
        path = path_of(url)
        if path == "/robots.txt":
            return True
        if self.forbidden:
            return False
        forms = [form.encode("ascii") for form in forms_of(path)]
        if len(forms[0]) > LIMITS.max_path:
            return False
        best, meter = 0, Meter()
        for form in forms:
            meter.begin(form)
            best = max(best, self.weigh(form, meter))
        return bool(best & 1) and not meter.over

    def weigh(self, path: bytes, meter: "Meter") -> int:
        """The greatest verdict of all rules that match one spelling of a path, as a number."""
        best = max(LIMITS.allowed, self._whole.exact(path), self._prefixes.beginning(path))
        for wildcard in self._wildcards:  # the greatest first
            if wildcard.verdict <= best or meter.over:
                break
            if wildcard.matches(path, meter):
                return wildcard.verdict
        return best


class _Patterns:
    """Patterns without a wildcard in the order of their text, found by bisection."""

    __slots__ = ("_best", "_blob", "_ends", "_parents")

    def __init__(self, raw: bytes, count: int) -> None:
        columns = (raw[at : at + 4 * count] for at in (0, 4 * count, 8 * count))
        self._ends, self._parents, self._best = map(_column, columns)
        self._blob = raw[12 * count :]

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: int) -> bytes:
        return self._blob[self._ends[at - 1] if at else 0 : self._ends[at]]

    def exact(self, path: bytes) -> int:
        """The verdict of the pattern that is the path, 0 where there is none."""
        at = bisect_right(self, path)
        return self._best[at - 1] if at and self[at - 1] == path else 0

    def beginning(self, path: bytes) -> int:
        """The greatest verdict of all patterns that the path begins with, 0 where there is none."""
        at = bisect_right(self, path)  # whatever the path begins with, the entry before begins with too
        if not at:
            return 0
        shared, ends, parents = _shared(self[at - 1], path), self._ends, self._parents
        while at and ends[at - 1] - (ends[at - 2] if at > 1 else 0) > shared:
            if (parent := parents[at - 1]) >= at:
                raise ParseError("packed rules that are broken")
            at = parent
        return self._best[at - 1] if at else 0


class Meter:
    """Counts the work of wildcards on one URL."""

    __slots__ = ("_counts", "_path", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self.begin(b"")

    def begin(self, path: bytes) -> None:
        """Look at a path from now on."""
        self._path = path
        self._counts: dict[int, int] = {}  # how often its characters occur, of those that were asked about

    @property
    def over(self) -> bool:
        """Tells whether there was too much of it."""
        return self.steps > LIMITS.max_steps

    def charge(self, piece: bytes) -> None:
        """Count the search for a piece: each place where its last character fits may be compared in full."""
        last = piece[-1]
        fits = self._counts.get(last)
        if fits is None:
            fits = self._counts[last] = self._path.count(last)
        self.steps += LIMITS.steps_per_piece + len(self._path) + fits * len(piece)


class _Wildcard:
    """A pattern with a `*` inside: its pieces must follow one another in the URL."""

    __slots__ = ("_anchored", "_first", "_last", "_middle", "verdict")

    def __init__(self, line: bytes) -> None:
        verdict, _, text = line.partition(b" ")
        self.verdict = int(verdict)
        self._anchored = text.startswith(b"$")  # the last piece must end the URL
        self._first, *middle, self._last = text[1:].split(b"*")
        self._middle = tuple(middle)

    def matches(self, path: bytes, meter: Meter) -> bool:
        meter.steps += LIMITS.steps_per_piece
        if not path.startswith(self._first):
            return False
        at = len(self._first)
        for piece in self._middle:
            meter.charge(piece)
            found = path.find(piece, at)
            if found < 0 or meter.over:
                return False
            at = found + len(piece)
        if self._anchored:
            return len(path) - len(self._last) >= at and path.endswith(self._last)
        meter.charge(self._last)
        return path.find(self._last, at) >= 0


def _shared(one: bytes, other: bytes) -> int:
    """Length of the common prefix of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _column(raw: bytes) -> "array[int]":
    column = array("I")
    column.frombytes(raw)
    return little_endian(column)


class _RobotsLine:
    """Patterns of the lines of a robots.txt, with the leniencies of Google's parser."""

    blanks = " \t\v\f"
    relevant = re.compile(  # begins like one of the keys; a file may have hundreds of thousands of other lines
        rf"(?:(?<=[\r\n])|\A)[{blanks}]*+(?:user|allow|dis|dia|site|crawl|content|license)[^\r\n]*+", re.IGNORECASE
    )
    key = re.compile(  # by how it begins, with the typing errors that Google's parser forgives
        r"(?P<agent>user[- ]?agent)|(?P<allow>allow)|(?P<disallow>diss?allow|diss?alow|diasllow|disallaw)"
        r"|(?P<sitemap>site-?map)|(?P<delay>crawl-?delay)|(?P<signal>content-signals?)|(?P<usage>content-usage)"
        r"|(?P<license>license)",
        re.IGNORECASE,
    )
    everyone = re.compile(rf"\*(?:[{blanks}]|$)")  # `*`, whatever words follow
    delay = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}")
    not_text = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class _Groups:
    """The rules and delays of the groups that name one agent."""

    named: bool = False
    current: bool = False  # whether the group being read names the agent
    rules: list[Rule] = field(default_factory=list)
    delay: float | None = None
    usage: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by kind: paths, and what is said of them

    def use(self, kind: str, value: str) -> None:
        said = self.usage.setdefault(kind, [])
        path, _, words = value.partition(" ") if value.startswith(("/", "*")) else ("", "", value)
        if len(said) < LIMITS.max_usages and words.strip():
            said.append((path[: LIMITS.max_usage_characters], words.strip()[: LIMITS.max_usage_characters]))

    def name(self) -> None:
        self.named = self.current = True

    def wait(self, seconds: float) -> None:
        if self.current:
            self.delay = max(seconds, self.delay or 0.0)


def read_robots(body: bytes, robots_url: str, token: str) -> RobotsReading:
    """Reads a robots.txt for the crawler with this product token. Any bytes are one: there are no errors."""
    return parse_robots(robots_text(body), robots_url, token)


def robots_text(body: bytes) -> str:
    """The text of a robots.txt, cut to whole lines within its limit; octets that are no text stay lone surrogates."""
    cut = len(body) >= LIMITS.max_robots
    body = body[: LIMITS.max_robots]
    if body.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # the first begins like the mark of UTF-16
        text = body.decode("utf-32", "replace")
    elif body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = body.decode("utf-16", "replace")
    else:
        for mark in (b"\xef", b"\xbb", b"\xbf"):  # a byte order mark, also half of one
            if not body.startswith(mark):
                break
            body = body[1:]
        text = body.decode("utf-8", "surrogateescape")
    if cut:  # half a rule could forbid, or allow, the whole site
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return text.replace("\0", "")  # also reads UTF-16 without a mark


def parse_robots(text: str, robots_url: str, token: str) -> RobotsReading:
    """Parses the text of a robots.txt."""
    ours, everyones = _Groups(), _Groups()
    sitemaps: dict[str, None] = {}
    license_url: str | None = None
    grouped = rules_seen = False  # a user-agent line begins a new group only after rules
    own = re.escape(re.sub(r"[/\s]", "", token))
    product = re.compile(f"[A-Za-z_{own}-]*")  # in a user-agent value: letters, and the digits and marks of our name
    for key, value in _lines(text):
        if key == "agent":
            grouped = True
            if rules_seen:
                ours.current = everyones.current = rules_seen = False
            if _RobotsLine.everyone.match(value):
                everyones.name()
            elif token and product.match(value)[0].lower() == token.lower():  # type: ignore[index]  # it may be empty
                ours.name()
        elif key in {"allow", "disallow"}:
            rules_seen = True
            for groups in (ours, everyones):
                if groups.current:
                    groups.rules.append(Rule(key == "allow", value))
        elif key == "delay" and _RobotsLine.delay.fullmatch(value):
            ours.wait(float(value))
            everyones.wait(float(value))
        elif key in {"signal", "usage"}:
            for groups in (ours, everyones):
                if groups.current or not grouped:
                    groups.use(key, value)
        elif key == "license" and not _RobotsLine.not_text.search(value):
            license_url = license_url or locate(value[: LIMITS.max_usage_characters], robots_url)
        elif key == "sitemap" and len(sitemaps) < LIMITS.max_sitemaps:
            sitemaps[value] = None
    chosen = ours if ours.named else everyones
    said = chosen.usage | ({} if license_url is None else {"license": license_url})
    usage = _RobotsLine.not_text.sub("?", json.dumps(said)) if said else None
    return RobotsReading(chosen.delay, _located(sitemaps, robots_url), pack_rules(chosen.rules), usage)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines that say something to us: what kind of line it is, and its value."""
    for found in _RobotsLine.relevant.finditer(text):
        line = found[0][: LIMITS.max_line].partition("#")[0].strip(_RobotsLine.blanks)
        key, colon, value = line.partition(":")
        if not colon:  # some forget it
            words = line.split(maxsplit=2)
            key, value = words if len(words) == 2 else ("", "")
        if known := _RobotsLine.key.match(key):
            yield str(known.lastgroup), value.strip(_RobotsLine.blanks)


def _located(lines: Iterable[str], robots_url: str) -> tuple[str, ...]:
    """The normalised URLs of Sitemap lines, each once; a relative one counts from the robots.txt."""
    located: dict[str, None] = {}
    characters = 0
    for line in lines:
        characters += len(line)
        if characters > LIMITS.max_sitemap_characters:
            break
        if not _RobotsLine.not_text.search(line) and (found := locate(line, robots_url)):
            located[found] = None
    return tuple(located)


class RobotsUsage:
    """Statements of a robots.txt on the use of pages: of each kind, the longest path decides."""

    def __init__(self, packed: str) -> None:
        """Unpack what the parser of robots.txt made."""
        given = json.loads(packed)
        self._license: str | None = given.get("license")
        self._rules = {
            place: [(len(path), _matcher(path), words) for path, words in given.get(kind, ())]
            for kind, place in (("signal", SaidIn.ROBOTS_SIGNAL), ("usage", SaidIn.ROBOTS_USAGE))
        }

    def said(self, url: str) -> tuple[Statement, ...]:
        """The statements for one page."""
        said: list[Statement] = []
        for place, rules in self._rules.items():
            fits = [(length, words) for length, matcher, words in rules if matcher is None or not matcher.allows(url)]
            longest = max((length for length, _ in fits), default=0)
            said += [(place, words) for length, words in fits if length == longest]
        return (*said, (SaidIn.ROBOTS_LICENSE, self._license)) if self._license else tuple(said)


def _matcher(path: str) -> RuleMatcher | None:
    """Tells whether a path fits a URL, as robots.txt has it; None: it fits every URL."""
    packed = None if path in {"", "/", "*", "/*"} else pack_rules([Rule(False, path)])
    return None if packed is None else RuleMatcher(packed)


@lru_cache(512)
def robots_usage(packed: str) -> RobotsUsage:
    """The rules of a robots.txt, kept at hand."""
    return RobotsUsage(packed)
