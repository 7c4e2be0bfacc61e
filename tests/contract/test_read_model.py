"""What people and programs read, on SQLite and on PostgreSQL alike."""

import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import numpy as np
import pytest

from crawld.model.clock import SystemClock
from crawld.model.crawl import ChangeVerdict, Verdict
from crawld.model.errors import InputError, StoreError
from crawld.model.estimate import Floats, Ints
from crawld.model.host import HostState
from crawld.model.page import PageState, Wanted
from crawld.show.dashboard.page import timeline
from crawld.store import changes as change_list
from crawld.store import page_list
from crawld.store.read_model import SqlReadModel
from crawld.store.retention import Retention
from crawld.store.store import SqlStore
from crawld.store.views import PageLine, PageQuery, PageSort
from tests.support.store_builders import NOW, by_source, estimate, memory, point, record, signal, wanted

URL = "https://example.org/{}"


class Held:
    """What a daemon would hold of its pages."""

    def __init__(self, fresh: dict[int, float], *, whole: bool = True) -> None:
        self.fresh, self.whole = fresh, whole

    def standings(self, page_ids: Sequence[int], at: float) -> Mapping[int, tuple[float, float | None]]:
        """As the daemon says it; the next crawl comes the sooner the less fresh a page is."""
        found = {page_id: self.fresh[page_id] for page_id in page_ids if page_id in self.fresh}
        return {page_id: (fresh, None if np.isnan(fresh) else at + fresh) for page_id, fresh in found.items()}

    def freshness(self, at: float) -> tuple[Ints, Floats]:
        """The same of all pages."""
        return np.array(list(self.fresh), dtype=np.int64), np.array(list(self.fresh.values()))


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """A started store that keeps versions."""
    store = SqlStore(store_url, keep_bodies="changes", retention=Retention(days=10_000, changes=4))
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def model(store_url: str) -> AsyncIterator[SqlReadModel]:
    """A reader of it."""
    async with SqlReadModel(store_url, SystemClock()) as model:
        yield model


async def walk(model: SqlReadModel, query: PageQuery) -> list[PageLine]:
    """The whole list, part by part."""
    found: list[PageLine] = []
    after: str | None = None
    while True:
        part = await model.pages(PageQuery(**{f: getattr(query, f) for f in query.__slots__} | {"after": after}))
        assert len(part.pages) <= query.limit
        found += part.pages
        if part.next is None:
            return found
        after = part.next


async def filled(store: SqlStore) -> None:
    """Twelve pages on two hosts, some crawled, some changed, one retired; ties in every order."""
    lines = [Wanted(URL.format(f"{'aB'[n % 2]}{n:02}"), float(n % 3 + 1)) for n in range(10)]
    await store.adopt([*lines, Wanted("http://other.example/100%_x", 9.0)], origin="list", now=NOW)
    for page_id in range(1, 8):
        store.record(record(page_id, Verdict.NEW, at=NOW + page_id % 4))
        await store.flush()
    for page_id in (2, 5):
        store.record(record(page_id, Verdict.CHANGED, at=NOW + 50, tau=1.0, magnitude=0.5))
    await store.flush()
    await store.retire([URL.format("B09")], now=NOW)


ORDERS: dict[PageSort, Callable[[PageLine], float | str | None]] = {
    PageSort.URL: lambda page: page.url,
    PageSort.IMPORTANCE: lambda page: page.importance,
    PageSort.LAST_CRAWL: lambda page: page.last_crawl_at,
    PageSort.LAST_CHANGE: lambda page: page.last_change_at,
}


@pytest.mark.parametrize("few", [0, 1_000])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", ORDERS)
async def test_every_page_comes_once_in_order(
    store: SqlStore, model: SqlReadModel, sort: PageSort, descending: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order, parts of three give each page once, those without a value last; filters leave others out."""
    monkeypatch.setattr(page_list, "LIMITS", dataclasses.replace(page_list.LIMITS, few=few))
    await filled(store)
    for given in ({}, {"host": "example.org"}, {"state": PageState.LIVE}, {"search": "RG/B"}):
        query = PageQuery(sort=sort, descending=descending, limit=3, **given)
        found = await walk(model, query)
        assert len({page.id for page in found}) == len(found)
        values = [ORDERS[sort](page) for page in found]
        known = [value for value in values if value is not None]
        assert values[: len(known)] == known
        if sort is not PageSort.URL:  # each database compares letters in its own way
            assert known == sorted(known, reverse=descending)
    assert len(found) == 4  # B01, B03, B05, B07
    everything = {page.url for page in await walk(model, PageQuery(limit=100))}
    assert len(everything) == 10
    assert URL.format("B09") not in everything
    assert [page.url for page in await walk(model, PageQuery(state=PageState.RETIRED))] == [URL.format("B09")]
    assert [page.url for page in await walk(model, PageQuery(search="0%_x"))] == ["http://other.example/100%_x"]
    assert await walk(model, PageQuery(host="nowhere.example")) == []


@pytest.mark.parametrize("few", [0, 1_000])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", [PageSort.FRESHNESS, PageSort.NEXT_CRAWL])
async def test_pages_by_what_the_daemon_holds(
    store: SqlStore, store_url: str, sort: PageSort, descending: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders that change with time come from memory, by the same parts and filters; unknown values come last."""
    monkeypatch.setattr(page_list, "LIMITS", dataclasses.replace(page_list.LIMITS, few=few))
    monkeypatch.setattr(page_list, "LIMITS", dataclasses.replace(page_list.LIMITS, looked_at=2))
    await filled(store)
    held = Held({n: [0.5, 0.25, 0.5, float("nan")][n % 4] for n in range(1, 10)})
    async with SqlReadModel(store_url, SystemClock(), live=held) as model:
        for given in ({}, {"host": "example.org"}, {"search": "rg/b"}):
            query = PageQuery(sort=sort, descending=descending, limit=2, **given)  # type: ignore[arg-type]
            found = await walk(model, query)
            assert len({page.id for page in found}) == len(found) == (4 if "search" in given else 9)
            values = [page.freshness for page in found if page.freshness == page.freshness]
            assert values == sorted(values, reverse=descending)  # type: ignore[type-var]  # none is None here


@pytest.mark.parametrize("few", [0, 1_000])
async def test_pages_of_other_workers_have_a_freshness(
    store: SqlStore, store_url: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of a fleet holds some pages; what the database computes of the others stands beside, and sorts all."""
    monkeypatch.setattr(page_list, "LIMITS", dataclasses.replace(page_list.LIMITS, few=few))
    await filled(store)
    held = Held({1: 0.5, 2: 0.25}, whole=False)
    async with SqlReadModel(store_url, SystemClock(), live=held) as model:
        pages = {page.id: page for page in await walk(model, PageQuery(limit=100))}
        assert (pages[1].freshness, pages[2].freshness) == (0.5, 0.25)
        assert all(page.freshness is not None for page in pages.values())
        for given in ({}, {"host": "example.org"}):
            found = await walk(model, PageQuery(sort=PageSort.FRESHNESS, limit=3, **given))  # type: ignore[arg-type]
            assert {page.id for page in found} == {
                page.id for page in pages.values() if not given or "example.org" in page.url
            }
        with pytest.raises(InputError, match="a fleet cannot sort pages by their next crawl"):
            await model.pages(PageQuery(sort=PageSort.NEXT_CRAWL))


async def test_a_cursor_of_another_list_is_refused(store: SqlStore, model: SqlReadModel) -> None:
    """A cursor belongs to one order, and what was not made here is no cursor."""
    await filled(store)
    cursor = (await model.pages(PageQuery(limit=1))).next
    with pytest.raises(InputError, match="not of this list"):
        await model.pages(PageQuery(descending=True, after=cursor))
    for wrong in ("", "x", "é", "W10", "bnVsbA", "A" * 20_000):
        with pytest.raises(InputError, match="not of this list"):
            await model.pages(PageQuery(after=wrong))
    with pytest.raises(InputError, match="only the running daemon"):
        await model.pages(PageQuery(sort=PageSort.FRESHNESS))


async def told(model: SqlReadModel, after: int = 0) -> Sequence[tuple[int, int, str]]:
    """Changes after a cursor, in brief."""
    return [(one.id, one.page_id, one.verdict.value) for one in (await model.changes(after)).changes]


async def test_changes_come_in_the_order_of_commits(store: SqlStore, model: SqlReadModel) -> None:
    """New, changed, gone and back again, each with its number; what stays as it was is no change."""
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    store.record(record(1, Verdict.NEW, at=NOW))
    store.record(record(2, Verdict.GONE, at=NOW + 1, state=PageState.GONE))
    await store.flush()
    store.record(record(1, Verdict.UNCHANGED, at=NOW + 2, tau=2.0))
    store.record(record(1, Verdict.GONE, at=NOW + 3, tau=1.0, state=PageState.GONE))
    store.record(record(1, Verdict.CHANGED, at=NOW + 4, tau=1.0, magnitude=1.0))
    await store.flush()
    store.record(record(2, Verdict.CHANGED, at=NOW + 5, tau=1.0, magnitude=1.0))
    store.record(record(1, Verdict.CHANGED, at=NOW + 6, tau=1.0, magnitude=0.25))
    store.record(record(1, Verdict.FAILED, at=NOW + 7))
    await store.flush()
    expected = [(1, 1, "new"), (2, 2, "gone"), (3, 1, "gone"), (4, 1, "back"), (5, 2, "back"), (6, 1, "changed")]
    assert await told(model) == expected
    assert await told(model, 4) == expected[4:]
    part = await model.changes(1, 2)
    assert ([one.id for one in part.changes], part.cursor, part.missed, part.first) == ([2, 3], 3, False, 1)
    last = await model.changes(6)
    assert (last.changes, last.cursor, last.missed) == ([], 6, False)
    with pytest.raises(InputError, match="the cursor 7 is beyond the newest change, 6"):
        await model.changes(7)
    one = (await model.changes(5)).changes[0]
    assert (one.url, one.at, one.verdict, one.magnitude) == (URL.format("a"), NOW + 6, ChangeVerdict.CHANGED, 0.25)
    assert [one.id for one in (await model.changes(0, url=URL.format("b"))).changes] == [2, 5]
    newest = await model.latest_changes(before=6, limit=2)
    assert ([one.id for one in newest.changes], newest.cursor) == ([5, 4], 6)
    hour = NOW // 3600 * 3600
    # Neither a first copy nor a page that was gone at the first visit has changed.
    assert sum((await model.change_counts(NOW, 3600.0)).values()) == 3
    assert set(await model.change_counts(NOW, 3600.0)) <= {hour, hour + 3600}
    # Nor has one that was taken off and put back.
    await store.retire([URL.format("a")], now=NOW + 8)
    await store.adopt(wanted("a", "b"), origin="list", now=NOW + 9)
    assert await told(model, 6) == [(7, 1, "removed"), (8, 1, "back")]
    assert sum((await model.change_counts(NOW, 3600.0)).values()) == 3


async def test_changes_tell_of_the_copy_and_are_chosen_by_kind(
    store: SqlStore, model: SqlReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Title, language and content type stay until a copy says otherwise; the cursor moves over what is not told."""
    await store.adopt(wanted("a"), origin="list", now=NOW)
    about = {"title": "A page", "language": "de-AT", "memory": memory(1), "body": b"x"}
    store.record(record(1, Verdict.NEW, at=NOW, **about))
    store.record(record(1, Verdict.CHANGED, at=NOW + 1))
    store.record(record(1, Verdict.GONE, at=NOW + 2, tau=1.0, state=PageState.GONE))
    await store.flush()
    gone = await model.changes(0, kinds=[ChangeVerdict.GONE])
    (one,) = gone.changes
    assert (one.id, one.title, one.language, one.content_type, gone.cursor) == (3, "A page", "de-AT", "text/html", 3)
    none = await model.changes(0, kinds=[ChangeVerdict.MOVED])
    assert (none.changes, none.cursor) == ([], 3)
    monkeypatch.setattr(change_list, "MAX_SKIPPED", 1)
    near = await model.changes(0, kinds=[ChangeVerdict.GONE])
    assert (near.changes, near.cursor) == ([], 2)
    (line,) = (await model.pages(PageQuery())).pages
    assert (line.language, line.content_type, line.version) == ("de-AT", "text/html", 1)


async def test_who_comes_too_late_is_told(store: SqlStore, model: SqlReadModel) -> None:
    """Beyond retention the oldest changes go; a cursor before what is left says that some were missed."""
    await store.adopt(wanted("a"), origin="list", now=NOW)
    for at in range(7):
        store.record(record(1, Verdict.CHANGED if at else Verdict.NEW, at=NOW + at))
        await store.flush()
    while await store.prune():
        pass
    found = await model.changes(1)
    assert ([one.id for one in found.changes], found.missed, found.first) == ([4, 5, 6, 7], True, 4)
    assert not (await model.changes(3)).missed
    store.record(record(1, Verdict.CHANGED, at=NOW + 9))
    await store.flush()
    assert (await model.latest_changes()).cursor == 8


async def test_versions_are_named_by_their_change(store: SqlStore, model: SqlReadModel) -> None:
    """A copy is the version of the change that brought it, also once it was renewed; each can be had by its number."""
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    crawls = [(Verdict.NEW, b"1"), (Verdict.CHANGED, b"22"), (Verdict.UNCHANGED, b"333"), (Verdict.CHANGED, b"4444")]
    for later, (verdict, body) in enumerate(crawls):
        store.record(record(1, verdict, at=NOW + later, body=body, memory=memory(1)))
        await store.flush()
    versions = await model.versions(URL.format("a"))
    assert versions is not None
    assert [(one.id, one.size) for one in versions] == [(3, 4), (2, 3), (1, 1)]
    assert [(one.version, one.previous) for one in (await model.changes(0)).changes] == [(1, None), (2, 1), (3, 2)]
    latest, second = await model.version(URL.format("a")), await model.version(URL.format("a"), 2)
    assert latest is not None
    assert second is not None
    assert (latest.body, second.body, second.host) == (b"4444", b"333", "example.org")
    assert await model.version(URL.format("a"), 9) is None
    assert await model.versions(URL.format("b")) == []
    assert await model.versions(URL.format("unknown")) is None


async def test_one_page_with_its_timeline(store: SqlStore, model: SqlReadModel) -> None:
    """Crawls, signals, changes and versions, newest first, with what is believed and from what evidence."""
    await store.adopt(wanted("a"), origin="list", now=NOW)
    store.record(record(1, Verdict.NEW, at=NOW, status=200, body=b"x", memory=memory(1)))
    store.record_signals([signal(1, at=NOW + 1)])
    store.record(record(1, Verdict.CHANGED, at=NOW + 2, tau=2.0, magnitude=0.5, signals=by_source(sitemap=1)))
    await store.flush()
    await store.save_estimates([estimate(1, at=NOW, crawls=1)])
    view = await model.page(URL.format("a"), crawls=1)
    assert view is not None
    assert (view.page.url, view.page.changes, view.origin) == (URL.format("a"), 1, "list")
    assert [(crawl.verdict, crawl.magnitude) for crawl in view.crawls] == [(Verdict.CHANGED, 0.5)]
    assert [seen.seen_at for seen in view.signals] == [NOW + 1]
    assert [change.id for change in view.changes] == [2, 1]
    assert [version.id for version in view.versions] == [1]
    assert view.estimate is not None
    assert (view.estimate.crawls, view.estimate.shape) == (1, 2.0)
    assert await model.page(URL.format("unknown")) is None
    whole = await model.page(URL.format("a"))
    assert whole is not None
    drawn = {lane.name: [event.x for event in lane.events] for lane in timeline(whole, NOW + 3).lanes}
    assert (drawn["crawls"], drawn["changes"]) == ([NOW, NOW + 2], [NOW + 2]), "a first copy is no change"


async def test_figures_of_everything(store: SqlStore, model: SqlReadModel) -> None:
    """The overview counts states; hosts, sources, history and calibration come as they are kept."""
    empty = await model.overview()
    assert (empty.pages, empty.latest, empty.last_change) == (0, None, 0)
    await filled(store)
    store.record_freshness(point(NOW, predicted=0.5))
    store.record_freshness(point(NOW + 60, predicted=0.75))
    store.record_host(HostState("other.example", blocked=True, delay=3.0))
    store.record_signals([signal(1, at=NOW)])
    store.record(record(1, Verdict.UNCHANGED, at=NOW + 99, predicted=0.85))
    await store.flush()
    overview = await model.overview()
    assert (overview.pages, overview.states[PageState.RETIRED], overview.hosts) == (10, 1, 2)
    assert overview.latest is not None
    assert (overview.latest.predicted, overview.last_change) == (0.75, 10)
    assert overview.database_bytes > 10_000
    first, second = await model.hosts()
    assert (first.host, first.pages, second.host, second.blocked) == ("example.org", 9, "other.example", True)
    assert second.delay_seconds == 3.0
    assert [(one.host, one.source, one.signals) for one in await model.sources()] == [("example.org", "sitemap", 1)]
    assert await model.source_files() == []
    assert [one.at for one in await model.freshness_history(NOW)] == [NOW, NOW + 60]
    assert [one.bin for one in await model.calibration()] == [8]
    assert await model.slots(0.0, 60.0) == []


async def test_a_database_that_is_away_is_said_and_found_again(empty_store_url: str) -> None:
    """A question to a database that is not there is answered in a sentence, and the next one once it is there."""
    async with SqlReadModel(empty_store_url, SystemClock()) as model:
        with pytest.raises(StoreError, match=r"there is no database|is empty"):
            await model.overview()
        store = SqlStore(empty_store_url)
        await store.start()
        assert (await model.overview()).pages == 0
        await store.close()
