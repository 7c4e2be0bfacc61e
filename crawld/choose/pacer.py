"""Slots: when the next request may leave.

Slots lie on a grid of one every T seconds, so that timers that wake late cause no drift. Two numbers make the
promise "in any window of w ≥ 1 s at most R·w + 1 requests leave" hold for the requests themselves and not only
for the grid: a slot may be used at most `TOLERANCE` seconds late (else the grid moves, and what was lost is
counted), and T is longer than 1/R by that same share of a second. See docs/decisions/pacing.md.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class PacerLimits:
    """Numbers that bound and tune this module."""

    tolerance: float = 0.005
    """Seconds a slot may be used late without moving the grid; also the share by which the grid is stretched."""
    max_wait: float = 5.0
    """Seconds that a request which has its slot may be held back at most, whatever the rate has fallen to."""


LIMITS = PacerLimits()


class Slots(Protocol):
    """Times at which requests may leave: a daemon's own pace, or a fleet's grants."""

    @property
    def rate(self) -> float:
        """Requests per second."""

    @property
    def spacing(self) -> float:
        """Seconds between slots; inf at rate 0."""

    @property
    def skipped(self) -> int:
        """Whole slots lost so far because the driver came late."""

    def begin(self, now: float) -> None:
        """Let the first slot come now: a driver that was not there yet has lost none."""

    def next_at(self) -> float:
        """Time at which the next slot begins; inf while none is known to come."""

    def take(self, now: float) -> bool:
        """Uses the slot that has begun by `now`; False if none has."""

    def change_rate(self, rate: float, now: float) -> None:
        """From now on slots follow the new rate."""


class Pacer:
    """The grid of slots on the monotonic clock. It decides; waiting is the driver's business."""

    def __init__(self, rate: float, now: float) -> None:
        self._anchor = now  # when the next slot begins
        self.rate, self.spacing = rate, _spacing(rate)
        self._used_at = -math.inf
        self._lost = 0.0

    @property
    def skipped(self) -> int:
        """Whole slots lost so far because the driver came late."""
        return int(self._lost)

    def begin(self, now: float) -> None:
        """Let the first slot come now: a driver that was not there yet has lost none."""
        if math.isinf(self._used_at):
            self._anchor = max(self._anchor, now)

    def next_at(self) -> float:
        """Time at which the next slot begins; inf at rate 0."""
        return self._anchor if self.rate > 0 else math.inf

    def take(self, now: float) -> bool:
        """Uses the slot that has begun by `now`; False if none has. A late driver loses what it missed, counted."""
        if self.rate <= 0 or now < self._anchor:
            return False
        late = now - self._anchor
        if late > LIMITS.tolerance:
            shift = late - LIMITS.tolerance
            self._lost += shift / self.spacing
            self._anchor += shift
        self._used_at = now
        self._anchor += self.spacing
        return True

    def change_rate(self, rate: float, now: float) -> None:
        """From now on slots follow the new rate: the next one a new spacing after the last one used, never earlier.

        Raising the rate brings the next slot nearer at once, lowering it puts it off; from rate 0 there is no
        burst for the time that stood still.
        """
        if rate == self.rate:
            return
        self.rate, self.spacing = rate, _spacing(rate)
        self._anchor = max(now, self._used_at + self.spacing) if rate > 0 else now


def _spacing(rate: float) -> float:
    return (1.0 + LIMITS.tolerance) / rate if rate > 0 else math.inf


class Departures:
    """Keeps the same promise where requests really leave.

    Between its slot and its departure a request may be kept (by a read from the database, by a busy machine), and
    would then stand too close to those behind it. What is early by more than the tolerance waits; a request that comes
    late takes one spacing from those behind it, and the gap that it left gave one back.
    """

    def __init__(self, pacer: Slots) -> None:
        self._pacer = pacer
        self._spacing = pacer.spacing
        self._last = -math.inf  # when the last departure was due, or was made if it was later

    def delay(self, now: float) -> float:
        """Seconds that a request must still wait; it counts as leaving then. At rate 0 what has its slot leaves."""
        spacing = self._pacer.spacing
        if spacing != self._spacing:  # what lay ahead by the old rate must not hold up the new one
            self._spacing, self._last = spacing, min(self._last, now)
        due = now if math.isinf(spacing) else min(self._last + spacing, now + LIMITS.max_wait)
        leaves = max(now, due - LIMITS.tolerance)
        self._last = max(leaves, due)
        return leaves - now


# Shares of the slots: polls and audits may take so much and no more.


@dataclass(frozen=True, slots=True)
class SlotShares:
    """Parts of the slots that work other than planned crawls may take, and of crawls that go without conditions."""

    polls: float = 0.25
    audits: float = 0.01
    reads: float = 0.5
    unconditional: float = 0.02


class Share:
    """Grants at most `share` of all slots, spread evenly; what is not used is not saved up beyond one slot."""

    def __init__(self, share: float) -> None:
        self.share = share
        self._credit = 0.0

    @staticmethod
    def tick(shares: "Iterable[Share]") -> None:
        """A slot came."""
        for share in shares:
            share._credit = min(share._credit + share.share, 1.0)

    @property
    def ready(self) -> bool:
        """Tells whether the next slot may be spent."""
        return self._credit >= 1.0 - 1e-9

    def lends(self, slots: float) -> bool:
        """Tells whether a slot may be spent ahead of the share, of which no more than so many are ever owed."""
        return self._credit >= 1.0 - slots

    def spend(self, slots: int = 1) -> None:
        """So many slots were spent; what goes beyond the share is made up for before the next one."""
        self._credit -= slots

    def spend_if_ready(self) -> None:
        """The slot was spent on what this share covers, within it or because no page wanted it."""
        if self.ready:
            self.spend()
