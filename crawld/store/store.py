"""The store, on SQLite or PostgreSQL."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypedDict, TypeVar, Unpack

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from crawld.model.clock import SystemClock
from crawld.model.crawl import Memory
from crawld.model.errors import DamagedError, StoreError
from crawld.model.estimate import AgeCurve, Estimate, Histories, Ints
from crawld.model.fetched import RobotsState
from crawld.model.host import FrameChange, HostPage, HostState
from crawld.model.page import Document, Page, Wanted
from crawld.model.signal import Signal, SignalGain, SignalTrust
from crawld.model.web import Clock
from crawld.read.url_list import ListedPages
from crawld.store import documents, estimates, hosts, settings
from crawld.store.batch import FreshnessPoint, Item, Record, fold
from crawld.store.commit_queue import QueuedItem
from crawld.store.database import ChangeSignal, Database, newest_change
from crawld.store.documents import PendingCopy
from crawld.store.engine import Ranges, keep_trying
from crawld.store.estimates import DirtyPages
from crawld.store.hooks import StoredHooks
from crawld.store.links import StoredLinks
from crawld.store.pages import Adoption, Listed, MayRetire, PageList, WriteScope, always
from crawld.store.restoring import PageScan, StoredPages, count_live, restore_pages
from crawld.store.retention import Growth, Pruning, Retention, give_back_space
from crawld.store.settings import Action, StoredDemand
from crawld.store.sources import Poll, SourceFile, forget_sources, read_sources
from crawld.store.statements import write, write_new, write_pages
from crawld.store.versions import (
    RecentVersions,
    StoredBody,
    VersionReader,
    latest_copy,
    read_recent_pages,
    stored_bodies,
)
from crawld.store.writer import Writer

KeepBodies = Literal["latest", "changes", "none"]


class Options(TypedDict, total=False):
    """How a store keeps what it is told."""

    keep_bodies: KeepBodies
    obey_noarchive: bool
    retention: Retention | None
    commit_interval: float
    clock: Clock | None


class Recording:
    """Queues records, and commits them in batches at most `commit_interval` seconds apart."""

    def __init__(self, database: Database, scope: WriteScope | None, **options: Unpack[Options]) -> None:
        self._database, self._scope = database, scope
        self.redacted_url = database.redacted_url  # where the database is, without a password
        self._keep_bodies = options.get("keep_bodies", "changes")
        self._obey_noarchive = options.get("obey_noarchive", True)
        self._clock = options.get("clock") or SystemClock()
        self._growth = Growth()  # since the last step of pruning
        self._pruning = Pruning(options.get("retention") or Retention(), self._growth, alone=scope is None)
        self._writer = Writer(self._commit, options.get("commit_interval", 0.2), self._clock)
        self._memories = RecentVersions()
        self._dirty = DirtyPages()
        self.changes = ChangeSignal()
        self._packing = ThreadPoolExecutor(1, "store packing")  # of its own: no other work can delay a commit

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
        """Wait until the database is found damaged, by whatever was read or written, and raise DamagedError."""
        await self._database.damage.wait()

    @property
    def trouble(self) -> str | None:
        """Why the last commit failed, None while all is well."""
        found = self._database.damage.found
        return self._writer.trouble if found is None else str(found)

    @property
    def trouble_since(self) -> float | None:
        """When commits began to fail (UTC seconds), None while all is well."""
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

    async def _commit(self, queued: Sequence[QueuedItem]) -> None:
        await self._write(queued)

    async def _write(self, queued: Sequence[QueuedItem], epochs: Mapping[int, int] | None = None) -> None:
        """Write items in one transaction, under these epochs of the shards that they concern."""
        self._database.damage.check()
        batch = fold(queued)
        if not self._obey_noarchive:
            batch.unarchived.clear()
        if self._scope is not None:
            batch.calibration = self._scope.due_calibration(batch.calibration, self._clock.monotonic())
        only_latest = self._keep_bodies == "latest"
        bodies: Sequence[StoredBody] = ()
        if batch.bodies and self._keep_bodies != "none":
            work = partial(stored_bodies, batch.bodies, only_latest=only_latest)
            bodies = await asyncio.get_running_loop().run_in_executor(self._packing, work)
        async with self._database.writing.transaction() as connection:
            parts = await write_new(connection, batch)
            if self._scope is not None:
                parts.append(self._scope.fence(epochs or {}))
            found, told = await write_pages(connection, batch, parts)
            if self._scope is not None:
                self._scope.check_fence(epochs or {}, found)
            await write(connection, batch, bodies, told, only_latest=only_latest, scope=self._scope)
        if self._scope is not None:
            self._scope.settle_calibration()
        if batch.changes:
            self.changes.tell()
        self._growth.pages.update(dict.fromkeys(batch.pages))
        self._growth.crawls += len(batch.crawls)
        self._growth.signals += len(batch.signals)
        for body in () if only_latest else bodies:
            self._growth.version_bytes += len(body.zstd)
        self._dirty.crawled(batch.pages)
        for memory in batch.memories.values():
            self._memories.committed(memory)

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
            raise StoreError(f"the database {self.redacted_url}: {error}") from None
        finally:
            self._packing.shutdown(wait=False)


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class StoreLimits:
    """Numbers that bound and tune this module."""

    saved_at_once: int = 1_000  # estimates
    documents_at_once: int = 64
    document_bytes_at_once: int = 4 << 20
    """Copies that are read as documents in one step, and their bytes: a transaction with them stays short."""


LIMITS = StoreLimits()


S = TypeVar("S", bound="SqlStore")
Asked = Callable[Concatenate[S, P], Awaitable[T]]


def retried(method: Asked[S, P, T], *, in_time: bool = False) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Try again for a while where the database does not answer; StoreError where that does not help."""

    @wraps(method)
    async def asked(store: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        attempt = partial(method, store, *args, **kwargs)
        return await keep_trying(attempt, store.redacted_url, store.max_answer_seconds if in_time else None)

    return asked


def retried_with_timeout(method: Asked[S, P, T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The same for what takes a moment: where it takes much longer, it is asked again over another connection."""
    return retried(method, in_time=True)


class SqlStore(Recording):
    """The truth, in SQL. Reads see what is committed.

    One per database and process: `start` takes a lock that others respect.
    """

    max_answer_seconds: float | None = None

    def __init__(self, url: str, *, scope: WriteScope | None = None, **options: Unpack[Options]) -> None:
        """Without a scope the whole database is ours; with one it is a fleet's, of which we hold some shards."""
        super().__init__(self._make_database(url), scope, **options)
        self._memory_reader = VersionReader(self.max_answer_seconds)
        self.damage = self._database.damage
        self.hooks = StoredHooks(self._database, self.changes, shared=scope is not None)
        self.links = StoredLinks(self._database)

    def _make_database(self, url: str) -> Database:
        return Database(url)

    async def start(self) -> None:
        """Open, migrate and lock the database; StoreError in a sentence where that cannot be."""
        await self._database.open()
        self._writer.start()

    async def close(self) -> None:
        """Commit what is queued and close; StoreError where the database would not take it."""
        if not self._database.is_open:
            return
        try:
            await self._finish()
        finally:
            await self._memory_reader.finish()
            await self._database.close()

    async def sources(self) -> Sequence[SourceFile]:
        """Every source file that was ever recorded and not forgotten."""
        return await self._database.read(lambda connection: read_sources(connection, self._ranges))

    async def forget_sources(self, urls: Sequence[str]) -> None:
        """Forget source files; what their host's signals were worth is kept."""
        await self._database.write(lambda connection: forget_sources(connection, self._scope, urls))

    @retried
    async def prune(self) -> int:
        """Delete a little of what retention no longer keeps; 0 when there is nothing to do."""
        async with self._database.reading.connect() as connection:
            await self._pruning.count(connection, self._clock.now())
        async with self._database.writing.transaction() as connection:
            if self._scope is not None:
                await self._scope.numbering.begin(connection)  # no page is added to a host that is being forgotten
            deleted = await self._pruning.step(connection, self._clock.now())
        async with self._database.writing.transaction() as connection:
            await give_back_space(connection)
        return deleted

    async def adopt(self, wanted: Sequence[Wanted], *, origin: str, now: float, complete: bool = True) -> Adoption:
        """Take over a URL list: add, re-weight, bring back; with `complete`, retire what `origin` no longer lists.

        A page belongs to the origin that listed it first; while it is not retired, other origins leave it as it is.
        One that is kept out is passed over, unless it is wanted by hand, which ends that.
        """
        parts = self.adopting(wanted, origin=origin, now=now, complete=complete)
        return Adoption.of([part async for part in parts])

    async def adopting(
        self,
        wanted: Sequence[Wanted],
        *,
        origin: str,
        now: float,
        complete: bool = True,
        kept: Ints | None = None,
        may_retire: MayRetire = always,
    ) -> AsyncGenerator[Adoption, None]:
        """The same a piece at a time; what the list no longer names is retired only where `may_retire` says so.

        `kept` are ids of pages that the list names as they are.
        """
        parts = self._page_list().adopt(
            wanted, origin=origin, now=now, complete=complete, kept=kept, may_retire=may_retire
        )
        async with aclosing(parts):
            async for part in parts:
                if part.retired or part.returned:
                    self.changes.tell()
                self._dirty.drop(part.retired)
                if part.returned and self._scope is None:
                    # Pages that come back may have been dirty when they retired.
                    self._dirty.found(
                        await estimates.read_dirty(self._database.reading, [page.id for page in part.returned])
                    )
                yield part

    async def listed_pages(self, origin: str) -> ListedPages:
        """The pages that are not retired and that the origin lists."""
        return await self._page_list().listed_by(origin)

    def _page_list(self) -> PageList:
        numbering = None if self._scope is None else self._scope.numbering
        return PageList(self._database.writing, self._database.reading, self.redacted_url, numbering)

    async def retire(self, urls: Sequence[str], *, now: float, keep_out: bool = False) -> Sequence[Page]:
        """Retire the pages of these URLs, in any spelling; those unknown or retired already are passed over.

        With `keep_out` no list and no sitemap brings any of them back.
        """
        retired = await self._page_list().retire(urls, now=now, keep_out=keep_out)
        self.changes.tell()
        self._dirty.drop(retired)
        return retired

    async def readmit(self, urls: Sequence[str]) -> Sequence[str]:
        """Keep these pages out no longer; the URLs of those that were."""
        return await self._page_list().readmit(urls)

    @retried
    async def origins(self, urls: Sequence[str]) -> Mapping[str, str]:
        """Who listed the pages of these URLs, retired ones too, by their URL; pages that are kept out are left out."""
        return await self._page_list().origins(urls)

    async def retire_moved(self, page_ids: Sequence[int], *, now: float) -> Sequence[Page]:
        """Retire those of these pages that are kept only because others moved there."""
        return await self._page_list().retire_moved(page_ids, now=now)

    @retried
    async def restore(self, page_ids: Sequence[int] | None = None) -> StoredPages:
        """Everything a start needs to know of the pages, or of these."""
        if page_ids is None or self._scope is None:
            return await self._restore(self._ranges, page_ids)
        return await self._restore(None, list(filter(self._scope.holds, page_ids)))

    async def count_pages(self) -> int:
        """How many pages `restoring` yields, about."""
        return await self._database.read(lambda connection: count_live(connection, self._ranges))

    async def restoring(self) -> AsyncGenerator[StoredPages, None]:
        """The same of all pages, some at a time, by their ids."""
        scan = PageScan(self._database.reading, ranges=self._ranges)
        while (part := await keep_trying(scan.next, self.redacted_url)) is not None:
            yield part
        self._dirty.found(scan.dirty, every=True)

    async def _restore(self, ranges: Ranges | None, page_ids: Sequence[int] | None = None) -> StoredPages:
        pages, waiting = await restore_pages(self._database.reading, page_ids, ranges)
        self._dirty.found(waiting, every=page_ids is None)
        return pages

    @retried
    async def age_curves(self) -> Mapping[str, AgeCurve]:
        """By host, how its copies age; hosts that go by plain time are left out."""
        return await estimates.read_age_curves(self._database.reading, self._ranges)

    async def save_age_curves(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """Keep how the copies of these hosts age; None: by plain time."""
        await self._database.write(lambda connection: estimates.write_age_curves(connection, self._scope, curves))

    async def save_signal_trust(self, trust: Sequence[SignalTrust]) -> None:
        """Keep which sources are heard, for reports: a start decides anew. Unknown hosts are left out."""
        await self._database.write(
            lambda connection: estimates.write_signal_trust(connection, self._scope, trust, self._clock.now())
        )

    async def hosts(self) -> Sequence[HostState]:
        """What is remembered of every host that has pages, and of others of which something still matters."""
        return await self._database.read(
            lambda connection: hosts.read_hosts(connection, self._clock.now(), self._ranges)
        )

    async def robots(self) -> Sequence[RobotsState]:
        """What is known of each robots.txt of hosts that have pages, the latest last."""
        return await self._database.read(lambda connection: hosts.read_robots(connection, self._ranges))

    async def recall(self, page_id: int) -> Memory | None:
        """What is remembered of the latest copy of a page, queued or committed."""
        return self._memories.get(page_id) or await self._read_memory(page_id)

    @retried
    async def _read_memory(self, page_id: int) -> Memory | None:
        self._memories.reading(page_id)
        try:
            found = await self._memory_reader.read(self._database.reading, page_id)
        except SQLAlchemyError as error:
            self.damage.look_at(error)  # the query goes to the driver past the engine's own events
            raise
        return self._memories.read(page_id, found)

    async def copy(self, page_id: int) -> bytes | None:
        """The latest copy of a page, where one is kept."""
        return await self._database.read(lambda connection: latest_copy(connection, page_id), self.max_answer_seconds)

    async def recent_pages(self, host: str, limit: int) -> Sequence[HostPage]:
        """What is remembered of the pages of a host that were fetched most recently, oldest first."""
        return await self._database.read(
            lambda connection: read_recent_pages(connection, host, limit), self.max_answer_seconds
        )

    @retried_with_timeout
    async def audits(self, limit: int) -> Sequence[bool]:
        """Whether each of the latest audits found our copy fresh, oldest first: so that a restart forgets none."""
        return await estimates.latest_audits(self._database.reading, limit)

    @retried_with_timeout
    async def dirty_pages(self, limit: int) -> Ints:
        """Pages with a successful crawl newer than their estimate, longest waiting first."""
        if not self._dirty.read and self._scope is None:
            self._dirty.found(await estimates.read_dirty(self._database.reading), every=True)
        held = None if self._scope is None else self._scope.holds
        return np.array(self._dirty.first(limit, held), dtype=np.int64)

    @retried_with_timeout
    async def crawled_pages(self, after: int, limit: int) -> Ints:
        """The first pages, by id, beyond that id that have been crawled with success and are not retired."""
        return await estimates.crawled_pages(self._database.reading, after, limit, self._ranges)

    @retried_with_timeout
    async def histories(self, page_ids: Ints, *, max_per_page: int = 200, most: int = 20_000) -> Histories:
        """The latest observations of each page, at most that many; gone counts as a change.

        Only the first pages are read once `most` observations were found.
        """
        return await estimates.read_histories(self._database.reading, page_ids, max_per_page, most)

    @retried
    async def save_estimates(self, new: Sequence[Estimate]) -> None:
        """Write new estimates over the old ones."""
        for start in range(0, len(new), LIMITS.saved_at_once):
            async with self._database.writing.transaction() as connection:
                some, now = new[start : start + LIMITS.saved_at_once], self._clock.now()
                await estimates.write_estimates(connection, self._scope, some)
            self._dirty.estimated(some, now)

    async def demand(self) -> StoredDemand:
        """How often copies were asked for."""
        return await self._database.read(lambda connection: settings.read_demand(connection, self._ranges))

    async def save_demand(self, news: StoredDemand) -> None:
        """Write over what was kept of these pages' demand, and what they weigh by it."""
        await self._database.write(lambda connection: settings.write_demand(connection, self._scope, news))

    async def forget_weights(self) -> None:
        """Let every page weigh what the list says, as it does in the memory of a daemon that has just started."""
        await self._database.write(lambda connection: settings.forget_weights(connection, self._scope))

    async def setting(self, name: str) -> str | None:
        """A setting changed while running and kept over a restart."""
        return await self._database.read(
            lambda connection: settings.read_setting(connection, name), self.max_answer_seconds
        )

    async def change_setting(self, name: str, value: str | None, *, now: float) -> None:
        """Keep a setting (None forgets it) and note the change."""
        await self._database.write(lambda connection: settings.write_setting(connection, name, value, now))

    async def listed(self, urls: Sequence[str]) -> Sequence[Listed]:
        """The pages of these URLs, in any spelling, that are not retired."""
        return await self._page_list().listed(urls)

    async def add_action(self, action: Action) -> int:
        """Keep what an operator did; its number."""
        return await self._database.write(lambda connection: settings.add_action(connection, action))

    async def actions(self, limit: int, number: int | None = None) -> Sequence[Action]:
        """The latest actions, newest first; with a number that one alone."""
        return await self._database.read(
            lambda connection: settings.read_actions(connection, limit, number), self.max_answer_seconds
        )

    async def mark_undone(self, number: int, at: float) -> bool:
        """Note that an action was undone; False where it was already, or is not kept."""
        return await self._database.write(lambda connection: settings.mark_undone(connection, number, at))

    @retried
    async def prepare_documents(self, *, search: bool) -> int | None:
        """Make or drop the index; the number of the last change whose copy was looked at, None at first."""
        async with self._database.writing.transaction() as connection:
            await documents.prepare_index(connection, search=search)
            return await documents.read_cursor(connection)

    async def pending_copies(self, after: int, *, by_page: bool) -> Sequence[PendingCopy]:
        """The next copies to read beyond the number of a change, or with `by_page` beyond a page."""
        return await self._database.read(
            lambda connection: documents.pending_copies(
                connection, after, LIMITS.documents_at_once, LIMITS.document_bytes_at_once, by_page=by_page
            )
        )

    @retried
    async def save_documents(
        self, kept: Sequence[tuple[PendingCopy, Document]], cursor: int | None, *, search: bool
    ) -> None:
        """Keep documents in place of earlier ones, and with a cursor how far changes were read."""
        rows = await asyncio.to_thread(documents.packed_documents, kept) if kept else []
        async with self._database.writing.transaction() as connection:
            await documents.put_documents(connection, rows, search=search)
            if cursor is not None:
                # The time of a number that moves all the time says nothing.
                await settings.PUT_SETTING.run(connection, [(documents.CURSOR, str(cursor), 0.0)])

    @retried
    async def tidy_documents(self, *, search: bool) -> int:
        """Forget some documents of pages that are no longer kept, and index some that are not; how many these were."""
        async with self._database.reading.connect() as connection:
            left = await documents.left_documents(connection, LIMITS.documents_at_once)
            waiting = await documents.unindexed(connection, LIMITS.documents_at_once) if search else []
        if not left and not waiting:
            return 0
        async with self._database.writing.transaction() as connection:
            await documents.drop_documents(connection, left)
            await documents.index_documents(connection, waiting)
        return len(left) + len(waiting)

    async def newest_change(self) -> int:
        """The number of the newest change, 0 where there is none."""
        return await self._database.read(newest_change, self.max_answer_seconds)

    @property
    def _ranges(self) -> Ranges | None:
        """The ids that reads are about; None where they are about all."""
        return None if self._scope is None else self._scope.ranges()
