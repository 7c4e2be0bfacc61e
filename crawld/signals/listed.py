"""What a file lists, as columns, and how that differs from what it listed before."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crawld.signals.baseline import EMPTY, Baseline, Stamps
from crawld.signals.matching import Ints, Keys

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def _no_keys() -> Keys:
    return np.empty(0, dtype=np.uint64)


def _no_ints() -> Ints:
    return np.empty(0, dtype=np.int64)


def _no_mask() -> Mask:
    return np.empty(0, dtype=bool)


@dataclass(frozen=True, slots=True)
class Listed:
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
class Difference:
    """How a listing differs from the one before."""

    baseline: bytes  # what is remembered from now on, packed
    news: Mask  # lastmods that changed, and new entries of a feed
    first_sight: Mask  # lastmods where there was none
    moved: int = 0  # how many changed, or are new in a feed
    of: int = 0  # lastmods that could have changed
    new: int = 0  # entries not listed before
    absent: Keys = field(default_factory=_no_keys)  # listed before and no more, where that is known
    anew: Mask = field(default_factory=_no_mask)  # entries not listed, or not dated, before, where that is known


def differ(packed: bytes, listed: Listed, *, feed: bool = False, complete: bool = True) -> Difference:
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
    return Difference(
        baseline=before.updated(listed.keys, listed.stamps, keep_absent=feed or not complete).packed(),
        news=moved | fresh,
        first_sight=~fresh & dated,
        moved=int(moved.sum() + fresh.sum()),
        of=0 if feed else int(both.sum()),
        new=0 if known is None else int((~listed_before).sum()),
        absent=absent,
        anew=np.zeros(len(moved), dtype=bool) if known is None else ~listed_before | dated,
    )
