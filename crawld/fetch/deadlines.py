"""Deadlines of many requests at once: one timer for all of them, where one each would cost a tenth of a request."""

import asyncio
from dataclasses import dataclass
from typing import cast


@dataclass(slots=True, eq=False)
class Wait:
    """What a task waits for until a moment of the loop's time."""

    task: "asyncio.Task[object]"
    until: float
    expired: bool = False


class Deadlines:
    """Cancels tasks whose wait takes longer than so many seconds. All wait equally long: who began first ends first."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[Wait, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Wait:
        """The running task waits from now on, until `end`."""
        loop = asyncio.get_running_loop()
        wait = Wait(cast("asyncio.Task[object]", asyncio.current_task()), loop.time() + self._seconds)
        self._waits[wait] = None
        if self._timer is None:
            self._timer = loop.call_at(wait.until, self._look)
        return wait

    def end(self, wait: Wait) -> None:
        """What was waited for has come, or is not wanted any more."""
        self._waits.pop(wait, None)

    def expire(self, wait: Wait) -> None:
        """Let the deadline of a wait pass now."""
        if self._waits.pop(wait, self) is not self:
            wait.expired = True
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
            wait = next(iter(self._waits))
            if wait.until > loop.time():
                self._timer = loop.call_at(wait.until, self._look)
                return
            self.expire(wait)


def expired(*waits: Wait) -> bool:
    """Whether a cancellation that has come is that of these waits alone: it is then taken back."""
    over = [wait for wait in waits if wait.expired]
    for wait in over:
        wait.task.uncancel()
    return bool(over) and not waits[0].task.cancelling()
