"""What one worker does for the whole fleet: the one that has the duty runs it, and when it ends another does.

A duty is done in terms. All that is written during a term is fenced by it: the transaction goes through only while the
database says that the term lasts, so a worker that was stopped and wakes up writes nothing more.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from crawld.errors import CrawldError, DamagedError, DutyLostError, StoreError
from crawld.fleet.worker import Worker
from crawld.store.fleet.fence import Term, fenced_by

log = logging.getLogger("crawld.fleet")

LOOK_SECONDS = 0.5
"""Between two looks at whether the term still lasts."""
TAKE_SECONDS = 3.0
"""Between two tries to take a duty that another worker has."""
AGAIN_SECONDS = 30.0
"""For which a worker that failed at a duty leaves it to others."""


class Duty:
    """Runs something while this worker has the duty of that name. Failures are logged and never end the worker."""

    def __init__(self, name: str, worker: Worker, work: Callable[[], Awaitable[None]]) -> None:
        self._name, self._worker, self._work = name, worker, work

    async def run(self) -> None:
        """Take the duty whenever it is free, and do it, until cancelled."""
        while True:
            wait = TAKE_SECONDS
            if not self._worker.draining and self._worker.id is not None:
                with contextlib.suppress(StoreError):  # the beats tell of a database that is out of reach
                    if await self._worker.take_duty(self._name):
                        async with self._worker.serving(self._name):
                            wait = TAKE_SECONDS if await self._serve() else AGAIN_SECONDS
            await asyncio.sleep(wait)

    async def _serve(self) -> bool:
        """Work until the term is over, then give the duty away; False where the work failed."""
        worker, epoch = self._worker.id, self._worker.duties.get(self._name)
        if worker is None or epoch is None:
            return True
        log.info("took a duty of the fleet", extra={"duty": self._name})
        with fenced_by(Term(self._name, worker, epoch)):
            task = asyncio.ensure_future(self._work())
        try:
            while not task.done() and self._lasts(epoch):
                await asyncio.wait([task], timeout=LOOK_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait([task])
            done = self._report(None if task.cancelled() else task.exception())
        if self._worker.duties.get(self._name) == epoch:
            with contextlib.suppress(StoreError):  # it is free when the lease ends
                await self._worker.give_duty(self._name)
        return done

    def _lasts(self, epoch: int) -> bool:
        return self._worker.duties.get(self._name) == epoch and not self._worker.draining

    def _report(self, error: BaseException | None) -> bool:
        """Log why the work ended; False where it failed."""
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if error is None or isinstance(error, DutyLostError):
            log.info("a duty of the fleet passed to another worker", extra={"duty": self._name})
            return True
        if isinstance(error, DamagedError) or not isinstance(error, Exception):
            raise error
        if isinstance(error, CrawldError):
            level = logging.WARNING if isinstance(error, StoreError) else logging.ERROR  # the database may come back
            log.log(level, "a duty of the fleet failed", extra={"duty": self._name, "reason": str(error)})
        else:
            log.error("internal error in a duty of the fleet; please report it", extra={"duty": self._name},
                      exc_info=error)  # fmt: skip
        return False
