"""Reading a database beside its daemon, or after it: without its lock, and without writing anything."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import ColumnElement, Select, TableClause, column, func, or_, select, table, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.model.crawl import AUDITS_KEPT, Memory
from crawld.model.errors import StoreError
from crawld.model.fetched import GONE_STATUSES, TURNED_AWAY, Trouble
from crawld.model.host import HostsInTrouble, HostState, SitesTurningAway, sum_up_troubled, sum_up_turned_away
from crawld.model.metrics import HistoryPoint
from crawld.model.page import NOT_LISTED, OverduePages, PageState
from crawld.model.signal import SOURCES, Source
from crawld.model.url import identity
from crawld.model.usage import usage_of
from crawld.read.change.frame import LIMITS as FRAME_LIMITS
from crawld.read.change.frame import HostFrame
from crawld.read.change.volatile import volatile_words
from crawld.store import tables
from crawld.store.address import Address, parse_address
from crawld.store.engine import among, as_store_error
from crawld.store.hooks import read_figures, read_queues
from crawld.store.links import read_linked, read_site_figures
from crawld.store.schema import open_for_reading
from crawld.store.settings import read_setting
from crawld.store.slot_history import slots_since
from crawld.store.versions import decompress_to, memory_of, read_recent_pages, unpack_said, usage_document
from crawld.store.views import (
    AuditFigures,
    CalibrationLine,
    Copy,
    ExcludedPage,
    FollowedLine,
    Gone,
    HostLine,
    HostStats,
    HostWaits,
    LivePages,
    PageFacts,
    PageStats,
    PastCrawl,
    RatePosterior,
    RememberedCopy,
    SignalLine,
    SlotLine,
    SourceLine,
    StoredEstimate,
    StoredTroubles,
    Totals,
    TrustLine,
)

if TYPE_CHECKING:
    from crawld.model.estimate import AgeCurve
    from crawld.store.database import Damage
    from crawld.store.restoring import StoredPages


@dataclass(frozen=True)
class ReportLimits:
    """Numbers that bound and tune this module."""

    asked_at_once: int = 500
    addresses: int = 100
    """Other addresses of a page that are told."""


LIMITS = ReportLimits()


async def learnt_of(connection: AsyncConnection, page_id: int) -> tuple[Memory, HostFrame | None] | None:
    """What is remembered of a page and what its host's pages share: all that decides what of it is compared."""
    version, page, host = tables.versions, tables.pages, tables.hosts
    row = (await connection.execute(select(version).where(version.c.page_id == page_id))).one_or_none()
    if row is None:
        return None
    named = select(host.c.name).join(page, page.c.host_id == host.c.id).where(page.c.id == page_id)
    name = str(await connection.scalar(named))
    pages = await read_recent_pages(connection, name, FRAME_LIMITS.max_pages)
    return memory_of(row), HostFrame(name, pages) if len(pages) >= FRAME_LIMITS.min_pages else None


async def remembered(connection: AsyncConnection, page_id: int) -> RememberedCopy | None:
    """Validators, blocks and what is left out of the comparison; None where no copy was ever fetched."""
    learnt = await learnt_of(connection, page_id)
    if learnt is None:
        return None
    memory, frame = learnt
    return RememberedCopy(
        fetched_at=memory.fetched_at,
        etag=memory.etag,
        last_modified=memory.last_modified,
        content_type=memory.content_type,
        blocks=len(memory.digest.blocks),
        volatile_places=sum(1 for place in memory.places if volatile_words(place)),
        frame_blocks=0 if frame is None else sum(frame.left_out(page_id, memory.digest)),
        streak=memory.streak,
        versions_seen=len(memory.seen),
    )


Row = dict[str, Any]
_page, _host, _crawl = tables.pages.c, tables.hosts.c, tables.crawls.c
_LISTED = f"state NOT IN {tuple(state.value for state in NOT_LISTED)}"
_HOSTS_IN_TROUBLE = f"""
    SELECT name, blocked, blocked_until, asked_until, failures,
        (SELECT count(*) FROM pages WHERE host_id = hosts.id AND {_LISTED}) AS pages
    FROM hosts WHERE blocked OR blocked_until > :now"""
_TURNED_AWAY = f"""
    SELECT name, turned_away, CASE WHEN url LIKE 'https:%' THEN 'https' ELSE 'http' END AS scheme, count(*) AS pages
    FROM pages JOIN hosts ON hosts.id = host_id WHERE turned_away IS NOT NULL AND {_LISTED} GROUP BY 1, 2, 3"""
_OVERDUE = """
    SELECT count(*), min(last_success) FROM pages
    WHERE last_success < :before AND state || '' IN ('live', 'failing')"""  # by no index of states: most pages are
_AUDITS = """
    SELECT count(*), min(at), max(at) FROM (
        SELECT at FROM crawls WHERE audit AND verdict <> 'failed' ORDER BY at DESC LIMIT :most
    ) AS audits"""


async def hosts_in_trouble(connection: AsyncConnection, now: float) -> HostsInTrouble:
    """The hosts with pages that are blocked by the operator, asked us to wait, or are in back-off, largest first."""
    found = [
        (HostState(name, until, failures, blocked=bool(blocked), asked_until=asked), pages)
        for name, blocked, until, asked, failures, pages in await connection.execute(
            text(_HOSTS_IN_TROUBLE), {"now": now}
        )
    ]
    return sum_up_troubled(found, now)


async def turned_away(connection: AsyncConnection) -> dict[str, SitesTurningAway]:
    """Pages whose site turned us away when they were last asked, by trouble and origin."""
    return sum_up_turned_away({
        (f"{scheme}://{name}", Trouble(word)): pages
        for name, word, scheme, pages in await connection.execute(text(_TURNED_AWAY))
        if word in TURNED_AWAY
    })  # fmt: skip


async def overdue_since(connection: AsyncConnection, before: float) -> OverduePages:
    """Pages that could be asked but were not crawled with success since that time, and since when."""
    return OverduePages(*(await connection.execute(text(_OVERDUE), {"before": before})).one())


def _view(name: str, row: type, *without: str) -> TableClause:
    """A view of the database whose columns are the fields of a row."""
    return table(name, *(column(field.name) for field in fields(row) if field.name not in without))


page_stats = _view("page_stats", PageStats)
host_stats = _view("host_stats", HostStats, "frame_changes")
signal_stats = _view("signal_stats", SourceLine)
calibration = _view("calibration", CalibrationLine)


async def read_sources(
    connection: AsyncConnection, limit: int | None, *conditions: ColumnElement[bool]
) -> list[SourceLine]:
    """Worth of the signals by host and source, as far as they meet the conditions."""
    stat = signal_stats.c
    query = select(signal_stats).where(*conditions).order_by(stat.host, stat.source).limit(limit)
    rows = [with_heard(dict(row._mapping)) for row in await connection.execute(query)]
    return [SourceLine(**row | {"source": Source(row["source"])}) for row in rows]


async def read_hosts(
    connection: AsyncConnection, limit: int | None, *conditions: ColumnElement[bool], even_empty: bool = False
) -> list[HostLine]:
    """Hosts, the one with most pages first; `conditions` are on their pages."""
    away: dict[int, dict[str, int]] = {}
    turned = f"FROM pages WHERE turned_away IS NOT NULL AND {_LISTED} GROUP BY 1, 2"
    for host_id, trouble, pages in await connection.execute(text(f"SELECT host_id, turned_away, count(*) {turned}")):
        away.setdefault(host_id, {})[trouble] = pages
    counts = (
        select(_page.host_id, func.count().label("pages"))
        .where(_page.state.not_in(NOT_LISTED), *conditions)
        .group_by(_page.host_id).order_by(func.count().desc(), _page.host_id).limit(limit).subquery()
    )  # fmt: skip
    of_host = func.coalesce(counts.c.pages, 0).label("pages")
    state = (_host.blocked_until, _host.asked_until, _host.failures, _host.delay, _host.crawl_delay)
    query = (
        select(_host.id, _host.name, of_host, _host.blocked, *state)
        .join_from(tables.hosts, counts, counts.c.host_id == _host.id, isouter=even_empty)
        .order_by(of_host.desc(), _host.name)
    )
    return [
        HostLine(name, count, bool(blocked), until, asked, failures, delay, crawl_delay, away.get(host_id, {}))
        for host_id, name, count, blocked, until, asked, failures, delay, crawl_delay in await connection.execute(query)
    ]


async def read_calibration(connection: AsyncConnection) -> list[CalibrationLine]:
    """Predicted against seen freshness, the lowest tenth first."""
    query = select(calibration).order_by(calibration.c.bin)
    return [CalibrationLine(*row) for row in await connection.execute(query)]


async def read_slots(connection: AsyncConnection, since: float, bucket: float) -> list[SlotLine]:
    """Uses of slots from that time on, by stretches of `bucket` seconds, use and outcome, oldest first."""
    return [SlotLine(*row) for row in await connection.execute(slots_since(connection.dialect.name, since, bucket))]


_body = tables.bodies.c
_status = (
    select(_crawl.status).where(_crawl.page_id == _page.id, _crawl.status.in_(sorted(GONE_STATUSES)))
    .order_by(_crawl.id.desc()).limit(1).scalar_subquery()
)  # fmt: skip
_latest = (
    select(_body.id).where(_body.page_id == _page.id).order_by(_body.id.desc()).limit(1).correlate(tables.pages)
).scalar_subquery()
_PAGE: Select[Any] = select(
    _page.id, _page.url, _host.name.label("host"), _page.last_success, _page.gone_since, _latest.label("body"),
    _status.label("status"), tables.versions.c.said,
).join_from(tables.pages, tables.hosts, _host.id == _page.host_id).join(
    tables.versions, tables.versions.c.page_id == _page.id, isouter=True
)  # fmt: skip


async def read_copy(
    connection: AsyncConnection, condition: ColumnElement[bool], live: LivePages | None, now: float, *, even_gone: bool
) -> Copy | Gone | None:
    """The latest copy of the page that meets the condition; of one that is gone only with `even_gone`."""
    page = (await connection.execute(_PAGE.where(condition))).first()
    if page is None:
        return None
    gone = None if page.gone_since is None else Gone(page.gone_since, page.status, held=page.body is not None)
    if page.body is None or (gone is not None and not even_gone):
        return gone
    found = (await connection.execute(select(tables.bodies).where(_body.id == page.body))).first()
    if found is None:  # pruned in this moment
        return gone
    return Copy(
        url=page.url,
        host=page.host,
        body=decompress_to(found.zstd, found.size),
        content_type=found.content_type,
        fetched_at=found.at,
        checked_at=page.last_success,
        freshness=await _copy_freshness(connection, page, live, now),
        version=found.version,
        gone=gone,
        usage=usage_of(unpack_said(page.said)),
    )


async def _copy_freshness(connection: AsyncConnection, page: Any, live: LivePages | None, now: float) -> float | None:
    held = {} if live is None else live.standings([page.id], now)
    if page.id in held:
        return held[page.id][0]
    fresh = await connection.scalar(select(page_stats.c.freshness).where(page_stats.c.url == page.url))
    return None if fresh is None else float(fresh)


async def read_addresses(connection: AsyncConnection, page_id: int, alias_of: int | None) -> Row:
    """The page that this one is another address of, as `alias_of`, and its own other addresses, as `aliases`."""
    of = None if alias_of is None else await connection.scalar(select(_page.url).where(_page.id == alias_of))
    others = select(_page.url).where(_page.alias_of == page_id).order_by(_page.url).limit(LIMITS.addresses)
    return {"alias_of": of, "aliases": list(await connection.scalars(others))}


class Reader:
    """Answers of a database to commands. Use it as an async context."""

    def __init__(self, url: str, *, damage: "Damage | None" = None) -> None:
        """With `damage`, inside the daemon: damage met here is reported to it."""
        self._address = parse_address(url)
        self._damage = damage
        self._engine: AsyncEngine | None = None

    async def __aenter__(self) -> Self:
        try:
            self._engine = await open_for_reading(self._address, beside_writer=self._damage is not None)
        except (SQLAlchemyError, OSError) as error:
            raise as_store_error(error, self._address.redacted_url) from error
        if self._damage is not None:
            self._damage.watch(self._engine)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    async def overall(self) -> Totals:
        """Pages by state, totals, freshness weighted by importance, and the latest point of the history."""
        page, point = tables.pages.c, tables.freshness_history
        weight, fresh = page_stats.c.weight, page_stats.c.freshness
        totals = select(
            func.coalesce(func.sum(page.crawls), 0),
            func.coalesce(func.sum(page.changes), 0),
            func.coalesce(func.sum(page.failed), 0),
            func.max(page.last_success),
        )
        mean = func.sum(weight * fresh) / func.nullif(func.sum(weight), 0)
        async with self._connected() as connection:
            rows = await connection.execute(select(page.state, func.count()).group_by(page.state))
            states = {str(state): int(count) for state, count in rows}
            crawls, changes, failures, last_crawl_at = (await connection.execute(totals)).one()
            latest = (await connection.execute(select(point).order_by(point.c.at.desc()).limit(1))).first()
            return Totals(
                pages=sum(count for state, count in states.items() if state not in NOT_LISTED),
                states={state.value: states.get(state.value, 0) for state in PageState},
                crawls=int(crawls),  # PostgreSQL sums whole numbers into decimals
                changes=int(changes),
                failures=int(failures),
                last_crawl_at=last_crawl_at,
                hosts=int(await connection.scalar(select(func.count(tables.hosts.c.id))) or 0),
                freshness=await connection.scalar(select(mean).where(page_stats.c.state.not_in(NOT_LISTED))),
                latest=None if latest is None else HistoryPoint(**latest._mapping),
                database_bytes=await database_bytes(connection, self._address),
                free_bytes=free_bytes(self._address),
            )

    async def troubles(self, now: float, longest: float) -> StoredTroubles:
        """Hosts that may not be asked or turn us away, pages not crawled for so many seconds, and the latest audits."""
        async with self._connected() as connection:
            audits = await connection.execute(text(_AUDITS), {"most": AUDITS_KEPT})
            return StoredTroubles(
                await hosts_in_trouble(connection, now),
                await turned_away(connection),
                await overdue_since(connection, now - longest),
                AuditFigures(*audits.one()),
            )

    async def posteriors(self, urls: Sequence[str]) -> Mapping[str, RatePosterior]:
        """The posterior of the change rate of pages, by URL."""
        estimate = tables.estimates.c
        query = select(_page.url, estimate.shape, estimate.rate, estimate.crawls)
        async with self._connected() as connection:
            chosen, given = among(connection.dialect.name, _page.url, urls)
            query = query.join_from(tables.pages, tables.estimates, estimate.page_id == _page.id).where(chosen)
            return {url: RatePosterior(*known) for url, *known in await connection.execute(query, given)}

    async def followed_sites(self) -> Sequence[FollowedLine]:
        """By host, what following links has found."""
        async with self._connected() as connection:
            return await read_site_figures(connection)

    async def exclusions(self) -> Sequence[ExcludedPage]:
        """The pages that are kept out, by URL."""
        async with self._connected() as connection:
            rows = await connection.execute(text("SELECT url, at FROM exclusions ORDER BY url"))
            return [ExcludedPage(*row) for row in rows]

    async def page_stats(self, *, host: str | None = None, limit: int | None = None) -> Sequence[PageStats]:
        """Rows of the view, most stale first; those never crawled lead, other addresses of pages are left out."""
        query = select(page_stats).where(page_stats.c.state != PageState.ALIAS.value)
        query = query.order_by(page_stats.c.freshness, page_stats.c.url)
        if host is not None:
            query = query.where(page_stats.c.host == host)
        async with self._connected() as connection:
            return [PageStats(*row) for row in await connection.execute(query.limit(limit))]

    async def host_stats(self, *, limit: int | None = None) -> Sequence[HostStats]:
        """Rows of the view, largest host first, each with the number of changes of its frame."""
        query = select(host_stats).order_by(host_stats.c.pages.desc(), host_stats.c.host).limit(limit)
        counting = "SELECT name, count(*) FROM frame_changes JOIN hosts ON hosts.id = host_id GROUP BY name"
        async with self._connected() as connection:
            counts: dict[str, int] = {name: count for name, count in await connection.execute(text(counting))}  # noqa: C416
            return [
                HostStats(**row, frame_changes=counts.get(row["host"], 0))
                for row in (await connection.execute(query)).mappings()
            ]

    async def hosts(self) -> Sequence[HostLine]:
        """How each host is asked and how many pages it has, largest first: quick, unlike its statistics."""
        async with self._connected() as connection:
            return await read_hosts(connection, None, even_empty=True)

    async def signal_stats(self, *, host: str | None = None, limit: int | None = None) -> Sequence[SourceLine]:
        """Rows of the view, by host and source."""
        async with self._connected() as connection:
            return await read_sources(connection, limit, *([] if host is None else [signal_stats.c.host == host]))

    async def calibration(self) -> Sequence[CalibrationLine]:
        """Rows of the view, lowest tenth first."""
        async with self._connected() as connection:
            return await read_calibration(connection)

    async def slot_history(self, *, since: float = 0.0, bucket: float = 60.0) -> Sequence[SlotLine]:
        """What slots were spent on since that time, by stretches of `bucket` seconds, use and outcome, oldest first."""
        async with self._connected() as connection:
            return await read_slots(connection, since, bucket)

    async def stored_pages(self) -> "tuple[StoredPages, Mapping[str, AgeCurve]]":
        """Every page that is not retired with what is believed of it, and by host how copies age."""
        from crawld.store.estimates import read_age_curves  # brings numpy along, as the next one does
        from crawld.store.restoring import restore_pages

        try:
            pages, _ = await restore_pages(self._opened)
            return pages, await read_age_curves(self._opened)
        except (SQLAlchemyError, OSError) as error:
            raise as_store_error(error, self._address.redacted_url) from error

    async def setting(self, name: str) -> str | None:
        """A setting changed while running and kept over a restart."""
        async with self._connected() as connection:
            return await read_setting(connection, name)

    async def hooks(self) -> Mapping[str, Row]:
        """What waits for each hook and what became of the rest, by name."""
        async with self._connected() as connection:
            figures, queues = await read_figures(connection), await read_queues(connection)
        found = {}
        for name, one in figures.items():
            waiting, since = queues.get(name, (0, None))
            found[name] = {"waiting": waiting, "waiting_since": since} | asdict(one)
        return found

    async def page(self, url: str, *, crawls: int = 20, signals: int = 20) -> PageFacts | None:
        """Everything known of a page, with so many of its last crawls and signals; None if unknown.

        Any spelling of the page's URL finds it.
        """
        async with self._connected() as connection:
            page = (await connection.execute(select(tables.pages).where(is_page(url)))).first()
            if page is None:
                return None
            stats = (await connection.execute(select(page_stats).where(page_stats.c.url == page.url))).one()
            said = select(tables.versions.c.said).where(tables.versions.c.page_id == page.id)
            return PageFacts(
                **stats._mapping,
                id=page.id,
                origin=page.origin,
                added_at=page.added_at,
                retired_at=page.retired_at,
                last_attempt=page.last_attempt,
                successive_failures=page.failures,
                alias_why=page.alias_why,
                **await read_addresses(connection, page.id, page.alias_of),
                linked_from=await read_linked(connection, page.id),
                memory=await remembered(connection, page.id),
                usage=usage_document(await connection.scalar(said)),
                host_in_trouble=await _host_waits(connection, page.host_id),
                pending_signals=values_by_source(page._mapping, "pending"),
                signal_trust=await _signal_trust(connection, page.host_id),
                estimate=_estimate(await estimate_row(connection, page.id)),
                last_crawls=await _last_crawls(connection, page.id, crawls),
                last_signals=await latest_signals(connection, page.id, signals),
            )

    async def copy(self, url: str) -> Copy | Gone | None:
        """The latest copy of a page, by any spelling of its URL; None where there is none, and no page that is gone."""
        async with self._connected() as connection:
            return await read_copy(connection, is_document(url), None, 0.0, even_gone=True)

    async def learnt_of(self, url: str) -> "tuple[Memory, HostFrame | None] | None":
        """What is remembered of a page and what its host's pages share: all that decides what of it is compared."""
        async with self._connected() as connection:
            found = await connection.scalar(select(_page.id).where(is_document(url)))
            return None if found is None else await learnt_of(connection, found)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[AsyncConnection]:
        try:
            async with self._opened.connect() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise as_store_error(error, self._address.redacted_url) from error

    @property
    def _opened(self) -> AsyncEngine:
        if self._engine is None:
            raise StoreError("the reader is not open")
        return self._engine


async def _host_waits(connection: AsyncConnection, host_id: int) -> HostWaits:
    host = tables.hosts.c
    query = select(host.blocked, host.blocked_until, host.asked_until, host.failures).where(host.id == host_id)
    blocked, *others = (await connection.execute(query)).one()
    return HostWaits(bool(blocked), *others)


async def _signal_trust(connection: AsyncConnection, host_id: int) -> list[TrustLine]:
    trust = tables.signal_trust.c
    columns = (trust.source, trust.heard, trust.weight, trust.score, trust.intervals, trust.why)
    query = select(*columns).where(trust.host_id == host_id).order_by(trust.source)
    return [TrustLine(**with_heard(dict(row._mapping))) for row in await connection.execute(query)]


async def estimate_row(connection: AsyncConnection, page_id: int) -> Any:
    """What is believed of a page, as it is stored; None where nothing is."""
    query = select(tables.estimates).where(tables.estimates.c.page_id == page_id)
    return (await connection.execute(query)).first()


def _estimate(row: Any) -> StoredEstimate | None:
    if row is None:
        return None
    beliefs = (values_by_source(row._mapping, name) for name in ("kappa", "gamma", "kappa_se", "signals"))
    return StoredEstimate(row.at, row.shape, row.rate, row.alpha_se, row.crawls, row.changes, *beliefs)


async def _last_crawls(connection: AsyncConnection, page_id: int, limit: int) -> list[PastCrawl]:
    query = select(tables.crawls).where(_crawl.page_id == page_id).order_by(_crawl.id.desc()).limit(limit)
    stored = [field.name for field in fields(PastCrawl) if field.name != "signals"]
    return [
        PastCrawl(**{name: row[name] for name in stored}, signals=values_by_source(row, "signals"))
        for row in (await connection.execute(query)).mappings()
    ]


async def latest_signals(connection: AsyncConnection, page_id: int, limit: int) -> list[SignalLine]:
    """The latest signals for a page, newest first."""
    signal = tables.signals.c
    query = select(signal.source, signal.seen_at, signal.claimed_at, signal.stale).where(signal.page_id == page_id)
    rows = await connection.execute(query.order_by(signal.id.desc()).limit(limit))
    return [SignalLine(Source(source), seen_at, claimed_at, bool(stale)) for source, seen_at, claimed_at, stale in rows]


async def database_bytes(connection: AsyncConnection, address: Address) -> int:
    """How large the database is."""
    file = address.file
    if file is not None:
        return sum(f.stat().st_size for f in (file, file.with_name(file.name + "-wal")) if f.exists())
    return int(await connection.scalar(select(func.pg_database_size(func.current_database()))) or 0)


def free_bytes(address: Address) -> int | None:
    """The space left on the disk of a SQLite database for users other than root; None for a server's."""
    if address.file is None:
        return None
    disk = os.statvfs(address.file.parent)
    return disk.f_bavail * disk.f_frsize


def is_page(url: str) -> ColumnElement[bool]:
    """The condition that a page is the one of this URL, in any spelling."""
    page, wanted = tables.pages.c, identity(url)
    return or_(page.url == wanted, page.identity == wanted)


def is_document(url: str) -> ColumnElement[bool]:
    """The same, but where the URL is another address of a page that has been crawled, that page meets the condition."""
    other, kept, wanted = tables.pages.alias("address"), tables.pages.alias("kept"), identity(url)
    crawled = select(kept.c.id).where(kept.c.id == other.c.alias_of, kept.c.last_success.is_not(None)).scalar_subquery()
    of = select(func.coalesce(crawled, other.c.id)).where(or_(other.c.url == wanted, other.c.identity == wanted))
    return tables.pages.c.id == of.scalar_subquery()


def with_heard(row: Row) -> Row:
    """The row with true, false or nothing known: SQLite has no booleans."""
    return row | {"heard": None if row["heard"] is None else bool(row["heard"])}


def values_by_source(row: Mapping[Any, Any], name: str) -> dict[Any, Any]:
    """The values by source of a row's columns of that name."""
    return {source: row[f"{name}_{source.value}"] for source in SOURCES}
