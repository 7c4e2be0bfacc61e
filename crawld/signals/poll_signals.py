"""The signals that a poll brings: changes since the last poll, judged against our own crawls.

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
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from crawld.model.signal import Signal, Source
from crawld.signals.contract import Slices
from crawld.signals.listed import ListedFile, ListingDifference
from crawld.signals.matching import Ints, Keys, PageIndex


@dataclass(frozen=True)
class PollSignalsLimits:
    """Numbers that bound and tune this module."""

    min_for_event: int = 5  # lastmods; fewer may well move together by chance
    share_for_event: float = 0.9
    found_at_once: int = 5_000
    """Entries that are looked up among our pages in one slice, some milliseconds with a million pages."""
    judged_at_once: int = 500
    """Changed entries that are judged in one slice."""


LIMITS = PollSignalsLimits()


SourceOf = Callable[[int, int], Source]
"""The source of a poll's signals, by how many entries moved of how many that could have."""


@dataclass(frozen=True, slots=True)
class Known:
    """What we know when a poll comes in: our pages, when each was crawled last, and which delay to allow for."""

    pages: PageIndex
    last_success: Callable[[int], float]  # nan before the first
    delay: float = 0.0
    gone: Callable[[int], bool] = lambda _: False  # whether a page was gone at our last crawl


@dataclass(frozen=True, slots=True)
class Finding:
    """What a poll brought, in the light of the last one."""

    source: Source
    signals: Sequence[Signal] = field(default=())
    stamps: Sequence[int] = field(default=())  # of each signal
    discarded: int = 0
    moved: int = 0  # lastmods that changed, and new entries of a feed
    of: int = 0  # lastmods that could have changed
    new: int = 0  # entries not listed before
    vanished: int = 0  # pages no longer listed
    positions: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # in the listing, of our pages
    pages: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # their ids

    @property
    def is_event(self) -> bool:
        """Tells whether nearly all lastmods moved at once."""
        return self.of >= LIMITS.min_for_event and self.moved >= LIMITS.share_for_event * self.of


def find_signals(
    listed: ListedFile, difference: ListingDifference, source_of: SourceOf, known: Known, now: float
) -> Slices[Finding]:
    """Yields what the difference since the last poll means for our pages, worked out in slices."""
    judge = _Judge(listed, known, now)
    first_seen = 0
    at: list[Ints] = []
    found: list[Ints] = []
    for positions, ids in _find(known.pages, listed.keys):
        at.append(positions)
        found.append(ids)
        yield
        news = difference.news[positions] | difference.first_sight[positions] | difference.anew[positions]
        first_seen += int(difference.first_sight[positions].sum())
        pairs = zip(positions[news].tolist(), ids[news].tolist(), strict=True)
        while some := list(islice(pairs, LIMITS.judged_at_once)):
            for position, page_id in some:
                if known.gone(page_id) and (difference.news[position] or difference.anew[position]):
                    judge.relisted(position, page_id)
                elif difference.news[position]:
                    judge.news(position, page_id)
                elif difference.first_sight[position]:
                    judge.first_sight(position, page_id)
            yield
    vanished = 0
    for _, ids in _find(known.pages, difference.absent):
        vanished += len(ids)
        yield
    ids = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    source = source_of(difference.moved + judge.first_claims, difference.of + first_seen)
    signals = yield from judge.signals(source)
    return Finding(
        source=source,
        signals=signals,
        stamps=judge.stamps,
        discarded=judge.discarded,
        moved=difference.moved,
        of=difference.of,
        new=difference.new,
        vanished=vanished,
        positions=np.concatenate(at) if at else np.empty(0, dtype=np.int64),
        pages=ids,
    )


def _find(pages: PageIndex, keys: Keys) -> Iterator[tuple[Ints, Ints]]:
    """Positions and ids of our pages among the keys, a slice after the other."""
    for start in range(0, len(keys), LIMITS.found_at_once):
        positions, ids = pages.find(keys[start : start + LIMITS.found_at_once])
        yield positions + start, ids


class _Judge:
    """Turns what moved into signals."""

    def __init__(self, listed: ListedFile, known: Known, now: float) -> None:
        self.listed, self.known, self.now = listed, known, now
        self.stamps: list[int] = []  # of each signal
        self.discarded = 0
        self.first_claims = 0  # lastmods never seen before that surely claim a change
        self._found: list[tuple[int, float, bool]] = []  # of each signal: page, time claimed, stale

    def news(self, position: int, page_id: int) -> None:
        """A change that became visible now."""
        last = self.known.last_success(page_id)
        if math.isnan(last):
            return
        self._signal(position, page_id, last, stale=bool(self.listed.until[position] <= last))

    def relisted(self, position: int, page_id: int) -> None:
        """A page that is gone is listed anew, or with another lastmod: often that of before it was gone."""
        self._signal(position, page_id, -math.inf, stale=False)

    def first_sight(self, position: int, page_id: int) -> None:
        """A lastmod never seen before: a baseline unless it surely claims a change after our last crawl."""
        last = self.known.last_success(page_id)
        if self.listed.at[position] > last:  # false for nan on either side
            self.first_claims += 1
            self._signal(position, page_id, last, stale=False)

    def _signal(self, position: int, page_id: int, last: float, *, stale: bool) -> None:
        if self.now - last < self.known.delay:
            self.discarded += 1
            return
        self._found.append((page_id, float(self.listed.at[position]), stale))
        self.stamps.append(int(self.listed.stamps[position]))

    def signals(self, source: Source) -> Slices[Sequence[Signal]]:
        """Yields what was found, as signals of that source."""
        signals: list[Signal] = []
        for number, (page_id, at, stale) in enumerate(self._found, 1):
            signals.append(Signal(page_id, source, self.now, None if math.isnan(at) else at, stale))
            if number % LIMITS.judged_at_once == 0:
                yield
        return signals
