"""Contracts of time, of the web and of the workers that read foreign bytes."""

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from crawld.model.fetched import Outcome, Request


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
        """Close every connection."""


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
