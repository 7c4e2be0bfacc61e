"""Bringing all pages back at a start: three plain scans in slices, joined as arrays."""

from collections.abc import AsyncIterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Column, bindparam, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.interfaces import Floats, Ints, StoredPages
from crawld.model.fetched import TURNED_AWAY, Trouble
from crawld.model.page import PageState
from crawld.model.signal import SOURCES
from crawld.store import tables
from crawld.store.id_ranges import Ranges, fetch_within, within
from crawld.store.in_values import choice, chosen
from crawld.store.tables import by_source
from crawld.store.writing.bulk import fetch

ROWS_AT_ONCE = 10_000  # the event loop breathes in between
_TURNED_AWAY = {trouble.value: trouble for trouble in TURNED_AWAY}
_STATES = {state.value: state for state in PageState}
_page, _estimate = tables.pages.c, tables.estimates.c
FIELDS = 10
"""Columns of `pages` that a page in memory is made from."""


class Asked(NamedTuple):
    """Which pages are asked for: those of a choice (a query's parameter), and those of some ranges of ids."""

    only: dict[str, Any] | None = None
    ranges: Ranges | None = None


async def restore_pages(
    reading: AsyncEngine, page_ids: Sequence[int] | None = None, ranges: Ranges | None = None
) -> tuple[StoredPages, dict[int, float]]:
    """Every page that is not retired, or these, with its estimate and the signals since its last successful crawl.

    `ranges` are the ids of the shards that are asked for. On PostgreSQL also which pages are dirty, and since when.
    """
    ids: list[int] = []
    urls: list[str] = []
    hosts: list[str] = []
    states: list[PageState] = []
    alias_of: list[int | None] = []
    numbers: list[Floats] = []
    dirty: dict[int, float] = {}
    async with reading.connect() as connection:
        if connection.dialect.name == "postgresql":  # others write meanwhile: hosts and pages are read as of one moment
            await connection.execution_options(isolation_level="REPEATABLE READ")
        only = Asked(_only(connection, page_ids), ranges)
        names = await _host_names(connection, only)
        columns: tuple[Column[Any], ...] = (
            _page.id, _page.url, _page.host_id, _page.state, _page.alias_of, _page.importance, _page.last_success,
            _page.last_attempt, _page.failures, _page.gone_since,
        )  # fmt: skip
        live = _page.state != PageState.RETIRED.value
        if connection.dialect.name == "postgresql":
            columns = (*columns, _page.dirty_since)
        async for rows in _slices(connection, columns, live, only):
            fields = list(zip(*rows, strict=True))
            if len(fields) > FIELDS:
                dirty |= {page: since for page, since in zip(fields[0], fields.pop(), strict=True) if since is not None}
            ids.extend(fields[0])
            urls.extend(fields[1])
            hosts.extend(map(names.__getitem__, fields[2]))
            states.extend(map(_STATES.__getitem__, fields[3]))
            alias_of.extend(fields[4])
            numbers.append(np.array(fields[5:], dtype=np.float64))  # None becomes nan
        order = np.array(ids, dtype=np.int64)
        signals = await _read_pending(connection, order, only)
        beliefs = await _read_beliefs(connection, order, only)
        turned_away = await _read_turned_away(connection, only)
    importance, last_success, last_attempt, failures, gone_since = (
        np.concatenate(numbers, axis=1) if numbers else np.empty((5, 0))
    )  # fmt: skip
    stored = StoredPages(
        ids=order,
        urls=urls,
        hosts=hosts,
        states=states,
        importance=importance,
        last_success=last_success,
        last_attempt=last_attempt,
        failures=failures.astype(np.int64),
        signals=signals,
        shape=beliefs[:, 0].copy(),
        rate=beliefs[:, 1].copy(),
        kappa=beliefs[:, 2 : 2 + len(SOURCES)].copy(),
        gamma=beliefs[:, 2 + len(SOURCES) : -3].copy(),
        mixed=beliefs[:, -3:].copy(),
        gone=~np.isnan(gone_since),
        alias_of=alias_of,
        turned_away=turned_away,
    )
    return stored, dirty


async def _host_names(connection: AsyncConnection, asked: Asked) -> dict[int, str]:
    host = tables.hosts.c
    query = select(host.id, host.name)
    if asked.only is not None:
        some = select(_page.host_id).where(chosen(connection.dialect.name, _page.id))
        rows = await fetch(connection, query.where(host.id.in_(some)), asked.only)
    elif asked.ranges is not None:
        rows = await fetch_within(connection, query.where(within(host.id)), asked.ranges)
    else:
        rows = await fetch(connection, query)
    return {row[0]: row[1] for row in rows}


def _only(connection: AsyncConnection, page_ids: Sequence[int] | None) -> dict[str, Any] | None:
    return None if page_ids is None else choice(connection.dialect.name, [int(page) for page in page_ids])


async def _slices(
    connection: AsyncConnection, columns: Sequence[Column[Any]], condition: Any, asked: Asked
) -> AsyncIterator[Sequence[Sequence[Any]]]:
    """The columns of a table in the order of the first, a page's id, a slice at a time."""
    key, given = columns[0], asked.only or {}
    query = select(*columns).where(key > bindparam("last", type_=key.type), condition)
    if asked.only is not None:
        query = query.where(chosen(connection.dialect.name, key))
    if asked.ranges is not None:
        query = query.where(key < bindparam("end", type_=key.type))
    query = query.order_by(key).limit(ROWS_AT_ONCE)
    for first, end in ((1, None),) if asked.ranges is None else asked.ranges:
        bounds = given if end is None else given | {"end": end}
        rows = await fetch(connection, query, bounds | {"last": first - 1})
        while rows:
            yield rows
            more = len(rows) == ROWS_AT_ONCE
            rows = await fetch(connection, query, bounds | {"last": rows[-1][0]}) if more else ()


async def _read_pending(connection: AsyncConnection, order: Ints, only: Asked) -> Ints:
    """Signals since the last successful crawl, by page and source; most pages have none and are not read."""
    pending = [_page[name] for name in by_source("pending")]
    signals = np.zeros((len(order), len(SOURCES)), dtype=np.int64)
    async for rows in _slices(connection, (_page.id, *pending), or_(*(count > 0 for count in pending)), only):
        read = _matrix(rows).astype(np.int64)
        places, known = _places(order, read[:, 0])
        signals[places] = read[known, 1:]
    return signals


async def _read_turned_away(connection: AsyncConnection, only: Asked) -> dict[int, Trouble]:
    """The pages whose site turned us away, with how; a word of another release is passed over."""
    found: dict[int, Trouble] = {}
    async for rows in _slices(connection, (_page.id, _page.turned_away), _page.turned_away.is_not(None), only):
        found |= {page: _TURNED_AWAY[word] for page, word in rows if word in _TURNED_AWAY}
    return found


async def _read_beliefs(connection: AsyncConnection, order: Ints, only: Asked) -> Floats:
    """Shape, rate, κ and γ by source, and the belief to which signals mean nothing; nan without an estimate."""
    names = "page_id", "shape", "rate", *by_source("kappa"), *by_source("gamma"), "heard", "deaf_alpha", "deaf_shape"
    columns = [_estimate[name] for name in names]
    beliefs = np.full((len(order), len(columns) - 1), np.nan)
    async for rows in _slices(connection, columns, true(), only):
        read = _matrix(rows)
        places, known = _places(order, read[:, 0].astype(np.int64))
        beliefs[places] = read[known, 1:]
    return beliefs


def _matrix(rows: Sequence[Sequence[Any]]) -> Floats:
    width = len(rows[0])
    return np.fromiter(chain.from_iterable(rows), np.float64, count=len(rows) * width).reshape(-1, width)


def _places(order: Ints, ids: Ints) -> tuple[Ints, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Where in `order` the ids are, and which of them are there at all: retired pages keep their estimates."""
    places = np.searchsorted(order, ids)
    known = places < len(order)
    known[known] = order[places[known]] == ids[known]
    return places[known], known
