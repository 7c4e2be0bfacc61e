"""Time never goes back nor jumps, and finds back to the wall clock."""

import pytest

from crawld.fleet.pacing import DatabaseClock, DatabaseTime
from crawld.model.clock import LIMITS as CLOCK_LIMITS
from crawld.model.clock import SystemClock
from crawld.model.errors import ClockError


class Hands:
    """A wall clock and a monotonic clock that are turned by hand."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_000_000.0, 50.0

    def pass_(self, seconds: float) -> None:
        """Let time pass on both."""
        self.wall += seconds
        self.monotonic += seconds


def test_without_steps_it_is_the_wall_clock() -> None:
    """It shows what the wall clock shows."""
    hands = Hands()
    clock = SystemClock(lambda: hands.wall, lambda: hands.monotonic)
    for _ in range(100):
        hands.pass_(0.37)
        assert clock.now() == pytest.approx(hands.wall, abs=1e-6)


def test_a_clock_set_by_days_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """One warning when the wall clock was set, none while the two are apart, one more when they have met."""
    hands = Hands()
    clock = SystemClock(lambda: hands.wall, lambda: hands.monotonic)
    hands.wall -= 3 * 86400.0
    for _ in range(100):
        hands.pass_(1.0)
        clock.now()
    assert [line.message for line in caplog.records] == ["the wall clock was set back; internal time follows gradually"]
    hands.pass_(31 * 86400.0)
    clock.now()
    hands.pass_(1.0)
    clock.now()
    assert [line.message for line in caplog.records][1:] == ["internal time has caught up with the wall clock"]


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_step_of_the_wall_clock_is_met_gradually(step: float) -> None:
    """Our time goes on forward, a tenth faster or slower, until it meets the wall clock again."""
    hands = Hands()
    clock = SystemClock(lambda: hands.wall, lambda: hands.monotonic)
    clock.now()
    hands.wall += step
    before = clock.now()
    assert abs(before - 1_000_000.0) < 1e-6
    for _ in range(1000):
        hands.pass_(10.0)
        now = clock.now()
        assert 10.0 * (1 - CLOCK_LIMITS.slew) - 1e-6 <= now - before <= 10.0 * (1 + CLOCK_LIMITS.slew) + 1e-6
        before = now
    for _ in range(4000):
        hands.pass_(10.0)
        clock.now()
    assert clock.now() == pytest.approx(hands.wall, abs=1e-3)


def test_time_goes_by_the_database() -> None:
    """The first answer sets it at once, later ones gradually; a wrong clock is refused."""
    hands = Hands()
    clock = DatabaseClock(lambda: hands.wall, lambda: hands.monotonic)
    assert clock.now() == hands.wall
    hands.pass_(0.2)
    clock.follow(DatabaseTime(hands.monotonic - 0.2, hands.monotonic, hands.wall - 3600.1))
    assert clock.now() == pytest.approx(hands.wall - 3600.0, abs=1e-3)
    assert clock.ahead() == pytest.approx(3600.0, abs=1e-3)
    with pytest.raises(ClockError, match="60 min ahead of the database's"):
        clock.check()
    hands.wall -= 3602.0
    hands.pass_(1.0)
    before = clock.now()
    assert clock.ahead() == pytest.approx(-2.0, abs=1e-3)
    clock.check()
    clock.follow(DatabaseTime(hands.monotonic, hands.monotonic, before + 5.0))
    assert clock.now() == pytest.approx(before, abs=1e-6)  # it does not jump any more
    hands.pass_(1.0)
    assert clock.now() == pytest.approx(before + 1.0 + CLOCK_LIMITS.slew, abs=1e-6)
