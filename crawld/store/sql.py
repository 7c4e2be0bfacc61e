"""The store: SQLite or PostgreSQL behind `crawld.interfaces.Store`."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import delete, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from crawld.clock import SystemClock
from crawld.errors import DamagedError, StoreError
from crawld.interfaces import (
    Adoption,
    Clock,
    FreshnessPoint,
    Histories,
    Ints,
    Poll,
    Record,
    SourceFile,
    StoredDemand,
    StoredPages,
)
from crawld.model.age_curve import AgeCurve
from crawld.model.crawl import Memory
from crawld.model.estimate import Estimate
from crawld.model.host import FrameChange, HostState
from crawld.model.page import Page, Wanted
from crawld.model.robots import RobotsState
from crawld.model.signal import Signal, SignalTrust, Source
from crawld.store import tables
from crawld.store.address import check_place, keep_private, parse_address
from crawld.store.damage import Damage, touch_tables
from crawld.store.engine import in_a_sentence, reading_engine, writing_engine
from crawld.store.hook_queue import StoredHooks
from crawld.store.in_values import among
from crawld.store.lock import FileLock
from crawld.store.records import demand, hosts, learning, robots, settings
from crawld.store.records.bodies import body_rows, decompress
from crawld.store.records.frames import latest_copy, read_recent_blocks
from crawld.store.records.pages import PageList
from crawld.store.records.restoring import restore_pages
from crawld.store.records.versions import RecentVersions, VersionReader
from crawld.store.retention import Pruning, Retention, give_back_space
from crawld.store.retry import keep_trying
from crawld.store.schema import migrate
from crawld.store.writing.batch import Item, fold
from crawld.store.writing.changes import ChangeSignal
from crawld.store.writing.connection import WriteConnection
from crawld.store.writing.statements import write
from crawld.store.writing.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")
KeepBodies = Literal["latest", "changes", "none"]
SAVED_AT_ONCE = 1_000


_migrations: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _migrating() -> asyncio.Lock:
    """One migration at a time: Alembic keeps the one under way in module globals."""
    return _migrations.setdefault(asyncio.get_running_loop(), asyncio.Lock())


Asked = Callable[Concatenate["SqlStore", P], Awaitable[T]]


def patiently(method: Asked[P, T]) -> Callable[Concatenate["SqlStore", P], Coroutine[Any, Any, T]]:
    """Try again for a while where the database does not answer; StoreError where that does not help."""

    @wraps(method)
    async def asked(store: "SqlStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await keep_trying(lambda: method(store, *args, **kwargs), store.shown)

    return asked


class SqlStore:
    """The truth, in SQL. One per database and process: `start` takes a lock that others respect."""

    def __init__(
        self,
        url: str,
        *,
        keep_bodies: KeepBodies = "changes",
        retention: Retention | None = None,
        commit_interval: float = 0.2,
        clock: Clock | None = None,
    ) -> None:
        self._address = parse_address(url)
        self._keep_bodies = keep_bodies
        self._clock = clock or SystemClock()
        self._pruning = Pruning(retention or Retention())
        self._writer = Writer(self._commit, commit_interval, self._clock)
        self._memories = RecentVersions()
        self._memory_reader = VersionReader()
        self.damage = Damage(self._address.shown)
        self.changes = ChangeSignal()
        self.hooks = StoredHooks(lambda: self._connection, lambda: self._reading, self.changes, self.shown)
        self._packing = ThreadPoolExecutor(1, "store packing")  # of its own: no other work can delay a commit
        self._lock: FileLock | None = None
        self._opened: tuple[WriteConnection, AsyncEngine] | None = None

    async def start(self) -> None:
        """Open, migrate and lock the database; StoreError in a sentence where that cannot be."""
        address = self._address
        if address.file is not None:
            check_place(address.file)
            self._lock = FileLock(address.file)
            self._lock.acquire()
            keep_private(address.file)
        engine = writing_engine(address)
        connection = WriteConnection(engine, address.shown, self.damage)
        try:
            async with _migrating(), connection.transaction() as transaction:
                await transaction.run_sync(migrate, address.shown)
                await touch_tables(transaction)
            reading = reading_engine(address, beside_writer=True)
            self.damage.watch(reading)
            if address.file is not None:
                self.damage.watch_file(address.file)
            self._opened = connection, reading
        except BaseException as error:
            await connection.close()
            self._unlock()
            if isinstance(error, SQLAlchemyError | OSError):
                raise in_a_sentence(error, address.shown) from error
            raise
        self._writer.start()

    async def close(self) -> None:
        """Commit what is queued and let go; StoreError where the database would not take it."""
        if self._opened is None:
            return
        connection, reading = self._opened
        try:
            await self._writer.close()
        except DamagedError as error:
            raise DamagedError(
                f"{self.damage.found or error}. {self._writer.backlog} queued rows were not written"
            ) from None
        except StoreError as error:
            raise StoreError(f"the database {self.shown}: {error}") from None
        finally:
            self._packing.shutdown(wait=False)
            self._opened = None
            await self._memory_reader.finish()
            await reading.dispose()
            await connection.close()
            self._unlock()

    @property
    def shown(self) -> str:
        """Where the database is, without a password."""
        return self._address.shown

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
        return self._writer.healthy and self.damage.found is None

    async def watch(self) -> None:
        """Wait until the database is found damaged, by a reader or the writer, and raise that."""
        await self.damage.wait()

    @property
    def trouble(self) -> str | None:
        """Why the last commit failed, None while all is well."""
        return self._writer.trouble if self.damage.found is None else str(self.damage.found)

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
        if self._writer.put(record) and record.memory is not None:
            self._memories.queue(record.memory)

    def record_signals(self, signals: Sequence[Signal]) -> None:
        """Queue signals."""
        for signal in signals:
            self._writer.put(signal)

    def record_host(self, host: HostState) -> None:
        """Queue what is now known of a host."""
        self._writer.put(host)

    def record_robots(self, robots: RobotsState) -> None:
        """Queue what is now known of a robots.txt."""
        self._writer.put(robots)

    def record_frame_change(self, change: FrameChange) -> None:
        """Queue a change of a host's frame; one that began at the same time is overwritten."""
        self._writer.put(change)

    def record_freshness(self, point: FreshnessPoint) -> None:
        """Queue one point of the freshness history."""
        self._writer.put(point)

    def record_poll(self, poll: Poll) -> None:
        """Queue what is now known of a source file."""
        self._writer.put(poll)

    @patiently
    async def sources(self) -> Sequence[SourceFile]:
        """Every source file that was ever recorded and not forgotten."""
        async with self._reading.connect() as connection:
            rows = (await connection.execute(select(tables.sources).order_by(tables.sources.c.url))).all()
        return [SourceFile(r.url, Source(r.source), r.host, r.next_poll, decompress(r.state)) for r in rows]

    @patiently
    async def forget_sources(self, urls: Sequence[str]) -> None:
        """Forget source files; what their host's signals were worth is kept."""
        async with self._connection.transaction() as connection:
            chosen, parameters = among(connection.dialect.name, tables.sources.c.url, urls)
            await connection.execute(delete(tables.sources).where(chosen), parameters)

    @patiently
    async def prune(self) -> int:
        """Delete a little of what retention no longer keeps; 0 when there is nothing to do."""
        async with self._reading.connect() as connection:
            await self._pruning.count(connection)
        async with self._connection.transaction() as connection:
            deleted = await self._pruning.step(connection, self._clock.now())
        async with self._connection.transaction() as connection:
            await give_back_space(connection)
        return deleted

    async def adopt(self, wanted: Sequence[Wanted], *, origin: str, now: float, complete: bool = True) -> Adoption:
        """Take over a URL list: add, re-weight, bring back; with `complete`, retire what `origin` no longer lists."""
        parts = self.adopting(wanted, origin=origin, now=now, complete=complete)
        return Adoption.of([part async for part in parts])

    def adopting(
        self, wanted: Sequence[Wanted], *, origin: str, now: float, complete: bool = True
    ) -> AsyncGenerator[Adoption, None]:
        """The same a piece at a time."""
        return PageList(self._connection, self._reading, self.shown).adopt(
            wanted, origin=origin, now=now, complete=complete
        )

    async def retire(self, urls: Sequence[str], *, now: float) -> Sequence[Page]:
        """Retire these pages whoever listed them; those that are unknown or retired already are passed over."""
        return await PageList(self._connection, self._reading, self.shown).retire(urls, now=now)

    @patiently
    async def restore(self, page_ids: Sequence[int] | None = None) -> StoredPages:
        """Everything a start needs to know of the pages, or of these."""
        return await restore_pages(self._reading, page_ids)

    @patiently
    async def age_curves(self) -> Mapping[str, AgeCurve]:
        """By host, how its copies age; hosts that go by plain time are left out."""
        return await learning.read_age_curves(self._reading)

    @patiently
    async def save_age_curves(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """Keep how the copies of these hosts age; None: by plain time."""
        async with self._connection.transaction() as connection:
            await learning.write_age_curves(connection, curves)

    @patiently
    async def save_signal_trust(self, trust: Sequence[SignalTrust]) -> None:
        """Keep which sources are heard, for reports. Unknown hosts are left out."""
        async with self._connection.transaction() as connection:
            await learning.write_signal_trust(connection, trust)

    @patiently
    async def hosts(self) -> Sequence[HostState]:
        """What is remembered of every host that has pages, and of others of which something still matters."""
        async with self._reading.connect() as connection:
            return await hosts.read_hosts(connection, self._clock.now())

    @patiently
    async def robots(self) -> Sequence[RobotsState]:
        """What is known of each robots.txt of hosts that have pages, the latest last."""
        async with self._reading.connect() as connection:
            return await robots.read_robots(connection)

    async def recall(self, page_id: int) -> Memory | None:
        """What is remembered of the latest copy of a page, queued or committed."""
        return self._memories.get(page_id) or await self._read_memory(page_id)

    @patiently
    async def _read_memory(self, page_id: int) -> Memory | None:
        self._memories.reading(page_id)
        found = await self._memory_reader.read(self._reading, page_id)
        return self._memories.read(page_id, found)

    @patiently
    async def copy(self, page_id: int) -> bytes | None:
        """The latest copy of a page, where one is kept."""
        async with self._reading.connect() as connection:
            return await latest_copy(connection, page_id)

    @patiently
    async def recent_blocks(self, host: str, limit: int) -> Sequence[tuple[int, tuple[int, ...]]]:
        """The blocks of the pages of a host that were fetched most recently, oldest first, by page."""
        async with self._reading.connect() as connection:
            return await read_recent_blocks(connection, host, limit)

    @patiently
    async def audits(self, limit: int) -> Sequence[bool]:
        """Whether each of the latest audits found our copy fresh, oldest first: so that a restart forgets none."""
        return await learning.latest_audits(self._reading, limit)

    @patiently
    async def dirty_pages(self, limit: int) -> Ints:
        """Pages with a successful crawl newer than their estimate, longest waiting first."""
        return await learning.dirty_pages(self._reading, limit)

    @patiently
    async def crawled_pages(self, after: int, limit: int) -> Ints:
        """The first pages, by id, beyond that id that have been crawled with success and are not retired."""
        return await learning.crawled_pages(self._reading, after, limit)

    @patiently
    async def histories(self, page_ids: Ints, *, most_per_page: int = 200, most: int = 20_000) -> Histories:
        """The latest observations of each page, at most that many; gone counts as a change. See the interface."""
        return await learning.read_histories(self._reading, page_ids, most_per_page, most)

    @patiently
    async def save_estimates(self, estimates: Sequence[Estimate]) -> None:
        """Write new estimates over the old ones."""
        for start in range(0, len(estimates), SAVED_AT_ONCE):
            async with self._connection.transaction() as connection:
                some = estimates[start : start + SAVED_AT_ONCE]
                await learning.write_estimates(connection, some, self._clock.now())

    @patiently
    async def demand(self) -> StoredDemand:
        """How often copies were asked for."""
        async with self._reading.connect() as connection:
            return await demand.read_demand(connection)

    @patiently
    async def save_demand(self, news: StoredDemand) -> None:
        """Write over what was kept of these pages' demand, and what they weigh by it."""
        async with self._connection.transaction() as connection:
            await demand.write_demand(connection, news)

    @patiently
    async def forget_weights(self) -> None:
        """Let every page weigh what the list says."""
        async with self._connection.transaction() as connection:
            await demand.forget_weights(connection)

    @patiently
    async def setting(self, name: str) -> str | None:
        """A setting changed while running and kept over a restart."""
        async with self._reading.connect() as connection:
            return await settings.read_setting(connection, name)

    @patiently
    async def change_setting(self, name: str, value: str | None, *, now: float) -> None:
        """Keep a setting (None forgets it) and note the change."""
        async with self._connection.transaction() as connection:
            await settings.write_setting(connection, name, value, now)

    async def _commit(self, items: Sequence[Item]) -> None:
        self.damage.check()
        batch = fold(items)
        only_latest = self._keep_bodies == "latest"
        bodies = []
        if batch.bodies and self._keep_bodies != "none":
            work = partial(body_rows, batch.bodies, only_latest=only_latest)
            bodies = await asyncio.get_running_loop().run_in_executor(self._packing, work)
        async with self._connection.transaction() as connection:
            await write(connection, batch, bodies, only_latest=only_latest)
        if batch.changes:
            self.changes.tell()
        size = 0 if only_latest else sum(len(row["zstd"]) for row in bodies)
        self._pruning.added(batch.pages, crawls=len(batch.crawls), signals=len(batch.signals), version_bytes=size)
        for item in items:
            if isinstance(item, Record) and item.memory is not None:
                self._memories.committed(item.memory)

    @property
    def _connection(self) -> WriteConnection:
        if self._opened is None:
            raise StoreError("the store is not open")
        if self.damage.found is not None:
            raise self.damage.found
        return self._opened[0]

    @property
    def _reading(self) -> AsyncEngine:
        if self._opened is None:
            raise StoreError("the store is not open")
        return self._opened[1]

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
