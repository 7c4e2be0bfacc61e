"""Slots by grants: the grid of `crawld.choose.pacer` where the rate changes with every round.

A slot comes whenever the granted rate, stretched as the grid is, has added up to one more request. Nothing is saved up:
a slot that is used more than `TOLERANCE` late moves the grid. So in any window at most one request more leaves than was
granted in it and in the 5 ms before it.
"""

import math
from collections.abc import Callable, Iterable

from crawld.choose.pacer import TOLERANCE, Slot
from crawld.fleet.auction import aim
from crawld.fleet.grants import NOTHING, RateSchedule

STRETCH = 1.0 + TOLERANCE
ROUNDING = 1e-9  # of a slot: one that is due must not be missed by the last digit of its time


class GrantPacer:
    """Implements `crawld.choose.pacer.Slots`. It starts without a slot: a worker that is started again sends no extra one."""

    def __init__(self, now: float) -> None:
        self.openings: Callable[[], Iterable[float]] = tuple
        """When hosts open, by our own clock, that a slot should rather wait for than be used before (`auction.aim`)."""
        self._aimed: float | None = None  # when the slot that has come is used, once that is decided
        self._schedule = NOTHING
        self._at = now
        self._credit = 0.0  # of a slot, as of `_at`
        self._index = 0
        self._lost = 0.0

    @property
    def rate(self) -> float:
        """Requests per second, when it was last looked at."""
        return self._schedule.rate(self._at)

    @property
    def spacing(self) -> float:
        """Seconds between slots at that rate; inf at rate 0."""
        return STRETCH / self.rate if self.rate > 0 else math.inf

    @property
    def skipped(self) -> int:
        """Whole slots lost so far because the driver came late."""
        return int(self._lost)

    def begin(self, now: float) -> None:
        """Let slots come from now on."""
        self._advance(now)

    def follow(self, schedule: RateSchedule, now: float) -> None:
        """From now on slots come by another schedule."""
        self._advance(now)
        self._schedule = schedule

    def next_at(self) -> float:
        """When the next slot begins; inf if no grant that is known brings one."""
        come = self._schedule.reached(self._at, (1.0 - self._credit) * STRETCH)
        return come if self._aimed is None else max(come, self._aimed)

    def take(self, now: float) -> Slot | None:
        """The slot that has begun by `now`, or None. A driver that is late loses what it missed, and it is counted."""
        self._advance(now)
        if self._credit < 1.0 - ROUNDING or self.rate <= 0:
            return None
        if self._aimed is None:
            self._aimed = aim(now, self.spacing, self.openings())
        if now < self._aimed:
            return None
        self._aimed = None
        self._credit -= 1.0
        self._index += 1
        return Slot(self._index - 1, now)

    def change_rate(self, rate: float, now: float) -> None:  # noqa: ARG002 - grants alone decide how fast slots come
        """Nothing: the rate is what is granted."""
        self._advance(now)

    def _advance(self, now: float) -> None:
        if now <= self._at:
            return
        self._credit += self._schedule.requests(self._at, now) / STRETCH
        self._at = now
        most = 1.0 + self._schedule.requests(now - TOLERANCE, now) / STRETCH
        if self._credit > most:
            self._lost += self._credit - most
            self._credit = most
