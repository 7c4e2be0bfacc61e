"""Every statement a batch runs, and the parameters it runs with."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.crawl import ChangeVerdict, Verdict
from crawld.store import tables
from crawld.store.batch import CHANGE, CRAWL, SIGNAL, Batch, FreshnessPoint
from crawld.store.bulk import (
    AT_ONCE,
    Copying,
    ForRows,
    Part,
    Returned,
    adding,
    inserting,
    of_host,
    on_conflict,
    replacing,
    run_together,
)
from crawld.store.database import newest_change
from crawld.store.engine import among
from crawld.store.hosts import PUT_ROBOTS, robots_row
from crawld.store.pages import OneWriter, WriteScope, know_hosts
from crawld.store.slot_history import TICK
from crawld.store.sources import PUT_SOURCES, Poll
from crawld.store.tables import by_source
from crawld.store.versions import StoredBody, compress, version_row

# What a batch does to the rows of pages: what their crawls found, and how many signals came.

_PENDING, _COUNTED = by_source("pending"), by_source("counted")
_EVERY, _SINCE_FIRST, _FLOOR, _SHIFT = map(by_source, ("every", "since_first", "floor", "shift"))
_TIMES = (
    "id bigint, attempt double precision, success double precision, "
    "failures bigint, crawls bigint, changes bigint, failed bigint"
)
_CRAWLED = (
    f"{_TIMES}, state text, first double precision, change double precision, still boolean, gone double precision, "
    "title text, language text, content_type text, turned_away text"
)
_SET_TIMES = """
    last_attempt = :attempt, last_success = coalesce(:success, pages.last_success), failures = :failures,
    crawls = pages.crawls + :crawls, changes = pages.changes + :changes, failed = pages.failed + :failed"""
_SET_FINDINGS = """
    state = CASE WHEN pages.state = 'retired' THEN pages.state ELSE :state END,
    first_success = coalesce(pages.first_success, :first),
    last_change_at = coalesce(:change, pages.last_change_at),
    gone_since = CASE WHEN :still THEN pages.gone_since ELSE :gone END,
    title = coalesce(:title, pages.title),
    language = coalesce(:language, pages.language),
    content_type = coalesce(:content_type, pages.content_type),
    turned_away = :turned_away"""
# Signals after the page's crawls, some of which answered some of them.
_SET_SIGNALS = ", ".join(
    f"""{pending} = CASE WHEN pages.{pending} + :{shift} > :{floor} THEN pages.{pending} + :{shift} ELSE :{floor} END,
    {counted} = CASE WHEN :success IS NOT NULL AND pages.first_success IS NULL THEN :{since_first}
        ELSE pages.{counted} + :{every} END"""
    for pending, counted, every, since_first, floor, shift in zip(
        _PENDING, _COUNTED, _EVERY, _SINCE_FIRST, _FLOOR, _SHIFT, strict=True
    )
)
_OF_PAGE = "{FROM given} WHERE pages.id = :id"


def _counts(*names: str) -> str:
    return "".join(f", {name} bigint" for name in names)


UPDATE_QUIET = ForRows(_CRAWLED, f"UPDATE pages SET {_SET_TIMES}, {_SET_FINDINGS} {_OF_PAGE}")
"""Most crawls meet no signal, and then most of a page's columns stay as they are."""
UPDATE = ForRows(
    _CRAWLED + _counts(*_EVERY, *_SINCE_FIRST, *_FLOOR, *_SHIFT),
    f"UPDATE pages SET {_SET_TIMES}, {_SET_FINDINGS}, {_SET_SIGNALS} {_OF_PAGE}",
)
# SQLite writes to the index of each column that a statement sets, also where it stays as it is: most columns stay.
UPDATE_TIMES = ForRows(_TIMES, f"UPDATE pages SET {_SET_TIMES} {_OF_PAGE}")
UPDATE_FINDINGS = ForRows(
    _CRAWLED,
    f"""UPDATE pages SET {_SET_FINDINGS} {_OF_PAGE} AND (
        pages.state NOT IN ('retired', :state) OR pages.turned_away IS NOT :turned_away
        OR (pages.first_success IS NULL AND :first IS NOT NULL) OR :change IS NOT NULL
        OR (NOT :still AND pages.gone_since IS NOT :gone)
        OR coalesce(:title, :language, :content_type) IS NOT NULL)""",
)
UPDATE_SIGNALS = ForRows(
    f"id bigint, success double precision{_counts(*_EVERY, *_SINCE_FIRST, *_FLOOR, *_SHIFT)}",
    f"UPDATE pages SET {_SET_SIGNALS} {_OF_PAGE}",
)
_COME = ", ".join(
    f"{pending} = pages.{pending} + :{every}, {counted} = pages.{counted} + :{every}"
    for every, pending, counted in zip(_EVERY, _PENDING, _COUNTED, strict=True)
)
COUNT_SIGNALS = ForRows(f"id bigint{_counts(*_EVERY)}", f"UPDATE pages SET {_COME} {_OF_PAGE}")
GONE_AMONG = ForRows(
    "id bigint", "SELECT pages.id FROM pages {, given} WHERE pages.id = :id AND pages.gone_since IS NOT NULL"
)
"""Those of some pages that are gone; of several statements that run as one, it sees them as they were before."""
PUT_VERSIONS = replacing(tables.versions)


def _page_parts(batch: Batch, *, at_once: bool) -> list[Part]:
    """Updates the pages of a batch, in the order of their ids: others that update several do not wait in a circle."""
    quiet, met, signalled = [], [], []
    timed, crawled, answered = [], [], []  # the same for SQLite
    for page_id, change in sorted(batch.pages.items()):
        signals = change.signals
        if change.state is None:
            if signals is not None:
                signalled.append((page_id, *signals.every))
            continue
        times = (
            page_id, change.attempt, change.success, change.failures, change.crawls, change.changes, change.failed
        )  # fmt: skip
        row = (
            *times, change.state.value, change.first_success, change.change, change.still, change.gone_since,
            change.title, change.language, change.content_type, change.turned_away,
        )  # fmt: skip
        timed.append(times)
        crawled.append(row)
        if signals is None:
            quiet.append(row)
        else:
            counts = (*signals.every, *signals.since_first, *signals.floor, *signals.shift)
            met.append((*row, *counts))
            answered.append((page_id, change.success, *counts))
    if at_once:
        return [Part(UPDATE_QUIET, quiet, each=True), Part(UPDATE, met, each=True), Part(COUNT_SIGNALS, signalled)]
    return [
        Part(UPDATE_SIGNALS, answered),  # before the first success is written
        Part(UPDATE_TIMES, timed),
        Part(UPDATE_FINDINGS, crawled),
        Part(COUNT_SIGNALS, signalled),
    ]


COPY_CRAWLS, COPY_SIGNALS = Copying(tables.crawls, CRAWL), Copying(tables.signals, SIGNAL)


async def write_new(connection: AsyncConnection, batch: Batch) -> list[Part]:
    """Copies what a batch only adds, before its transaction takes any lock (see `Copying`); the few rows left."""
    left = []
    for copying, rows in ((COPY_CRAWLS, batch.crawls), (COPY_SIGNALS, batch.signals)):
        if not await copying.run(connection, rows):
            left.append(Part(copying.inserting, rows))
    return left


async def write_pages(
    connection: AsyncConnection, batch: Batch, more: Sequence[Part]
) -> tuple[Returned, list[tuple[Any, ...]]]:
    """Write what a batch does to pages, and more beside it; what that returned, and the changes to tell of."""
    at_once = connection.dialect.name in AT_ONCE  # then the pages are looked at as they are before
    changed = []  # pages of which it matters whether they were gone before the batch
    for page, _, verdict, *_ in batch.changes:
        if verdict == Verdict.CHANGED.value:
            changed.append((page,))
    gone: set[int] = set()
    if changed and not at_once:
        chosen, given = among(connection.dialect.name, _page.id, list(chain(*changed)))
        gone.update(await connection.scalars(select(_page.id).where(chosen, _page.gone_since.is_not(None)), given))
    parts = [
        *more,
        Part(GONE_AMONG, changed if at_once else ()),
        *_page_parts(batch, at_once=at_once),
        Part(PUT_VERSIONS, list(map(version_row, batch.memories.values()))),
    ]
    found = await run_together(connection, parts)
    return found, told_changes(batch, gone.union(found.get(GONE_AMONG, ())))


def told_changes(batch: Batch, gone: set[int]) -> list[tuple[Any, ...]]:
    """Change rows of a batch, not yet numbered: a page that was `gone` when it was seen last is back."""
    told = []
    for page, at, verdict, *others in batch.changes:
        back = page in gone and verdict not in {Verdict.GONE.value, ChangeVerdict.MOVED.value}
        if verdict == Verdict.GONE.value:
            gone.add(page)
        elif back:
            gone.discard(page)
        told.append((page, at, ChangeVerdict.BACK.value if back else verdict, *others))
    return told


# The copies of pages, each with the change that brought it as its version.

_page, _body = tables.pages.c, tables.bodies.c
WITHOUT_COPY = tuple(
    verdict.value for verdict in (ChangeVerdict.GONE, ChangeVerdict.MOVED, ChangeVerdict.REMOVED, ChangeVerdict.USAGE)
)
"""Verdicts of changes that brought no copy."""
BROUGHT = f"SELECT max(changes.id) FROM changes WHERE changes.page_id = {{0}} AND changes.verdict NOT IN {WITHOUT_COPY}"
"""The last change of a page that brought a copy: the version of one of which nothing else is known."""
_COPY = "page_id bigint, at double precision, content_type text, size bigint, zstd bytea"
_LATEST_BODY = "(SELECT max(latest.id) FROM bodies latest WHERE latest.page_id = :page_id)"
_INSERT_CHANGES = inserting(tables.changes, "id", *CHANGE)
_INSERT_BODIES = ForRows(
    f"{_COPY}, version bigint",
    "INSERT INTO bodies (page_id, at, content_type, size, zstd, version) SELECT :page_id, :at, :content_type, :size, "
    f":zstd, coalesce(:version, ({BROUGHT.format(':page_id')})) {{FROM given}} WHERE true",
)
_RENEW = ForRows(
    _COPY,
    "UPDATE bodies SET at = :at, content_type = :content_type, size = :size, zstd = :zstd, "
    f"version = coalesce(bodies.version, ({BROUGHT.format(':page_id')})) {{FROM given}} "
    f"WHERE bodies.id = {_LATEST_BODY}",
)
_FORGET_BODIES = ForRows("page_id bigint", "DELETE FROM bodies {USING given} WHERE bodies.page_id = :page_id")
_FORGET_EARLIER_BODIES = ForRows(
    "page_id bigint",
    f"DELETE FROM bodies {{USING given}} WHERE bodies.page_id = :page_id AND bodies.id < {_LATEST_BODY}",
)


async def _renew(connection: AsyncConnection, bodies: Sequence[StoredBody]) -> set[int]:
    """Write copies that no change brought in the place of those before; the pages that had one."""
    chosen, given = among(connection.dialect.name, _body.page_id, [body.page_id for body in bodies])
    there = set(await connection.scalars(select(_body.page_id).where(chosen).distinct(), given))
    await _RENEW.run(connection, [body[: len(_RENEW.columns)] for body in bodies if body.page_id in there])
    return there


async def write_changes(
    connection: AsyncConnection, told: Sequence[tuple[Any, ...]], bodies: Sequence[StoredBody], scope: WriteScope | None
) -> None:
    """Write changes and copies at the end of a transaction; a copy names the change that brought it by its place."""
    if scope is not None and told:
        await scope.write_changes(connection, told, bodies)
        return
    first = 1 + await newest_change(connection) if told else 0
    await _INSERT_CHANGES.run(connection, [(first + at, *row) for at, row in enumerate(told)])
    copies = [(*copy, None if change is None else first + change) for *copy, change in bodies]
    await _INSERT_BODIES.run(connection, copies)


# What is known of hosts and the rest, by names: written over what was known.

_HOST = [column.name for column in tables.hosts.columns if column.name not in {"id", "name"}]
_UPDATE_HOSTS = ForRows(
    "id bigint, blocked_until double precision, failures bigint, crawl_delay double precision, "
    "delay double precision, blocked boolean, distrust_304_until double precision, asked_until double precision",
    f"UPDATE hosts SET {', '.join(f'{name} = :{name}' for name in _HOST)} {{FROM given}} WHERE hosts.id = :id",
)
_ALIAS = ForRows(
    "id bigint, other bigint, why text",
    f"UPDATE pages SET alias_of = :other, alias_why = :why {_OF_PAGE} AND pages.state <> 'retired'",
)
_ALIAS_OF_ALIAS = ForRows(
    "id bigint, other bigint", "UPDATE pages SET alias_of = :other {FROM given} WHERE pages.alias_of = :id"
)
"""Other addresses of a page that turned out to be another address itself are addresses of the same page."""
_ADD_COUNTS = on_conflict(tables.signal_counts, "{1}.{0} + excluded.{0}")
_COUNT_SIGNALS_BY_SOURCE = ForRows(  # several pages may have one host
    "id bigint, source text, signals bigint, stale bigint",
    "INSERT INTO signal_counts (host_id, source, polls, signals, stale, site_events) SELECT pages.host_id, :source, 0, "
    "CAST(sum(:signals) AS bigint), CAST(sum(:stale) AS bigint), 0 FROM pages {, given} WHERE pages.id = :id "
    f"GROUP BY 1, 2 ORDER BY 1, 2 {_ADD_COUNTS}",
)
_COUNT_POLLS = ForRows(
    "host text, source text, polls bigint, events bigint",
    "INSERT INTO signal_counts (host_id, source, polls, signals, stale, site_events) SELECT hosts.id, :source, :polls, "
    f"0, 0, :events FROM hosts {{, given}} WHERE hosts.name = :host ORDER BY hosts.id {_ADD_COUNTS}",
)
_ADD_GAINS = of_host(tables.signal_gains, "{1}.{0} + excluded.{0}")
_PUT_FRAME_CHANGES = of_host(tables.frame_changes)
_PUT_POINTS, _PUT_SLOTS = replacing(tables.freshness_history), replacing(tables.slot_history)
_ADD_CALIBRATION = adding(tables.calibration_days)


async def write(
    connection: AsyncConnection,
    batch: Batch,
    bodies: Sequence[StoredBody],
    told: Sequence[tuple[Any, ...]],
    *,
    only_latest: bool,
    scope: WriteScope | None = None,
) -> None:
    """Run the rest of a batch inside the connection's transaction; `bodies` are its bodies, compressed.

    Rows that writers of several shards share, the counts of a day and the number of the last change, come last.
    """
    if batch.others:
        await _write_others(connection, batch, scope)
    if renewing := [body for body in bodies if body.change is None]:
        renewed = await _renew(connection, renewing)
        told_at = {page: at for at, (page, _, verdict, *_) in enumerate(told) if verdict not in WITHOUT_COPY}
        bodies = [
            body if body.change is not None else body._replace(change=told_at.get(body.page_id))
            for body in bodies
            if body.change is not None or body.page_id not in renewed
        ]
        if only_latest:
            await _FORGET_EARLIER_BODIES.run(connection, [(page,) for page in sorted(renewed)])
    if only_latest:
        await _FORGET_BODIES.run(connection, [(body.page_id,) for body in bodies])
    if batch.calibration:
        await _ADD_CALIBRATION.run(connection, [(*key, *counts) for key, counts in sorted(batch.calibration.items())])
    if told or bodies:
        await write_changes(connection, told, bodies, scope)
    if batch.unarchived:
        await _FORGET_EARLIER_BODIES.run(connection, [(page,) for page in sorted(batch.unarchived)])


async def _write_others(connection: AsyncConnection, batch: Batch, scope: WriteScope | None) -> None:
    """Write what is known of hosts, signals, files and other addresses, and the points of histories."""
    numbering = OneWriter() if scope is None else scope.numbering
    known = await know_hosts(connection, numbering, [*batch.hosts, *(poll.file.host for poll in batch.polls)])
    hosts = [asdict(host) | {"id": known[host.name]} for host in batch.hosts.values()]
    await _UPDATE_HOSTS.run(connection, sorted(_UPDATE_HOSTS.rows(hosts)))
    await PUT_ROBOTS.run(connection, PUT_ROBOTS.rows(map(robots_row, batch.robots.values())))
    await _COUNT_SIGNALS_BY_SOURCE.run(connection, _signal_counts(batch))
    aliases = [(page_id, alias.of, alias.why or None) for page_id, alias in sorted(batch.aliases.items())]
    await _ALIAS.run(connection, aliases)
    await _ALIAS_OF_ALIAS.run(connection, [(page_id, of) for page_id, of, _ in aliases if of is not None])
    await _write_polls(connection, batch.polls)
    await _ADD_GAINS.run(connection, [(*key, *numbers) for key, numbers in sorted(batch.gains.items())])
    await _PUT_FRAME_CHANGES.run(connection, _PUT_FRAME_CHANGES.rows(map(asdict, batch.frame_changes.values())))
    await _write_points(connection, batch.points.values())


async def _write_points(connection: AsyncConnection, points: Collection[FreshnessPoint]) -> None:
    """Keep the freshness of some moments, and what became of the slots before each."""
    await _PUT_POINTS.run(connection, _PUT_POINTS.rows(map(asdict, points)))
    spent = [(TICK, point.at, use, outcome, count) for point in points for (use, outcome), count in point.slots.items()]
    await _PUT_SLOTS.run(connection, spent)


async def _write_polls(connection: AsyncConnection, polls: Sequence[Poll]) -> None:
    """Keep each file's latest state, and count its polls for its host, which may have no page."""
    files = {poll.file.url: poll.file for poll in polls}
    rows: list[Mapping[str, Any]] = [
        asdict(file) | {"source": file.source.value, "state": compress(file.state)} for file in files.values()
    ]
    await PUT_SOURCES.run(connection, PUT_SOURCES.rows(rows))
    count, events = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for poll in polls:
        key = poll.file.host, poll.file.source.value
        count[key] += poll.polls
        events[key] += poll.site_events
    await _COUNT_POLLS.run(connection, [(*key, polled, events[key]) for key, polled in count.items()])


def _signal_counts(batch: Batch) -> list[tuple[int, str, int, int]]:
    every, stale = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for page_id, source, _, _, is_stale in batch.signals:
        every[page_id, source] += 1
        stale[page_id, source] += is_stale
    return [(*key, count, stale[key]) for key, count in every.items()]
