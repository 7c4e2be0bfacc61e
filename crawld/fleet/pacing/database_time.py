"""The database's time as a worker knows it: in bounds, from what one answer said and when it was asked and came."""

from dataclasses import dataclass

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
