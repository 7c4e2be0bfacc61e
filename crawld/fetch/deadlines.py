"""Deadlines of many requests at once: one timer for all of them, where one each would cost a tenth of a request."""

import asyncio
from dataclasses import dataclass
from typing import cast


@dataclass(slots=True, eq=False)
class Wait:
    """What a task waits for, and the deadline that has passed, if one has."""

    task: "asyncio.Task[object]"
    expired_by: "Deadlines | None" = None


class Deadlines:
    """Cancels tasks whose wait takes longer than so many seconds. All wait equally long: who began first ends first."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[Wait, float] = {}  # until a moment of the loop's time
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, wait: Wait | None = None) -> Wait:
        """The running task waits from now on, until `end`; one wait may have several deadlines."""
        loop = asyncio.get_running_loop()
        if wait is None:
            wait = Wait(cast("asyncio.Task[object]", asyncio.current_task(loop)))
        self._waits[wait] = until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)
        return wait

    def end(self, wait: Wait) -> None:
        """What was waited for has come, or is not wanted any more."""
        self._waits.pop(wait, None)

    def expire(self, wait: Wait) -> None:
        """Let the deadline of a wait pass now."""
        if self._waits.pop(wait, None) is not None and wait.expired_by is None:
            wait.expired_by = self
            wait.task.cancel()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._waits:
            wait, until = next(iter(self._waits.items()))
            if until > loop.time():
                self._timer = loop.call_at(until, self._look)
                return
            self.expire(wait)


def expired(wait: Wait) -> bool:
    """Whether a cancellation that has come is that of a deadline alone: it is then taken back."""
    return wait.expired_by is not None and not wait.task.uncancel()
