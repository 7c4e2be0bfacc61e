"""Where foreign bytes are read: processes that can be killed."""

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

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
