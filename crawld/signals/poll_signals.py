"""From what a file lists to signals: the pages it means, what differs since the last poll, and which of that counts.

- A lastmod that differs from the last one seen, or a new entry of a feed, is a signal, visible from now on.
- The first sight of a lastmod is a baseline, no signal, unless it surely claims a time after our last crawl.
- A claim that is surely before our last successful crawl is stale: kept for statistics, not counted.
- Within `delay` after a crawl a signal is discarded: it most likely tells of what we already hold
  (Busa-Fekete et al. 2025, appendix C).
- Nearly all lastmods moved at once are one event of the site, recorded as such beside the signals of its pages.
- A page that was never crawled has nothing that could be outdated: no signal.
- A page that is gone is signalled wherever it is listed anew or with another lastmod, whatever time that claims.
- All signals of one poll have one source, by how many entries moved at once (`crawld.model.signal`).

A date claims its whole day, so "surely after" asks for its beginning and "surely before" for its end.

A listed URL means the pages with the same match key. The rules, in the order they are applied to a target: its
identity counts, not its spelling; http and https are the same; the ports 80 and 443 are left out; an empty query and
one slash at the end of the path are left out; everything else (path, case of the path, query) must be equal. A target
has its host in lower case and no fragment.
"""

import math
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from crawld.model.page import Page
from crawld.model.signal import Signal, Source
from crawld.model.url import identity
from crawld.read.dates import SAYS_NOTHING, Claim


@dataclass(frozen=True)
class PollSignalsLimits:
    """Numbers that bound and tune this module."""

    min_for_event: int = 5  # lastmods; fewer may well move together by chance
    share_for_event: float = 0.9
    found_at_once: int = 5_000
    """Entries that are looked up among our pages in one slice, some milliseconds with a million pages."""
    judged_at_once: int = 500
    """Changed entries that are judged in one slice."""
    max_latecomers: int = 10_000
    """Pages that came, or left, since the sorted ones were merged last."""
    max_remembered: int = 10_000
    """Entries that have left a feed."""


LIMITS = PollSignalsLimits()


T = TypeVar("T")
Slices = Generator[None, None, T]
"""Work in slices of a few milliseconds; its driver lets other tasks run in between."""


def at_once(slices: Slices[T]) -> T:
    """Do all slices in a row, where they are known to be few."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result


Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]


def match_key(url: str) -> str:
    """Returns what the targets of one page have in common."""
    rest = identity(url).partition("://")[2]
    path, mark, query = rest.partition("?")
    authority, slash, path = path.partition("/")
    if authority.endswith((":80", ":443")):
        authority = authority.rpartition(":")[0]
    path = path.removesuffix("/")
    return f"{authority}{slash if path else ''}{path}{mark if query else ''}{query}"


def key_of(url: str) -> int:
    """The match key of a target as a number of 64 bits."""
    return int.from_bytes(blake2b(match_key(url).encode("utf-8", "replace"), digest_size=8).digest(), "little")


def keys_of(urls: Iterable[str]) -> Keys:
    """The match keys of many URLs."""
    return np.fromiter((key_of(url) for url in urls), dtype=np.uint64)


class PageIndex:
    """Page ids by match key, in 16 bytes a page. Several pages may share a key: each is found."""

    def __init__(self) -> None:
        self._keys: Keys = np.empty(0, dtype=np.uint64)
        self._ids: Ints = np.empty(0, dtype=np.int64)
        self._late_keys: list[int] = []
        self._late_ids: list[int] = []
        self._late: tuple[Keys, Ints] | None = None  # the same, sorted, once they were looked up
        self._dropped: set[int] = set()
        self._dropped_ids: Ints | None = None

    def __len__(self) -> int:
        return len(self._ids) + len(self._late_ids) - len(self._dropped)

    def put(self, pages: Sequence[Page]) -> None:
        """Take pages in that are not in yet."""
        if self._dropped.intersection(page.id for page in pages):
            self._settle()
        self._late_keys.extend(key_of(page.url) for page in pages)
        self._late_ids.extend(page.id for page in pages)
        self._late = None
        if len(self._late_ids) > LIMITS.max_latecomers:
            self._settle()

    def drop(self, page_ids: Iterable[int]) -> None:
        """Forget pages that are in."""
        self._dropped.update(page_ids)
        self._dropped_ids = None
        if len(self._dropped) > LIMITS.max_latecomers:
            self._settle()

    def find(self, keys: Keys) -> tuple[Ints, Ints]:
        """Positions in `keys` and the ids of the pages found there, one pair a page."""
        late_keys, late_ids = self._sorted_late()
        found = (_look_up(self._keys, self._ids, keys), _look_up(late_keys, late_ids, keys))
        positions = np.concatenate([positions for positions, _ in found])
        ids = np.concatenate([ids for _, ids in found])
        if self._dropped and len(ids):
            if self._dropped_ids is None:
                self._dropped_ids = np.sort(np.fromiter(self._dropped, dtype=np.int64))
            at = np.minimum(np.searchsorted(self._dropped_ids, ids), len(self._dropped_ids) - 1)
            kept = self._dropped_ids[at] != ids
            positions, ids = positions[kept], ids[kept]
        return positions, ids

    def alike(self, url: str) -> Sequence[int]:
        """The pages of a URL, whatever its spelling, scheme or slash at the end."""
        key, found = np.uint64(key_of(url)), list[int]()
        for keys, ids in ((self._keys, self._ids), self._sorted_late()):
            at = int(keys.searchsorted(key))
            while at < len(keys) and keys[at] == key:
                found.append(int(ids[at]))
                at += 1
        return [page_id for page_id in found if page_id not in self._dropped]

    def _sorted_late(self) -> tuple[Keys, Ints]:
        if self._late is None:
            keys = np.array(self._late_keys, dtype=np.uint64)
            order = np.argsort(keys, kind="stable")
            self._late = keys[order], np.array(self._late_ids, dtype=np.int64)[order]
        return self._late

    def _settle(self) -> None:
        """Merge the latecomers in and leave out who was dropped: no sorting of all that are in."""
        late_keys, late_ids = self._sorted_late()
        at = np.searchsorted(self._keys, late_keys, side="right")
        keys, ids = np.insert(self._keys, at, late_keys), np.insert(self._ids, at, late_ids)
        if self._dropped:
            kept = ~np.isin(ids, np.fromiter(self._dropped, dtype=np.int64))
            keys, ids = keys[kept], ids[kept]
        self._keys, self._ids = keys, ids
        self._late_keys, self._late_ids, self._late = [], [], None
        self._dropped, self._dropped_ids = set(), None


def _look_up(sorted_keys: Keys, ids: Ints, wanted: Keys) -> tuple[Ints, Ints]:
    left = np.searchsorted(sorted_keys, wanted, side="left")
    counts = np.searchsorted(sorted_keys, wanted, side="right") - left
    positions = np.repeat(np.arange(len(wanted), dtype=np.int64), counts)
    within = np.arange(len(positions), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return positions, ids[np.repeat(left, counts) + within]


Stamps = NDArray[np.int64]

_VERSION = b"\x01"


def stamp_of(claim: Claim | None) -> int:
    """The number by which a change of the claimed time is told."""
    if claim is None or claim.reason in SAYS_NOTHING:
        return 0
    if claim.at is not None:
        return max(1, int(claim.at * 1000.0))
    digest = blake2b(claim.raw.encode("utf-8", "replace"), digest_size=8).digest()
    return -(int.from_bytes(digest, "little") >> 1) - 1


@dataclass(frozen=True, slots=True)
class Baseline:
    """Keys in rising order, each once, with their stamps."""

    keys: Keys
    stamps: Stamps

    def __len__(self) -> int:
        return len(self.keys)

    def stamps_for(self, keys: Keys) -> tuple[NDArray[np.bool_], Stamps]:
        """Returns which keys are known, and the stamp of each (0 where it is not)."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        known = self.keys[at] == keys
        return known, np.where(known, self.stamps[at], 0)

    def updated(self, keys: Keys, stamps: Stamps, *, keep_absent: bool) -> "Baseline":
        """Baseline after a poll: the last stamp of each entry, and the absent ones where they may return."""
        _, before = self.stamps_for(keys)
        stamps = np.where(stamps == 0, before, stamps)
        absent = ~np.isin(self.keys, keys, assume_unique=True)
        if not keep_absent or int(absent.sum()) > LIMITS.max_remembered:
            return Baseline(keys, stamps)
        all_keys = np.concatenate([keys, self.keys[absent]])
        order = np.argsort(all_keys)
        return Baseline(all_keys[order], np.concatenate([stamps, self.stamps[absent]])[order])

    def only(self, keys: Keys) -> "Baseline":
        """Returns what is known of these keys alone."""
        kept = np.isin(self.keys, keys)
        return Baseline(self.keys[kept], self.stamps[kept])

    def packed(self) -> bytes:
        """For the store."""
        columns = self.keys.astype("<u8").tobytes() + self.stamps.astype("<i8").tobytes()
        return _VERSION + zlib.compress(columns, 1)

    @classmethod
    def unpacked(cls, packed: bytes) -> "Baseline | None":
        """From the store; None where there is nothing, or nothing of this version: the next poll begins anew."""
        if not packed or packed[:1] != _VERSION:
            return None
        try:
            columns = zlib.decompress(packed[1:])
        except zlib.error:
            return None
        half = len(columns) // 2
        keys = np.frombuffer(columns[:half], dtype="<u8").astype(np.uint64)
        return cls(keys, np.frombuffer(columns[half:], dtype="<i8").astype(np.int64))


EMPTY = Baseline(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))


Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ListedFile:
    """The pages a file lists, as columns in the order of their keys, each key once; nan: no usable claim."""

    keys: Keys
    stamps: Stamps
    at: Floats
    until: Floats
    foreign: int = 0  # entries of hosts that the file may not speak for
    wanted: Ints = field(
        default_factory=lambda: np.empty(0, np.int64)
    )  # positions of those within the scope of discovery, rising
    wanted_urls: str = ""  # their targets, a line each: one text travels faster than thousands
    others: Ints = field(
        default_factory=lambda: np.empty(0, np.int64)
    )  # positions of those on other sites, where that was asked, rising
    other_urls: str = ""  # their targets, a line each

    def __post_init__(self) -> None:
        if len({len(self.keys), len(self.stamps), len(self.at), len(self.until)}) != 1:
            raise ValueError("columns of a listing differ in length")
        if len(self.wanted) and not 0 <= self.wanted.min() <= self.wanted.max() < len(self.keys):
            raise ValueError("a listing wants what it does not list")


@dataclass(frozen=True, slots=True)
class ListingDifference:
    """Difference of a listing from the one before."""

    baseline: bytes  # what is remembered from now on, packed
    news: Mask  # lastmods that changed, and new entries of a feed
    first_sight: Mask  # lastmods where there was none
    moved: int = 0  # how many changed, or are new in a feed
    of: int = 0  # lastmods that could have changed
    new: int = 0  # entries not listed before
    absent: Keys = field(
        default_factory=lambda: np.empty(0, np.uint64)
    )  # listed before and no more, where that is known
    anew: Mask = field(
        default_factory=lambda: np.empty(0, bool)
    )  # entries not listed, or not dated, before, where that is known


def differ(packed: bytes, listed: ListedFile, *, feed: bool = False, complete: bool = True) -> ListingDifference:
    """Compares a listing with the packed one before; in a feed or an incomplete listing absence means nothing."""
    known = Baseline.unpacked(packed)
    before = known or EMPTY
    listed_before, old = before.stamps_for(listed.keys)
    both = (old != 0) & (listed.stamps != 0)
    moved = both & (old != listed.stamps)
    dated = ~moved & (old == 0) & (listed.stamps != 0)
    fresh = ~listed_before if feed and known is not None else np.zeros(len(moved), dtype=bool)
    absent = before.keys[~np.isin(before.keys, listed.keys, assume_unique=True)]
    return ListingDifference(
        baseline=before.updated(listed.keys, listed.stamps, keep_absent=feed or not complete).packed(),
        news=moved | fresh,
        first_sight=~fresh & dated,
        moved=int(moved.sum() + fresh.sum()),
        of=0 if feed else int(both.sum()),
        new=0 if known is None else int((~listed_before).sum()),
        absent=absent if complete and not feed else absent[:0],
        anew=np.zeros(len(moved), dtype=bool) if known is None else ~listed_before | dated,
    )


SourceOf = Callable[[int, int], Source]
"""The source of a poll's signals, by how many entries moved of how many that could have."""


@dataclass(frozen=True, slots=True)
class Known:
    """Knowledge that a poll is judged by: our pages, when each was crawled last, and which delay to allow for."""

    pages: PageIndex
    last_success: Callable[[int], float]  # nan before the first
    delay: float = 0.0
    gone: Callable[[int], bool] = lambda _: False  # whether a page was gone at our last crawl


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a poll compared with the last one."""

    source: Source
    signals: Sequence[Signal] = field(default=())
    stamps: Sequence[int] = field(default=())  # of each signal
    discarded: int = 0
    moved: int = 0  # lastmods that changed, and new entries of a feed
    of: int = 0  # lastmods that could have changed
    new: int = 0  # entries not listed before
    vanished: int = 0  # pages no longer listed
    positions: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # in the listing, of our pages
    pages: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # their ids

    @property
    def is_event(self) -> bool:
        """Tells whether nearly all lastmods moved at once."""
        return self.of >= LIMITS.min_for_event and self.moved >= LIMITS.share_for_event * self.of


def find_signals(
    listed: ListedFile, difference: ListingDifference, source_of: SourceOf, known: Known, now: float
) -> Slices[Finding]:
    """Yields what the difference since the last poll means for our pages, worked out in slices."""
    first_seen = first_claims = discarded = 0
    at: list[Ints] = []
    pages: list[Ints] = []
    found: list[tuple[int, float, bool]] = []  # of each signal: page, time claimed, stale
    stamps: list[int] = []
    for positions, ids in _find(known.pages, listed.keys):
        at.append(positions)
        pages.append(ids)
        yield
        news = difference.news[positions] | difference.first_sight[positions] | difference.anew[positions]
        first_seen += int(difference.first_sight[positions].sum())
        pairs = zip(positions[news].tolist(), ids[news].tolist(), strict=True)
        while some := list(islice(pairs, LIMITS.judged_at_once)):
            for position, page_id in some:
                last, claimed = known.last_success(page_id), float(listed.at[position])
                relisted = known.gone(page_id) and (difference.news[position] or difference.anew[position])
                if relisted:  # often with the lastmod of before it was gone
                    last = -math.inf
                elif difference.news[position]:
                    if math.isnan(last):
                        continue
                elif difference.first_sight[position] and claimed > last:  # false for nan on either side
                    first_claims += 1
                else:  # a baseline
                    continue
                if now - last < known.delay:
                    discarded += 1
                    continue
                found.append((page_id, claimed, bool(listed.until[position] <= last)))
                stamps.append(int(listed.stamps[position]))
            yield
    vanished = 0
    for _, ids in _find(known.pages, difference.absent):
        vanished += len(ids)
        yield
    source = source_of(difference.moved + first_claims, difference.of + first_seen)
    signals: list[Signal] = []
    for number, (page_id, claimed, stale) in enumerate(found, 1):
        signals.append(Signal(page_id, source, now, None if math.isnan(claimed) else claimed, stale))
        if number % LIMITS.judged_at_once == 0:
            yield
    return Finding(
        source=source,
        signals=signals,
        stamps=stamps,
        discarded=discarded,
        moved=difference.moved,
        of=difference.of,
        new=difference.new,
        vanished=vanished,
        positions=np.concatenate([EMPTY.stamps, *at]),
        pages=np.concatenate([EMPTY.stamps, *pages]),
    )


def _find(pages: PageIndex, keys: Keys) -> Iterator[tuple[Ints, Ints]]:
    """Positions and ids of our pages among the keys, a slice after the other."""
    for start in range(0, len(keys), LIMITS.found_at_once):
        positions, ids = pages.find(keys[start : start + LIMITS.found_at_once])
        yield positions + start, ids
