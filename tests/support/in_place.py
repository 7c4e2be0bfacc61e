"""Work that a worker would do, done in place: for tests in virtual time, which no process keeps."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class InPlace:
    """Workers without processes and without limits."""

    async def run(self, payer: str, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Do the work now."""
        return work(*given, **named)

    def start(self) -> None:
        """Nothing to start."""

    async def close(self) -> None:
        """Nothing to end."""
