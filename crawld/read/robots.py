"""Whether the rules of one robots.txt group allow a URL: RFC 9309 section 2.2.2, with little work for each URL.

The longest pattern that matches decides, and Allow wins a tie. Rules without a wildcard inside are found by bisection,
so their number hardly matters; only rules with a wildcard are tried one by one, the weightiest first, and their work
is metered. The bounds hold for whatever rules and URLs there are: a verdict is asked for on the event loop.
"""

import zlib
from array import array
from bisect import bisect_right

from crawld.model.errors import ParseError
from crawld.read.pack import FORMAT, HEADER, LARGEST_UNPACKED, little_endian
from crawld.read.spelling import forms_of, path_of

MOST_STEPS = 1_500_000
"""Work of wildcards on one URL, about a nanosecond each at worst. A URL that takes more is forbidden, not guessed."""
STEPS_PER_PIECE = 300
"""What trying a piece of a pattern costs however short it is."""
LONGEST_PATH = 24_000
"""Characters of path and query, escaped, that are looked at; three times the longest URL. A longer one is forbidden."""

ALLOWED = 1  # the number of the verdict where nothing matches


class RuleMatcher:
    """The rules of one group, ready to be asked about URLs."""

    __slots__ = ("_prefixes", "_whole", "_wildcards", "forbidden", "size")

    def __init__(self, packed: bytes) -> None:
        """Unpack what `pack_rules` made; ParseError where that is no such thing."""
        unpacked = _unpacked(packed)
        if len(unpacked) < HEADER.size:
            raise ParseError("packed rules without a header")
        version, self.forbidden, *sizes, wildcards = HEADER.unpack_from(unpacked)
        lengths = [12 * sizes[0] + sizes[1], 12 * sizes[2] + sizes[3], wildcards]
        if version != FORMAT or len(unpacked) != HEADER.size + sum(lengths):
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
        """Whether the URL may be asked for."""
        path = path_of(url)
        if path == "/robots.txt":
            return True
        if self.forbidden:
            return False
        forms = [form.encode("ascii") for form in forms_of(path)]
        if len(forms[0]) > LONGEST_PATH:
            return False
        best, meter = 0, Meter()
        for form in forms:
            meter.begin(form)
            best = max(best, self.weigh(form, meter))
        return bool(best & 1) and not meter.over

    def weigh(self, path: bytes, meter: "Meter") -> int:
        """The greatest verdict of all rules that match one spelling of a path, as a number."""
        best = max(ALLOWED, self._whole.exact(path), self._prefixes.beginning(path))
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
        """Whether there was too much of it."""
        return self.steps > MOST_STEPS

    def charge(self, piece: bytes) -> None:
        """Count the search for a piece: each place where its last character fits may be compared in full."""
        last = piece[-1]
        fits = self._counts.get(last)
        if fits is None:
            fits = self._counts[last] = self._path.count(last)
        self.steps += STEPS_PER_PIECE + len(self._path) + fits * len(piece)


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
        meter.steps += STEPS_PER_PIECE
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
    """How many octets two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _unpacked(packed: bytes) -> bytes:
    try:
        inflating = zlib.decompressobj()
        unpacked = inflating.decompress(packed, LARGEST_UNPACKED)
    except zlib.error as error:
        raise ParseError("packed rules that are broken") from error
    if not inflating.eof:
        raise ParseError("packed rules without an end")
    return unpacked


def _column(raw: bytes) -> "array[int]":
    column = array("I")
    column.frombytes(raw)
    return little_endian(column)
