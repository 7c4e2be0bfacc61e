"""The read model over SQL: SQLite or PostgreSQL, beside the daemon or without it."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.model.crawl import ChangeVerdict, Verdict
from crawld.model.errors import StoreError
from crawld.model.page import NOT_LISTED, Document, OverduePages, PageState
from crawld.model.signal import Source
from crawld.model.usage import PageUse
from crawld.model.web import Clock
from crawld.store import changes as change_list
from crawld.store import documents, tables
from crawld.store.address import parse_address
from crawld.store.batch import FreshnessPoint
from crawld.store.changes import changes_of_page, versions_of
from crawld.store.database import Damage
from crawld.store.engine import as_store_error
from crawld.store.links import read_linked, read_site_figures
from crawld.store.page_list import StoredOrders, line_by, list_pages
from crawld.store.report import (
    database_bytes,
    estimate_row,
    free_bytes,
    is_document,
    is_page,
    latest_signals,
    overdue_since,
    read_addresses,
    read_calibration,
    read_copy,
    read_hosts,
    read_slots,
    read_sources,
    signal_stats,
    values_by_source,
)
from crawld.store.schema import open_for_reading
from crawld.store.views import (
    CalibrationLine,
    Changes,
    Copy,
    CrawlLine,
    EstimateLine,
    FollowedLine,
    Gone,
    HostLine,
    LivePages,
    Overview,
    PageLines,
    PageQuery,
    PageView,
    SearchHit,
    SlotLine,
    SourceFileLine,
    SourceLine,
    Version,
    VersionBody,
)

T = TypeVar("T")


async def view_page(
    connection: AsyncConnection,
    condition: ColumnElement[bool],
    live: LivePages | None,
    now: float,
    *,
    crawls: int,
    signals: int,
    changes: int,
) -> PageView | None:
    """The page that meets the condition, with so many of its latest crawls, signals and changes."""
    line = await line_by(connection, condition, live, now)
    if line is None:
        return None
    page = (await connection.execute(select(tables.pages).where(tables.pages.c.id == line.id))).one()
    return PageView(
        page=line,
        origin=page.origin,
        retired_at=page.retired_at,
        last_attempt_at=page.last_attempt,
        successive_failures=page.failures,
        pending_signals=values_by_source(page._mapping, "pending"),
        estimate=_estimate(await estimate_row(connection, line.id)),
        crawls=await _latest_crawls(connection, line.id, crawls),
        signals=await latest_signals(connection, line.id, signals),
        changes=await changes_of_page(connection, line.id, changes),
        versions=await versions_of(connection, line.id),
        alias_why=page.alias_why,
        **await read_addresses(connection, line.id, page.alias_of),
        linked_from=await read_linked(connection, line.id),
    )


def _estimate(row: Any) -> EstimateLine | None:
    if row is None:
        return None
    kappa, gamma, signals = (values_by_source(row._mapping, name) for name in ("kappa", "gamma", "signals"))
    finite = {source: value if math.isfinite(value) else None for source, value in kappa.items()}
    return EstimateLine(row.at, row.shape, row.rate, row.alpha_se, row.crawls, row.changes, finite, gamma, signals)


async def _latest_crawls(connection: AsyncConnection, page_id: int, limit: int) -> list[CrawlLine]:
    crawl = tables.crawls
    query = select(crawl).where(crawl.c.page_id == page_id).order_by(crawl.c.id.desc()).limit(limit)
    return [
        CrawlLine(
            row.at, Verdict(row.verdict), row.status, row.trouble, row.detail, row.bytes, row.duration, row.magnitude,
            row.predicted, bool(row.audit), values_by_source(row._mapping, "signals"),
        )
        for row in await connection.execute(query)
    ]  # fmt: skip


class ReadingThread:
    """Runs coroutines in a thread with its own event loop, so that reports cost the daemon's loop nothing.

    It starts with the first coroutine and ends with `close`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._runner: asyncio.Runner | None = None
        self._thread: threading.Thread | None = None

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns or raises what the coroutine does; a caller that stops waiting cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    async def close(self) -> None:
        """End the thread; what it still runs is cancelled and comes to its end first."""
        runner, thread = self._runner, self._thread
        self._runner = self._thread = None
        if runner is not None and thread is not None:
            loop = runner.get_loop()
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(thread.join)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
            self._runner.get_loop()  # made before the thread starts: two threads that make it would make two
            self._thread = threading.Thread(target=_serve, args=[self._runner], name=self._name, daemon=True)
            self._thread.start()
        return self._runner.get_loop()


def _serve(runner: asyncio.Runner) -> None:
    """Run the loop until it is stopped, then cancel what is left, wait for it, and close."""
    with runner:
        runner.get_loop().run_forever()


P = ParamSpec("P")


def in_reader_thread(
    method: Callable[Concatenate["SqlReadModel", P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SqlReadModel", P], Coroutine[Any, Any, T]]:
    """Answer in the model's own thread; after an error of the database the next question opens it again."""

    @wraps(method)
    async def asked(model: "SqlReadModel", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await model.answer(method(model, *args, **kwargs))

    return asked


class SqlReadModel:
    """Answers about what is committed, neither waiting for the writer nor delaying it.

    Use it as an async context, or close it at the end.
    """

    def __init__(self, url: str, clock: Clock, *, live: LivePages | None = None, damage: Damage | None = None) -> None:
        """`live` and `damage` are the running daemon's: damage met here is reported to it."""
        self._address = parse_address(url)
        self._clock = clock
        self._live = live
        self._orders = StoredOrders()
        self._damage = damage
        self._thread = ReadingThread("read model")
        self._engine: AsyncEngine | None = None
        self._opening: asyncio.Lock | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the database and end the thread; who still asks is refused: a new thread would have another loop."""
        self._closed = True
        await self._thread.run(self._dispose())
        await self._thread.close()

    async def run(self) -> None:
        """Keep the database open until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def answer(self, question: Coroutine[Any, Any, T]) -> T:
        """Run a question in the thread; errors of the database become sentences, and damage is reported."""
        if self._closed:
            question.close()
            raise StoreError("the database is closed: the daemon is stopping")
        try:
            return await self._thread.run(question)
        except (SQLAlchemyError, OSError) as error:
            await self._thread.run(self._dispose())
            if self._damage is not None:
                self._damage.look_at(error)
            raise as_store_error(error, self._address.redacted_url) from error
        except StoreError:
            await self._thread.run(self._dispose())
            raise

    @in_reader_thread
    async def overview(self) -> Overview:
        """How all pages stand."""
        page, point = tables.pages.c, tables.freshness_history
        async with self._connected() as connection:
            rows = await connection.execute(select(page.state, func.count()).group_by(page.state))
            counts = {str(state): int(count) for state, count in rows}
            hosts = await connection.scalar(select(func.count()).select_from(tables.hosts))
            latest = (await connection.execute(select(point).order_by(point.c.at.desc()).limit(1))).first()
            _, last = await change_list.bounds(connection)
            crawl_at = await connection.scalar(_last_crawl(connection.dialect.name))
            size = await database_bytes(connection, self._address)
        return Overview(
            pages=sum(count for state, count in counts.items() if state not in NOT_LISTED),
            states={state: counts.get(state.value, 0) for state in PageState},
            hosts=int(hosts or 0),
            latest=None if latest is None else _point(latest),
            last_change=last,
            last_crawl_at=crawl_at,
            database_bytes=size,
            free_bytes=free_bytes(self._address),
        )

    @in_reader_thread
    async def overdue(self, before: float) -> OverduePages:
        """Pages that were not crawled with success since that time."""
        async with self._connected() as connection:
            return await overdue_since(connection, before)

    @in_reader_thread
    async def pages(self, query: PageQuery) -> PageLines:
        """A part of the list of pages; InputError where the cursor is none of this list."""
        async with self._connected() as connection:
            return await list_pages(connection, query, self._live, self._orders, self._clock.now())

    @in_reader_thread
    async def page(self, url: str, *, crawls: int = 100, signals: int = 100, changes: int = 50) -> PageView | None:
        """One page by any spelling of its URL, with the latest of its history; None if unknown."""
        async with self._connected() as connection:
            return await view_page(
                connection,
                is_page(url),
                self._live,
                self._clock.now(),
                crawls=crawls,
                signals=signals,
                changes=changes,
            )

    @in_reader_thread
    async def versions(self, url: str) -> Sequence[Version] | None:
        """The kept versions of a page, newest first; None if the page is unknown."""
        async with self._connected() as connection:
            page_id = await connection.scalar(select(tables.pages.c.id).where(is_document(url)))
            return None if page_id is None else await change_list.versions_of(connection, page_id)

    @in_reader_thread
    async def version(self, url: str, number: int | None = None) -> VersionBody | None:
        """A kept version of a page with its bytes, the latest without `number`; None where there is none."""
        async with self._connected() as connection:
            return await change_list.version_body(connection, is_document(url), number)

    @in_reader_thread
    async def copy(self, url: str, *, even_gone: bool = False) -> Copy | Gone | None:
        """The latest copy of a page; of a page that is gone only with `even_gone`."""
        async with self._connected() as connection:
            now = self._clock.now()
            return await read_copy(connection, is_document(url), self._live, now, even_gone=even_gone)

    @in_reader_thread
    async def documents(self, versions: Sequence[int]) -> Mapping[int, Document]:
        """The documents that are kept of versions, by their numbers."""
        async with self._connected() as connection:
            return await documents.read_documents(connection, versions)

    @in_reader_thread
    async def version_bodies(self, wanted: Sequence[int]) -> Mapping[int, VersionBody]:
        """Kept versions with their bytes, by number."""
        async with self._connected() as connection:
            return await change_list.version_bodies(connection, wanted)

    @in_reader_thread
    async def search(
        self, words: str, *, limit: int = 20, host: str | None = None, use: PageUse | None = None
    ) -> Sequence[SearchHit]:
        """Pages whose text holds the words, best first, without those that deny the use; InputError where it is off."""
        terms, now = documents.parse_terms(words), self._clock.now()
        async with self._connected() as connection:
            found = await documents.search_documents(connection, terms, limit, host, use)
            held = {} if self._live is None else self._live.standings([row.page_id for row, _, _ in found], now)
            fresh = {page: standing[0] for page, standing in held.items()}
            stored = [row.url for row, _, _ in found if row.page_id not in fresh]
            by_url = await documents.stored_freshness(connection, stored)
        return [
            SearchHit(
                row.url,
                document.title,
                *documents.snippet_of(document, terms),
                score,
                row.version,
                fresh.get(row.page_id, by_url.get(row.url)),
                document.language,
                row.host,
            )
            for row, document, score in found
        ]

    @in_reader_thread
    async def changes(
        self,
        after: int,
        limit: int = 100,
        *,
        url: str | None = None,
        kinds: Sequence[ChangeVerdict] = (),
        use: PageUse | None = None,
    ) -> Changes:
        """The changes after a cursor, oldest first, of one page where its URL is given, of some kinds where they are.

        With a use, those of pages that deny it are left out, but not the change of that itself.

        InputError where the cursor is beyond the newest change: it is not of this database.
        """
        page = None if url is None else is_page(url)
        async with self._connected() as connection:
            return await change_list.changes_after(connection, after, limit, page, kinds, use)

    @in_reader_thread
    async def latest_changes(
        self, before: int | None = None, limit: int = 100, *, verdicts: Sequence[ChangeVerdict] = ()
    ) -> Changes:
        """The newest changes, newest first, or those before a number; the cursor is that of the newest change.

        With verdicts, only changes of those.
        """
        async with self._connected() as connection:
            return await change_list.changes_before(connection, before, limit, verdicts)

    @in_reader_thread
    async def change_counts(self, since: float, bucket: float) -> Mapping[float, int]:
        """How many changes there were from that time on, by the beginning of stretches of `bucket` seconds.

        The first copy of a page is no change.
        """
        async with self._connected() as connection:
            return await change_list.change_counts(connection, since, bucket)

    @in_reader_thread
    async def hosts(self, *, search: str | None = None, limit: int = 1000) -> Sequence[HostLine]:
        """Hosts that have pages, the one with most pages first; `search` is a part of their names."""
        host, page = tables.hosts.c, tables.pages.c
        found = [] if search is None else [page.host_id.in_(select(host.id).where(_named(host.name, search)))]
        async with self._connected() as connection:
            return await read_hosts(connection, limit, *found)

    @in_reader_thread
    async def sources(
        self, *, host: str | None = None, search: str | None = None, limit: int = 1000
    ) -> Sequence[SourceLine]:
        """What signals were worth, by host and source."""
        host_name = signal_stats.c.host
        conditions = [] if host is None else [host_name == host]
        conditions += [] if search is None else [_named(host_name, search)]
        async with self._connected() as connection:
            return await read_sources(connection, limit, *conditions)

    @in_reader_thread
    async def source_files(
        self, *, host: str | None = None, search: str | None = None, limit: int = 1000
    ) -> Sequence[SourceFileLine]:
        """The sitemaps and feeds that are polled."""
        file = tables.sources.c
        query = select(file.url, file.source, file.host, file.next_poll).order_by(file.host, file.url).limit(limit)
        if host is not None:
            query = query.where(file.host == host)
        if search is not None:
            query = query.where(_named(file.host, search))
        async with self._connected() as connection:
            rows = (await connection.execute(query)).all()
        return [SourceFileLine(url, Source(source), name, at) for url, source, name, at in rows]

    @in_reader_thread
    async def followed(self) -> Sequence[FollowedLine]:
        """What following links has found, by host."""
        async with self._connected() as connection:
            return await read_site_figures(connection)

    @in_reader_thread
    async def freshness_history(self, since: float, *, limit: int = 5000) -> Sequence[FreshnessPoint]:
        """The latest points from that time on, oldest first."""
        point = tables.freshness_history
        query = select(point).where(point.c.at >= since).order_by(point.c.at.desc()).limit(limit)
        async with self._connected() as connection:
            return [_point(row) for row in reversed((await connection.execute(query)).all())]

    @in_reader_thread
    async def slots(self, since: float, bucket: float) -> Sequence[SlotLine]:
        """What slots were spent on from that time on, by stretches of `bucket` seconds, oldest first."""
        async with self._connected() as connection:
            return await read_slots(connection, since, bucket)

    @in_reader_thread
    async def calibration(self) -> Sequence[CalibrationLine]:
        """Predicted against seen freshness, the lowest tenth first."""
        async with self._connected() as connection:
            return await read_calibration(connection)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[AsyncConnection]:
        engine = await self._opened()
        async with engine.connect() as connection:
            yield connection

    async def _opened(self) -> AsyncEngine:
        """The engine, made and checked once: both happen in the thread, where its connections live."""
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._engine is None:
                self._engine = await open_for_reading(self._address, beside_writer=self._damage is not None)
            return self._engine

    async def _dispose(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.dispose()


def _named(column: Any, search: str) -> Any:
    """That a name of a host, which is in lower case, holds the text."""
    return column.contains(search.lower(), autoescape=True)


def _last_crawl(dialect: str) -> Select[Any]:
    """When a page was crawled with success last. PostgreSQL has no index of that: its newest crawls are looked at."""
    if dialect != "postgresql":
        return select(func.max(tables.pages.c.last_success))
    crawl = tables.crawls.c
    newest = select(crawl.at).where(crawl.verdict != Verdict.FAILED.value).order_by(crawl.id.desc()).limit(100)
    return select(func.max(newest.subquery().c.at))


def _point(row: Any) -> FreshnessPoint:
    return FreshnessPoint(**row._mapping)
