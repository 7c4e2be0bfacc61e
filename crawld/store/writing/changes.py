"""Changes as they are written: numbered in the order of commits, so that a number is a cursor.

One connection writes, one transaction after the other, and each takes the numbers after the last one that is there.
So whoever has seen a number has seen every smaller one, also on PostgreSQL, and no number is left out.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.crawl import ChangeVerdict, Verdict
from crawld.store import tables
from crawld.store.in_values import among
from crawld.store.writing.batch import Batch
from crawld.store.writing.bulk import run
from crawld.store.writing.upserts import plain

Rows = list[dict[str, Any]]


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


async def write_changes(connection: AsyncConnection, batch: Batch) -> int:
    """Write a batch's changes, before its pages are updated; the number of the first."""
    first = 1 + int(await connection.scalar(select(func.coalesce(func.max(tables.changes.c.id), 0))) or 0)
    changed = [int(row["page_id"]) for row in batch.changes if row["verdict"] == Verdict.CHANGED.value]
    told = _told(batch.changes, await _gone_among(connection, changed))
    await run(connection, plain(tables.changes), [{"id": first + at, **row} for at, row in enumerate(told)])
    return first


def _told(changes: Sequence[Mapping[str, Any]], gone: set[int]) -> Rows:
    """The changes with their verdicts for others: a page that was gone when it was seen last is back."""
    found: Rows = []
    for row in changes:
        page, verdict = int(row["page_id"]), row["verdict"]
        if verdict == Verdict.GONE.value:
            gone.add(page)
        elif page in gone:
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


async def name_versions(connection: AsyncConnection, bodies: Rows, first: int) -> None:
    """Give each body the number of the change that brought it; one that is renewed stays the version it was."""
    renewed = [row["page_id"] for row in bodies if row["change"] is None]
    known = await _latest_versions(connection, renewed) if renewed else {}
    for row in bodies:
        change = row.pop("change")
        row["version"] = known.get(row["page_id"]) if change is None else first + change


async def _latest_versions(connection: AsyncConnection, pages: Sequence[int]) -> dict[int, int]:
    body, change = tables.bodies.c, tables.changes.c
    found: dict[int, int] = {}
    for number, of, where in (
        (change.id, change.page_id, change.verdict != ChangeVerdict.GONE.value),
        (body.version, body.page_id, body.version.is_not(None)),
    ):
        chosen, parameters = among(connection.dialect.name, of, pages)
        rows = await connection.execute(select(of, func.max(number)).where(chosen, where).group_by(of), parameters)
        found |= {int(page): int(version) for page, version in rows}
    return found
