"""What a poll means: a signal is a change since the last poll, judged against our own crawls.

- A lastmod that differs from the last one seen, or a new entry of a feed, is a signal, visible from now on.
- The first sight of a lastmod is a baseline, no signal, unless it surely claims a time after our last crawl.
- A claim that is surely before our last successful crawl is stale: kept for statistics, not counted.
- Within `delay` after a crawl a signal is discarded: it most likely tells of what we already hold (S-NCIS, appendix C).
- Nearly all lastmods moved at once are one event of the site, recorded as such beside the signals of its pages.
- A page that was never crawled has nothing that could be outdated: no signal.

A date claims its whole day, so "surely after" asks for its beginning and "surely before" for its end.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from crawld.model.signal import Signal, Source
from crawld.signals.baseline import EMPTY, Baseline
from crawld.signals.matching import Ints, PageIndex
from crawld.signals.reading import Listed

FEWEST_FOR_EVENT = 5  # lastmods; fewer may well move together by chance
SHARE_FOR_EVENT = 0.9


@dataclass(frozen=True, slots=True)
class SiteEvent:
    """Nearly all lastmods of a file moved at once."""

    host: str
    source: Source
    at: float
    moved: int
    of: int


@dataclass(frozen=True, slots=True)
class Known:
    """What we know when a poll comes in: our pages, when each was crawled last, and which delay to allow for."""

    pages: PageIndex
    last_success: Callable[[int], float]  # nan before the first
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What a poll brought, in the light of the last one."""

    baseline: Baseline
    signals: Sequence[Signal] = field(default=())
    stamps: Sequence[int] = field(default=())  # of each signal
    discarded: int = 0
    moved: int = 0  # lastmods that changed, and new entries of a feed
    of: int = 0  # lastmods that could have changed
    new: int = 0  # entries not listed before
    vanished: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # pages no longer listed
    matched: int = 0  # of our pages listed

    @property
    def is_event(self) -> bool:
        """Whether nearly all lastmods moved at once."""
        return self.of >= FEWEST_FOR_EVENT and self.moved >= SHARE_FOR_EVENT * self.of


def compare(
    before: Baseline | None,
    listed: Listed,
    source: Source,
    known: Known,
    now: float,
    *,
    feed: bool = False,
    complete: bool = True,
) -> Finding:
    """What changed since `before`; in a feed, or where the listing is not complete, absence means nothing."""
    first_poll, before = before is None, before or EMPTY
    listed_before, old = before.stamps_for(listed.keys)
    both = (old != 0) & (listed.stamps != 0)
    moved = both & (old != listed.stamps)
    fresh = ~listed_before if feed and not first_poll else np.zeros(len(moved), dtype=bool)
    first_sight = ~fresh & ~moved & (old == 0) & (listed.stamps != 0)
    positions, ids = known.pages.find(listed.keys)
    judge = _Judge(listed, source, known, now)
    for position, page_id in zip(positions.tolist(), ids.tolist(), strict=True):
        if moved[position] or fresh[position]:
            judge.news(position, page_id)
        elif first_sight[position]:
            judge.first_sight(position, page_id)
    vanished = np.empty(0, dtype=np.int64)
    if complete and not feed:
        absent = before.keys[~np.isin(before.keys, listed.keys, assume_unique=True)]
        vanished = known.pages.find(absent)[1]
    return Finding(
        baseline=before.updated(listed.keys, listed.stamps, keep_absent=feed or not complete),
        signals=judge.signals,
        stamps=judge.stamps,
        discarded=judge.discarded,
        moved=int(moved.sum() + fresh.sum()),
        of=0 if feed else int(both.sum()),
        new=0 if first_poll else int((~listed_before).sum()),
        vanished=vanished,
        matched=len(set(ids.tolist())),
    )


class _Judge:
    """Turns what moved into signals."""

    def __init__(self, listed: Listed, source: Source, known: Known, now: float) -> None:
        self.listed, self.source, self.known, self.now = listed, source, known, now
        self.signals: list[Signal] = []
        self.stamps: list[int] = []
        self.discarded = 0

    def news(self, position: int, page_id: int) -> None:
        """A change that became visible now."""
        last = self.known.last_success(page_id)
        if math.isnan(last):
            return
        self._signal(position, page_id, last, stale=bool(self.listed.until[position] <= last))

    def first_sight(self, position: int, page_id: int) -> None:
        """A lastmod never seen before: a baseline unless it surely claims a change after our last crawl."""
        last = self.known.last_success(page_id)
        if self.listed.at[position] > last:  # false for nan on either side
            self._signal(position, page_id, last, stale=False)

    def _signal(self, position: int, page_id: int, last: float, *, stale: bool) -> None:
        if self.now - last < self.known.delay:
            self.discarded += 1
            return
        at = float(self.listed.at[position])
        claimed = None if math.isnan(at) else at
        self.signals.append(Signal(page_id, self.source, self.now, claimed, stale))
        self.stamps.append(int(self.listed.stamps[position]))
