"""The links between the pages of followed sites. A link counts while the page that it is on is kept and not gone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.page import FROM_LINKS, Page, PageState
from crawld.store import tables
from crawld.store.bulk import ForRows, added_once
from crawld.store.database import Database
from crawld.store.engine import among
from crawld.store.pages import identified
from crawld.store.views import FollowedLine, Linked


@dataclass(frozen=True, slots=True)
class SitePage:
    """A page of a followed site, as kept over a restart."""

    page: Page
    depth: int  # links from a page that a list, a sitemap or the settings name
    by_links: bool  # whether links alone have it kept fresh
    visited: bool  # whether it was ever crawled with success
    attempted_at: float | None
    novel: bool | None  # whether its text was new among addresses of its shape; None before its first visit
    deferred: bool  # whether links of it wait for room
    refused: str | None
    retired: bool


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """A page that links lead to: `refused_at` is when it was found that it is not to be kept."""

    page_id: int
    retired: bool
    by_links: bool
    refused_at: float | None


T = TypeVar("T")
NOINDEX = "noindex"
"""Why a page is refused whose links are followed all the same."""
SHOWN = 10
"""Pages that link to one, by their addresses."""
_page, _host, _link, _site = tables.pages.c, tables.hosts.c, tables.links.c, tables.site_pages.c
_UNLINK = ForRows(
    "source bigint, target bigint",
    "DELETE FROM links {USING given} WHERE links.source = :source AND links.target = :target",
)
_LINK, _ADD_SITE_PAGES = added_once(tables.links), added_once(tables.site_pages, "page_id", "depth")
_NEARER = ForRows(
    "page bigint, depth integer",
    "UPDATE site_pages SET depth = :depth {FROM given} WHERE site_pages.page_id = :page AND site_pages.depth > :depth",
)


def counts_as_link(source: Any, site: Any) -> ColumnElement[bool]:
    """Whether the links of a page count: it is kept and not gone, or it only asks not to be indexed."""
    kept = (source.state != PageState.RETIRED.value) & source.gone_since.is_(None)
    return or_(kept, site.refused == NOINDEX)


def links_to(target: Any) -> Any:
    """The pages that link to one, as a query to add columns and conditions to."""
    source, site = tables.pages.alias("source"), tables.site_pages.alias("source_site")
    counts = counts_as_link(source.c, site.c)
    return (
        select(source.c.url).select_from(tables.links)
        .join(source, source.c.id == _link.source).join(site, site.c.page_id == source.c.id, isouter=True)
        .where(_link.target == target, counts)
    )  # fmt: skip


async def read_linked(connection: AsyncConnection, page_id: int) -> Linked:
    """Who links to a page."""
    query = links_to(page_id)
    count = await connection.scalar(select(func.count()).select_from(query.subquery()))
    sources = list(await connection.scalars(query.order_by("url").limit(SHOWN)))
    row = (await connection.execute(select(_site.depth, _site.refused).where(_site.page_id == page_id))).first()
    return Linked(int(count or 0), sources, *(row or (None, None)))


async def read_site_figures(connection: AsyncConnection) -> list[FollowedLine]:
    """By host, what following links has found: pages, those that wait for a first visit, and those refused."""
    found, waiting = _page.origin == FROM_LINKS, _page.last_success.is_(None)
    kept = _page.state != PageState.RETIRED.value
    query = (
        select(
            _host.name.label("host"),
            func.count().filter(kept).label("pages"),
            func.count().filter(found & kept).label("found"),
            func.count().filter(found & kept & waiting).label("waiting"),
            func.count().filter(_site.refused.is_not(None)).label("refused"),
            func.count().filter(kept & _site.deferred).label("deferred"),
            func.max(_site.depth).label("depth"),
        )
        .join_from(tables.site_pages, tables.pages, _page.id == _site.page_id)
        .join(tables.hosts, _host.id == _page.host_id)
        .group_by(_host.name).order_by(_host.name)
    )  # fmt: skip
    return [FollowedLine(**row._mapping) for row in await connection.execute(query)]


class StoredLinks:
    """Writes on the store's one writing connection, in turn with the crawls; reads see what is committed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def site_pages(self) -> Sequence[SitePage]:
        """Every page that following links knows of."""
        columns = (_page.id, _page.url, _host.name, _page.importance, _page.state, _page.origin, _page.last_success)
        query = (
            select(*columns, _page.last_attempt, _site.depth, _site.novel, _site.deferred, _site.refused)
            .join_from(tables.site_pages, tables.pages, _page.id == _site.page_id)
            .join(tables.hosts, _host.id == _page.host_id)
            .order_by(_site.depth, _page.id)
        )
        rows = await self._database.read(lambda connection: connection.execute(query))
        return [
            SitePage(
                page=Page(row.id, row.url, row.name, row.importance),
                depth=row.depth,
                by_links=row.origin == FROM_LINKS,
                visited=row.last_success is not None,
                attempted_at=row.last_attempt,
                novel=None if row.novel is None else bool(row.novel),
                deferred=bool(row.deferred),
                refused=row.refused,
                retired=row.state == PageState.RETIRED.value,
            )
            for row in rows
        ]

    async def look_up(self, identities: Sequence[str]) -> Mapping[str, LinkTarget]:
        """Those of the pages with these identities that were ever known, by identity."""

        async def read(connection: AsyncConnection) -> dict[str, LinkTarget]:
            rows = await identified(connection, identities, _page.identity, _page.state, _page.origin)
            chosen, parameters = among(connection.dialect.name, _site.page_id, [row.id for row in rows])
            query = select(_site.page_id, _site.refused_at).where(chosen, _site.refused.is_not(None))
            refused = {row.page_id: row.refused_at for row in await connection.execute(query, parameters)}
            return {
                row.identity or row.url: LinkTarget(
                    row.id, row.state == PageState.RETIRED.value, row.origin == FROM_LINKS, refused.get(row.id)
                )
                for row in rows
            }

        return await self._database.read(read)

    async def depth_of(self, page_id: int) -> int:
        """How many links a page is from one that a list, a sitemap or the settings name; 0 for such a page itself."""
        query = select(_site.depth).join_from(tables.site_pages, tables.pages, _page.id == _site.page_id)
        found = query.where(_site.page_id == page_id, _page.origin == FROM_LINKS)
        return int(await self._database.read(lambda connection: connection.scalar(found)) or 0)

    async def write(self, source: int, targets: Sequence[int], depths: Mapping[int, int], *, deferred: bool) -> bool:
        """Let a page link to these pages and no others, and keep the depths of pages found there; whether any is new.

        A page that is found nearer than before has the smaller depth from now on.
        """
        wanted = {target for target in targets if target != source}

        async def write(connection: AsyncConnection) -> bool:
            known = set(await connection.scalars(select(_link.target).where(_link.source == source)))
            gone, new = known - wanted, wanted - known
            await _UNLINK.run(connection, [(source, target) for target in gone])
            await _LINK.run(connection, [(source, target) for target in sorted(new)])
            await _ADD_SITE_PAGES.run(connection, list({source: 0, **depths}.items()))
            await _NEARER.run(connection, list(depths.items()))
            await connection.execute(update(tables.site_pages).where(_site.page_id == source).values(deferred=deferred))
            return bool(gone or new)

        return await self._database.write(write)

    async def visited(self, page_id: int, *, novel: bool) -> None:
        """Keep whether the text of a page found by links was new."""
        seen = update(tables.site_pages).where(_site.page_id == page_id).values(novel=novel)
        await self._database.write(lambda connection: connection.execute(seen))

    async def refuse(self, page_id: int, why: str, now: float) -> None:
        """Keep why a page is not kept although it is linked."""
        refused = update(tables.site_pages).where(_site.page_id == page_id).values(refused=why, refused_at=now)
        await self._database.write(lambda connection: connection.execute(refused))

    async def unlinked(self, limit: int) -> Sequence[str]:
        """URLs of pages that links alone had kept and that no page links to any longer."""
        query = (
            select(_page.url).join_from(tables.site_pages, tables.pages, _page.id == _site.page_id)
            .where(_page.origin == FROM_LINKS, _page.state != PageState.RETIRED.value, _site.depth > 0)
            .where(~links_to(_page.id).correlate(tables.pages).exists()).limit(limit)
        )  # fmt: skip
        return list(await self._database.read(lambda connection: connection.scalars(query)))

    async def forget(self, page_ids: Sequence[int]) -> None:
        """Forget what following links knows of these pages."""

        async def write(connection: AsyncConnection) -> None:
            await forget_links(connection, page_ids)
            chosen, parameters = among(connection.dialect.name, _site.page_id, page_ids)
            await connection.execute(delete(tables.site_pages).where(chosen), parameters)

        await self._database.write(write)


async def forget_links(connection: AsyncConnection, page_ids: Sequence[int]) -> None:
    """Forget the links from and to these pages."""
    for column in (_link.source, _link.target):
        chosen, parameters = among(connection.dialect.name, column, page_ids)
        await connection.execute(delete(tables.links).where(chosen), parameters)
