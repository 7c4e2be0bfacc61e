"""What a file lists, as columns, and how that differs from what it listed before."""

import zlib
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from crawld.read.dates import SAYS_NOTHING, Claim
from crawld.signals.matching import Ints, Keys

# What a file listed when it was polled last: a key and a stamp for each entry, in few bytes.

Stamps = NDArray[np.int64]

MAX_REMEMBERED = 10_000  # entries that have left a feed
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
        """What is known after a poll: the last stamp of each entry, and the absent ones where they may return."""
        _, before = self.stamps_for(keys)
        stamps = np.where(stamps == 0, before, stamps)
        absent = ~np.isin(self.keys, keys, assume_unique=True)
        if not keep_absent or int(absent.sum()) > MAX_REMEMBERED:
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


def _no_keys() -> Keys:
    return np.empty(0, dtype=np.uint64)


def _no_ints() -> Ints:
    return np.empty(0, dtype=np.int64)


def _no_mask() -> Mask:
    return np.empty(0, dtype=bool)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """The pages a file lists, as columns in the order of their keys, each key once; nan: no usable claim."""

    keys: Keys
    stamps: Stamps
    at: Floats
    until: Floats
    foreign: int = 0  # entries of hosts that the file may not speak for
    wanted: Ints = field(default_factory=_no_ints)  # positions of those within the scope of discovery, rising
    wanted_urls: str = ""  # their targets, a line each: one text travels faster than thousands
    others: Ints = field(default_factory=_no_ints)  # positions of those on other sites, where that was asked, rising
    other_urls: str = ""  # their targets, a line each

    def __post_init__(self) -> None:
        if len({len(self.keys), len(self.stamps), len(self.at), len(self.until)}) != 1:
            raise ValueError("columns of a listing differ in length")
        if len(self.wanted) and not 0 <= self.wanted.min() <= self.wanted.max() < len(self.keys):
            raise ValueError("a listing wants what it does not list")


@dataclass(frozen=True, slots=True)
class ListingDifference:
    """How a listing differs from the one before."""

    baseline: bytes  # what is remembered from now on, packed
    news: Mask  # lastmods that changed, and new entries of a feed
    first_sight: Mask  # lastmods where there was none
    moved: int = 0  # how many changed, or are new in a feed
    of: int = 0  # lastmods that could have changed
    new: int = 0  # entries not listed before
    absent: Keys = field(default_factory=_no_keys)  # listed before and no more, where that is known
    anew: Mask = field(default_factory=_no_mask)  # entries not listed, or not dated, before, where that is known


def differ(packed: bytes, listed: ListedFile, *, feed: bool = False, complete: bool = True) -> ListingDifference:
    """How a listing differs from the packed one before; in a feed, or an incomplete listing, absence means nothing."""
    known = Baseline.unpacked(packed)
    before = known or EMPTY
    listed_before, old = before.stamps_for(listed.keys)
    both = (old != 0) & (listed.stamps != 0)
    moved = both & (old != listed.stamps)
    dated = ~moved & (old == 0) & (listed.stamps != 0)
    fresh = ~listed_before if feed and known is not None else np.zeros(len(moved), dtype=bool)
    absent = _no_keys()
    if complete and not feed:
        absent = before.keys[~np.isin(before.keys, listed.keys, assume_unique=True)]
    return ListingDifference(
        baseline=before.updated(listed.keys, listed.stamps, keep_absent=feed or not complete).packed(),
        news=moved | fresh,
        first_sight=~fresh & dated,
        moved=int(moved.sum() + fresh.sum()),
        of=0 if feed else int(both.sum()),
        new=0 if known is None else int((~listed_before).sum()),
        absent=absent,
        anew=np.zeros(len(moved), dtype=bool) if known is None else ~listed_before | dated,
    )
