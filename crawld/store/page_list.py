"""Lists of pages, by keyset: each part costs what it holds, wherever in the list it lies.

Where a filter lets few pages through they are found first and then sorted; otherwise the index of the sort is walked
from the cursor on, and soon meets enough pages that pass. Orders that change with time (freshness, next crawl) come
from the running daemon's memory; where that is one worker of a fleet, freshness is computed by the database.
"""

import base64
import binascii
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Select, case, exists, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.errors import InputError
from crawld.model.page import NOT_LISTED, PageState
from crawld.store import tables
from crawld.store.engine import among
from crawld.store.report import page_stats
from crawld.store.versions import allows, usage_document
from crawld.store.views import ANY_TROUBLE, LivePages, PageLine, PageLines, PageQuery, PageSort


@dataclass(frozen=True)
class PageListLimits:
    """Numbers that bound and tune this module."""

    max_cursor: int = 12_000
    """Characters: a URL of the longest kind, packed."""
    max_sorted: int = 200_000
    """Pages whose freshness is computed by the database for one list: some seconds."""
    max_kept: int = 4
    """Lists that are gone through at once without one being sorted anew."""
    few: int = 20_000
    """Pages that are sorted at once; where more pass the filter, a walk along the sort's index meets them soon."""
    looked_at: int = 512
    """Pages of an order in memory that are looked up at first; four times as many each time too few pass."""
    max_by_next_crawl: int = 5_000
    """Pages of which the next crawl is foretold at once: some 100 ms."""


LIMITS = PageListLimits()


@dataclass(frozen=True, slots=True)
class ListPosition:
    """Where a part of a list ended: the sort's value (None: not known) and id of its last page.

    `at` is the time as of which pages are sorted, where their order changes with time.
    """

    value: str | float | None
    id: int
    at: float | None = None


def pack(query: PageQuery, place: ListPosition) -> str:
    """The place as text that fits into a URL."""
    told = [query.sort.value, query.descending, place.value, place.id, place.at]
    return base64.urlsafe_b64encode(json.dumps(told, ensure_ascii=False).encode()).decode().rstrip("=")


def unpack(query: PageQuery) -> ListPosition | None:
    """The place that the query's cursor names; None without one; InputError where it is not of this list."""
    if query.after is None:
        return None
    wrong = InputError("this cursor is not of this list: begin again without one")
    if len(query.after) > LIMITS.max_cursor:
        raise wrong
    try:
        padded = query.after + "=" * (-len(query.after) % 4)
        sort, descending, value, page_id, at = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise wrong from None
    fits = (sort, descending) == (query.sort.value, query.descending) and _is_int(page_id)
    kind = str if query.sort.value == "url" else float
    if not fits or not (value is None or isinstance(value, kind)) or not (at is None or isinstance(at, float)):
        raise wrong
    return ListPosition(value, page_id, at)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


Order = tuple[NDArray[np.int64], NDArray[np.float64]]
_page = tables.pages.c
_QUERY = select(_page.id, page_stats.c.freshness).join_from(
    tables.pages, page_stats, page_stats.c.url == _page.url
)  # fmt: skip


async def freshness_of(connection: AsyncConnection, pages: Sequence[int]) -> dict[int, float]:
    """By page, as the database computes it."""
    if not pages:
        return {}
    chosen, parameters = among(connection.dialect.name, _page.id, pages)
    return {page: float(fresh) for page, fresh in await connection.execute(_QUERY.where(chosen), parameters)}


class StoredOrders:
    """Pages with their freshness as of some moments: the parts of one list belong to one moment."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[float, tuple[int, ...] | None], Order] = OrderedDict()

    async def order(self, connection: AsyncConnection, few: Sequence[int] | None, at: float) -> Order:
        """Ids and freshness of these pages, or of all that are not retired; InputError where they are too many."""
        key = at, None if few is None else tuple(few)
        if key not in self._kept:
            self._kept[key] = await _order(connection, few)
            while len(self._kept) > LIMITS.max_kept:
                self._kept.popitem(last=False)
        return self._kept[key]


async def _order(connection: AsyncConnection, few: Sequence[int] | None) -> Order:
    if few is not None:
        found = list((await freshness_of(connection, few)).items())
    else:
        query = _QUERY.where(_page.state.not_in(NOT_LISTED)).limit(LIMITS.max_sorted + 1)
        found = [(page, float(fresh)) for page, fresh in await connection.execute(query)]
    if len(found) > LIMITS.max_sorted:
        raise InputError("too many pages to sort by freshness in a fleet: choose a host, a state or a search")
    ids, values = zip(*found, strict=True) if found else ((), ())
    return np.array(ids, dtype=np.int64), np.array(values, dtype=np.float64)


LIVE = frozenset({PageSort.FRESHNESS, PageSort.NEXT_CRAWL})
_page, _host = tables.pages.c, tables.hosts.c
_SORTS: Mapping[PageSort, Any] = {
    PageSort.URL: _page.url,
    PageSort.IMPORTANCE: _page.importance,
    PageSort.LAST_CRAWL: _page.last_success,
    PageSort.LAST_CHANGE: _page.last_change_at,
}
_IN_TROUBLE = (PageState.FAILING.value, PageState.DISALLOWED.value)
_crawl = tables.crawls.c
_trouble = (
    select(_crawl.trouble).where(_crawl.page_id == _page.id).order_by(_crawl.id.desc()).limit(1)
    .correlate(tables.pages).scalar_subquery()
)  # fmt: skip
_said = (
    select(tables.versions.c.said)
    .where(tables.versions.c.page_id == _page.id)
    .correlate(tables.pages)
    .scalar_subquery()
)
_body = tables.bodies.c
_version = (
    select(_body.version).where(_body.page_id == _page.id).order_by(_body.id.desc()).limit(1)
    .correlate(tables.pages).scalar_subquery()
)  # fmt: skip
_LINES: Select[Any] = select(
    _page.id, _page.url, _host.name.label("host"), _page.state, _page.importance, _page.weight, _page.crawls,
    _page.changes, _page.failed, _page.added_at, _page.last_success, _page.last_change_at, _page.gone_since,
    _page.title, case((_page.state.in_(_IN_TROUBLE), _trouble), else_=None).label("trouble"),
    _said.label("said"),
    _version.label("version"), _page.language, _page.content_type,
).join_from(tables.pages, tables.hosts, _host.id == _page.host_id)  # fmt: skip


async def list_pages(
    connection: AsyncConnection, query: PageQuery, live: LivePages | None, orders: StoredOrders, now: float
) -> PageLines:
    """A part of the list."""
    place = unpack(query)
    if query.sort in LIVE:
        if live is None:
            raise InputError(f"only the running daemon can sort pages by {query.sort.value}")
        return await _by_memory(connection, query, live, orders, place, now)
    passing = await _filter(connection, query)
    few = await _few(connection, passing)
    found = await _by_index(connection, query, passing.plain, few, place)
    lines = await lines_of(connection, found[: query.limit], live, now)
    if len(found) <= query.limit or not lines:
        return PageLines(lines, None)
    last = found[query.limit - 1]
    value = getattr(last, _SORTS[query.sort].name)
    return PageLines(lines, pack(query, ListPosition(value, last.id)))


async def lines_of(
    connection: AsyncConnection, rows: Sequence[Any], live: LivePages | None, now: float
) -> list[PageLine]:
    """Pages of a list, with what the daemon believes of them now."""
    standings = {} if live is None else dict(live.standings([row.id for row in rows], now))
    if live is not None and not live.whole:
        elsewhere = await freshness_of(connection, [row.id for row in rows if row.id not in standings])
        standings |= {page: (fresh, None) for page, fresh in elsewhere.items()}
    return [_line_of(row, *standings.get(row.id, (None, None))) for row in rows]


def _line_of(row: Any, freshness: float | None, next_crawl: float | None) -> PageLine:
    return PageLine(
        id=row.id,
        url=row.url,
        host=row.host,
        state=PageState(row.state),
        importance=row.importance if row.weight is None else row.weight,
        crawls=row.crawls,
        changes=row.changes,
        failures=row.failed,
        added_at=row.added_at,
        last_crawl_at=row.last_success,
        last_change_at=row.last_change_at,
        gone_since=row.gone_since,
        freshness=freshness,
        next_crawl_at=next_crawl,
        title=row.title,
        trouble=row.trouble,
        usage=usage_document(row.said),
        version=row.version,
        language=row.language,
        content_type=row.content_type,
    )


async def line_by(
    connection: AsyncConnection, condition: ColumnElement[bool], live: LivePages | None, now: float
) -> PageLine | None:
    """The page that meets the condition as a line; None where there is none."""
    rows = (await connection.execute(_LINES.where(condition))).all()
    return (await lines_of(connection, rows, live, now))[0] if rows else None


@dataclass(frozen=True, slots=True)
class _Filter:
    """What is asked of a page. `indexed` finds few pages by an index; `plain` keeps the database from trying that."""

    indexed: list[ColumnElement[bool]]
    plain: list[ColumnElement[bool]]


async def _filter(connection: AsyncConnection, query: PageQuery) -> _Filter:
    """What the query's filter asks of a page. A search looks along the index of URLs, and at nothing else of a page."""
    state = _page.state.concat("")
    plain = [state.not_in(NOT_LISTED) if query.state is None else state == query.state.value]
    indexed = [] if query.state is None else [_page.state == query.state.value]
    if query.trouble is not None:
        indexed.append(_page.state.in_(_IN_TROUBLE))
        plain.append(state.in_(_IN_TROUBLE))
        if query.trouble != ANY_TROUBLE:
            plain.append(_trouble == query.trouble)
    if query.host is not None:
        number = await connection.scalar(select(_host.id).where(_host.name == query.host))
        host = -1 if number is None else number
        plain.append(_page.host_id + 0 == host)
        indexed.append(_page.host_id == host)
    if query.use is not None:
        denying = exists().where(tables.versions.c.page_id == _page.id, ~allows(query.use))
        plain.append(~denying.correlate(tables.pages))
    if query.search:
        escaped = query.search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        alike = _page.url.ilike if connection.dialect.name == "postgresql" else _page.url.like  # SQLite's sees no case
        plain.append(alike(f"%{escaped}%", escape="\\"))
        indexed = indexed if query.host is not None or query.trouble is not None else []
        indexed.append(plain[-1])
    return _Filter(indexed, plain)


async def _few(connection: AsyncConnection, passing: _Filter) -> Sequence[int] | None:
    """The ids of pages among which are all that pass the filter; None where they are many or all."""
    if not passing.indexed:
        return None
    ids = (await connection.scalars(select(_page.id).where(*passing.indexed).limit(LIMITS.few + 1))).all()
    return ids if len(ids) <= LIMITS.few else None


async def _by_index(
    connection: AsyncConnection,
    query: PageQuery,
    conditions: list[ColumnElement[bool]],
    few: Sequence[int] | None,
    place: ListPosition | None,
) -> list[Any]:
    """One page more than wanted, so that it is known whether others follow; pages without a value come last.

    `few` are the ids of those that pass the filter, where they are few enough to be sorted.
    """
    parameters: dict[str, Any] = {}
    if few is not None:
        chosen, parameters = among(connection.dialect.name, _page.id, few)
        conditions = [chosen, *conditions]
    column = _SORTS[query.sort]
    unindexed = column.concat("") if query.sort is PageSort.URL else column + 0
    key = column if few is None else unindexed
    order = (key.desc(), _page.id.desc()) if query.descending else (key, _page.id)
    found: list[Any] = []
    if place is None or place.value is not None:
        valued = _LINES.where(*conditions, column.is_not(None)).order_by(*order).limit(query.limit + 1)
        if place is not None:
            ends = tuple_(key, _page.id)
            here = (place.value, place.id)
            valued = valued.where(ends < here if query.descending else ends > here)
        found += (await connection.execute(valued, parameters)).all()
    if len(found) <= query.limit and column.nullable:
        rest = _LINES.where(*conditions, column.is_(None)).order_by(_page.id).limit(query.limit + 1 - len(found))
        if place is not None and place.value is None:
            rest = rest.where(_page.id > place.id)
        found += (await connection.execute(rest, parameters)).all()
    return found


async def _by_memory(
    connection: AsyncConnection,
    query: PageQuery,
    live: LivePages,
    orders: StoredOrders,
    place: ListPosition | None,
    now: float,
) -> PageLines:
    at = now if place is None or place.at is None else place.at
    passing = await _filter(connection, query)
    few = await _few(connection, passing)
    ids, keys = await _keys(connection, query, live, orders, few, at)
    if place is not None:
        key = np.inf if place.value is None else float(place.value) * (-1.0 if query.descending else 1.0)
        beyond = (keys > key) | ((keys == key) & (ids > place.id))
        ids, keys = ids[beyond], keys[beyond]
    found = await _first_that_pass(connection, query, passing.plain, ids, keys)
    lines = await lines_of(connection, [row for row, _ in found[: query.limit]], live, now)
    if len(found) <= query.limit or not lines:
        return PageLines(lines, None)
    row, key = found[query.limit - 1]
    value = None if np.isinf(key) else float(key) * (-1.0 if query.descending else 1.0)
    return PageLines(lines, pack(query, ListPosition(value, row.id, at)))


async def _keys(
    connection: AsyncConnection,
    query: PageQuery,
    live: LivePages,
    orders: StoredOrders,
    few: Sequence[int] | None,
    at: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ids and what they are sorted by, smallest first; inf where it is not known."""
    if query.sort is PageSort.NEXT_CRAWL:
        if not live.whole:
            raise InputError("a fleet cannot sort pages by their next crawl: each worker knows that of its own alone")
        if few is None or len(few) > LIMITS.max_by_next_crawl:
            few = _all_of_few(live, at) if few is None else None
        if few is None:
            raise InputError("too many pages to sort by their next crawl: choose a host, a state or a search")
        standings = live.standings(few, at)
        ids = np.fromiter(standings, dtype=np.int64, count=len(standings))
        values = np.array([np.nan if known[1] is None else known[1] for known in standings.values()])
    elif not live.whole:
        ids, values = await orders.order(connection, few, at)
    else:
        ids, values = live.freshness(at)
        if few is not None:
            wanted = np.isin(ids, np.array(few, dtype=np.int64))
            ids, values = ids[wanted], values[wanted]
    keys = -values if query.descending else values.copy()
    keys[np.isnan(keys)] = np.inf
    return ids, keys


def _all_of_few(live: LivePages, at: float) -> Sequence[int] | None:
    """Every page, where there are few in all."""
    ids, _ = live.freshness(at)
    return ids.tolist() if len(ids) <= LIMITS.max_by_next_crawl else None


async def _first_that_pass(
    connection: AsyncConnection,
    query: PageQuery,
    conditions: list[ColumnElement[bool]],
    ids: NDArray[np.int64],
    keys: NDArray[np.float64],
) -> list[tuple[Any, float]]:
    """The first pages by key that pass the filter, one more than wanted; ever more are looked up at once."""
    found: list[tuple[Any, float]] = []
    size = max(LIMITS.looked_at, query.limit + 1)
    while len(ids) and len(found) <= query.limit:
        first = _smallest(keys, ids, size)
        order = first[np.lexsort((ids[first], keys[first]))]
        chosen, parameters = among(connection.dialect.name, _page.id, ids[order].tolist())
        rows = {row.id: row for row in await connection.execute(_LINES.where(*conditions, chosen), parameters)}
        found += [(rows[number], float(keys[at])) for at, number in zip(order, ids[order].tolist()) if number in rows]
        left = np.ones(len(ids), dtype=bool)
        left[first] = False
        ids, keys, size = ids[left], keys[left], 4 * size
    return found


def _smallest(keys: NDArray[np.float64], ids: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Where the first so many by key and id are, in any order; a cursor stands between pages of one key, too."""
    if count >= len(keys):
        return np.arange(len(keys))
    bound = np.partition(keys, count)[count]
    less, ties = np.flatnonzero(keys < bound), np.flatnonzero(keys == bound)
    rest = count - len(less)
    if rest < len(ties):
        ties = ties[np.argpartition(ids[ties], rest)[:rest]]
    return np.concatenate([less, ties])
