"""Pages: taking over a URL list."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from sqlalchemy import BigInteger, bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.model.crawl import ChangeVerdict
from crawld.model.estimate import Ints
from crawld.model.page import BY_HAND, FROM_LINKS, FROM_MOVE, Page, PageState, Wanted, authority
from crawld.model.url import host_of, identity
from crawld.read.url_list import ListedPages
from crawld.store import tables
from crawld.store.bulk import ForRows, Part, Returned, added_once, fetch, inserting, replacing
from crawld.store.database import WriteConnection, newest_change
from crawld.store.engine import Ranges, among, keep_trying

MayRetire = Callable[[int, int], bool]
"""Whether so many pages may be retired, of so many that were listed before."""


def always(_retired: int, _listed: int) -> bool:
    """Retire whatever is no longer listed."""
    return True


@dataclass(frozen=True, slots=True)
class Adoption:
    """What taking over a URL list, or some lines of it, did."""

    added: Sequence[Page] = ()
    returned: Sequence[Page] = ()  # retired before, wanted again
    reweighted: Sequence[Page] = ()
    retired: Sequence[Page] = ()
    lines: int = 0
    respelt: Sequence[Page] = ()  # the same page under another spelling of its URL
    held_back: int = 0  # pages no longer listed that stay, because too many at once would go
    excluded: int = 0  # lines passed over: their pages are kept out
    listed: Sequence[int] = ()  # pages that links alone had kept, and that are listed now

    @classmethod
    def of(cls, parts: Sequence["Adoption"]) -> "Adoption":
        """What the parts did together."""
        return cls(
            added=[page for part in parts for page in part.added],
            returned=[page for part in parts for page in part.returned],
            reweighted=[page for part in parts for page in part.reweighted],
            retired=[page for part in parts for page in part.retired],
            lines=sum(part.lines for part in parts),
            respelt=tuple(page for part in parts for page in part.respelt),
            held_back=sum(part.held_back for part in parts),
            excluded=sum(part.excluded for part in parts),
            listed=tuple(page_id for part in parts for page_id in part.listed),
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """A page that is kept fresh, and whose word that is."""

    id: int
    url: str
    importance: float
    origin: str


@dataclass(frozen=True)
class StorePagesLimits:
    """Numbers that bound and tune this module."""

    read_at_once: int = 10_000
    adopted_at_once: int = 2_000  # lines a transaction: crawls waiting to be committed get in between


LIMITS = StorePagesLimits()


T = TypeVar("T")
Sums = dict[tuple[int, int], list[float]]
"""Counts of calibration, by day and bin."""


class Numbering(Protocol):
    """What taking over a list needs to know of other writers; each is asked within its transaction."""

    async def begin(self, connection: AsyncConnection) -> None:
        """Before anything is read."""

    async def host_ids(self, connection: AsyncConnection, names: Sequence[str]) -> Sequence[int]:
        """Ids for new hosts, by their names."""

    async def page_ids(self, connection: AsyncConnection, hosts: Sequence[str]) -> Sequence[int]:
        """Ids for new pages, by the names of the hosts that they are on."""

    async def tell(self, connection: AsyncConnection, pages: Collection[int]) -> None:
        """These pages came, went, or weigh otherwise."""

    async def first_change(self, connection: AsyncConnection, count: int) -> int:
        """The first of so many numbers of changes, at the end of the transaction."""


class WriteScope(Protocol):
    """The part of a database that this process may write, where other processes write the rest."""

    @property
    def numbering(self) -> Numbering:
        """Numbers of new rows."""

    def of_page(self, page_id: int) -> int:
        """The shard of a page."""

    def of_host(self, name: str) -> int:
        """The shard of a host."""

    def holds(self, page_id: int) -> bool:
        """Whether a page is ours."""

    def ranges(self) -> Ranges:
        """The ids of our pages and hosts."""

    async def ranges_held(self, connection: AsyncConnection) -> Ranges:
        """Those of them that stay ours for the rest of the transaction."""

    async def ours(self, connection: AsyncConnection, rows: Sequence[T], shard: Callable[[T], int]) -> list[T]:
        """Those of the rows whose shards stay ours for the rest of the transaction."""

    def fence(self, epochs: Mapping[int, int]) -> Part:
        """Statement that finds those of these shards that have no other owner, until the transaction ends."""

    def check_fence(self, epochs: Mapping[int, int], found: Returned) -> None:
        """Refuse the transaction where it has not found one of them."""

    async def write_changes(
        self, connection: AsyncConnection, changes: Sequence[tuple[Any, ...]], copies: Sequence[tuple[Any, ...]]
    ) -> None:
        """Number and write changes, and copies that some of them brought: see `store.statements.write_changes`."""

    def due_calibration(self, news: Sums, now: float) -> Sums:
        """Counts to write with a batch that brings these."""

    def settle_calibration(self) -> None:
        """The batch was committed."""


class OneWriter:
    """The numbering of a single writer: ids follow the largest, and no other process is told."""

    async def begin(self, connection: AsyncConnection) -> None:
        """Nothing to wait for."""

    async def host_ids(self, connection: AsyncConnection, names: Sequence[str]) -> Sequence[int]:
        """The ids after the largest."""
        host = tables.hosts.c.id
        first = 1 + (await connection.scalar(select(host).order_by(host.desc()).limit(1)) or 0)
        return range(first, first + len(names))

    async def page_ids(self, connection: AsyncConnection, hosts: Sequence[str]) -> Sequence[int]:
        """The ids after the largest."""
        page = tables.pages.c.id
        first = 1 + (await connection.scalar(select(page).order_by(page.desc()).limit(1)) or 0)
        return range(first, first + len(hosts))

    async def tell(self, connection: AsyncConnection, pages: Collection[int]) -> None:
        """No other process to tell."""

    async def first_change(self, connection: AsyncConnection, count: int) -> int:  # noqa: ARG002 - for others
        """The number after the largest."""
        return 1 + await newest_change(connection)


async def know_hosts(connection: AsyncConnection, numbering: Numbering, names: Iterable[str]) -> dict[str, int]:
    """The ids of hosts by name; those that are unknown get one."""
    wanted = list(dict.fromkeys(names))
    known = await _read_hosts(connection, wanted)
    if new := [name for name in wanted if name not in known]:
        ids = await numbering.host_ids(connection, new)
        await _ADD_HOSTS.run(connection, list(zip(ids, new, strict=True)))
        known |= await _read_hosts(connection, new)  # another writer may have given one an id meanwhile
    return known


async def _read_hosts(connection: AsyncConnection, names: list[str]) -> dict[str, int]:
    if not names:
        return {}
    host = tables.hosts.c
    chosen, parameters = among(connection.dialect.name, host.name, names)
    found = await connection.execute(select(host.name, host.id).where(chosen), parameters)
    return {row.name: row.id for row in found}


RETIRED = PageState.RETIRED.value

_page = tables.pages.c
_OF_PAGE = "{FROM given} WHERE pages.id = :id"
_TAKE_OVER = ForRows(
    "id bigint, importance double precision, origin text",
    f"UPDATE pages SET importance = :importance, origin = :origin, weight = NULL {_OF_PAGE}",
)
_BRING_BACK = ForRows(
    "id bigint, importance double precision, origin text, state text",
    "UPDATE pages SET importance = :importance, origin = :origin, state = :state, retired_at = NULL, failures = 0, "
    f"weight = NULL {_OF_PAGE}",
)
_RESPELL = ForRows(
    "id bigint, url text, identity text",
    f"UPDATE pages SET url = :url, identity = :identity {_OF_PAGE}",
)
_RETIRE = ForRows(
    "id bigint, now double precision",
    f"UPDATE pages SET state = '{RETIRED}', retired_at = :now, alias_of = NULL, alias_why = NULL {_OF_PAGE}",
)
_HAND_OVER = ForRows("id bigint", f"UPDATE pages SET origin = '{FROM_LINKS}' {_OF_PAGE}")
_DEEPEN = ForRows(
    "id bigint",
    "UPDATE site_pages SET depth = 1 {FROM given} WHERE site_pages.page_id = :id AND site_pages.depth = 0",
)
_ADD_HOSTS = added_once(tables.hosts, "id", "name")
_ADD_SITE_PAGES = added_once(tables.site_pages, "page_id", "depth")
_ADD_PAGES = inserting(
    tables.pages, "id", "url", "host_id", "importance", "state", "origin", "added_at", "identity"
)  # fmt: skip
_ADD_CHANGES = inserting(tables.changes, "id", "page_id", "at", "verdict")
_EXCLUDE = replacing(tables.exclusions)


class PageList:
    """Takes over URL lists, a few thousand lines a transaction, each tried again while the database is in trouble.

    A page belongs to the origin of most authority that listed it, or the first of equals; others leave it as it is.
    """

    def __init__(
        self, connection: WriteConnection, reading: AsyncEngine, redacted_url: str, numbering: Numbering | None = None
    ) -> None:
        self._connection = connection
        self._reading = reading
        self._redacted_url = redacted_url
        self._numbering = numbering or OneWriter()

    async def adopt(
        self,
        wanted: Sequence[Wanted],
        *,
        origin: str,
        now: float,
        complete: bool,
        kept: Ints | None = None,
        may_retire: MayRetire = always,
    ) -> AsyncGenerator[Adoption, None]:
        """Add, re-weight, respell, bring back; with `complete`, retire what the origin no longer lists, if it may."""
        lines = {identity(line.url): line for line in wanted}  # the last of equal lines counts
        hosts_of_origins: dict[str, str] = {}

        async def take(connection: AsyncConnection) -> _Chunk:
            return await _Chunk(origin, now, hosts_of_origins, self._numbering).take(connection, chunk)

        listed_ids = [] if kept is None else [kept]
        new = 0
        rest = iter(lines.items())
        while chunk := dict(islice(rest, LIMITS.adopted_at_once)):
            part = await self._write(take)
            listed_ids.append(np.array(part.kept, dtype=np.int64))
            new += len(part.added) + len(part.returned)
            yield Adoption(
                part.added,
                part.returned,
                part.reweighted,
                lines=len(chunk),
                respelt=part.respelt,
                excluded=part.excluded,
                listed=part.listed,
            )
        if complete:
            others, listed = await self._unlisted(origin, np.concatenate([np.zeros(0, np.int64), *listed_ids]))
            if len(others) and not may_retire(len(others), listed - new):
                yield Adoption(held_back=len(others))
                return
            async for retired in self._retire_others(origin, others, now):
                yield Adoption(retired=retired)

    async def retire(self, urls: Iterable[str], *, now: float, keep_out: bool = False) -> Sequence[Page]:
        """Retire the pages of these URLs, of any origin; unknown and retired ones are passed over.

        With `keep_out` every URL is remembered as one that no list brings back.
        """

        async def take(connection: AsyncConnection) -> list[Page]:
            await self._numbering.begin(connection)
            rows = await identified(connection, list(chunk), _page.state)
            found = [_page_of(row) for row in rows if row.state != RETIRED]
            if keep_out:
                await _EXCLUDE.run(connection, [(name, url, now) for name, url in chunk.items()])
            await self._retire(connection, found, now)
            return found

        retired: list[Page] = []
        rest = iter({identity(url): url for url in urls}.items())
        while chunk := dict(islice(rest, LIMITS.adopted_at_once)):
            retired += await self._write(take)
        return retired

    async def readmit(self, urls: Iterable[str]) -> Sequence[str]:
        """Keep the pages of these URLs out no longer; the URLs of those that were."""

        async def take(connection: AsyncConnection) -> list[str]:
            found = await _excluded(connection, chunk)
            await _end_exclusions(connection, list(found))
            return list(found.values())

        readmitted: list[str] = []
        rest = iter(dict.fromkeys(map(identity, urls)))
        while chunk := list(islice(rest, LIMITS.adopted_at_once)):
            readmitted += await self._write(take)
        return readmitted

    async def origins(self, urls: Iterable[str]) -> dict[str, str]:
        """Who listed the pages of these URLs, by URL; pages that are kept out are left out."""
        found: dict[str, str] = {}
        rest = iter(dict.fromkeys(map(identity, urls)))
        while chunk := list(islice(rest, LIMITS.adopted_at_once)):
            async with self._reading.connect() as connection:
                excluded = await _excluded(connection, chunk)
                rows = await identified(connection, chunk, _page.origin, _page.identity)
            found |= {row.url: row.origin for row in rows if (row.identity or row.url) not in excluded}
        return found

    async def _unlisted(self, origin: str, kept: Ints) -> tuple[Ints, int]:
        """The pages of the origin that are not among those kept, and how many it has."""
        kept = await asyncio.to_thread(np.sort, kept)
        unlisted: list[Ints] = []
        listed = 0
        async for rows in self._of_origin(origin, _page.id):
            ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
            listed += len(ids)
            at = np.searchsorted(kept, ids)
            known = at < len(kept)
            known[known] = kept[at[known]] == ids[known]
            unlisted.append(ids[~known])
        return np.concatenate([np.zeros(0, np.int64), *unlisted]), listed

    async def listed_by(self, origin: str) -> ListedPages:
        """The pages that are not retired and that the origin lists."""
        ids: list[Ints] = []
        lines: list[Ints] = []
        identities: list[Ints] = []
        async for rows in self._of_origin(origin, _page.id, _page.url, _page.identity, _page.importance):
            size = len(rows)
            ids.append(np.fromiter((row[0] for row in rows), np.int64, size))
            lines.append(np.fromiter((ListedPages.line(row[1], row[3]) for row in rows), np.int64, size))
            identities.append(np.fromiter((ListedPages.page(row[2] or row[1]) for row in rows), np.int64, size))
        empty = np.zeros(0, np.int64)
        columns = [np.concatenate([empty, *parts]) for parts in (ids, lines, identities)]
        return await asyncio.to_thread(ListedPages, *columns)  # sorts them

    async def _of_origin(self, origin: str, *columns: Any) -> AsyncGenerator[Sequence[Sequence[Any]], None]:
        """Columns, the id first, of the pages that an origin lists, some at a time."""
        query = (
            select(*columns).where(_page.origin == bindparam("b_origin"), _page.state != RETIRED)
            .where(_page.id > bindparam("last", type_=BigInteger)).order_by(_page.id).limit(LIMITS.read_at_once)
        )  # fmt: skip

        async def read() -> Sequence[Sequence[Any]]:
            async with self._reading.connect() as connection:
                return await fetch(connection, query, {"b_origin": origin, "last": last})

        last = 0
        while rows := await keep_trying(read, self._redacted_url):
            last = rows[-1][0]
            yield rows

    async def retire_moved(self, page_ids: Sequence[int], *, now: float) -> Sequence[Page]:
        """Retire those of these pages that are kept only because others moved there."""

        async def take(connection: AsyncConnection) -> list[Page]:
            chosen, parameters = among(connection.dialect.name, _page.id, page_ids)
            wanted = _select_pages().where(chosen, _page.origin == FROM_MOVE, _page.state != RETIRED)
            found = [_page_of(row) for row in await connection.execute(wanted, parameters)]
            await self._retire(connection, found, now)
            return found

        return await self._write(take) if page_ids else ()

    async def listed(self, urls: Iterable[str]) -> Sequence[Listed]:
        """The pages of these URLs that are not retired."""

        async def read() -> list[Listed]:
            async with self._reading.connect() as connection:
                rows = await identified(connection, chunk, _page.state, _page.origin)
                return [Listed(row.id, row.url, row.importance, row.origin) for row in rows if row.state != RETIRED]

        found: list[Listed] = []
        rest = iter(dict.fromkeys(map(identity, urls)))
        while chunk := list(islice(rest, LIMITS.adopted_at_once)):
            found += await keep_trying(read, self._redacted_url)
        return found

    async def _retire_others(self, origin: str, others: Ints, now: float) -> AsyncGenerator[list[Page], None]:
        async def read() -> Sequence[Any]:
            async with self._reading.connect() as connection:
                chosen, parameters = among(connection.dialect.name, _page.id, some)
                query = _select_pages().where(chosen, _page.origin == origin, _page.state != RETIRED)
                return (await connection.execute(query.order_by(_page.id), parameters)).all()

        for start in range(0, len(others), LIMITS.adopted_at_once):
            some = others[start : start + LIMITS.adopted_at_once].tolist()
            unlisted = [_page_of(row) for row in await keep_trying(read, self._redacted_url)]
            if unlisted and origin != FROM_LINKS:
                linked = await self._write(partial(_hand_over_linked, page_ids=[page.id for page in unlisted]))
                unlisted = [page for page in unlisted if page.id not in linked]
            if unlisted:
                await self._write(partial(self._retire, pages=unlisted, now=now))
                yield unlisted

    async def _retire(self, connection: AsyncConnection, pages: Sequence[Page], now: float) -> None:
        await _RETIRE.run(connection, [(page.id, now) for page in pages])
        await self._numbering.tell(connection, [page.id for page in pages])
        await _tell_changes(connection, self._numbering, pages, ChangeVerdict.REMOVED, now)

    async def _write(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        async def attempt() -> T:
            async with self._connection.transaction() as connection:
                return await work(connection)

        return await keep_trying(attempt, self._redacted_url)


class _Chunk:
    """Some lines of a list being taken over in one transaction."""

    def __init__(self, origin: str, now: float, hosts_of_origins: dict[str, str], numbering: Numbering) -> None:
        self._origin, self._now, self._numbering = origin, now, numbering
        self.added: list[Page] = []
        self.returned: list[Page] = []
        self.reweighted: list[Page] = []
        self.respelt: list[Page] = []
        self.kept: list[int] = []
        self.listed: list[int] = []  # that links alone had kept
        self.excluded = 0  # lines
        self._hosts: dict[str, int] = {}
        self._hosts_of_origins = hosts_of_origins

    async def take(self, connection: AsyncConnection, lines: dict[str, Wanted]) -> Self:
        """Take over the lines, by their identities, in the connection's transaction."""
        await self._numbering.begin(connection)
        if excluded := await _excluded(connection, list(lines)):
            if self._origin == BY_HAND:
                await _end_exclusions(connection, list(excluded))
            else:
                self.excluded = len(excluded)
                lines = {name: line for name, line in lines.items() if name not in excluded}
        columns = (_page.identity, _page.state, _page.origin, _page.last_success, _page.gone_since)
        known = {row.identity or row.url: row for row in await identified(connection, list(lines), *columns)}
        new: list[Page] = []
        returned: list[tuple[Any, ...]] = []
        back: list[Page] = []  # of those returned, with a copy that is as good as before
        taken_over: list[tuple[Any, ...]] = []
        spellings: list[tuple[Any, ...]] = []  # of pages listed with another one; it is always of the same host
        hosts = {name: self._host_of(line.url) for name, line in lines.items() if name not in known}
        self._hosts = await know_hosts(connection, self._numbering, hosts.values())
        ids = iter(await self._numbering.page_ids(connection, list(hosts.values())))
        for name, line in lines.items():
            url, importance = line.url, line.importance
            row = known.get(name)
            if row is None:
                new.append(Page(next(ids), url, hosts[name], importance))
            elif row.state == RETIRED:
                state = _state_of_copy(row)
                self.returned.append(Page(row.id, url, row.host, importance))
                if state is PageState.LIVE:
                    back.append(self.returned[-1])
                if row.url != url:
                    spellings.append((row.id, url, _other_identity(url)))
                returned.append((row.id, importance, self._origin, state.value))
            elif row.origin == self._origin or authority(self._origin) > authority(row.origin):
                if row.importance != importance:
                    self.reweighted.append(Page(row.id, url, row.host, importance))
                if row.url != url:
                    self.respelt.append(Page(row.id, url, row.host, importance))
                    spellings.append((row.id, url, _other_identity(url)))
                if row.origin == FROM_LINKS != self._origin:
                    self.listed.append(row.id)
                if (row.importance, row.origin) != (importance, self._origin):
                    taken_over.append((row.id, importance, self._origin))
        await self._insert(connection, new)
        await _BRING_BACK.run(connection, returned)
        await _TAKE_OVER.run(connection, taken_over)
        await _RESPELL.run(connection, spellings)
        news = (*new, *self.returned, *self.reweighted, *self.respelt)
        await self._numbering.tell(connection, {page.id for page in news})
        await _tell_changes(connection, self._numbering, back, ChangeVerdict.BACK, self._now)
        self.kept += [row.id for row in known.values()] + [page.id for page in new]
        return self

    def _host_of(self, url: str) -> str:
        origin = url[: url.index("/", len("https://"))]  # a target has a path
        host = self._hosts_of_origins.get(origin)
        if host is None:
            host = self._hosts_of_origins[origin] = host_of(url)
        return host

    async def _insert(self, connection: AsyncConnection, new: list[Page]) -> None:
        waiting, common = PageState.WAITING.value, (self._origin, self._now)
        rows = [
            (one.id, one.url, self._hosts[one.host], one.importance, waiting, *common, _other_identity(one.url))
            for one in new
        ]
        await _ADD_PAGES.run(connection, rows)
        self.added += new


async def _hand_over_linked(connection: AsyncConnection, page_ids: Sequence[int]) -> set[int]:
    """Let links have those of these pages kept fresh that pages of a followed site link to; their ids."""
    link, source = tables.links.c, tables.pages.alias("source")
    chosen, parameters = among(connection.dialect.name, link.target, page_ids)
    query = (
        select(link.target).distinct().join_from(tables.links, source, source.c.id == link.source)
        .where(chosen, source.c.state != RETIRED, source.c.gone_since.is_(None))
    )  # fmt: skip
    linked = set(await connection.scalars(query, parameters))
    await _ADD_SITE_PAGES.run(connection, [(page_id, 1) for page_id in sorted(linked)])
    await _DEEPEN.run(connection, [(page_id,) for page_id in sorted(linked)])
    await _HAND_OVER.run(connection, [(page_id,) for page_id in sorted(linked)])
    return linked


async def _tell_changes(
    connection: AsyncConnection, numbering: Numbering, pages: Sequence[Page], verdict: ChangeVerdict, now: float
) -> None:
    """Record as changes that these pages went, or came back with the copy they had."""
    if not pages:
        return
    first = await numbering.first_change(connection, len(pages))
    rows = [(first + at, page.id, now, verdict.value) for at, page in enumerate(pages)]
    await _ADD_CHANGES.run(connection, rows)


async def _excluded(connection: AsyncConnection, identities: Sequence[str]) -> dict[str, str]:
    """The URLs of those of these pages that are kept out, by identity."""
    kept_out = tables.exclusions.c
    chosen, parameters = among(connection.dialect.name, kept_out.identity, identities)
    rows = await connection.execute(select(kept_out.identity, kept_out.url).where(chosen), parameters)
    return {row.identity: row.url for row in rows}


async def _end_exclusions(connection: AsyncConnection, identities: Sequence[str]) -> None:
    if identities:
        chosen, parameters = among(connection.dialect.name, tables.exclusions.c.identity, identities)
        await connection.execute(delete(tables.exclusions).where(chosen), parameters)


async def identified(connection: AsyncConnection, identities: Sequence[str], *columns: Any) -> Sequence[Any]:
    """The rows of the pages with these identities. Two queries: one with OR would read the identities four times."""
    rows: list[Any] = []
    for column in (_page.url, _page.identity):
        condition, parameters = among(connection.dialect.name, column, identities)
        rows += await connection.execute(_select_pages(*columns).where(condition), parameters)
    return rows


def _other_identity(url: str) -> str | None:
    """As it is stored: None where a page's URL is its own identity, which nearly all are."""
    name = identity(url)
    return None if name == url else name


def _select_pages(*more: Any) -> Any:
    host = tables.hosts
    columns = (_page.id, _page.url, host.c.name.label("host"), _page.importance, *more)
    return select(*columns).join_from(tables.pages, host, host.c.id == _page.host_id)


def _state_of_copy(row: Any) -> PageState:
    """Where a page stands by what its last successful crawl found."""
    if row.last_success is None:
        return PageState.WAITING
    return PageState.LIVE if row.gone_since is None else PageState.GONE


def _page_of(row: Any) -> Page:
    return Page(row.id, row.url, row.host, row.importance)
