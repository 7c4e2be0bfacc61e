"""What the drivers need of time, of the web, and of robots.txt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

from crawld.model.fetched import Outcome, Request, RobotsReading, RobotsState
from crawld.model.usage import Statement


class Clock(Protocol):
    """Time as the drivers see it: real in the daemon, turned by hand in tests."""

    def now(self) -> float:
        """UTC seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds on a clock that is never set."""

    async def sleep_until(self, monotonic: float) -> None:
        """Sleep until that moment of the monotonic clock."""


class Fetcher(Protocol):
    """Sends one request and never raises for what a server does; redirects are answers, not followed."""

    async def fetch(self, request: Request) -> Outcome:
        """Send the request and read its answer to the end or to its limit."""

    async def close(self) -> None:
        """Let go of every connection."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """robots.txt lets us ask for the URL."""


@dataclass(frozen=True, slots=True)
class Disallowed:
    """robots.txt forbids the URL (`by_rule`), or is unavailable, which forbids everything for a while."""

    reason: str
    until: float  # UTC seconds: no use in asking again before
    by_rule: bool = True


@dataclass(frozen=True, slots=True)
class NeedsFetch:
    """robots.txt is not known, or too old: fetch it from `url` first."""

    url: str


@dataclass(frozen=True, slots=True)
class RobotsFailure:
    """A robots.txt that is unavailable: nothing of its site may be asked for until a fetch succeeds."""

    origin: str
    reason: str
    failures: int
    until: float  # UTC seconds: when it is tried again


class Robots(Protocol):
    """What each site's robots.txt says, as far as it is known. Fetching and reading are the driver's business."""

    token: str
    """The product token by which a robots.txt names us."""

    def verdict(self, url: str, now: float) -> Allowed | Disallowed | NeedsFetch:
        """Whether the URL may be asked for now."""

    def said(self, url: str) -> tuple[Statement, ...]:
        """What the site's robots.txt says of the use of a page, as far as it is known."""

    def has_copy(self, url: str, now: float) -> bool:
        """Whether there are rules for the URL's site to obey while its robots.txt is out of reach."""

    def learn(
        self,
        robots_url: str,
        outcome: Outcome,
        now: float,
        *,
        reading: RobotsReading | None = None,
        host_down: bool = False,
    ) -> RobotsState:
        """Take over what fetching that robots.txt (redirects followed) brought, and return what is now known of it.

        `reading` is what the file says, where one came; without it the file is read in place. `host_down` if its host
        backs off.
        """

    def forget_old(self, now: float) -> None:
        """Forget what is no longer fresh of hosts without pages."""

    def unavailable(self, now: float) -> Sequence[RobotsFailure]:
        """Every robots.txt that is unavailable, so that its site is closed to us now."""


# Where foreign bytes are read: processes that can be killed.

P = ParamSpec("P")
T = TypeVar("T")


class Workers(Protocol):
    """Runs work on foreign bytes within a deadline and a memory limit, so that it costs its own page and no other."""

    async def run(self, payer: str, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Return what `work` returns; TooCostlyError where it exceeded a limit. `payer` is the host that sent it all.

        `work` is a function at the top level of a module, or a partial one; its annotations say the shapes of what
        it is given and returns. crawld's own errors are raised here as themselves, others as RuntimeError.
        """

    def start(self) -> None:
        """Start what is needed to run work, before it is needed."""

    async def close(self) -> None:
        """End all work."""
