"""The only module that reads time. Everything else is told what time it is."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ClockLimits:
    """Numbers that bound and tune this module."""

    slew: float = 0.1
    """How much faster or slower than true our time runs until it has met a wall clock that was set."""
    worth_a_warning: float = 3600.0
    """Seconds between our time and the wall clock from which on the operator is told."""
    met: float = 1.0
    """Seconds within which they are the same again."""


LIMITS = ClockLimits()


log = logging.getLogger("crawld")


def boot() -> float:
    """Seconds since this machine was started, those included for which it slept (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> float:
    """Returns what this machine's clock shows, in UTC seconds since the epoch; it may be set at any moment."""
    return time.time()


class SystemClock:
    """Time for records, and monotonic time for pacing.

    `now` follows the wall clock, but where that is set by an hour it neither jumps nor goes back, or ages would all be
    wrong at once and pages crawled "in the future" be asked for no more. It runs a little faster or slower instead.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self.monotonic = monotonic  # seconds on a clock that is never set
        self._at = monotonic()
        self._shown = wall()
        self._warned = False

    def now(self) -> float:
        """UTC seconds since the epoch; never less than before."""
        at = self.monotonic()
        passed, self._at = at - self._at, at
        behind = self._wall() - (self._shown + passed)
        most = LIMITS.slew * passed
        self._shown += passed + (behind if -most <= behind <= most else most if behind > 0 else -most)
        if (abs(behind) > (LIMITS.met if self._warned else LIMITS.worth_a_warning)) is not self._warned:
            self._warn(behind)
        return self._shown

    def _begin_at(self, now: float) -> None:
        """Show that time at once, while nothing has been told another one."""
        self._at, self._shown = self.monotonic(), now

    def _warn(self, behind: float) -> None:
        """Once when the wall clock was set far, and once when our time has met it again."""
        self._warned = not self._warned
        if self._warned:
            way, far = ("forward" if behind > 0 else "back"), round(abs(behind))
            log.warning("the wall clock was set %s; internal time follows gradually", way, extra={"seconds": far})
        else:
            log.warning("internal time has caught up with the wall clock")

    async def sleep_until(self, monotonic: float) -> None:
        """Sleep until that moment of the monotonic clock; return at once if it has passed."""
        await asyncio.sleep(max(0.0, monotonic - self.monotonic()))
