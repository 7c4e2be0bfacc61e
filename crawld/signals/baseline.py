"""What a file listed when it was polled last: a key and a stamp for each entry, in few bytes.

A stamp is what a lastmod is compared by: milliseconds where a time is claimed (so that a new spelling of the same
time is no change), a negative hash where the value cannot be read, 0 where nothing is said.
"""

import zlib
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from crawld.read.dates import SAYS_NOTHING, Claim
from crawld.signals.matching import Keys

Stamps = NDArray[np.int64]

MOST_REMEMBERED = 10_000  # entries that have left a feed
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
        """Which keys are known, and the stamp of each (0 where it is not)."""
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
        if not keep_absent or int(absent.sum()) > MOST_REMEMBERED:
            return Baseline(keys, stamps)
        all_keys = np.concatenate([keys, self.keys[absent]])
        order = np.argsort(all_keys)
        return Baseline(all_keys[order], np.concatenate([stamps, self.stamps[absent]])[order])

    def only(self, keys: Keys) -> "Baseline":
        """What is known of these keys alone."""
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
