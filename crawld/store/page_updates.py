"""What a batch does to the rows of pages: what their crawls found, and how many signals came."""

from typing import Any

from sqlalchemy import BigInteger, Boolean, ColumnElement, Double, Text, Update, case, func, literal_column, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from crawld.model.page import PageState
from crawld.store import tables
from crawld.store.batch import Batch, PageChange, storable
from crawld.store.for_rows import ForRows, Given
from crawld.store.tables import by_source

_PENDING, _COUNTED = by_source("pending"), by_source("counted")
_EVERY, _SINCE_FIRST, _FLOOR, _SHIFT = map(by_source, ("every", "since_first", "floor", "shift"))
_RETIRED: ColumnElement[str] = literal_column(f"'{PageState.RETIRED.value}'")


def _counts(*names: str) -> dict[str, TypeEngine[Any]]:
    return {name: BigInteger() for name in names}


_CRAWLED: dict[str, TypeEngine[Any]] = {
    "id": BigInteger(),
    "state": Text(),
    "attempt": Double(),
    "success": Double(),
    "first": Double(),
    "change": Double(),
    "still": Boolean(),
    "gone": Double(),
    "title": Text(),
    "language": Text(),
    "content_type": Text(),
    "turned_away": Text(),
    **_counts("failures", "crawls", "changes", "failed"),
}


def _crawled(given: Given, more: dict[str, Any]) -> Update:
    """The page's row after its crawls; a page retired meanwhile stays retired."""
    page = tables.pages.c
    values: dict[str, Any] = {
        "state": case((page.state == _RETIRED, page.state), else_=given["state"]),
        "last_attempt": given["attempt"],
        "last_success": func.coalesce(given["success"], page.last_success),
        "first_success": func.coalesce(page.first_success, given["first"]),
        "last_change_at": func.coalesce(given["change"], page.last_change_at),
        "gone_since": case((given["still"], page.gone_since), else_=given["gone"]),
        "title": func.coalesce(given["title"], page.title),
        "language": func.coalesce(given["language"], page.language),
        "content_type": func.coalesce(given["content_type"], page.content_type),
        "dirty_since": func.coalesce(page.dirty_since, given["success"]),
        "turned_away": given["turned_away"],
        "failures": given["failures"],
        "crawls": page.crawls + given["crawls"],
        "changes": page.changes + given["changes"],
        "failed": page.failed + given["failed"],
    }
    return update(tables.pages).where(page.id == given["id"]).values(values | more)


def _signalled(given: Given) -> dict[str, Any]:
    """The counts of signals after the page's crawls, some of which answered some of them."""
    page = tables.pages.c
    values: dict[str, Any] = {}
    for i, (pending, counted) in enumerate(zip(_PENDING, _COUNTED, strict=True)):
        shifted, floor = page[pending] + given[_SHIFT[i]], given[_FLOOR[i]]
        values[pending] = case((shifted > floor, shifted), else_=floor)
        values[counted] = case(
            (given["success"].is_not(None) & page.first_success.is_(None), given[_SINCE_FIRST[i]]),
            else_=page[counted] + given[_EVERY[i]],
        )
    return values


def _count_signals(given: Given) -> Update:
    page = tables.pages.c
    values: dict[str, Any] = {}
    for every, pending, counted in zip(_EVERY, _PENDING, _COUNTED, strict=True):
        values |= {pending: page[pending] + given[every], counted: page[counted] + given[every]}
    return update(tables.pages).where(page.id == given["id"]).values(values)


UPDATE_QUIET = ForRows(_CRAWLED, lambda given: _crawled(given, {}))
"""Most crawls meet no signal, and then most of a page's columns stay as they are."""
UPDATE = ForRows(
    _CRAWLED | _counts(*_EVERY, *_SINCE_FIRST, *_FLOOR, *_SHIFT),
    lambda given: _crawled(given, _signalled(given)),
)
_ALIAS: dict[str, TypeEngine[Any]] = {"id": BigInteger(), "of": BigInteger(), "why": Text()}
ALIAS = ForRows(
    _ALIAS,
    lambda given: update(tables.pages).where(tables.pages.c.id == given["id"], tables.pages.c.state != _RETIRED)
    .values(alias_of=given["of"], alias_why=given["why"]),
)  # fmt: skip
ALIAS_OF_ALIAS = ForRows(
    _ALIAS,
    lambda given: update(tables.pages).where(tables.pages.c.alias_of == given["id"]).values(alias_of=given["of"]),
)
"""Other addresses of a page that turned out to be another address itself are addresses of the same page."""
COUNT_SIGNALS = ForRows({"id": BigInteger()} | _counts(*_EVERY), _count_signals)


def _crawl_fields(page_id: int, change: PageChange) -> tuple[Any, ...]:
    return (
        page_id,
        change.state and change.state.value,
        change.attempt,
        change.success,
        change.first_success,
        change.change,
        change.still,
        change.gone_since,
        storable(change.title),
        storable(change.language),
        storable(change.content_type),
        change.turned_away,
        change.failures,
        change.crawls,
        change.changes,
        change.failed,
    )


async def update_pages(connection: AsyncConnection, batch: Batch) -> None:
    """Update the pages of a batch, in the order of their ids: others that update several do not wait in a circle."""
    quiet, met, signalled = [], [], []
    for page_id, change in sorted(batch.pages.items()):
        signals = change.signals
        if change.state is None:
            if signals is not None:
                signalled.append((page_id, *signals.every))
        elif signals is None:
            quiet.append(_crawl_fields(page_id, change))
        else:
            counts = (*signals.every, *signals.since_first, *signals.floor, *signals.shift)
            met.append((*_crawl_fields(page_id, change), *counts))
    await UPDATE_QUIET.run(connection, quiet, each=True)
    await UPDATE.run(connection, met, each=True)
    await COUNT_SIGNALS.run(connection, signalled)
    aliases = [(page_id, alias.of, alias.why or None) for page_id, alias in sorted(batch.aliases.items())]
    await ALIAS.run(connection, aliases)
    await ALIAS_OF_ALIAS.run(connection, [row for row in aliases if row[1] is not None])
