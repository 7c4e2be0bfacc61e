"""What crawld comes to and what round robin would hold, for whoever cannot wait: the last answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from crawld.errors import CrawldError

RENEWED_SECONDS = 60.0
PATIENCE_SECONDS = 0.1
"""For which the first view waits; then it goes without."""
Forecast = Callable[[Sequence[float]], Awaitable[dict[str, object]]]


@dataclass(frozen=True, slots=True)
class Expected:
    """The freshness that is held in the long run at one rate."""

    ours: float
    round_robin: float


class Comparison:
    """Asks for a forecast now and then, one at a time, while somebody looks."""

    def __init__(self, forecast: Forecast, now: Callable[[], float]) -> None:
        self._forecast, self._now = forecast, now
        self._found: Expected | None = None
        self._at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    async def latest(self) -> Expected | None:
        """What is expected in the long run at the rate set; None where it is not known yet."""
        if self._task is None and self._now() - self._at > RENEWED_SECONDS:
            self._task = asyncio.create_task(self._renew())
        if self._task is not None and self._found is None:
            await asyncio.wait((self._task,), timeout=PATIENCE_SECONDS)
        return self._found

    async def _renew(self) -> None:
        try:
            expected: Any = (await self._forecast([]))["expected"]
            known = isinstance(expected, dict)
            self._found = Expected(expected["freshness"], expected["round_robin"]) if known else None
        except CrawldError:
            self._found = None  # this policy has no forecast, or the daemon cannot say now
        finally:
            self._at, self._task = self._now(), None

    async def close(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
