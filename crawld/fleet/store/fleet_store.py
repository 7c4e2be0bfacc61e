"""Reads and writes of a fleet's tables for its steering, from any machine."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select, text, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.fleet.store import statements
from crawld.fleet.store.fence import STOPPED_WRITER, check_duty
from crawld.fleet.store.ledger import LedgerReader
from crawld.fleet.store.making import Mail, MailKind, known_fleet, leave_mail
from crawld.fleet.store.numbering import FleetNumbering
from crawld.fleet.store.scope import ShardScope, ranges
from crawld.fleet.store.standing import FleetStanding
from crawld.fleet.view import FleetView
from crawld.model.errors import StoreError
from crawld.model.estimate import AgeCurve
from crawld.model.host import HostState
from crawld.model.page import Wanted
from crawld.model.shards import shard_of_host, shard_of_id
from crawld.store import estimates, hosts, settings, tables
from crawld.store.address import parse_address
from crawld.store.database import Damage, Database, WriteConnection
from crawld.store.engine import as_store_error, reading_engine, writing_engine
from crawld.store.lock import ADVISORY_KEY
from crawld.store.pages import Adoption, Listed, MayRetire, PageList, always
from crawld.store.restoring import StoredPages, restore_pages
from crawld.store.schema import check_revision, latest_revision, migrate, open_for_reading
from crawld.store.settings import Action


@dataclass(frozen=True, slots=True)
class StoredPart:
    """Pages of some whole shards that stand for all."""

    part: float  # of all pages, above 0
    pages: StoredPages
    hosts: Sequence[HostState]
    age_curves: Mapping[str, AgeCurve]


@dataclass(frozen=True)
class FleetStoreLimits:
    """Numbers that bound and tune this module."""

    max_transaction_seconds: float = 20.0
    """After which the server counts as out of reach: a connection that was cut off may wait for it for ever."""
    view_seconds: float = 0.5
    """For which one look at the fleet serves all callers."""


LIMITS = FleetStoreLimits()


class FleetDatabase(Database):
    """A fleet's database opened by a worker or a command.

    It shares the lock with other workers and excludes a single daemon; it fills in how many shards there are.
    """

    def __init__(self, url: str, scope: ShardScope) -> None:
        super().__init__(url)
        self._scope = scope
        if self._address.file is not None:
            raise StoreError(f"a fleet needs PostgreSQL, and {self.redacted_url} is a file: set `database`")

    def _write_connection(self) -> WriteConnection:
        engine = writing_engine(self._address, dict(STOPPED_WRITER))
        seconds = LIMITS.max_transaction_seconds
        return WriteConnection(engine, self.redacted_url, self.damage, shared=True, seconds=seconds, check=check_duty)

    async def _prepare(self, transaction: AsyncConnection) -> None:
        """Learn what the fleet is. Tables of an older version are migrated only while no other process uses them."""
        found = await known_fleet(transaction, self.redacted_url)
        if await transaction.run_sync(check_revision, self.redacted_url) != latest_revision():
            alone = await transaction.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": ADVISORY_KEY})
            if not alone:
                raise StoreError(
                    f"the database {self.redacted_url} was written by an older crawld, and workers of it still run: "
                    "stop them, then start this one first"
                )
            await transaction.run_sync(migrate, self.redacted_url)
        self._scope.made_of(found.shards)


@dataclass(frozen=True, slots=True)
class Revision:
    """Settings as they were applied at one time."""

    number: int
    at: float  # in the database's time
    by: str  # the worker or the machine that applied them
    document: Mapping[str, Any]


class SharedSettings(LedgerReader):
    """Reads and applies the fleet's settings."""

    async def read(self) -> Revision | None:
        """The settings in force; None where none were applied yet. StoreError where the database is no fleet's."""
        if not (await self._line.known_fleet())["settings"]:
            return None  # an older version's tables: the first worker of this one brings them up
        found = await self._line.row(statements.SETTINGS)
        if found is None:
            return None
        return Revision(found["revision"], found["at"], found["by"], json.loads(found["document"]))

    async def apply(self, document: Mapping[str, Any], by: str, *, after: int) -> Revision:
        """Put settings in force as the revision that follows `after`; StoreError where another one came first."""
        found = await self._line.row(statements.APPLY_SETTINGS, after, by, json.dumps(document, sort_keys=True))
        if found is None:
            raise StoreError("the settings of the fleet were changed meanwhile: look at the difference again")
        return Revision(found["revision"], found["at"], by, document)


_host = tables.hosts.c
HOST_COLUMNS = tuple(column for column in tables.hosts.columns if column.name != "id")


class SqlFleetStore:
    """Open it with `start`; nothing of it is the workers' own, so that any machine may have one."""

    def __init__(self, url: str, monotonic: Callable[[], float]) -> None:
        self._address, self._monotonic = parse_address(url), monotonic
        self._standing = FleetStanding(url)
        self._opened: tuple[WriteConnection, AsyncEngine] | None = None
        self._numbering: FleetNumbering | None = None
        self._seen: tuple[float, FleetView] | None = None
        self._looking = asyncio.Lock()
        self.shards = 0

    async def start(self) -> None:
        """Open the database; StoreError where it is no fleet's, or of another version."""
        redacted_url = self._address.redacted_url
        with self._in_sentences():
            reading = await open_for_reading(self._address, beside_writer=True)
            try:
                async with reading.connect() as connection:
                    found = await known_fleet(connection, redacted_url)
            except BaseException:
                await reading.dispose()
                raise
        self.shards, self._numbering = found.shards, FleetNumbering(found.shards)
        writing = WriteConnection(
            writing_engine(self._address, dict(STOPPED_WRITER)), redacted_url, Damage(redacted_url), shared=True
        )
        self._opened = writing, reading

    async def close(self) -> None:
        """Close the connections."""
        await self._standing.close()
        if self._opened is not None:
            writing, reading = self._opened
            self._opened = None
            await writing.close()
            await reading.dispose()

    async def view(self) -> FleetView:
        """Returns the state of the fleet, at most a moment old."""
        async with self._looking:
            now = self._monotonic()
            if self._seen is None or now - self._seen[0] > LIMITS.view_seconds:
                self._seen = now, await self._standing.read()
            return self._seen[1]

    async def change_setting(self, name: str, value: str | None, *, now: float) -> None:
        """Keep a setting (None forgets it) and note the change; workers read it with their next beat."""
        async with self._write() as connection:
            await settings.write_setting(connection, name, value, now)
        self._seen = None

    async def setting(self, name: str) -> str | None:
        """A setting changed while running and kept over a restart."""
        async with self._read() as connection:
            return await settings.read_setting(connection, name)

    @property
    def healthy(self) -> bool:
        """Tells whether the database is open: a fleet's store writes at once or fails, and queues nothing."""
        return self._opened is not None

    async def add_action(self, action: Action) -> int:
        """Keep what an operator did; its number."""
        async with self._write() as connection:
            return await settings.add_action(connection, action)

    async def actions(self, limit: int, number: int | None = None) -> Sequence[Action]:
        """The latest actions, newest first; with a number that one alone."""
        async with self._read() as connection:
            return await settings.read_actions(connection, limit, number)

    async def mark_undone(self, number: int, at: float) -> bool:
        """Note that an action was undone; False where it was already, or is not kept."""
        async with self._write() as connection:
            return await settings.mark_undone(connection, number, at)

    async def tell(self, mail: Sequence[Mail]) -> None:
        """Leave messages to the holders of their shards."""
        async with self._write() as connection:
            await leave_mail(connection, mail)

    async def attempts(self, page_ids: Sequence[int]) -> Mapping[int, float | None]:
        """Time of each page's last attempt."""
        page = tables.pages.c
        async with self._read() as connection:
            rows = await connection.execute(select(page.id, page.last_attempt).where(page.id.in_(page_ids)))
            return {int(number): at for number, at in rows}

    async def listed(self, urls: Sequence[str]) -> Sequence[Listed]:
        """The pages of these URLs, in any spelling, that are not retired."""
        return await self.pages.listed(urls)

    async def readmit(self, urls: Sequence[str]) -> Sequence[str]:
        """Keep these pages out no longer; the URLs of those that were."""
        return await self.pages.readmit(urls)

    async def origins(self, urls: Sequence[str]) -> Mapping[str, str]:
        """The origin that listed each of these pages, by URL; pages that are kept out are left out."""
        return await self.pages.origins(urls)

    async def adopt(
        self,
        wanted: Sequence[Wanted],
        *,
        origin: str,
        now: float,
        complete: bool = False,
        may_retire: MayRetire = always,
    ) -> Adoption:
        """Take pages in; with `complete` those that the origin no longer names are retired, if so many may be."""
        adopting = self.pages.adopt(wanted, origin=origin, now=now, complete=complete, may_retire=may_retire)
        return Adoption.of([part async for part in adopting])

    async def steer_host(
        self, name: str, change: Callable[[HostState], HostState], told: Mapping[str, Any]
    ) -> HostState | None:
        """Change what is remembered of a host, and tell its worker; None where no page is on it."""
        async with self._write() as connection:
            query = select(*HOST_COLUMNS).where(_host.name == name).with_for_update()
            found = (await connection.execute(query)).first()
            if found is None:
                return None
            state = change(HostState(**found._mapping))
            await connection.execute(update(tables.hosts).where(_host.name == name).values(**asdict(state)))
            await leave_mail(
                connection, [Mail(shard_of_host(name, self.shards), MailKind.HOST, {"name": name, **told})]
            )
            return state

    async def stored_page(self, page_id: int) -> StoredPart | None:
        """A page with its host and what is believed of both; None where it is retired or unknown."""
        with self._in_sentences():
            stored, _ = await restore_pages(self._reading, [page_id])
            if not len(stored.ids):
                return None
            async with self._reading.connect() as connection:
                found = await hosts.read_hosts_named(connection, stored.hosts)
            curves = await estimates.read_age_curves(self._reading, ranges([shard_of_id(page_id)]))
        return StoredPart(1.0, stored, found, {name: curves[name] for name in stored.hosts if name in curves})

    async def stored_part(self, most: int, now: float) -> StoredPart:
        """About so many pages at the most, all there are where they are fewer; read beside the loop."""
        total = await self._standing.count_pages()
        count = self.shards if total <= most else max(1, int(self.shards * most / total))
        chosen = [number * self.shards // count for number in range(count)]  # any are as good: hosts are hashed
        with self._in_sentences():
            stored, found, curves = await asyncio.to_thread(asyncio.run, self._load(chosen, now))
        known = len(stored.ids)
        return StoredPart(1.0 if count == self.shards else known / max(total, known, 1), stored, found, curves)

    async def _load(
        self, shards: Sequence[int], now: float
    ) -> tuple[StoredPages, Sequence[HostState], Mapping[str, AgeCurve]]:
        """The pages of these shards, on a connection of its own: it runs in another thread."""
        reading, of = reading_engine(self._address), ranges(shards)
        try:
            stored, _ = await restore_pages(reading, None, of)
            async with reading.connect() as connection:
                found = await hosts.read_hosts(connection, now, of)
            return stored, found, await estimates.read_age_curves(reading, of)
        finally:
            await reading.dispose()

    async def holder(self, shard: int) -> str | None:
        """The name of the live worker that holds a shard."""
        return await self._standing.holder(shard)

    async def audits(self, limit: int) -> Sequence[bool]:
        """Results of the fleet's latest audits, oldest first: True where our copy was fresh."""
        with self._in_sentences():
            return await estimates.latest_audits(self._reading, limit)

    @asynccontextmanager
    async def _write(self) -> AsyncIterator[AsyncConnection]:
        with self._in_sentences():
            async with self._writing.transaction() as connection:
                yield connection

    @asynccontextmanager
    async def _read(self) -> AsyncIterator[AsyncConnection]:
        with self._in_sentences():
            async with self._reading.connect() as connection:
                yield connection

    @contextmanager
    def _in_sentences(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            raise as_store_error(error, self._address.redacted_url) from error

    @property
    def pages(self) -> PageList:
        """The lists of pages."""
        return PageList(self._writing, self._reading, self._address.redacted_url, self._numbering)

    @property
    def _writing(self) -> WriteConnection:
        return self._parts[0]

    @property
    def _reading(self) -> AsyncEngine:
        return self._parts[1]

    @property
    def _parts(self) -> tuple[WriteConnection, AsyncEngine]:
        if self._opened is None:
            raise StoreError("the fleet's database is not open")
        return self._opened
