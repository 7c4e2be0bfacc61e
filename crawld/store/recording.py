"""What a store is told while it runs: queued at once, and committed in batches a moment later."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, TypedDict, Unpack

from crawld.clock import SystemClock
from crawld.errors import DamagedError, StoreError
from crawld.interfaces import Clock, FreshnessPoint, Poll, Record
from crawld.model.host import FrameChange, HostState
from crawld.model.robots import RobotsState
from crawld.model.signal import Signal, SignalGain
from crawld.store.database import Database
from crawld.store.records.bodies import body_rows
from crawld.store.records.dirty import DirtyPages
from crawld.store.records.numbering import WriteScope
from crawld.store.records.versions import RecentVersions
from crawld.store.retention import Pruning, Retention
from crawld.store.writing.batch import Batch, Item, fold
from crawld.store.writing.changes import ChangeSignal
from crawld.store.writing.commit_queue import Queued
from crawld.store.writing.statements import write, write_new
from crawld.store.writing.writer import Writer

KeepBodies = Literal["latest", "changes", "none"]


class Options(TypedDict, total=False):
    """How a store keeps what it is told."""

    keep_bodies: KeepBodies
    obey_noarchive: bool
    retention: Retention | None
    commit_interval: float
    clock: Clock | None


class Recording:
    """Queues what is recorded, and commits it. Implements that part of `crawld.interfaces.Store`."""

    def __init__(self, database: Database, scope: WriteScope | None, **options: Unpack[Options]) -> None:
        self._database, self._scope = database, scope
        self._keep_bodies = options.get("keep_bodies", "changes")
        self._obey_noarchive = options.get("obey_noarchive", True)
        self._clock = options.get("clock") or SystemClock()
        self._pruning = Pruning(options.get("retention") or Retention(), alone=scope is None)
        self._writer = Writer(self._commit, options.get("commit_interval", 0.2), self._clock)
        self._memories = RecentVersions()
        self._dirty = None if database.by_row else DirtyPages()
        self.changes = ChangeSignal()
        self._packing = ThreadPoolExecutor(1, "store packing")  # of its own: no other work can delay a commit

    @property
    def shown(self) -> str:
        """Where the database is, without a password."""
        return self._database.shown

    @property
    def backlog(self) -> int:
        """How many records wait to be committed."""
        return self._writer.backlog

    @property
    def lag(self) -> float:
        """Seconds that the oldest record waits to be committed."""
        return self._writer.lag

    @property
    def healthy(self) -> bool:
        """Whether commits succeed and the queue has room: the daemon pauses while it is not."""
        return self._writer.healthy and self._database.damage.found is None

    async def watch(self) -> None:
        """Wait until the database is found damaged, by a reader or the writer, and raise that."""
        await self._database.damage.wait()

    @property
    def trouble(self) -> str | None:
        """Why the last commit failed, None while all is well."""
        found = self._database.damage.found
        return self._writer.trouble if found is None else str(found)

    @property
    def trouble_since(self) -> float | None:
        """When commits began to fail, None while all is well."""
        return self._writer.trouble_since

    @property
    def lost(self) -> int:
        """How many records were given up: refused by the database, or by a queue twice full."""
        return self._writer.lost

    async def flush(self) -> None:
        """Return once everything queued so far is committed."""
        await self._writer.flush()

    def record(self, record: Record) -> None:
        """Queue a finished attempt."""
        if self._put(record) and record.memory is not None:
            self._memories.queue(record.memory)

    def record_signals(self, signals: Sequence[Signal]) -> None:
        """Queue signals."""
        for signal in signals:
            self._put(signal)

    def record_host(self, host: HostState) -> None:
        """Queue what is now known of a host."""
        self._put(host)

    def record_robots(self, robots: RobotsState) -> None:
        """Queue what is now known of a robots.txt."""
        self._put(robots)

    def record_frame_change(self, change: FrameChange) -> None:
        """Queue a change of a host's frame; one that began at the same time is overwritten."""
        self._put(change)

    def record_freshness(self, point: FreshnessPoint) -> None:
        """Queue one point of the freshness history."""
        self._put(point)

    def record_poll(self, poll: Poll) -> None:
        """Queue what is now known of a source file."""
        self._put(poll)

    def record_signal_gain(self, gain: SignalGain) -> None:
        """Queue what signals before a crawl gained, to be added to the account of their host and source."""
        self._put(gain)

    def _put(self, item: Item) -> bool:
        return self._writer.put(item)

    async def _commit(self, queued: Sequence[Queued]) -> None:
        await self._write([one.item for one in queued])

    async def _write(self, items: Sequence[Item], epochs: Mapping[int, int] | None = None) -> None:
        """Write items in one transaction, under these epochs of the shards that they concern."""
        self._database.damage.check()
        batch = fold(items)
        if not self._obey_noarchive:
            batch.unarchived.clear()
        if self._scope is not None:
            batch.calibration = self._scope.due_calibration(batch.calibration, self._clock.monotonic())
        only_latest = self._keep_bodies == "latest"
        bodies: list[dict[str, Any]] = []
        if batch.bodies and self._keep_bodies != "none":
            work = partial(body_rows, batch.bodies, only_latest=only_latest)
            bodies = await asyncio.get_running_loop().run_in_executor(self._packing, work)
        async with self._database.writing.transaction() as connection:
            await write_new(connection, batch)
            if self._scope is not None:
                await self._scope.fence(connection, epochs or {})
            await write(connection, batch, bodies, only_latest=only_latest, scope=self._scope)
        if self._scope is not None:
            self._scope.settle_calibration()
        self._committed(items, batch, 0 if only_latest else sum(len(row["zstd"]) for row in bodies))

    def _committed(self, items: Sequence[Item], batch: Batch, version_bytes: int) -> None:
        if batch.changes:
            self.changes.tell()
        crawls, signals = len(batch.crawls), len(batch.signals)
        self._pruning.added(batch.pages, crawls=crawls, signals=signals, version_bytes=version_bytes)
        if self._dirty is not None:
            self._dirty.crawled({page: change.success for page, change in batch.pages.items()})
        for item in items:
            if isinstance(item, Record) and item.memory is not None:
                self._memories.committed(item.memory)

    async def _finish(self) -> None:
        """Commit what is queued; StoreError where the database would not take it."""
        damage = self._database.damage
        try:
            await self._writer.close()
        except DamagedError as error:
            raise DamagedError(
                f"{damage.found or error}. {self._writer.backlog} queued rows were not written"
            ) from None
        except StoreError as error:
            raise StoreError(f"the database {self.shown}: {error}") from None
        finally:
            self._packing.shutdown(wait=False)
