"""What every store does, on SQLite and on PostgreSQL alike."""

import asyncio
import math
import time
from dataclasses import replace

import numpy as np
import pytest

from crawld.model.clock import SystemClock
from crawld.model.crawl import Digest, Memory, Place, Verdict
from crawld.model.fetched import RobotsState, Trouble
from crawld.model.host import FrameChange, HostState, OriginTurningAway
from crawld.model.page import Page, PageState, Wanted
from crawld.model.signal import SOURCES, Source
from crawld.store.read_model import SqlReadModel
from crawld.store.report import Reader
from crawld.store.settings import StoredDemand
from crawld.store.store import SqlStore
from tests.support.store_builders import NOW, by_source, estimate, memory, point, record, rows, signal, wanted


async def restarted(store: SqlStore, url: str) -> SqlStore:
    """The same database after a clean stop."""
    await store.close()
    again = SqlStore(url)
    await again.start()
    return again


async def test_demand_is_kept_page_by_page(store: SqlStore, store_url: str) -> None:
    """What is written of some pages leaves the others as they were, and all of it is there after a restart."""
    assert len((await store.demand()).page_ids) == 0
    await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
    ids, at = np.array([1, 3]), np.full(2, NOW)
    await store.save_demand(StoredDemand(ids, np.array([5.0, 0.25]), np.array([0.5, 1.5]), at))
    await store.save_demand(StoredDemand(ids[1:], np.array([2.0]), np.array([1.6]), at[1:] + 60))
    store = await restarted(store, store_url)
    kept = await store.demand()
    await store.close()
    assert kept.page_ids.tolist() == [1, 3]
    assert kept.requests.tolist() == [5.0, 2.0]
    assert kept.days.tolist() == [0.5, 1.6]
    assert kept.at.tolist() == [NOW, NOW + 60]


class TestAdopt:
    """Taking over URL lists."""

    async def test_new_lines_become_waiting_pages(self, store: SqlStore) -> None:
        """Each new URL is a page of its host, waiting, with its importance."""
        lines = [*wanted("a", importance=2.0), Wanted("http://other.example:8080/", 0.5)]
        adoption = await store.adopt(lines, origin="list", now=NOW)
        assert adoption.added == [
            Page(1, "https://example.org/a", "example.org", 2.0),
            Page(2, "http://other.example:8080/", "other.example:8080", 0.5),
        ]
        stored = await store.restore()
        assert stored.ids.tolist() == [1, 2]
        assert stored.hosts == ["example.org", "other.example:8080"]
        assert stored.states == [PageState.WAITING, PageState.WAITING]
        assert stored.importance.tolist() == [2.0, 0.5]
        assert np.isnan(stored.last_success).all()
        assert np.isnan(stored.shape).all()

    async def test_the_same_list_again_changes_nothing(self, store: SqlStore) -> None:
        """Adoption is idempotent."""
        await store.adopt(wanted("a", "b"), origin="list", now=NOW)
        adoption = await store.adopt(wanted("a", "b", "b"), origin="list", now=NOW)
        assert adoption == type(adoption)([], [], [], [], lines=2)

    async def test_a_new_importance_is_taken_over(self, store: SqlStore) -> None:
        """A line with another weight re-weights its page."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        adoption = await store.adopt(wanted("a", importance=3.0), origin="list", now=NOW)
        assert [(page.id, page.importance) for page in adoption.reweighted] == [(1, 3.0)]
        assert (await store.restore()).importance.tolist() == [3.0]

    async def test_unlisted_pages_retire_and_come_back(self, store: SqlStore) -> None:
        """A complete list retires what it leaves out; listing a page again brings it back with its past."""
        await store.adopt(wanted("a", "b"), origin="list", now=NOW)
        store.record(record(2, Verdict.NEW, at=NOW + 1))
        await store.flush()
        gone = await store.adopt(wanted("a"), origin="list", now=NOW + 2)
        assert [page.id for page in gone.retired] == [2]
        assert (await store.restore()).ids.tolist() == [1]
        back = await store.adopt(wanted("a", "b", importance=1.0), origin="list", now=NOW + 3)
        assert [page.id for page in back.returned] == [2]
        stored = await store.restore()
        assert stored.states == [PageState.WAITING, PageState.LIVE]
        assert stored.last_success[1] == NOW + 1

    async def test_other_origins_keep_their_pages(self, store: SqlStore) -> None:
        """A list retires and re-weights its own pages alone, and an incomplete one retires none."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        adoption = await store.adopt(wanted("a", "b", importance=9.0), origin="sitemap", now=NOW)
        assert [page.url for page in adoption.added] == ["https://example.org/b"]
        assert not adoption.reweighted
        assert not (await store.adopt([], origin="sitemap", now=NOW, complete=False)).retired
        assert [page.id for page in (await store.adopt([], origin="sitemap", now=NOW)).retired] == [2]

    async def test_who_has_more_authority_takes_a_page_over(self, store: SqlStore) -> None:
        """By hand wins over the list, the list over what was discovered: in importance, and in who may retire it."""
        await store.adopt(wanted("a", "b"), origin="discovered in a sitemap", now=NOW)
        listed = await store.adopt(wanted("a", importance=3.0), origin="list", now=NOW)
        assert [(page.id, page.importance) for page in listed.reweighted] == [(1, 3.0)]
        gone = await store.adopt([], origin="discovered in a sitemap", now=NOW)
        assert [page.id for page in gone.retired] == [2]
        by_hand = await store.adopt(wanted("a", importance=5.0), origin="operator", now=NOW, complete=False)
        assert [page.importance for page in by_hand.reweighted] == [5.0]
        assert not (await store.adopt(wanted("a", importance=3.0), origin="list", now=NOW)).reweighted
        assert not (await store.adopt([], origin="list", now=NOW)).retired

    async def test_pages_retire_by_url(self, store: SqlStore) -> None:
        """Named pages retire whoever listed them, and only once."""
        await store.adopt(wanted("a", "b"), origin="list", now=NOW)
        urls = ["https://example.org/b", "https://example.org/unknown"]
        assert [page.id for page in await store.retire(urls, now=NOW)] == [2]
        assert await store.retire(urls, now=NOW) == []

    async def test_another_spelling_is_the_same_page(self, store: SqlStore, store_url: str) -> None:
        """A page keeps its past when its list spells it anew, and is found by every spelling."""
        await store.adopt(wanted("%7euser", "a%2Cb"), origin="list", now=NOW)
        store.record(record(1, Verdict.NEW, at=NOW + 1))
        await store.flush()
        for path in ("~user", "%7Euser", "%7euser"):
            again = await store.adopt(wanted(path, "a%2cb", "a,b"), origin="list", now=NOW + 2)
            assert not again.retired
            assert (again.respelt[0].id, again.respelt[0].url) == (1, f"https://example.org/{path}")
        shown = "SELECT id, url, identity, crawls FROM pages ORDER BY id"
        assert await rows(store_url, shown) == [
            (1, "https://example.org/%7euser", "https://example.org/~user", 1),
            (2, "https://example.org/a%2cb", "https://example.org/a%2Cb", 0),
            (3, "https://example.org/a,b", None, 0),
        ]
        gone = await store.retire(["https://example.org/~user", "https://example.org/%7Euser"], now=NOW)
        assert [page.id for page in gone] == [1]
        back = await store.adopt(wanted("~user"), origin="list", now=NOW + 3, complete=False)
        assert [(page.id, page.url) for page in back.returned] == [(1, "https://example.org/~user")]
        assert (await rows(store_url, shown))[0] == (1, "https://example.org/~user", None, 1)

    async def test_who_has_less_authority_does_not_respell_a_page(self, store: SqlStore) -> None:
        """What is asked is the spelling of whoever the page belongs to."""
        await store.adopt(wanted("%7euser"), origin="list", now=NOW)
        found = await store.adopt(wanted("~user"), origin="discovered in a sitemap", now=NOW, complete=False)
        assert (list(found.added), list(found.respelt)) == ([], [])
        assert (await store.restore()).urls == ["https://example.org/%7euser"]

    async def test_long_lists_are_taken_in_slices(self, store: SqlStore) -> None:
        """A list longer than one transaction arrives whole."""
        adoption = await store.adopt(wanted(*map(str, range(12_000))), origin="list", now=NOW)
        assert [page.id for page in adoption.added] == list(range(1, 12_001))
        kept = await store.adopt(wanted(*map(str, range(6_000))), origin="list", now=NOW)
        assert len(kept.retired) == 6_000
        assert len((await store.restore()).ids) == 6_000


class TestRecord:
    """Finished attempts."""

    async def test_a_restart_finds_everything(self, store: SqlStore, store_url: str) -> None:
        """State, times, failures, memory, host and body survive a stop that was asked for."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        host = HostState("example.org", NOW + 60, 2, 1.5, 3.0, True, NOW + 90, NOW + 30)
        store.record(record(1, Verdict.NEW, memory=memory(1, etag='W/"1"'), body=b"<p>hello</p>" * 99, host=host))
        store.record(record(1, Verdict.FAILED, at=NOW + 5, failures=1, trouble="timeout"))
        store = await restarted(store, store_url)
        try:
            stored = await store.restore()
            assert stored.states == [PageState.FAILING]
            assert stored.last_success.tolist() == [NOW]
            assert stored.last_attempt.tolist() == [NOW + 5]
            assert stored.failures.tolist() == [1]
            assert await store.hosts() == [host]
            assert await store.recall(1) == memory(1, etag='W/"1"')
        finally:
            await store.close()

    async def test_success_ends_the_failures(self, store: SqlStore) -> None:
        """Successive failures are what the last record says."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        store.record(record(1, Verdict.FAILED, failures=7))
        store.record(record(1, Verdict.NEW, at=NOW + 1))
        await store.flush()
        assert (await store.restore()).failures.tolist() == [0]

    async def test_pages_that_turn_us_away_are_known_until_they_answer(self, store: SqlStore, store_url: str) -> None:
        """The trouble of the last crawl is restored, and told by origin and host; anything else ends it."""
        await store.adopt([*wanted("a", "b", "c", "d"), Wanted("http://example.org/a", 1.0)], origin="list", now=NOW)
        for page_id in range(1, 6):
            store.record(record(page_id, Verdict.FAILED, trouble="bot_wall"))
        store.record(record(2, Verdict.NEW, at=NOW + 1))
        store.record(record(3, Verdict.FAILED, trouble="timeout", at=NOW + 1))
        store.record(record(4, Verdict.FAILED, trouble="login_required", at=NOW + 1))
        await store.flush()
        stored = await store.restore()
        assert stored.turned_away == {1: Trouble.BOT_WALL, 4: Trouble.LOGIN_REQUIRED, 5: Trouble.BOT_WALL}
        assert stored.part(slice(0, 3)).turned_away == {1: Trouble.BOT_WALL}
        async with Reader(store_url) as reader:
            told = (await reader.troubles(NOW, 1e9)).turned_away
            (host,) = await reader.hosts()
        assert told["bot_wall"].worst == [
            OriginTurningAway("http://example.org", 1),
            OriginTurningAway("https://example.org", 1),
        ]
        assert (told["login_required"].count, host.turned_away) == (1, {"bot_wall": 2, "login_required": 1})
        async with SqlReadModel(store_url, SystemClock()) as model:
            (line,) = await model.hosts()
        assert line.turned_away == host.turned_away

    async def test_a_retired_page_stays_retired(self, store: SqlStore) -> None:
        """A crawl that ends after its page was retired is kept without bringing the page back."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        await store.adopt([], origin="list", now=NOW)
        store.record(record(1, Verdict.NEW))
        await store.flush()
        assert len((await store.restore()).ids) == 0

    async def test_odd_text_is_stored(self, store: SqlStore, store_url: str) -> None:
        """NUL, lone surrogates and undecodable validators neither raise nor lose the row."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        etag = b'"\xff\xfe"'.decode("utf-8", "surrogateescape")
        odd = Memory(1, NOW, Digest(b"r"), etag=etag, content_type="text/\udce4\0", seen=(b"a", b"bc"))
        store.record(record(1, Verdict.NEW, detail="a\0b\udcff", memory=odd))
        store = await restarted(store, store_url)
        recalled = await store.recall(1)
        await store.close()
        assert recalled is not None
        assert (recalled.etag, recalled.seen) == (etag, (b"a", b"bc"))
        assert store.lost == 0

    async def test_what_was_learnt_of_a_page_survives_a_restart(self, store: SqlStore, store_url: str) -> None:
        """Times, scheme and places of a memory come back as they were."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        digest = Digest(b"r", b"t", (1, 2**63 - 1), times=((0, 2**62, (5, 6)), (1, 7, (8,))), scheme=2**32 - 1)
        places = (
            Place(1, 2**62, ((3, 2**51), (), (4,)), 3, 3, common=(9, 10), still=7, adrift=(3, 1)),
            Place(5, 2, (), 0, 0),
            Place(6, 7, ((8,),), 2, 9),
        )
        kept = Memory(1, NOW, digest, places=places)
        store.record(record(1, Verdict.NEW, memory=kept))
        store = await restarted(store, store_url)
        assert await store.recall(1) == kept
        await store.close()

    async def test_the_blocks_of_a_hosts_latest_pages(self, store: SqlStore) -> None:
        """The pages fetched most recently come last, others and retired ones not at all."""
        await store.adopt(wanted("a", "b", "c", "d"), origin="list", now=NOW)
        for page_id in (1, 2, 3, 4):
            made = Memory(page_id, NOW + 9 - page_id, Digest(b"r", b"t", (page_id, 7)))
            store.record(record(page_id, Verdict.NEW, memory=made))
        await store.flush()
        await store.retire([wanted("b")[0].url], now=NOW)
        latest = await store.recent_pages("example.org", 2)
        assert [(page.page_id, page.blocks) for page in latest] == [(3, (3, 7)), (1, (1, 7))]
        assert [page.url for page in latest] == [wanted("c")[0].url, wanted("a")[0].url]
        assert await store.recent_pages("example.com", 2) == []

    async def test_a_change_of_a_frame_is_one_row(self, store: SqlStore, store_url: str) -> None:
        """A change of a host's frame that more pages show is overwritten, another one is another row."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        for change in (FrameChange("example.org", NOW, NOW + pages, pages, 1, 2) for pages in (2, 3)):
            store.record_frame_change(change)
            await store.flush()
        store.record_frame_change(FrameChange("example.org", NOW + 9, NOW + 9, 2, 0, 1))
        await store.flush()
        found = await rows(store_url, "SELECT first_at, pages, gained FROM frame_changes ORDER BY first_at DESC")
        assert found == [(NOW + 9, 2, 1), (NOW, 3, 2)]

    async def test_what_is_not_a_number_is_not_known(self, store: SqlStore, store_url: str) -> None:
        """NaN is stored as NULL on both databases, and such a crawl is no observation."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        store.record(record(1, Verdict.UNCHANGED, tau=math.nan, predicted=math.nan, magnitude=math.nan))
        await store.flush()
        assert await rows(store_url, "SELECT tau, predicted, magnitude FROM crawls") == [(None, None, None)]
        assert len((await store.histories(np.array([1]))).tau) == 0

    async def test_a_refused_row_is_lost_alone(self, store: SqlStore) -> None:
        """A record of a page that is not there is counted as lost, and its neighbours are committed."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        store.record(record(1, Verdict.NEW))
        store.record(record(99, Verdict.NEW))
        store.record(record(1, Verdict.UNCHANGED, at=NOW + 9))
        with pytest.raises(Exception, match="1 rows were refused"):
            await store.flush()
        assert store.lost == 1
        assert store.backlog == 0
        assert (await store.restore()).last_success.tolist() == [NOW + 9]

    async def test_queued_memories_are_recalled_at_once(self, store: SqlStore) -> None:
        """What was recorded a moment ago is what is remembered, committed or not."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        assert await store.recall(1) is None
        store.record(record(1, Verdict.NEW, memory=memory(1)))
        newer = memory(1, at=NOW + 1, raw=b"s" * 16)
        store.record(record(1, Verdict.CHANGED, at=NOW + 1, memory=newer))
        assert await store.recall(1) == newer
        await store.flush()
        assert await store.recall(1) == newer

    async def test_many_recalls_at_once(self, store: SqlStore, store_url: str) -> None:
        """Each of many questions asked together gets its own answer, and one given up takes none from others."""
        await store.adopt(wanted(*map(str, range(300))), origin="list", now=NOW)
        for page_id in range(1, 201):
            store.record(record(page_id, Verdict.NEW, memory=memory(page_id, etag=str(page_id))))
        store = await restarted(store, store_url)
        given_up = asyncio.create_task(store.recall(7))
        asked = [asyncio.create_task(store.recall(page_id)) for page_id in range(1, 301)]
        await asyncio.sleep(0)
        given_up.cancel()
        answers = await asyncio.gather(*asked)
        await store.close()
        expected = [memory(page_id, etag=str(page_id)) if page_id <= 200 else None for page_id in range(1, 301)]
        assert answers == expected


class TestSignals:
    """Signals since the last successful crawl."""

    async def test_counted_by_source_until_the_next_success(self, store: SqlStore) -> None:
        """Signals count by source; failures keep them, a success clears them, stale ones never count."""
        await store.adopt(wanted("a", "b"), origin="list", now=NOW)
        store.record_signals([signal(2, at=NOW, source=Source.PING)])
        store.record(record(1, Verdict.NEW))
        store.record_signals([signal(1, at=NOW + 1), signal(1, at=NOW + 2), signal(1, at=NOW + 3, stale=True)])
        store.record(record(1, Verdict.FAILED, at=NOW + 4))
        await store.flush()
        assert (await store.restore()).signals.tolist() == [list(by_source(sitemap=2)), list(by_source(ping=1))]
        store.record_signals([signal(1, at=NOW + 5)])
        store.record(record(1, Verdict.UNCHANGED, at=NOW + 6, tau=6.0, signals=by_source(sitemap=3)))
        store.record_signals([signal(1, at=NOW + 7, source=Source.FEED)])
        await store.flush()
        assert (await store.restore()).signals.tolist() == [list(by_source(feed=1)), list(by_source(ping=1))]
        histories = await store.histories(np.array([1, 2]))
        assert histories.signal_counts.tolist() == [list(by_source(sitemap=3, feed=1)), list(by_source(ping=1))]

    async def test_signals_seen_during_a_fetch_still_count(self, store: SqlStore) -> None:
        """A success takes away the signals it knew of; those that came while it was under way stay."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        store.record(record(1, Verdict.NEW))
        store.record_signals([signal(1, at=NOW + 1), signal(1, at=NOW + 2)])
        await store.flush()
        store.record_signals([signal(1, at=NOW + 4), signal(1, at=NOW + 4, source=Source.PING)])
        store.record(record(1, Verdict.UNCHANGED, at=NOW + 3, tau=3.0, signals=by_source(sitemap=2)))
        store.record(record(1, Verdict.UNCHANGED, at=NOW + 5, tau=2.0, signals=by_source(sitemap=1)))
        await store.flush()
        assert (await store.restore()).signals.tolist() == [list(by_source(ping=1))]

    async def test_watching_begins_with_the_first_success(self, store: SqlStore) -> None:
        """Signals seen before the first copy are not evidence of how often signals come."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        store.record_signals([signal(1, at=NOW)])
        await store.flush()
        store.record_signals([signal(1, at=NOW + 1)])
        store.record(record(1, Verdict.NEW, at=NOW + 2))
        store.record_signals([signal(1, at=NOW + 3)])
        await store.flush()
        histories = await store.histories(np.array([1]))
        assert histories.signal_counts.tolist() == [list(by_source(sitemap=1))]
        assert histories.first_success.tolist() == [NOW + 2]


class TestLearning:
    """What the learner reads and writes."""

    async def test_histories_are_ragged_and_oldest_first(self, store: SqlStore) -> None:
        """Each page has its successful revisits in order, in the order asked for, at most so many."""
        await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
        heard = by_source(sitemap=1, websub=2)
        for page_id in (1, 2):
            store.record(record(page_id, Verdict.NEW))
            store.record(record(page_id, Verdict.UNCHANGED, at=NOW + 10, tau=10.0, signals=heard))
            store.record(record(page_id, Verdict.FAILED, at=NOW + 15, tau=15.0))
            store.record(record(page_id, Verdict.CHANGED, at=NOW + 30, tau=20.0))
        store.record(record(2, Verdict.GONE, at=NOW + 40, tau=10.0, state=PageState.GONE))
        await store.flush()
        histories = await store.histories(np.array([2, 3, 1]), max_per_page=2)
        assert histories.page_ids.tolist() == [2, 3, 1]
        assert histories.offsets.tolist() == [0, 2, 2, 4]
        assert histories.tau.tolist() == [20.0, 10.0, 10.0, 20.0]
        assert histories.at.tolist() == [NOW + 30, NOW + 40, NOW + 10, NOW + 30]
        assert histories.changed.tolist() == [True, True, False, True]
        assert histories.signals.tolist() == [*map(list, (by_source(), by_source(), heard, by_source()))]
        assert histories.hosts == ["example.org"] * 3
        assert np.isnan(histories.first_success).tolist() == [False, True, False]

    async def test_long_histories_are_read_of_a_few_pages_at_a_time(self, store: SqlStore) -> None:
        """Of the first pages until so many observations are read, of one at least, and none from too far back."""
        await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
        for page_id in (1, 2, 3):
            store.record(record(page_id, Verdict.NEW))
            for i in range(1, 8):
                verdict = Verdict.FAILED if page_id == 3 and i >= 3 else Verdict.UNCHANGED
                store.record(record(page_id, verdict, at=NOW + i, tau=1.0))
        await store.flush()
        asked = np.array([2, 3, 1])
        for most, read in ((1, [2]), (2, [2]), (3, [2, 3]), (4, [2, 3]), (5, [2, 3, 1])):
            histories = await store.histories(asked, max_per_page=2, most=most)
            assert histories.page_ids.tolist() == read, most
            assert len(histories.hosts) == len(histories.offsets) - 1 == len(histories.signal_counts) == len(read)
        assert histories.at.tolist() == [NOW + 6, NOW + 7, NOW + 6, NOW + 7]  # page 3: failures further than looked at

    async def test_no_pages_no_histories(self, store: SqlStore) -> None:
        """An empty question has an empty answer of the right shape."""
        histories = await store.histories(np.array([], dtype=np.int64))
        assert histories.offsets.tolist() == [0]
        assert histories.signals.shape == (0, len(SOURCES))
        assert histories.signal_counts.shape == (0, len(SOURCES))

    async def test_a_page_is_dirty_until_its_estimate_knows(self, store: SqlStore) -> None:
        """Dirty pages come longest waiting first, and stay dirty where a crawl is newer than the estimate."""
        await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
        store.record(record(2, Verdict.NEW, at=NOW + 1))
        store.record(record(1, Verdict.NEW, at=NOW + 2))
        store.record(record(3, Verdict.FAILED, at=NOW + 3))
        await store.flush()
        assert (await store.dirty_pages(10)).tolist() == [2, 1]
        assert (await store.dirty_pages(1)).tolist() == [2]
        await store.save_estimates([estimate(2, at=NOW + 5), estimate(1, at=NOW + 1)])
        assert (await store.dirty_pages(10)).tolist() == [1]

    async def test_dirty_pages_outlive_a_restart_and_a_retirement(self, store: SqlStore, store_url: str) -> None:
        """What waited to be learnt from still does after a start; a retired page waits until it is back."""
        await store.adopt(wanted("a", "b"), origin="list", now=NOW)
        store.record(record(2, Verdict.NEW, at=NOW + 1))
        store.record(record(1, Verdict.NEW, at=NOW + 2))
        await store.close()
        for restored in (False, True):
            again = SqlStore(store_url)
            await again.start()
            if restored:
                await again.restore()
            assert (await again.dirty_pages(10)).tolist() == [2, 1]
            await again.retire([wanted("b")[0].url], now=NOW)
            assert (await again.dirty_pages(10)).tolist() == [1]
            await again.adopt(wanted("a", "b"), origin="list", now=NOW)
            assert (await again.dirty_pages(10)).tolist() == [2, 1]
            await again.close()

    async def test_audits_come_back(self, store: SqlStore) -> None:
        """The latest audits that told something are there, oldest first; other crawls are none."""
        await store.adopt(wanted("a"), origin="list", now=NOW)
        for i, verdict in enumerate(
            (Verdict.UNCHANGED, Verdict.CHANGED, Verdict.FAILED, Verdict.GONE, Verdict.UNCHANGED)
        ):
            store.record(record(1, verdict, at=NOW + i, audit=True))
            store.record(record(1, Verdict.CHANGED, at=NOW + i))
        await store.flush()
        assert await store.audits(3) == [False, False, True]
        assert await store.audits(10) == [True, False, False, True]

    async def test_estimates_come_back_at_a_restart(self, store: SqlStore) -> None:
        """The latest estimate of each page is restored, infinite κ and all."""
        await store.adopt(wanted("a", "b"), origin="list", now=NOW)
        await store.save_estimates([estimate(1, at=NOW, shape=1.0)])
        kappa, gamma = by_source(sitemap=math.inf, feed=0.5), by_source(sitemap=0.1, feed=0.2)
        better = estimate(1, at=NOW + 1, kappa=kappa, gamma=gamma, alpha_se=0.25)
        await store.save_estimates([better])
        stored = await store.restore()
        assert stored.shape[0] == 2.0
        assert stored.rate[0] == 172_800.0
        assert tuple(stored.kappa[0]) == kappa
        assert tuple(stored.gamma[0]) == gamma
        assert np.isnan(stored.kappa[1]).all()


class TestSettings:
    """Settings changed while running."""

    async def test_a_setting_is_kept_and_its_changes_noted(self, store: SqlStore, store_url: str) -> None:
        """The value survives a restart; each change is a row, and none where nothing changed."""
        await store.change_setting("bandwidth", "5/s", now=NOW)
        await store.change_setting("bandwidth", "5/s", now=NOW + 1)
        await store.change_setting("bandwidth", "9/s", now=NOW + 2)
        assert await store.setting("bandwidth") == "9/s"
        await store.change_setting("bandwidth", None, now=NOW + 3)
        assert await store.setting("bandwidth") is None
        changes = await rows(store_url, "SELECT at - 1700000000, old, new FROM settings_changes ORDER BY id")
        assert changes == [(0.0, None, "5/s"), (2.0, "5/s", "9/s"), (3.0, "9/s", None)]


async def test_the_freshness_history_has_one_row_a_moment(store: SqlStore, store_url: str) -> None:
    """A point recorded twice is there once, with its latest values."""
    store.record_freshness(point(NOW, predicted=0.5))
    store.record_freshness(point(NOW, predicted=0.75, pages=10))
    await store.flush()
    assert await rows(store_url, "SELECT predicted, pages, measured FROM freshness_history") == [(0.75, 10, None)]


async def test_hosts_are_remembered_by_name(store: SqlStore) -> None:
    """A host's latest state is what is remembered, whether pages know it or not."""
    await store.adopt(wanted("a"), origin="list", now=NOW)
    store.record_host(HostState("example.org", failures=1))
    store.record_host(HostState("new.example", delay=2.0))
    store.record_host(HostState("example.org", failures=2))
    await store.flush()
    assert await store.hosts() == [HostState("example.org", failures=2), HostState("new.example", delay=2.0)]


async def test_robots_survive_a_restart(store: SqlStore) -> None:
    """What is known of robots.txt comes back for hosts that have pages, as it was last recorded."""
    await store.adopt(wanted("a"), origin="list", now=NOW)
    ours = RobotsState("https://example.org", "crawld", NOW + 60, NOW + 99, b"\0\xff", 2.5, 3, "status 503 \0\ud800")
    for state in (replace(ours, failures=1), ours, RobotsState("https://foreign.example", "crawld", NOW + 60)):
        store.record_robots(state)
    await store.flush()
    (found,) = await store.robots()
    assert found == replace(ours, reason=found.reason)
    assert found.reason.startswith("status 503")


async def test_hosts_that_turned_up_once_are_not_restored(store: SqlStore) -> None:
    """A start reads hosts with pages, and others only where the operator or a wait still matters."""
    await store.adopt(wanted("a"), origin="list", now=NOW)
    later = time.time() + 3600
    kept = [HostState("blocked.example", blocked=True), HostState("slow.example", delay=3.0)]
    kept += [HostState("asked.example", asked_until=later, blocked_until=later)]
    for host in (*kept, HostState("once.example", crawl_delay=5.0, failures=1, blocked_until=NOW)):
        store.record_host(host)
    await store.flush()
    assert {host.name for host in await store.hosts()} == {"example.org", *(host.name for host in kept)}


class TestPagesTakenOff:
    """What whoever follows the changes is told of pages that go and come back."""

    async def _told(self, url: str) -> list[tuple[str, str]]:
        async with SqlReadModel(url, SystemClock()) as model:
            return [(change.url[-1], change.verdict.value) for change in (await model.changes(0, 100)).changes]

    async def test_a_page_taken_off_by_hand_or_by_the_list_is_an_event(self, store: SqlStore, store_url: str) -> None:
        """Each is told as removed, and one that returns with its copy as back."""
        await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
        store.record(record(1, Verdict.NEW, body=b"one"))
        await store.flush()
        committed = store.changes.next()
        await store.retire(["https://example.org/a"], now=NOW + 1)
        assert committed.is_set()
        committed = store.changes.next()
        await store.adopt(wanted("c"), origin="list", now=NOW + 2)
        assert committed.is_set()
        assert await self._told(store_url) == [("a", "new"), ("a", "removed"), ("b", "removed")]
        await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW + 3)
        assert (await self._told(store_url))[3:] == [("a", "back")]  # of b there never was a copy

    async def test_a_file_that_no_longer_lists_a_page_removes_it(self, store: SqlStore, store_url: str) -> None:
        """As discovery does."""
        await store.adopt(wanted("a", "b"), origin="discovered in x", now=NOW)
        await store.adopt(wanted("b"), origin="discovered in x", now=NOW + 1)
        assert await self._told(store_url) == [("a", "removed")]

    async def test_who_listed_a_page_is_known_until_it_is_kept_out(self, store: SqlStore) -> None:
        """Those kept out do not come back, so nobody is named for them."""
        await store.adopt(wanted("a", "b"), origin="list", now=NOW)
        gone = await store.retire(["https://example.org/a"], now=NOW)
        assert await store.origins([page.url for page in gone]) == {"https://example.org/a": "list"}
        await store.retire(["https://example.org/b"], now=NOW, keep_out=True)
        assert await store.origins(["https://example.org/b"]) == {}
