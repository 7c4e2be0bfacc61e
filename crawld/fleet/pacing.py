"""The database's time as a worker knows it: in bounds, from what one answer said and when it was asked and came."""

from collections.abc import Callable
from dataclasses import dataclass

from crawld.model.clock import SystemClock, boot, wall
from crawld.model.errors import ClockError
from crawld.model.units import format_duration

DRIFT = 1e-3
"""Seconds that two clocks may drift apart in a second: either may be slewed by half of it."""


@dataclass(frozen=True, slots=True)
class DatabaseTime:
    """The database read `now` somewhere between `asked` and `answered`, in seconds since this machine's boot.

    What the bounds say holds at every time, also before the answer: then the drift widens them the other way.
    """

    asked: float
    answered: float
    now: float

    def least(self, boot: float) -> float:
        """The database's time is at least this."""
        passed = boot - self.answered
        return self.now + passed - DRIFT * abs(passed)

    def most(self, boot: float) -> float:
        """The database's time is at most this."""
        passed = boot - self.asked
        return self.now + passed + DRIFT * abs(passed)

    def surely_at(self, time: float) -> float:
        """When, since boot, the database's time has reached `time` for sure: where `least` does."""
        return self.answered + _without_drift(time - self.now)

    def possibly_at(self, time: float) -> float:
        """When, since boot, the database's time may have reached `time`: where `most` does."""
        return self.asked - _without_drift(self.now - time)


def _without_drift(passed: float) -> float:
    """The seconds after which time that drifts behind has passed so far; before it, ahead."""
    return passed / (1.0 - DRIFT) if passed > 0 else passed / (1.0 + DRIFT)


MAX_AHEAD = 10.0
"""Seconds that a machine's clock may differ from the database's when its worker joins."""


class DatabaseClock(SystemClock):
    """Time by the database's clock, whatever this machine's shows: all workers stamp records with one time.

    Until the database has first answered it shows this machine's time; then it is set at once, and later it follows
    gradually, as a daemon's time follows a wall clock that was set.
    """

    def __init__(self, machine: Callable[[], float] = wall, monotonic: Callable[[], float] = boot) -> None:
        self._machine, self._offset = machine, None
        super().__init__(self._database, monotonic)

    _offset: float | None
    """Seconds from the time since boot to the database's, as far as it is known."""

    def follow(self, time: DatabaseTime) -> None:
        """Go by an answer of the database; within its bounds nothing changes."""
        at = self.monotonic()
        low, high = time.least(at) - at, time.most(at) - at
        if self._offset is None:
            self._offset = (low + high) / 2
            self._begin_at(at + self._offset)
        self._offset = min(max(self._offset, low), high)

    def ahead(self) -> float:
        """Seconds that this machine's clock is ahead of the database's; negative where it is behind."""
        return self._machine() - self._database()

    def check(self) -> None:
        """ClockError where this machine's clock is too wrong for a worker."""
        if abs(ahead := self.ahead()) > MAX_AHEAD:
            raise ClockError(
                f"the clock of this machine is {format_duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} "
                f"the database's: a worker joins within {MAX_AHEAD:g} s; set the clock (timedatectl, chrony)"
            )

    def _database(self) -> float:
        return self._machine() if self._offset is None else self.monotonic() + self._offset
