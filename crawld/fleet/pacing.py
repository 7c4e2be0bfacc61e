"""The pace of a worker: the database's time within bounds, and when its grants let a request leave."""

import asyncio
import contextlib
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from crawld.choose.pacer import LIMITS as PACER_LIMITS
from crawld.fleet.auction import aim
from crawld.model.clock import SystemClock, boot, wall
from crawld.model.errors import ClockError, UnsentError
from crawld.model.shards import Grant
from crawld.model.units import format_duration
from crawld.model.web import Clock


@dataclass(frozen=True)
class PacingLimits:
    """Numbers that bound and tune this module."""

    drift: float = 1e-3
    """Seconds that two clocks may drift apart in a second: either may be slewed by half of it."""
    max_ahead: float = 10.0
    """Seconds that a machine's clock may differ from the database's when its worker joins."""
    margin: float = 0.5
    """Seconds before the end of its lease at which a worker stops: what is on its way to the wire must be out by
    then."""
    rounding: float = 1e-9  # of a slot: one that is due must not be missed by the last digit of its time
    max_wait: float = 5.0
    """Seconds that a request waits at the door for a grant; after that its page is picked anew when there is one."""


LIMITS = PacingLimits()


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
        return self.now + passed - LIMITS.drift * abs(passed)

    def most(self, boot: float) -> float:
        """The database's time is at most this."""
        passed = boot - self.asked
        return self.now + passed + LIMITS.drift * abs(passed)

    def surely_at(self, time: float) -> float:
        """Seconds since boot at which the database's time has reached `time` for sure: where `least` does."""
        return self.answered + _without_drift(time - self.now)

    def possibly_at(self, time: float) -> float:
        """Seconds since boot at which the database's time may have reached `time`: where `most` does."""
        return self.asked - _without_drift(self.now - time)


def _without_drift(passed: float) -> float:
    """The seconds after which time that drifts behind has passed so far; before it, ahead."""
    return passed / (1.0 - LIMITS.drift) if passed > 0 else passed / (1.0 + LIMITS.drift)


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
        if abs(ahead := self.ahead()) > LIMITS.max_ahead:
            raise ClockError(
                f"the clock of this machine is {format_duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} "
                f"the database's: a worker joins within {LIMITS.max_ahead:g} s; set the clock (timedatectl, chrony)"
            )

    def _database(self) -> float:
        return self._machine() if self._offset is None else self.monotonic() + self._offset


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """Requests a second by time: `rates[i]` from `times[i]` on; none before the first time and from the last one on."""

    times: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()

    def rate(self, at: float) -> float:
        """The rate at a time."""
        index = bisect_right(self.times, at) - 1
        return self.rates[index] if index >= 0 else 0.0

    def requests(self, start: float, end: float) -> float:
        """Counts the requests that come to be from one time to another."""
        pieces = self._pieces(start)
        return math.fsum(rate * (min(until, end) - since) for since, until, rate in pieces if since < end)

    def reached(self, start: float, requests: float) -> float:
        """Returns the time by which so many requests have come to be since `start`; inf if never."""
        for since, until, rate in self._pieces(start):
            gained = rate * (until - since)
            if rate > 0 and gained >= requests:
                return since + max(requests, 0.0) / rate
            requests -= gained
        return math.inf

    def _pieces(self, start: float) -> Iterable[tuple[float, float, float]]:
        """Stretches of one rate from `start` on: since when, until when, which."""
        for (since, until), rate in zip(pairwise(self.times), self.rates, strict=False):
            if until > start:
                yield max(since, start), until, rate


NOTHING = RateSchedule()


def schedule(time: DatabaseTime, grants: Sequence[Grant]) -> RateSchedule:
    """The rate at every moment since boot, by these grants."""
    edges = sorted({edge for grant in grants for edge in (grant.starts, grant.ends)})
    times = sorted({at(edge) for edge in edges for at in (time.possibly_at, time.surely_at)})
    if not times:
        return NOTHING
    middles = [(since + until) / 2 for since, until in pairwise(times)]
    rates = [_least(grants, edges, time.least(middle), time.most(middle)) for middle in middles]
    return RateSchedule(tuple(times), (*rates, 0.0))


def lease_end(time: DatabaseTime, expires: float) -> float:
    """The time since boot at which a worker must have stopped: before any other worker can find its lease over."""
    return time.possibly_at(expires) - LIMITS.margin


def _least(grants: Sequence[Grant], edges: Sequence[float], low: float, high: float) -> float:
    """The least that is granted anywhere from `low` to `high`."""
    moments = [low, *(edge for edge in edges if low < edge <= high)]
    return min(_granted(grants, moment) for moment in moments)


def _granted(grants: Sequence[Grant], at: float) -> float:
    return next((grant.rate for grant in grants if grant.starts <= at < grant.ends), 0.0)


STRETCH = 1.0 + PACER_LIMITS.tolerance


class GrantPacer:
    """The `Slots` of a fleet: the grid of `Pacer` where the rate changes with every round.

    It has no first slot: a restarted worker sends no extra request.
    """

    def __init__(self, now: float) -> None:
        self.openings: Callable[[], Iterable[float]] = tuple
        """Times by our own clock at which hosts open that a slot should wait for (`auction.aim`)."""
        self._aimed: float | None = None  # when the slot that has come is used, once that is decided
        self._schedule = NOTHING
        self._at = now
        self._credit = 0.0  # of a slot, as of `_at`
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
        """Returns the start of the next slot; inf if no grant that is known brings one."""
        come = self._schedule.reached(self._at, (1.0 - self._credit) * STRETCH)
        return come if self._aimed is None else max(come, self._aimed)

    def take(self, now: float) -> bool:
        """Uses the slot that has begun by `now`; False if none has. A late driver loses what it missed, counted."""
        self._advance(now)
        if self._credit < 1.0 - LIMITS.rounding or self.rate <= 0:
            return False
        if self._aimed is None:
            self._aimed = aim(now, self.spacing, self.openings())
        if now < self._aimed:
            return False
        self._aimed = None
        self._credit -= 1.0
        return True

    def change_rate(self, rate: float, now: float) -> None:  # noqa: ARG002 - grants alone decide how fast slots come
        """Nothing: the rate is what is granted."""
        self._advance(now)

    def _advance(self, now: float) -> None:
        if now <= self._at:
            return
        self._credit += self._schedule.requests(self._at, now) / STRETCH
        self._at = now
        most = 1.0 + self._schedule.requests(now - PACER_LIMITS.tolerance, now) / STRETCH
        if self._credit > most:
            self._lost += self._credit - most
            self._credit = most


class GrantDoor:
    """The `Door` of a fleet: requests leave by grants, and only while the lease lasts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pacer = GrantPacer(clock.monotonic())
        self._schedule = NOTHING
        self._deadline = -math.inf
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def follow(self, schedule: RateSchedule, deadline: float) -> None:
        """From now on requests leave by this schedule, and until that time at most."""
        self._schedule, self._deadline = schedule, deadline
        self._pacer.follow(schedule, self._clock.monotonic())
        self._changed.set()

    def may_send(self) -> bool:
        """The last look, right before a byte leaves: whether there are a lease and a grant at this moment."""
        now = self._clock.monotonic()
        return now < self._deadline and self._schedule.rate(now) > 0

    async def leave(self) -> float:
        """Wait until the request may leave, first come first served; UnsentError where no grant comes in time."""
        until = self._clock.monotonic() + LIMITS.max_wait
        async with self._turn:
            while (now := self._clock.monotonic()) < until:
                if now < self._deadline and self._pacer.take(now):
                    return now
                await self._wait(min(self._pacer.next_at() if now < self._deadline else math.inf, until) - now)
        raise UnsentError("no grant for this request came in time")

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until the schedule changes."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._changed.wait()
