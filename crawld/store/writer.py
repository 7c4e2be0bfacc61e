"""The one writer: a queue, and a task that commits it in batches.

Queueing never waits. A batch that fails for a passing reason (locked, full, out of reach) is kept and tried again;
`lag` and `backlog` say how far behind the writer is. A row that the database refuses for good is dropped alone,
counted and logged, so that it does not take its neighbours with it. A database that is damaged ends the writing: what
is queued stays queued, and closing says how much that was.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from crawld.model.errors import DamagedError, StoreError
from crawld.model.signal import Signal
from crawld.model.web import Clock
from crawld.store.batch import Item, Record
from crawld.store.commit_queue import LIMITS as COMMIT_QUEUE_LIMITS
from crawld.store.commit_queue import CommitQueue, QueuedItem
from crawld.store.engine import is_damage, is_passing


@dataclass(frozen=True)
class WriterLimits:
    """Numbers that bound and tune this module."""

    full_queue: int = 20_000
    full_queue_bytes: int = 64 << 20
    max_signals: int = 500_000
    """Signals that wait to be committed; more than the largest site sends at once."""
    last_try_seconds: float = 10.0
    max_delay_seconds: float = 5.0


LIMITS = WriterLimits()


log = logging.getLogger(__name__)


class Writer:
    """Commits what is queued at most `interval` seconds later, as long as the database keeps up."""

    def __init__(
        self, commit: Callable[[Sequence[QueuedItem]], Awaitable[None]], interval: float, clock: Clock
    ) -> None:
        self._commit = commit
        self._clock = clock
        self._gather = interval / 4  # the rest is for the commit under way and our own
        self._queue = CommitQueue()
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._progress = asyncio.Event()  # set, and replaced, where items are settled or writing ends
        self._closing = False
        self._damaged = False
        self._trouble: Exception | None = None
        self._trouble_since: float | None = None
        self._task: asyncio.Task[None] | None = None
        self.lost = 0  # items given up for good

    @property
    def backlog(self) -> int:
        """How many items wait to be committed."""
        return len(self._queue)

    @property
    def lag(self) -> float:
        """Seconds that the oldest item waits to be committed."""
        oldest = self._queue.oldest
        return 0.0 if oldest is None else self._clock.monotonic() - oldest

    @property
    def healthy(self) -> bool:
        """Whether the last commit succeeded and the queue has room: callers should pause otherwise."""
        ended = self._task is not None and self._task.done()
        return self._trouble is None and not ended and not self._full(1)

    @property
    def trouble(self) -> str | None:
        """Why the last commit failed, None while all is well."""
        return None if self._trouble is None else str(getattr(self._trouble, "orig", None) or self._trouble)

    @property
    def trouble_since(self) -> float | None:
        """When commits began to fail (UTC seconds), None while all is well."""
        return self._trouble_since

    def _full(self, times: int) -> bool:
        """Whether what waits, signals apart, fills so many queues, by items or bytes."""
        items, size = len(self._queue) - self._queue.signals, self._queue.bytes
        return items >= times * LIMITS.full_queue or size >= times * LIMITS.full_queue_bytes

    def start(self) -> None:
        """Begin to commit."""
        self._task = asyncio.create_task(self._run(), name="store writer")

    def put(self, item: Item, lease: tuple[int, int] | None = None) -> bool:
        """Queue an item; False where a queue twice full had to refuse it, which is counted and logged.

        Where the database is damaged items are still queued, so that the end can say how many were not written.
        """
        if self._queue.signals >= LIMITS.max_signals if isinstance(item, Signal) else self._full(2):
            if self.lost % 1_000 == 0:
                log.error("the store is %d items behind (%s): new ones are lost", self.backlog, self.trouble)
            self.lost += 1
            return False
        self._queue.put(item, lease, self._clock.monotonic())
        self._wake.set()
        return True

    async def flush(self) -> None:
        """Return once everything queued so far is committed; StoreError where rows of it were given up."""
        target, lost = self._queue.last, self.lost
        while self._queue.holds(target):
            if self._damaged:
                raise DamagedError(f"the database is damaged: {self.trouble}")
            if self._task is None or self._task.done():
                raise StoreError("the store's writer is not running")
            self._hurry.set()
            await self._progress.wait()
        if self.lost > lost:
            raise StoreError(f"{self.lost - lost} rows were refused by the database: see the log")

    async def close(self) -> None:
        """Commit what is queued and stop; StoreError where the database would not take it in time."""
        if self._task is None:
            return
        self._closing = True
        self._wake.set()
        self._hurry.set()
        task, self._task = self._task, None
        await task
        if self.backlog:
            kind = DamagedError if self._damaged else StoreError
            raise kind(f"{self.backlog} queued rows could not be written: {self.trouble}")

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            if not self._closing and not self._hurry.is_set() and len(self._queue) < COMMIT_QUEUE_LIMITS.max_batch:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._gather):
                        await self._hurry.wait()
            self._hurry.clear()
            self._wake.clear()
            while self._queue:
                if not await self._write(self._queue.take()):
                    return
                if not self._closing and len(self._queue) < COMMIT_QUEUE_LIMITS.signals_at_once:
                    break  # what came during the commit is gathered again: many small commits cost more than few
            if self._closing and not self._queue:
                return
            if self._queue:
                self._wake.set()

    async def _write(self, items: list[QueuedItem]) -> bool:
        """Commit the items however long it takes; False where we are closing and it took too long."""
        delay = 0.05
        waited = 0.0
        while True:
            try:
                await self._commit(items)
            except Exception as error:  # noqa: BLE001  told apart below, logged, and never lost
                if is_damage(error):
                    self._stop_at_damage(items, error)
                    return False
                if not is_passing(error):
                    return await self._give_up(items, error)
                if self._trouble is None:
                    log.warning("the store cannot write, retrying: %s", getattr(error, "orig", error))
                    self._trouble_since = self._clock.now()
                self._trouble = error
                if self._closing and waited >= LIMITS.last_try_seconds:
                    self._queue.put_back(items)
                    return False
                await asyncio.sleep(delay)
                waited = waited + delay if self._closing else 0.0
                delay = min(2 * delay, 1.0 if self._closing else LIMITS.max_delay_seconds)
            else:
                if self._trouble is not None:
                    log.warning("the store can write again, %d items waiting", self.backlog)
                    self._trouble = self._trouble_since = None
                self._settle(items)
                return True

    async def _give_up(self, items: list[QueuedItem], error: Exception) -> bool:
        """Halve a refused batch until the refused row stands alone; that one is lost. False where writing has ended."""
        if len(items) > 1:
            middle = len(items) // 2
            if not await self._write(items[:middle]):
                self._queue.put_back(items[middle:])  # counted as unwritten; nothing is written any more
                return False
            return await self._write(items[middle:])
        self.lost += 1
        refused = items[0].item
        shown = refused.crawl if isinstance(refused, Record) else refused
        log.error("a row was refused and is lost: %r", shown, exc_info=error)
        self._settle(items)
        return True

    def _stop_at_damage(self, items: list[QueuedItem], error: Exception) -> None:
        """Write no more."""
        self._queue.put_back(items)
        self._trouble = error
        self._trouble_since = self._trouble_since or self._clock.now()
        self._damaged = True
        self._settle(())

    def _settle(self, items: Sequence[QueuedItem]) -> None:
        """Forget items, and wake everything that waits for a commit."""
        self._queue.settle(items)
        self._progress.set()
        self._progress = asyncio.Event()
