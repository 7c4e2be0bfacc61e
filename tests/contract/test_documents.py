"""Documents and their index, on SQLite and on PostgreSQL alike."""

from collections.abc import AsyncIterator

import pytest

from crawld.model.clock import SystemClock
from crawld.model.crawl import Verdict
from crawld.model.errors import InputError, StoreError
from crawld.model.page import Document, Wanted
from crawld.store.documents import PendingCopy
from crawld.store.read_model import SqlReadModel
from crawld.store.store import SqlStore
from tests.support.store_builders import NOW, memory, record, wanted

TEXTS = {
    "a": ("Relay guide", "The relay forwards every connection. Rate limits are per host."),
    "b": ("Harbour", "The wall was rebuilt; the relay race was won. A limit on the rate of boats."),
    "c": ("堤防", "市内を流れる川の堤防が改修される。"),
}


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """A started store with three pages, each with a copy."""
    store = SqlStore(store_url, keep_bodies="changes")
    await store.start()
    await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
    for page in (1, 2, 3):
        store.record(record(page, Verdict.NEW, body=b"<p>x</p>", memory=memory(page)))
    await store.flush()
    yield store
    await store.close()


async def keep(store: SqlStore, copies: list[PendingCopy], cursor: int | None = None) -> None:
    """Keep a document of each copy."""
    texts = {copy.page_id: TEXTS[copy.url[-1]] for copy in copies}
    made = [(one, Document(texts[one.page_id][1], "md", texts[one.page_id][0], "en", one.url)) for one in copies]
    await store.save_documents(made, cursor, search=True)


async def test_documents_follow_changes(store: SqlStore, store_url: str) -> None:
    """Copies wait until they are documents, which are found by version; those of pages that left are forgotten."""
    assert await store.prepare_documents(search=True) is None
    pending = list(await store.pending_copies(0, by_page=True))
    assert [(one.page_id, one.version, one.body) for one in pending] == [(n, n, b"<p>x</p>") for n in (1, 2, 3)]
    await keep(store, pending, 3)
    assert await store.prepare_documents(search=True) == 3
    assert [one.body for one in await store.pending_copies(0, by_page=False)] == [None, None, None]
    assert await store.pending_copies(3, by_page=False) == []
    store.record(record(1, Verdict.CHANGED, at=NOW + 9, body=b"<p>y</p>", memory=memory(1), magnitude=0.5))
    await store.flush()
    changed = list(await store.pending_copies(3, by_page=False))
    assert [(one.number, one.page_id, one.version, one.body) for one in changed] == [(4, 1, 4, b"<p>y</p>")]
    await keep(store, changed, 4)
    async with SqlReadModel(store_url, SystemClock()) as model:
        found = await model.documents([1, 2, 4])
        assert {number: one.title for number, one in found.items()} == {2: "Harbour", 4: "Relay guide"}
        assert {number: one.body for number, one in (await model.version_bodies([1, 4, 9])).items()} == {
            1: b"<p>x</p>", 4: b"<p>y</p>",
        }  # fmt: skip
        await store.retire(["https://example.org/a"], now=NOW + 10)
        assert await store.tidy_documents(search=True) == 1
        assert await store.tidy_documents(search=True) == 0
        assert list(await model.documents([4])) == []
        assert [hit.url[-1] for hit in await model.search("relay")] == ["b"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("relay", "ab"),
        ("RELAY connection", "a"),
        ('"rate limits"', "a"),
        ('"limit on the rate"', "b"),
        ("relay -wall", "a"),
        ("lim*", "ab"),
        ("rebuil* race", "b"),
        ("堤防", "c"),
        ("流れる川", "c"),
        ("防堤", ""),
        ("nothing", ""),
        ("o'relay* NEAR(", ""),
    ],
)
async def test_search(store: SqlStore, store_url: str, words: str, found: str) -> None:
    """All words must be there; phrases, beginnings and exclusions work, also where words have no spaces between."""
    await store.prepare_documents(search=True)
    await keep(store, list(await store.pending_copies(0, by_page=True)))
    async with SqlReadModel(store_url, SystemClock()) as model:
        assert "".join(sorted(hit.url[-1] for hit in await model.search(words))) == found


async def test_ranking_and_switching(store: SqlStore, store_url: str) -> None:
    """A word in the title counts more, a host narrows, and the index goes and comes back with the setting."""
    await store.prepare_documents(search=True)
    await keep(store, list(await store.pending_copies(0, by_page=True)))
    async with SqlReadModel(store_url, SystemClock()) as model:
        hits = await model.search("relay")
        assert [hit.url[-1] for hit in hits] == ["a", "b"]
        assert hits[0].score > hits[1].score
        assert [hits[0].snippet[begin:end] for begin, end in hits[0].marks] == ["relay"]
        assert await model.search("relay", host="other.example") == []
        await store.prepare_documents(search=False)
        with pytest.raises(InputError, match="search: true"):
            await model.search("relay")
        await store.prepare_documents(search=True)
        assert await store.tidy_documents(search=True) == 3
        assert len(await model.search("relay", limit=1)) == 1


async def test_a_host_with_few_of_many_hits_is_found(store: SqlStore, store_url: str) -> None:
    """A page of the wanted host is found however many pages of other hosts hold the words more often."""
    others = [Wanted(f"https://other.example/{number}", 1.0) for number in range(150)]
    await store.adopt(others, origin="api", now=NOW, complete=False)
    for page in range(4, 154):
        store.record(record(page, Verdict.NEW, body=b"<p>x</p>", memory=memory(page)))
    await store.flush()
    await store.prepare_documents(search=True)
    page = 0
    while pending := list(await store.pending_copies(page, by_page=True)):
        page = pending[-1].number
        made = [(one, Document("relay", "md", "Relay relay", "en", one.url)) for one in pending if one.page_id > 3]
        await store.save_documents(made, None, search=True)
        await keep(store, [one for one in pending if one.page_id <= 3])
    async with SqlReadModel(store_url, SystemClock()) as model:
        assert {hit.host for hit in await model.search("relay", limit=1)} == {"other.example"}
        hits = await model.search("relay", limit=5, host="example.org")
        assert [hit.url[-1] for hit in hits] == ["a", "b"]
    with pytest.raises(StoreError, match="stopping"):
        await model.search("relay")
