"""Forecasts for views: kept for a minute, and for whoever cannot wait the last one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawld.model.errors import CrawldError
from crawld.store.control import Control

KEPT_SECONDS = 60.0
"""For which an answer serves: estimates move slowly, and a forecast of many pages takes seconds."""
MOST_KEPT = 8
PATIENCE_SECONDS = 0.1
"""For which a view that only mentions a forecast waits; then it goes without."""
Document = Mapping[str, Any]
Question = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """The freshness that is held in the long run at one rate."""

    ours: float
    round_robin: float


class Forecasts:
    """Asks the daemon for forecasts, each question once a minute."""

    def __init__(self, control: Control, now: Callable[[], float]) -> None:
        self._control, self._now = control, now
        self._asked: dict[Question, tuple[float, asyncio.Task[Document]]] = {}
        self._last: Expected | None = None

    async def of(self, rates: Sequence[float]) -> Document:
        """What the rate set and these rates buy; InputError where the policy has no forecast."""
        return await asyncio.shield(self._task(tuple(rates)))

    async def latest(self, bandwidth: float) -> Expected | None:
        """What is expected at the rate set, as far as it is known already."""
        task = self._task((bandwidth,))
        if self._last is None:
            await asyncio.wait((task,), timeout=PATIENCE_SECONDS)
        if task.done():
            self._last = _expected(task)
        return self._last

    def _task(self, question: Question) -> "asyncio.Task[Document]":
        """The answer to a question, under way or given; the oldest are forgotten."""
        at, task = self._asked.get(question, (float("-inf"), None))
        if task is None or (task.done() and not 0 <= self._now() - at <= KEPT_SECONDS):
            self._asked.pop(question, None)
            task = asyncio.create_task(self._ask(question))
            self._asked[question] = self._now(), task
            for old in list(self._asked)[:-MOST_KEPT]:
                del self._asked[old]
        return task

    async def _ask(self, question: Question) -> Document:
        return await self._control.forecast(list(question))


def _expected(task: "asyncio.Task[Document]") -> Expected | None:
    try:
        found = task.result()["expected"]
    except (CrawldError, asyncio.CancelledError):
        return None  # this policy has no forecast, or the daemon ends
    return None if found is None else Expected(found["freshness"], found["round_robin"])
