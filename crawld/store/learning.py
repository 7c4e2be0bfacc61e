"""What the learner reads and writes: pages with news, their histories, their estimates."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Double, bindparam, case, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.interfaces import Histories, Ints
from crawld.model.crawl import Verdict
from crawld.model.estimate import Estimate
from crawld.model.page import PageState
from crawld.model.signal import SOURCES
from crawld.store import tables
from crawld.store.batch import CHANGES, known
from crawld.store.bulk import fetch, run
from crawld.store.chosen import among
from crawld.store.tables import by_source
from crawld.store.upserts import replacing

READ_AT_ONCE = 500  # pages a query: the driver's thread holds the interpreter while it makes rows

_page, _crawl = tables.pages.c, tables.crawls.c


async def dirty_pages(reading: AsyncEngine, limit: int) -> Ints:
    """Pages with a successful crawl newer than their estimate, longest waiting first."""
    query = (
        select(_page.id).where(_page.dirty_since.is_not(None), _page.state != PageState.RETIRED.value)
        .order_by(_page.dirty_since).limit(limit)
    )  # fmt: skip
    async with reading.connect() as connection:
        return np.array((await connection.execute(query)).scalars().all(), dtype=np.int64)


async def latest_audits(reading: AsyncEngine, limit: int) -> list[bool]:
    """Whether each of the latest audits found our copy fresh, oldest first."""
    query = select(_crawl.verdict).where(text("audit"), _crawl.verdict != Verdict.FAILED.value)  # as the index says it
    async with reading.connect() as connection:
        rows = await fetch(connection, query.order_by(_crawl.at.desc()).limit(limit))
    return [verdict == Verdict.UNCHANGED.value for (verdict,) in reversed(rows)]


async def read_histories(reading: AsyncEngine, page_ids: Ints, most_per_page: int) -> Histories:
    """The latest observations of the pages, in the order of `page_ids`; unknown pages have none."""
    ids = np.asarray(page_ids, dtype=np.int64)
    pages: dict[int, tuple[Any, ...]] = {}
    tables_read: list[np.ndarray[Any, Any]] = []
    async with reading.connect() as connection:
        for start in range(0, len(ids), READ_AT_ONCE):
            chosen = np.sort(ids[start : start + READ_AT_ONCE]).tolist()
            pages |= await _read_pages(connection, chosen)
            tables_read.append(await _read_observations(connection, chosen))
    rows = np.concatenate(tables_read) if tables_read else np.empty((0, _WIDTH))
    rows, offsets = _in_order(rows, ids, most_per_page)
    unknown = ("", None, *(0,) * len(SOURCES))
    found = [pages.get(page_id, unknown) for page_id in ids.tolist()]
    return Histories(
        page_ids=ids,
        offsets=offsets,
        at=rows[:, 1].copy(),
        tau=rows[:, 2].copy(),
        changed=rows[:, 3] != 0,
        signals=rows[:, 4:].astype(np.int64),
        hosts=[page[0] for page in found],
        first_success=np.array([page[1] for page in found], dtype=np.float64),
        signal_counts=np.array([page[2:] for page in found], dtype=np.int64).reshape(len(ids), len(SOURCES)),
    )


_WIDTH = 4 + len(SOURCES)


async def _read_pages(connection: AsyncConnection, chosen: list[int]) -> dict[int, tuple[Any, ...]]:
    condition, parameters = among(connection.dialect.name, _page.id, chosen)
    host = tables.hosts.c
    query = select(
        _page.id, host.name, _page.first_success, *(_page[name] for name in by_source("counted"))
    ).join_from(tables.pages, tables.hosts, host.id == _page.host_id).where(condition)  # fmt: skip
    return {row[0]: tuple(row[1:]) for row in await fetch(connection, query, parameters)}


async def _read_observations(connection: AsyncConnection, chosen: list[int]) -> np.ndarray[Any, Any]:
    """Rows (page, at, tau, changed, signals…), by page and oldest first."""
    condition, parameters = among(connection.dialect.name, _crawl.page_id, chosen)
    changed = case((or_(*(_crawl.verdict == verdict.value for verdict in CHANGES)), 1), else_=0)
    query = (
        select(_crawl.page_id, _crawl.at, _crawl.tau, changed, *(_crawl[name] for name in by_source("signals")))
        .where(condition, _crawl.tau.is_not(None), _crawl.verdict != Verdict.FAILED.value)
        .order_by(_crawl.page_id, _crawl.id)
    )  # fmt: skip
    rows = await fetch(connection, query, parameters)
    return np.fromiter(chain.from_iterable(rows), np.float64, count=len(rows) * _WIDTH).reshape(-1, _WIDTH)


def _in_order(rows: np.ndarray[Any, Any], ids: Ints, most: int) -> tuple[np.ndarray[Any, Any], Ints]:
    """The last `most` rows of each page, in the order of `ids`, with their offsets. Slices are sorted by page."""
    owners = rows[:, 0].astype(np.int64)
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    starts, ends = np.searchsorted(owners, ids, "left"), np.searchsorted(owners, ids, "right")
    starts = np.maximum(starts, ends - most)
    counts = ends - starts
    offsets = np.zeros(len(ids) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    picked = np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])
    return rows[order[picked]], offsets


_KEEP_DIRTY = (
    update(tables.pages)
    .where(_page.id == bindparam("b_id", type_=BigInteger))
    .values(
        dirty_since=case(
            # A time in the future was written before the clock stepped back: it must not keep a page dirty till then.
            (
                (_page.last_success > bindparam("b_at", type_=Double))
                & (_page.last_success <= bindparam("b_now", type_=Double)),
                _page.last_success,
            ),
            else_=None,
        )
    )
)


def estimate_row(estimate: Estimate) -> dict[str, Any]:
    """The row of `estimates`; an unknown standard error is NULL."""
    row: dict[str, Any] = {
        "page_id": estimate.page_id,
        "at": estimate.at,
        "shape": estimate.shape,
        "rate": estimate.rate,
        "alpha_se": known(estimate.alpha_se),
        "crawls": estimate.crawls,
        "changes": estimate.changes,
    }
    row |= zip(by_source("kappa"), estimate.kappa, strict=True)
    row |= zip(by_source("gamma"), estimate.gamma, strict=True)
    row |= zip(by_source("kappa_se"), map(known, estimate.kappa_se), strict=True)
    row |= zip(by_source("signals"), estimate.signals, strict=True)
    return row


async def write_estimates(connection: AsyncConnection, estimates: Sequence[Estimate], now: float) -> None:
    """Write estimates over the old ones; a page crawled since its estimate was made stays dirty."""
    await run(connection, replacing(connection.dialect.name, tables.estimates), [*map(estimate_row, estimates)])
    await run(connection, _KEEP_DIRTY, [{"b_id": e.page_id, "b_at": e.at, "b_now": now} for e in estimates])
