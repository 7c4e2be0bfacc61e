"""Duties, which one worker does for the whole fleet: the one that has it runs it, and when it ends another does.

A duty is done in terms. All that is written during a term is fenced by it: the transaction goes through only while the
database says that the term lasts, so a worker that was stopped and wakes up writes nothing more.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from crawld.fleet.store.fence import Term, fenced_by
from crawld.fleet.worker import Worker
from crawld.main.supervisor import LIMITS as SUPERVISOR_LIMITS
from crawld.main.supervisor import Daemon, Service
from crawld.model.errors import CrawldError, DamagedError, DutyLostError, StoreError
from crawld.model.shards import PRUNE_DUTY


@dataclass(frozen=True)
class DutiesLimits:
    """Numbers that bound and tune this module."""

    look_seconds: float = 0.5
    """Between two looks at whether the term still lasts."""
    take_seconds: float = 3.0
    """Between two tries to take a duty that another worker has."""
    again_seconds: float = 30.0
    """For which a worker that failed at a duty leaves it to others."""
    commit_seconds: float = 3.0
    """For which duties and the last records may take to end before the shards are given back without them."""


LIMITS = DutiesLimits()


log = logging.getLogger("crawld.fleet")


class Duty:
    """Runs something while this worker has the duty of that name. Failures are logged and never end the worker."""

    def __init__(self, name: str, worker: Worker, work: Callable[[], Awaitable[None]]) -> None:
        self._name, self._worker, self._work = name, worker, work

    async def run(self) -> None:
        """Take the duty whenever it is free, and do it, until cancelled."""
        while True:
            wait = LIMITS.take_seconds
            if not self._worker.draining and self._worker.id is not None:
                with contextlib.suppress(StoreError):  # the beats tell of a database that is out of reach
                    if await self._worker.take_duty(self._name):
                        async with self._worker.serving(self._name):
                            wait = LIMITS.take_seconds if await self._serve() else LIMITS.again_seconds
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
                await asyncio.wait([task], timeout=LIMITS.look_seconds)
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


@dataclass(slots=True, kw_only=True)
class FleetDaemon(Daemon):
    """A daemon that is a worker: history and pruning are the fleet's business, not every worker's."""

    worker: Worker
    in_group: bool = False
    """One of the processes of `crawld run`, which says for all of them that they are ready."""

    def _tell_ready(self, told: dict[str, object]) -> None:
        if self.in_group:
            self.notifier.send(f"X_DASHBOARD={told['dashboard'] or ''}", "READY=1", self._status_line())
        else:
            Daemon._tell_ready(self, told)  # a dataclass with slots is made anew, which super() does not know

    async def _begin(self) -> None:
        await self.worker.join()

    def _loops(self) -> Sequence[Service]:
        prune = Duty(PRUNE_DUTY, self.worker, self._prune)
        loops = [self.crawler.run, self._status, self._forget, self._feed_watchdog, self.store.watch]
        return [*loops, prune.run, self._prune_own]

    async def _prune_own(self) -> None:
        """Delete surplus rows of this worker's pages; shared rows are pruned by the worker that has the duty."""
        while True:
            await asyncio.sleep(SUPERVISOR_LIMITS.prune_seconds)
            with contextlib.suppress(StoreError):  # the beats tell of a database that is out of reach
                while await self.worker.store.prune_own() > 0:  # noqa: ASYNC110 - there is nothing to wait for but time
                    await asyncio.sleep(SUPERVISOR_LIMITS.prune_pause)

    async def _status(self) -> None:
        """A line for the log and one for systemd now and then."""
        while True:
            await asyncio.sleep(self.tick_seconds)
            self._tell_standing()

    async def _end(self) -> None:
        """Give the shards back as soon as everything is committed."""
        self.worker.stop()
        with contextlib.suppress(StoreError, TimeoutError):  # what is not committed now is tried once more at the end
            async with asyncio.timeout(LIMITS.commit_seconds):
                await self.worker.finish_duties()
                await self.store.flush()
        await self.worker.leave()

    async def _well(self) -> bool:
        """A database that is away is no reason to be ended: pages are kept in memory until it is back."""
        return self.crawler.serves_slots()

    def _record_last(self) -> None:
        """Record nothing: the worker with that duty writes the fleet's history."""
