"""Aliases as they are stored, on both databases: what consumers see of them, and what a restart brings back."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from crawld.model.clock import SystemClock
from crawld.model.crawl import ChangeVerdict, Verdict
from crawld.model.page import FROM_MOVE, Alias, PageState
from crawld.store.read_model import SqlReadModel
from crawld.store.report import Reader
from crawld.store.store import SqlStore
from crawld.store.views import Copy, PageQuery
from tests.support.store_builders import NOW, memory, record, rows, wanted

URL = "https://example.org/{}"
MOVED = Alias(2, URL.format("b"), "it redirects there permanently")


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """A store with two pages that have been crawled."""
    store = SqlStore(store_url)
    await store.start()
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    for page in (1, 2):
        store.record(record(page, Verdict.NEW, memory=memory(page), body=b"copy %d" % page))
    await store.flush()
    yield store
    await store.close()


async def test_an_alias_is_told_once_and_seen_nowhere(store: SqlStore, store_url: str) -> None:
    """Lists, counts and copies know one page; the change names both addresses, and a restart knows the alias."""
    store.record(record(1, state=PageState.ALIAS, alias=MOVED, at=NOW + 1))
    await store.flush()
    async with SqlReadModel(store_url, SystemClock()) as model, Reader(store_url) as reader:
        assert [line.url for line in (await model.pages(PageQuery())).pages] == [MOVED.url]
        assert [line.url for line in (await model.pages(PageQuery(state=PageState.ALIAS))).pages] == [URL.format("a")]
        overview, overall = await model.overview(), await reader.overall()
        assert (overview.pages, overall.pages, overall.states["alias"]) == (1, 1, 1)
        assert [row.pages for row in await reader.host_stats()] == [1]
        assert [row.url for row in await reader.page_stats()] == [MOVED.url]
        copy = await model.copy(URL.format("a"))
        assert isinstance(copy, Copy)
        assert (copy.url, copy.body) == (MOVED.url, b"copy 2")
        last = (await model.changes(0)).changes[-1]
        assert (last.verdict, last.moved_from, last.moved_to) == (ChangeVerdict.MOVED, URL.format("a"), MOVED.url)
        assert last.document() | {"from": URL.format("a"), "to": MOVED.url} == last.document()
        view, kept = await model.page(URL.format("a")), await model.page(URL.format("b"))
        assert view is not None
        assert kept is not None
        assert (view.alias_of, view.alias_why, list(kept.aliases)) == (MOVED.url, MOVED.why, [URL.format("a")])
    assert list((await store.restore()).alias_of) == [2, None]


async def test_an_alias_that_ends_is_back(store: SqlStore, store_url: str) -> None:
    """Also where it is what it was before it moved, whoever follows the changes is told that it has a document."""
    store.record(record(1, state=PageState.ALIAS, alias=MOVED, at=NOW + 1))
    store.record(record(1, alias=Alias(None), at=NOW + 2))
    store.record(record(2, Verdict.CHANGED, state=PageState.ALIAS, alias=Alias(1, URL.format("a")), at=NOW + 3))
    store.record(record(2, Verdict.CHANGED, alias=Alias(None), body=b"newer", at=NOW + 4))
    await store.flush()
    told = await rows(store_url, "SELECT page_id, verdict, moved_to FROM changes WHERE id > 2 ORDER BY id")
    assert told == [
        (1, "moved", URL.format("b")),
        (1, "back", None),
        (2, "changed", None),
        (2, "moved", URL.format("a")),
        (2, "back", None),
    ]
    assert await rows(store_url, "SELECT alias_of, state FROM pages ORDER BY id") == [(None, "live"), (None, "live")]
    assert await rows(store_url, "SELECT max(version) FROM bodies WHERE page_id = 2") == [(7,)]


async def test_an_alias_of_an_alias_is_one_of_its_page(store: SqlStore, store_url: str) -> None:
    """Where a page with other addresses turns out to be one itself, they stand for the page that is kept."""
    await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
    store.record(record(1, state=PageState.ALIAS, alias=MOVED))
    await store.flush()
    store.record(record(2, state=PageState.ALIAS, alias=Alias(3, URL.format("c"))))
    await store.flush()
    assert await rows(store_url, "SELECT alias_of FROM pages ORDER BY id") == [(3,), (3,), (None,)]


async def test_retiring_forgets_what_was_an_alias(store: SqlStore, store_url: str) -> None:
    """A retired alias comes back as a page; of pages only those go that nobody but a moved page wanted."""
    store.record(record(1, state=PageState.ALIAS, alias=MOVED))
    await store.flush()
    await store.adopt(wanted("moved"), origin=FROM_MOVE, now=NOW, complete=False)
    assert [page.id for page in await store.retire_moved([1, 2, 3], now=NOW)] == [3]
    await store.retire([URL.format("a")], now=NOW)
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    assert await rows(store_url, "SELECT alias_of, state FROM pages ORDER BY id") == [
        (None, "live"),
        (None, "live"),
        (None, "retired"),
    ]


async def test_memories_keep_the_addresses_that_belong_to_them(store: SqlStore, store_url: str) -> None:
    """The address that answered and the canonical one come back with the rest of what is remembered."""
    kept = replace(memory(1), answered=URL.format("x"), canonical=URL.format("y"))
    store.record(record(1, memory=kept))
    await store.close()
    again = SqlStore(store_url)  # which has nothing in memory
    await again.start()
    try:
        assert await again.recall(1) == kept
    finally:
        await again.close()
