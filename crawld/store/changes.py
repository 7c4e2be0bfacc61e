"""Changes as they are written: numbered in the order of commits, so that a number is a cursor.

One connection writes, one transaction after the other, and each takes the numbers after the last one that is there.
The workers of a fleet take them from a counter whose row stays locked until their transaction ends. So a reader of a
number has seen every smaller one, also on PostgreSQL, and no number is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.crawl import ChangeVerdict
from crawld.model.errors import InputError
from crawld.model.usage import PageUse
from crawld.store import tables
from crawld.store.engine import among, floored
from crawld.store.versions import allows, decompress_to, usage_document
from crawld.store.views import Change, Changes, Version, VersionBody

MAX_SKIPPED = 100_000
"""Changes among which one answer looks for those of some kinds."""
_change, _page, _host, _body = tables.changes.c, tables.pages.c, tables.hosts.c, tables.bodies.c
_copy = tables.versions.c
_other = tables.bodies.alias("earlier")
# Changes that bring no copy of their own have the one that the page had.
_version = (
    select(func.max(_other.c.version)).where(
        _other.c.page_id == _change.page_id,
        (_other.c.version == _change.id)
        | (_change.verdict.in_([ChangeVerdict.BACK, ChangeVerdict.USAGE]) & (_other.c.version < _change.id)),
    )
).scalar_subquery()  # fmt: skip
_previous = (
    select(func.max(_other.c.version)).where(_other.c.page_id == _change.page_id, _other.c.version < _change.id)
).scalar_subquery()  # fmt: skip
_CHANGES: Select[Any] = select(
    _change.id, _change.page_id, _page.url, _change.at, _change.verdict, _change.magnitude,
    _version.label("version"), _previous.label("previous"), _change.moved_to, _page.title,
    _page.language, _page.content_type, _copy.said,
).join_from(tables.changes, tables.pages, _page.id == _change.page_id).join(
    tables.versions, _copy.page_id == _page.id, isouter=True
)  # fmt: skip
_VERSIONS = select(_body.version, _body.at, _body.content_type, _body.size).where(_body.version.is_not(None))


async def changes_after(
    connection: AsyncConnection,
    after: int,
    limit: int,
    page: ColumnElement[bool] | None = None,
    kinds: Sequence[ChangeVerdict] = (),
    use: PageUse | None = None,
) -> Changes:
    """Changes in the order of commits. The cursor moves over changes of pages that were forgotten, too.

    With a use, those of pages that deny it are left out, but not the change of that itself, which then names no copy.

    A cursor beyond the newest change comes from another database, or from before one was restored: InputError.
    """
    first, last = await bounds(connection)
    if after > last:
        raise InputError(f"the cursor {after} is beyond the newest change, {last}: it is not of this database")
    if kinds:
        last = min(
            last, max(after, first) + MAX_SKIPPED
        )  # one answer does not read all changes for a kind that is rare
    query = _CHANGES.where(_change.id > after, _change.id <= last).order_by(_change.id).limit(limit)
    wanted: ColumnElement[bool] = _change.verdict.in_([kind.value for kind in kinds]) if kinds else true()
    if use is not None:
        wanted = (wanted & allows(use)) | (_change.verdict == ChangeVerdict.USAGE.value)
    query = query.where(wanted)
    if page is not None:
        query = query.where(_change.page_id == select(_page.id).where(page).scalar_subquery())
    found = [_for_use(change_of(row), use) for row in await connection.execute(query)]
    cursor = found[-1].id if len(found) == limit else last
    return Changes(found, cursor, missed=after + 1 < first, first=first)


def _for_use(change: Change, use: PageUse | None) -> Change:
    """The change without the copy of a page that denies the use."""
    denied = use is not None and (change.usage or {}).get(use.value) == "no"
    return replace(change, version=None, previous=None) if denied else change


async def changes_before(
    connection: AsyncConnection, before: int | None, limit: int, verdicts: Sequence[ChangeVerdict] = ()
) -> Changes:
    """The newest changes, newest first, of these verdicts where some are given."""
    first, last = await bounds(connection)
    query = _CHANGES.order_by(_change.id.desc()).limit(limit)
    if before is not None:
        query = query.where(_change.id < before)
    if verdicts:
        query = query.where(_change.verdict.in_([verdict.value for verdict in verdicts]))
    return Changes([change_of(row) for row in await connection.execute(query)], last, missed=False, first=first)


async def bounds(connection: AsyncConnection) -> tuple[int, int]:
    """The numbers of the oldest and the newest change that is kept, 0 where there is none."""
    ends = (select(_change.id).order_by(order).limit(1) for order in (_change.id, _change.id.desc()))
    first, last = [int(await connection.scalar(end) or 0) for end in ends]  # min and max at once would be a scan
    return first, last


async def changes_of_page(connection: AsyncConnection, page_id: int, limit: int) -> Sequence[Change]:
    """The latest changes of a page, newest first."""
    query = _CHANGES.where(_change.page_id == page_id).order_by(_change.id.desc()).limit(limit)
    return [change_of(row) for row in await connection.execute(query)]


async def change_counts(connection: AsyncConnection, since: float, bucket: float) -> Mapping[float, int]:
    """How many crawls found in each bucket; a first look at a page is no change, and neither is its return to the list.

    Numbers follow time but for the length of a crawl: the first is searched.
    """
    low, high = await bounds(connection)
    while low < high:
        middle = (low + high) // 2
        at = await connection.scalar(select(_change.at).where(_change.id >= middle).order_by(_change.id).limit(1))
        if at is not None and at < since:
            low = middle + 1
        else:
            high = middle
    number = floored(connection.dialect.name, _change.at / bucket)
    turned = [ChangeVerdict.GONE.value, ChangeVerdict.BACK.value]
    compared = _change.verdict.in_(turned) & _change.magnitude.is_not(None)
    found = (_change.verdict == ChangeVerdict.CHANGED.value) | compared
    query = select(number, func.count()).where(_change.id >= low, _change.at >= since, found)
    query = query.group_by(number).order_by(number)
    return {float(start) * bucket: int(count) for start, count in await connection.execute(query)}


async def versions_of(connection: AsyncConnection, page_id: int) -> Sequence[Version]:
    """The kept versions of a page, newest first."""
    query = _VERSIONS.where(_body.page_id == page_id).order_by(_body.id.desc())
    return [Version(*row) for row in await connection.execute(query)]


async def version_body(
    connection: AsyncConnection, page: ColumnElement[bool], number: int | None
) -> VersionBody | None:
    """A kept version with its bytes; the latest without a number."""
    query = (
        _VERSIONS.add_columns(_body.zstd, _page.url, _host.name)
        .join_from(tables.bodies, tables.pages, _page.id == _body.page_id)
        .join(tables.hosts, _host.id == _page.host_id)
        .where(page).order_by(_body.id.desc()).limit(1)
    )  # fmt: skip
    if number is not None:
        query = query.where(_body.version == number)
    row = (await connection.execute(query)).first()
    if row is None:
        return None
    *about, packed, url, host = row
    version = Version(*about)
    return VersionBody(version, url, host, decompress_to(packed, version.size))


async def version_bodies(connection: AsyncConnection, numbers: Sequence[int]) -> dict[int, VersionBody]:
    """Kept versions with their bytes, by number."""
    owner = tables.changes.c  # by the change's page: versions alone have no index
    query = (
        _VERSIONS.add_columns(_body.zstd, _page.url, _host.name)
        .join_from(tables.changes, tables.bodies, (_body.page_id == owner.page_id) & (_body.version == owner.id))
        .join(tables.pages, _page.id == _body.page_id)
        .join(tables.hosts, _host.id == _page.host_id)
    )  # fmt: skip
    chosen, parameters = among(connection.dialect.name, owner.id, numbers)
    found = {}
    for *about, packed, url, host in await connection.execute(query.where(chosen), parameters):
        version = Version(*about)
        found[version.id] = VersionBody(version, url, host, decompress_to(packed, version.size))
    return found


def change_of(row: Any) -> Change:
    """A row as it is told."""
    return Change(
        row.id,
        row.page_id,
        row.url,
        row.at,
        ChangeVerdict(row.verdict),
        row.magnitude,
        row.version,
        None if row.previous == row.version else row.previous,
        row.title,
        row.language,
        row.content_type,
        None if row.moved_to is None else row.url,
        row.moved_to,
        usage_document(row.said),
    )
