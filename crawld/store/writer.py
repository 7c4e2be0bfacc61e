"""The one writer: a queue, and a task that commits it in batches.

Queueing never waits. A batch that fails for a passing reason (locked, full, out of reach) is kept and tried again;
whoever queues can read how far behind the writer is. A row that the database refuses for good is dropped alone,
counted and logged, so that it does not take its neighbours with it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from crawld.errors import StoreError
from crawld.interfaces import Clock, Record
from crawld.model.robots import RobotsState
from crawld.store.batch import Item
from crawld.store.engine import is_passing

log = logging.getLogger(__name__)

LARGEST_BATCH = 1_000
HEAVIEST_BATCH = 8 << 20  # bytes of bodies: compressing and writing them stays within the commit interval
FULL_QUEUE = 20_000
FULL_QUEUE_BYTES = 64 << 20
LAST_TRY_SECONDS = 10.0
SLOWEST_RETRY_SECONDS = 5.0


class Writer:
    """Commits what is queued at most `interval` seconds later, as long as the database keeps up."""

    def __init__(self, commit: Callable[[Sequence[Item]], Awaitable[None]], interval: float, clock: Clock) -> None:
        self._commit = commit
        self._clock = clock
        self._gather = interval / 4  # the rest is for the commit under way and our own
        self._queue: deque[Item] = deque()
        self._bytes = 0
        self._queued = 0  # ever
        self._settled = 0  # ever committed or given up
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._progress = asyncio.Condition()
        self._closing = False
        self._trouble: Exception | None = None
        self._trouble_since: float | None = None
        self._task: asyncio.Task[None] | None = None
        self.lost = 0  # items given up for good

    @property
    def backlog(self) -> int:
        """How many items wait to be committed."""
        return self._queued - self._settled

    @property
    def healthy(self) -> bool:
        """Whether the last commit succeeded and the queue has room: whoever feeds it should pause otherwise."""
        return self._trouble is None and not self._full and not (self._task is not None and self._task.done())

    @property
    def trouble(self) -> str | None:
        """Why the last commit failed, None while all is well."""
        return None if self._trouble is None else str(getattr(self._trouble, "orig", None) or self._trouble)

    @property
    def trouble_since(self) -> float | None:
        """When commits began to fail (UTC seconds), None while all is well."""
        return self._trouble_since

    @property
    def _full(self) -> bool:
        return self.backlog >= FULL_QUEUE or self._bytes >= FULL_QUEUE_BYTES

    def start(self) -> None:
        """Begin to commit."""
        self._task = asyncio.create_task(self._run(), name="store writer")

    def put(self, item: Item) -> bool:
        """Queue an item; False where a queue twice full had to refuse it, which is counted and logged."""
        if self.backlog >= 2 * FULL_QUEUE or self._bytes >= 2 * FULL_QUEUE_BYTES:
            if self.lost % 1_000 == 0:
                log.error("the store is %d items behind (%s): new ones are lost", self.backlog, self.trouble)
            self.lost += 1
            return False
        self._queue.append(item)
        self._queued += 1
        self._bytes += _weight(item)
        self._wake.set()
        return True

    async def flush(self) -> None:
        """Return once everything queued so far is committed; StoreError where rows of it were given up."""
        target, lost = self._queued, self.lost
        async with self._progress:
            while self._settled < target:
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
            raise StoreError(f"{self.backlog} queued rows could not be written: {self.trouble}")

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            if not self._closing and not self._hurry.is_set() and len(self._queue) < LARGEST_BATCH:
                await _wait(self._hurry, self._gather)
            self._hurry.clear()
            self._wake.clear()
            while self._queue:
                if not await self._write(self._take()):
                    return
            if self._closing:
                return

    def _take(self) -> list[Item]:
        """The head of the queue that fits into one transaction."""
        items: list[Item] = []
        weight = 0
        while self._queue and len(items) < LARGEST_BATCH and weight < HEAVIEST_BATCH:
            item = self._queue.popleft()
            weight += _weight(item)
            items.append(item)
        return items

    async def _write(self, items: list[Item]) -> bool:
        """Commit the items however long it takes; False where we are closing and it took too long."""
        delay = 0.05
        waited = 0.0
        while True:
            try:
                await self._commit(items)
            except Exception as error:  # noqa: BLE001  told apart below, logged, and never lost
                if not is_passing(error):
                    await self._give_up(items, error)
                    return True
                if self._trouble is None:
                    log.warning("the store cannot be written, trying again: %s", getattr(error, "orig", error))
                    self._trouble_since = self._clock.now()
                self._trouble = error
                if self._closing and waited >= LAST_TRY_SECONDS:
                    self._queue.extendleft(reversed(items))
                    return False
                await asyncio.sleep(delay)
                waited = waited + delay if self._closing else 0.0
                delay = min(2 * delay, 1.0 if self._closing else SLOWEST_RETRY_SECONDS)
            else:
                if self._trouble is not None:
                    log.warning("the store can be written again, %d items waiting", self.backlog)
                    self._trouble = self._trouble_since = None
                await self._settle(items)
                return True

    async def _give_up(self, items: list[Item], error: Exception) -> None:
        """Halve a refused batch until the refused row stands alone; that one is lost."""
        if len(items) > 1:
            middle = len(items) // 2
            await self._write(items[:middle])
            await self._write(items[middle:])
            return
        self.lost += 1
        log.error("a row was refused and is lost: %r", _shown(items[0]), exc_info=error)
        await self._settle(items)

    async def _settle(self, items: Iterable[Item]) -> None:
        for item in items:
            self._settled += 1
            self._bytes -= _weight(item)
        async with self._progress:
            self._progress.notify_all()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _weight(item: Item) -> int:
    if isinstance(item, RobotsState):
        return len(item.rules or b"")
    return len(item.body) if isinstance(item, Record) and item.body is not None else 0


def _shown(item: Item) -> object:
    return item.crawl if isinstance(item, Record) else item
