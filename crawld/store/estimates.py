"""What the learner reads and writes: pages with news, their histories, their estimates."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from sqlalchemy import (
    BigInteger,
    Select,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from crawld.model.crawl import Verdict
from crawld.model.estimate import AgeCurve, Estimate, Histories, Ints
from crawld.model.page import Page, PageState
from crawld.model.signal import SOURCES, SignalTrust
from crawld.store import tables
from crawld.store.batch import CHANGES, PageChange
from crawld.store.bulk import ForRows, fetch, known, of_host, replacing
from crawld.store.engine import Ranges, among, choice, chosen, fetch_within, within
from crawld.store.pages import WriteScope
from crawld.store.tables import by_source


@dataclass(frozen=True)
class EstimatesLimits:
    """Numbers that bound and tune this module."""

    rows_at_once: int = 4000
    looked_back: int = 2  # crawls for each observation wanted: failures are none
    last_id: int = 2**63 - 1


LIMITS = EstimatesLimits()


# Pages with a successful crawl newer than their estimate, kept in memory: written, it would cost as much as a crawl.

_page = tables.pages.c


class DirtyPages:
    """Dirty pages with their latest successful crawl, longest waiting first, as far as we read or crawled them."""

    def __init__(self) -> None:
        self._latest: dict[int, float] = {}
        self.read = False  # whether all that were dirty at the start are known

    def __len__(self) -> int:
        return len(self._latest)

    def found(self, latest: Mapping[int, float], *, every: bool = False) -> None:
        """These pages are dirty, says the database; with `every` there are no others."""
        self.read |= every
        if latest:
            self._latest = dict(sorted({**self._latest, **latest}.items(), key=itemgetter(1)))

    def crawled(self, changes: Mapping[int, PageChange]) -> None:
        """Crawls of these pages were committed."""
        for page, change in changes.items():
            if change.success is not None:
                self._latest[page] = change.success  # one that waits keeps its place

    def estimated(self, estimates: Iterable[Estimate], now: float) -> None:
        """Estimates were committed; pages that were crawled since stay dirty."""
        for estimate in estimates:
            latest = self._latest.pop(estimate.page_id, None)
            # A time in the future was written before the clock stepped back: it must not keep a page dirty till then.
            if latest is not None and estimate.at < latest <= now:
                self._latest[estimate.page_id] = latest

    def forget(self, gone: Callable[[int], bool]) -> None:
        """Forget the pages that are gone."""
        self._latest = {page: at for page, at in self._latest.items() if not gone(page)}

    def drop(self, pages: Iterable[Page]) -> None:
        """Forget retired pages; those that other workers retire are learnt once more, without harm."""
        for page in pages:
            self._latest.pop(page.id, None)

    def first(self, limit: int, held: Callable[[int], bool] | None = None) -> list[int]:
        """Those that wait longest, of pages that are held."""
        found: list[int] = []
        for page in self._latest:
            if held is None or held(page):
                found.append(page)
                if len(found) == limit:
                    break
        return found


async def read_dirty(reading: AsyncEngine, page_ids: Sequence[int] | None = None) -> dict[int, float]:
    """All dirty pages, by a scan, or those among these, with their latest successful crawls."""
    known = tables.estimates.c
    query = (
        select(_page.id, _page.last_success)
        .join_from(tables.pages, tables.estimates, known.page_id == _page.id, isouter=True)
        .where(_page.last_success.is_not(None), known.at.is_(None) | (known.at < _page.last_success))
        .where(_page.state != PageState.RETIRED.value)
    )
    async with reading.connect() as connection:
        given: dict[str, Any] = {}
        if page_ids is not None:
            chosen, given = among(connection.dialect.name, _page.id, page_ids)
            query = query.where(chosen)
        return {row.id: row.last_success for row in await connection.execute(query, given)}


_page, _crawl = tables.pages.c, tables.crawls.c
_CRAWLED = (
    select(_page.id)
    .where(_page.id > bindparam("after", type_=BigInteger), _page.id < bindparam("end", type_=BigInteger))
    .where(_page.first_success.is_not(None), _page.state != PageState.RETIRED.value)
    .order_by(_page.id).limit(bindparam("most", type_=BigInteger))
)  # fmt: skip


async def crawled_pages(reading: AsyncEngine, after: int, limit: int, ranges: Ranges | None = None) -> Ints:
    """The first pages, by id, beyond that id that have been crawled with success and are not retired."""
    found: list[int] = []
    async with reading.connect() as connection:
        for first, end in ranges if ranges is not None else [(0, LIMITS.last_id)]:
            if end > after and len(found) < limit:
                given = {"after": max(after, first - 1), "end": end, "most": limit - len(found)}
                found += [page for (page,) in await fetch(connection, _CRAWLED, given)]
    return np.array(found, dtype=np.int64)


async def latest_audits(reading: AsyncEngine, limit: int) -> list[bool]:
    """Whether each of the latest audits found our copy fresh, oldest first."""
    query = select(_crawl.verdict).where(text("audit"), _crawl.verdict != Verdict.FAILED.value)  # as the index says it
    async with reading.connect() as connection:
        rows = await fetch(connection, query.order_by(_crawl.at.desc()).limit(limit))
    return [verdict == Verdict.UNCHANGED.value for (verdict,) in reversed(rows)]


async def read_histories(reading: AsyncEngine, page_ids: Ints, max_per_page: int, most: int) -> Histories:
    """The latest observations of the first pages, in the order of `page_ids`; unknown pages have none."""
    ids = np.asarray(page_ids, dtype=np.int64)
    async with reading.connect() as connection:
        dialect = connection.dialect.name
        about = await fetch(connection, _pages(dialect), choice(dialect, ids.tolist()))
        pages = {row[0]: row[1:] for row in about}
        unknown = (0, "", None, *(0,) * len(SOURCES))
        found = [pages.get(page_id, unknown) for page_id in ids.tolist()]
        crawls = np.minimum(np.fromiter(map(itemgetter(0), found), np.int64, len(found)), max_per_page)
        before = np.cumsum(crawls) - crawls
        ids = ids[before < most]
        tables_read = [
            await _read_observations(connection, np.sort(ids[first:last]).tolist(), LIMITS.looked_back * max_per_page)
            for first, last in pairwise(
                [*np.unique(before[: len(ids)] // LIMITS.rows_at_once, return_index=True)[1], len(ids)]
            )
        ]
    rows = np.concatenate(tables_read) if tables_read else np.empty((0, _WIDTH))
    rows, offsets = _in_order(rows, ids, max_per_page)
    _, hosts, first_success, *counts = zip(*found[: len(ids)], strict=True) if len(ids) else ((),) * len(unknown)
    return Histories(
        page_ids=ids,
        offsets=offsets,
        at=rows[:, 1].copy(),
        tau=rows[:, 2].copy(),
        changed=rows[:, 3] != 0,
        magnitude=np.where(rows[:, 4] < 0, np.nan, rows[:, 4]),
        signals=rows[:, 5:].astype(np.int64),
        hosts=list(hosts),
        first_success=np.array(first_success, dtype=np.float64),
        signal_counts=np.array(counts, dtype=np.int64).reshape(len(SOURCES), len(ids)).T,
    )


_WIDTH = 5 + len(SOURCES)


@cache
def _pages(dialect: str) -> Select[Any]:
    host = tables.hosts.c
    return (
        select(_page.id, _page.crawls, host.name, _page.first_success, *(_page[name] for name in by_source("counted")))
        .join_from(tables.pages, tables.hosts, host.id == _page.host_id)
        .where(chosen(dialect, _page.id))
    )


async def _read_observations(connection: AsyncConnection, page_ids: list[int], most: int) -> np.ndarray[Any, Any]:
    """Rows (page, at, tau, changed, magnitude, signals…) of each page's latest crawls, by page and oldest first."""
    dialect = connection.dialect.name
    rows = await fetch(connection, _observations(dialect), choice(dialect, page_ids) | {"skipped": most})
    return np.fromiter(chain.from_iterable(rows), np.float64, count=len(rows) * _WIDTH).reshape(-1, _WIDTH)


@cache
def _observations(dialect: str) -> Select[Any]:
    # More may be kept of a page than is ever read: look no further back than that many crawls, by the index alone.
    skipped = bindparam("skipped", type_=BigInteger)
    if dialect == "postgresql":  # a condition on the id would have the server count the crawls again for each of them
        latest = (
            select(tables.crawls).where(_crawl.page_id == _page.id).order_by(_crawl.id.desc()).limit(skipped).lateral()
        )  # fmt: skip
        query, crawl = select(_page.id).join_from(tables.pages, latest, true()), latest.c
    else:
        other = tables.crawls.alias()
        before = (
            select(other.c.id).where(other.c.page_id == _page.id)
            .order_by(other.c.id.desc()).offset(skipped).limit(1).scalar_subquery()
        )  # fmt: skip
        known_of = and_(_crawl.page_id == _page.id, _crawl.id > func.coalesce(before, 0))
        query, crawl = select(_page.id).join_from(tables.pages, tables.crawls, known_of), _crawl
    changed = case((or_(*(crawl.verdict == verdict.value for verdict in CHANGES)), 1), else_=0)
    magnitude = func.coalesce(crawl.magnitude, -1.0)
    return (
        query.add_columns(crawl.at, crawl.tau, changed, magnitude, *(crawl[name] for name in by_source("signals")))
        .where(chosen(dialect, _page.id), crawl.tau.is_not(None), crawl.verdict != Verdict.FAILED.value)
        .order_by(_page.id, crawl.id)
    )


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


_PUT_ESTIMATES = replacing(tables.estimates)
_UNMARK = ForRows(
    "id bigint", "UPDATE pages SET dirty_since = NULL {FROM given} WHERE pages.id = :id AND dirty_since IS NOT NULL"
)
"""Earlier versions and exports of fleets mark the pages of a SQLite file that are dirty."""


def estimate_row(estimate: Estimate) -> tuple[Any, ...]:
    """The row of `estimates`, in the order of its columns; an unknown standard error is NULL."""
    return (
        estimate.page_id,
        estimate.at,
        estimate.shape,
        estimate.rate,
        *estimate.kappa,
        *estimate.gamma,
        known(estimate.alpha_se),
        *map(known, estimate.kappa_se),
        estimate.crawls,
        estimate.changes,
        *estimate.signals,
        estimate.heard,
        estimate.deaf_alpha,
        estimate.deaf_shape,
    )


async def write_estimates(connection: AsyncConnection, scope: WriteScope | None, estimates: Sequence[Estimate]) -> None:
    """Write estimates over the old ones."""
    if scope is not None:
        estimates = await scope.ours(connection, estimates, lambda one: scope.of_page(one.page_id))
    await _PUT_ESTIMATES.run(connection, sorted(map(estimate_row, estimates), key=itemgetter(0)))
    if connection.dialect.name == "sqlite":
        await _UNMARK.run(connection, [(estimate.page_id,) for estimate in estimates])


_PUT_AGE_CURVES = of_host(tables.age_curves)
_STILL_HEARD = "signal_trust.heard AND excluded.heard THEN signal_trust.heard_since"
_PUT_TRUST = of_host(tables.signal_trust, heard_since=f"CASE WHEN {_STILL_HEARD} ELSE excluded.heard_since END")
_FORGET_AGE_CURVE = ForRows(
    "host text",
    "DELETE FROM age_curves {USING given} WHERE age_curves.host_id = (SELECT id FROM hosts WHERE hosts.name = :host)",
)
_host, _curve = tables.hosts.c, tables.age_curves.c
_CURVES = select(_host.name, _curve.first, _curve.step, _curve.extra).join_from(
    tables.age_curves, tables.hosts, _host.id == _curve.host_id
)
_CURVES_WITHIN = _CURVES.where(within(_curve.host_id))


async def read_age_curves(reading: AsyncEngine, ranges: Ranges | None = None) -> dict[str, AgeCurve]:
    """By host, how its copies age."""
    async with reading.connect() as connection:
        if ranges is None:
            rows = await fetch(connection, _CURVES)
        else:
            rows = await fetch_within(connection, _CURVES_WITHIN, ranges)
    return {name: AgeCurve(first, step, extra) for name, first, step, extra in rows}


async def write_age_curves(
    connection: AsyncConnection, scope: WriteScope | None, curves: Mapping[str, AgeCurve | None]
) -> None:
    """Write age curves over the old ones; a host without one goes by plain time."""
    if scope is not None:
        curves = dict(await scope.ours(connection, list(curves.items()), lambda one: scope.of_host(one[0])))
    rows = [(host, curve.first, curve.step, curve.packed) for host, curve in curves.items() if curve is not None]
    await _PUT_AGE_CURVES.run(connection, rows)
    await _FORGET_AGE_CURVE.run(connection, [(host,) for host, curve in curves.items() if curve is None])


async def write_signal_trust(
    connection: AsyncConnection, scope: WriteScope | None, trust: Sequence[SignalTrust], now: float
) -> None:
    """Write which sources are heard over what was known of the same hosts and sources."""
    if scope is not None:
        trust = await scope.ours(connection, trust, lambda one: scope.of_host(one.host))
    rows = [asdict(one) | {"heard_since": now if one.heard else None} for one in trust]
    await _PUT_TRUST.run(connection, _PUT_TRUST.rows(rows))
