"""Bringing pages back at a start: one plain scan in slices, each of which becomes columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.model.estimate import Floats, Ints
from crawld.model.fetched import TURNED_AWAY, Trouble
from crawld.model.page import PageState
from crawld.model.signal import SOURCES
from crawld.store import tables
from crawld.store.bulk import fetch
from crawld.store.engine import Ranges, choice, chosen, fetch_within, within
from crawld.store.tables import by_source


@dataclass(frozen=True, slots=True)
class StoredPages:
    """Pages that are not retired, as columns of equal length: what a restart needs."""

    ids: Ints
    urls: Sequence[str]
    hosts: Sequence[str]
    states: Sequence[PageState]
    importance: Floats
    last_success: Floats  # time of the last successful crawl, nan before the first
    last_attempt: Floats  # nan before the first
    failures: Ints  # successive page-scope failures
    signals: Ints  # (pages, sources): counted signals since the last successful crawl
    shape: Floats  # the estimate's columns, nan where there is none yet
    rate: Floats
    kappa: Floats  # (pages, sources)
    gamma: Floats  # (pages, sources)
    mixed: Floats  # (pages, 3): heard, deaf_alpha, deaf_shape
    gone: NDArray[np.bool_]  # whether the last successful crawl found the page gone
    alias_of: Sequence[int | None]  # the page that this is another address of
    turned_away: Mapping[int, Trouble] = field(default_factory=dict)  # by id, where the site turned us away last time

    @classmethod
    def of(cls, parts: Sequence["StoredPages"]) -> "StoredPages":
        """The pages of all parts in their order."""
        none, floats, some = np.zeros(0, np.int64), np.zeros(0), np.zeros((0, len(SOURCES)))
        empty = cls(
            none, (), (), (), floats, floats, floats, none, some.astype(np.int64), floats, floats, some, some,
            np.zeros((0, 3)), none.astype(np.bool_), (),
        )  # fmt: skip
        columns: dict[str, Any] = {}
        for name in _COLUMNS:
            found = [getattr(part, name) for part in parts or [empty]]
            columns[name] = np.concatenate(found) if isinstance(found[0], np.ndarray) else list(chain(*found))
        return cls(
            **columns, turned_away={page: trouble for part in parts for page, trouble in part.turned_away.items()}
        )

    def part(self, which: slice | NDArray[np.bool_]) -> "StoredPages":
        """Some of the pages: a slice of them, or those marked."""
        order = np.arange(len(self.ids))[which].tolist()
        columns: dict[str, Any] = {}
        for name in _COLUMNS:
            column = getattr(self, name)
            columns[name] = column[which] if isinstance(column, np.ndarray) else [column[at] for at in order]
        turned_away = {page: self.turned_away[page] for page in self.ids[which].tolist() if page in self.turned_away}
        return StoredPages(**columns, turned_away=turned_away)


_COLUMNS = [column.name for column in fields(StoredPages) if column.name != "turned_away"]
ROWS_AT_ONCE = 2_000  # who takes them in blocks the event loop for some 10 ms
_TURNED_AWAY = {trouble.value: trouble for trouble in TURNED_AWAY}
_STATES = {state.value: state for state in PageState}
_page, _estimate, _host = tables.pages.c, tables.estimates.c, tables.hosts.c
_S = len(SOURCES)
_TEXTS = (_page.id, _page.url, _page.host_id, _page.state, _page.alias_of, _page.turned_away, _estimate.at)
_NUMBERS = (_page.importance, _page.last_success, _page.last_attempt, _page.failures, _page.gone_since)
_COUNTS = [_page[name] for name in by_source("pending")]
_BELIEFS = [
    _estimate[name]
    for name in ("shape", "rate", *by_source("kappa"), *by_source("gamma"), "heard", "deaf_alpha", "deaf_shape")
]


class PageScan:
    """Pages that are not retired, with their estimates and the signals since their last successful crawl, by slices.

    `page_ids` are the pages that are asked for, `ranges` the ids of the shards that are; without both, all are.
    """

    def __init__(
        self, reading: AsyncEngine, page_ids: Sequence[int] | None = None, ranges: Ranges | None = None
    ) -> None:
        dialect = reading.dialect.name
        self._reading = reading
        self._given = {} if page_ids is None else choice(dialect, [int(page) for page in page_ids])
        self._left: list[tuple[int, int | None]] = [(1, None)] if ranges is None else list(ranges)
        self._hosts: dict[int, str] = {}
        query = (
            select(*_TEXTS, *_NUMBERS, *_COUNTS, *_BELIEFS)
            .join_from(tables.pages, tables.estimates, _estimate.page_id == _page.id, isouter=True)
            .where(_page.id >= bindparam("first", type_=_page.id.type), _page.state != PageState.RETIRED.value)
        )
        if page_ids is not None:
            query = query.where(chosen(dialect, _page.id))
        if ranges is not None:
            query = query.where(_page.id < bindparam("end", type_=_page.id.type))
        self._query: Select[Any] = query.order_by(_page.id).limit(ROWS_AT_ONCE)
        self.dirty: dict[int, float] = {}  # of the pages read so far: their latest successful crawls

    async def next(self) -> StoredPages | None:
        """The next slice, None at the end. One that failed is read again by the next call."""
        while self._left:
            first, end = self._left[0]
            bounds = self._given | {"first": first} | ({} if end is None else {"end": end})
            async with self._reading.connect() as connection:
                if connection.dialect.name == "postgresql":  # others write meanwhile: hosts and pages as of one moment
                    await connection.execution_options(isolation_level="REPEATABLE READ")
                rows = await fetch(connection, self._query, bounds)
                hosts = await self._names(connection, {row[2] for row in rows})
            if len(rows) < ROWS_AT_ONCE:
                self._left.pop(0)
            else:
                self._left[0] = rows[-1][0] + 1, end
            if rows:
                return self._columns(rows, hosts)
        return None

    async def _names(self, connection: AsyncConnection, ids: set[int]) -> dict[int, str]:
        """The names of hosts, by their ids: one string for all pages of a host."""
        if new := sorted(ids - self._hosts.keys()):
            dialect = connection.dialect.name
            query = select(_host.id, _host.name).where(chosen(dialect, _host.id))
            self._hosts |= {row[0]: row[1] for row in await fetch(connection, query, choice(dialect, new))}
        return self._hosts

    def _columns(self, rows: Sequence[Sequence[Any]], hosts: dict[int, str]) -> StoredPages:
        given = list(zip(*rows, strict=True))
        ids, urls, host_ids, states, alias_of, turned_away, estimated = given[: len(_TEXTS)]
        numbers: Floats = np.array(given[len(_TEXTS) :], dtype=np.float64)  # None becomes nan
        importance, last_success, last_attempt, failures, gone_since = numbers[: len(_NUMBERS)]
        news = ~(np.array(estimated, dtype=np.float64) >= last_success) & ~np.isnan(last_success)
        self.dirty |= {ids[at]: float(last_success[at]) for at in np.flatnonzero(news).tolist()}
        shape, rate, *beliefs = numbers[len(_NUMBERS) + _S :]
        return StoredPages(
            ids=np.array(ids, dtype=np.int64),
            urls=urls,
            hosts=[hosts[host] for host in host_ids],
            states=[_STATES[state] for state in states],
            importance=importance,
            last_success=last_success,
            last_attempt=last_attempt,
            failures=failures.astype(np.int64),
            signals=numbers[len(_NUMBERS) : len(_NUMBERS) + _S].T.astype(np.int64),
            shape=shape,
            rate=rate,
            kappa=np.stack(beliefs[:_S], axis=1),
            gamma=np.stack(beliefs[_S : 2 * _S], axis=1),
            mixed=np.stack(beliefs[2 * _S :], axis=1),
            gone=~np.isnan(gone_since),
            alias_of=alias_of,
            turned_away={  # a word of another release is passed over
                page: _TURNED_AWAY[word] for page, word in zip(ids, turned_away, strict=True) if word in _TURNED_AWAY
            },
        )


async def restore_pages(
    reading: AsyncEngine, page_ids: Sequence[int] | None = None, ranges: Ranges | None = None
) -> tuple[StoredPages, dict[int, float]]:
    """All slices of a scan as one, and which of its pages are dirty: their latest successful crawls."""
    scan = PageScan(reading, page_ids, ranges)
    parts: list[StoredPages] = []
    while (part := await scan.next()) is not None:
        parts.append(part)
    return StoredPages.of(parts), scan.dirty


async def count_live(connection: AsyncConnection, ranges: Ranges | None = None) -> int:
    """How many pages are not retired."""
    query = select(func.count()).select_from(tables.pages).where(_page.state != PageState.RETIRED.value)
    if ranges is not None:
        return sum(row[0] for row in await fetch_within(connection, query.where(within(_page.id)), ranges))
    return int((await fetch(connection, query))[0][0])
