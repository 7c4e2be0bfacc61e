"""What one worker does for the whole fleet: whoever has the duty runs it, and when that one ends another does."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from crawld.errors import CrawldError, DamagedError, StoreError
from crawld.fleet.worker import Worker

log = logging.getLogger("crawld.fleet")

LOOK_SECONDS = 0.5
"""Between two looks at whether the duty is still ours."""
TAKE_SECONDS = 3.0
"""Between two tries to take a duty that another worker has."""
AGAIN_SECONDS = 30.0
"""After which a duty that failed is tried again."""


class Duty:
    """Runs something while this worker has the duty of that name."""

    def __init__(self, name: str, worker: Worker, work: Callable[[], Awaitable[None]]) -> None:
        self._name, self._worker, self._work = name, worker, work

    async def run(self) -> None:
        """Take the duty whenever nobody has it, and do it, until cancelled."""
        while True:
            if self._ours:
                await self._do()
                continue
            if self._worker.id is not None:
                with contextlib.suppress(StoreError):  # the beats tell of a database that is out of reach
                    if await self._worker.take_duty(self._name):
                        continue
            await asyncio.sleep(TAKE_SECONDS)

    @property
    def _ours(self) -> bool:
        return self._name in self._worker.duties

    async def _do(self) -> None:
        """Work until the duty is lost; what fails is told and tried again."""
        log.info("took a duty of the fleet", extra={"duty": self._name})
        task = asyncio.ensure_future(self._work())
        try:
            while self._ours and not task.done():
                await asyncio.wait([task], timeout=LOOK_SECONDS)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, CrawldError) or isinstance(error, DamagedError):
                raise error
            level = logging.WARNING if isinstance(error, StoreError) else logging.ERROR  # the database may come back
            log.log(level, "a duty of the fleet failed", extra={"duty": self._name, "reason": str(error)})
            await asyncio.sleep(AGAIN_SECONDS)
