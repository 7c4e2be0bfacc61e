"""Changes as they are written: numbered in the order of commits, so that a number is a cursor.

One connection writes, one transaction after the other, and each takes the numbers after the last one that is there.
The workers of a fleet take them from a counter whose row stays locked until their transaction ends. So whoever has seen
a number has seen every smaller one, also on PostgreSQL, and no number is left out.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.crawl import ChangeVerdict, Verdict
from crawld.store import tables
from crawld.store.in_values import among
from crawld.store.records.numbering import OneWriter, WriteScope
from crawld.store.writing.batch import Batch
from crawld.store.writing.for_rows import inserting

Rows = list[dict[str, Any]]
WITHOUT_COPY = tuple(
    verdict.value for verdict in (ChangeVerdict.GONE, ChangeVerdict.MOVED, ChangeVerdict.REMOVED, ChangeVerdict.USAGE)
)
"""Verdicts of changes that brought no copy."""
_FIELDS = ("page_id", "at", "verdict", "magnitude", "moved_to")
_INSERT = inserting(tables.changes, "id", *_FIELDS)


class ChangeSignal:
    """Wakes whoever waits for changes when some are committed."""

    def __init__(self) -> None:
        self._committed = asyncio.Event()

    def tell(self) -> None:
        """Changes were committed."""
        self._committed.set()
        self._committed = asyncio.Event()

    def next(self) -> asyncio.Event:
        """An event that is set at the next commit: take it before looking at the database."""
        return self._committed


async def told_changes(connection: AsyncConnection, batch: Batch) -> Rows:
    """The rows of a batch's changes but for their numbers, made before its pages are updated."""
    changed = [int(row["page_id"]) for row in batch.changes if row["verdict"] == Verdict.CHANGED.value]
    return _told(batch.changes, await _gone_among(connection, changed))


async def write_changes(connection: AsyncConnection, told: Rows, scope: WriteScope | None) -> int:
    """Write changes at the end of a transaction; the number of the first."""
    first = await (OneWriter() if scope is None else scope.numbering).first_change(connection, len(told))
    rows = [(first + at, *(row[name] for name in _FIELDS)) for at, row in enumerate(told)]
    await _INSERT.run(connection, rows)
    return first


def _told(changes: Sequence[Mapping[str, Any]], gone: set[int]) -> Rows:
    """The changes with their verdicts for others: a page that was gone when it was seen last is back."""
    found: Rows = []
    for row in changes:
        page, verdict = int(row["page_id"]), row["verdict"]
        if verdict == Verdict.GONE.value:
            gone.add(page)
        elif page in gone and verdict != ChangeVerdict.MOVED.value:
            gone.discard(page)
            verdict = ChangeVerdict.BACK.value
        found.append({**row, "verdict": verdict})
    return found


async def _gone_among(connection: AsyncConnection, pages: Sequence[int]) -> set[int]:
    if not pages:
        return set()
    page = tables.pages.c
    chosen, parameters = among(connection.dialect.name, page.id, pages)
    rows = await connection.scalars(select(page.id).where(chosen, page.gone_since.is_not(None)), parameters)
    return set(rows.all())


class Renewed:
    """The versions that bodies renew which no change brought: each stays the version it was."""

    def __init__(self, pages: Sequence[int]) -> None:
        self._pages = pages
        self._kept: dict[int, int] = {}
        self._changed: dict[int, int] = {}

    async def read(self, connection: AsyncConnection) -> None:
        """Look at the copies, before any is deleted, and at the changes so far."""
        if not self._pages:
            return
        body, change = tables.bodies.c, tables.changes.c
        self._kept = await _latest(connection, self._pages, body.version, body.page_id, body.version.is_not(None))
        told = change.verdict.not_in(WITHOUT_COPY)
        self._changed = await _latest(connection, self._pages, change.id, change.page_id, told)

    def add(self, told: Rows, first: int) -> None:
        """These changes were written, numbered from `first` on."""
        for at, row in enumerate(told):
            if row["verdict"] not in WITHOUT_COPY:
                self._changed[row["page_id"]] = first + at

    def version(self, page: int) -> int | None:
        """The version of a page's latest copy; None where that is no longer known."""
        return self._kept.get(page, self._changed.get(page))


async def _latest(
    connection: AsyncConnection, pages: Sequence[int], number: Column[int], of: Column[int], where: ColumnElement[bool]
) -> dict[int, int]:
    chosen, parameters = among(connection.dialect.name, of, pages)
    rows = await connection.execute(select(of, func.max(number)).where(chosen, where).group_by(of), parameters)
    return {int(page): int(version) for page, version in rows}
