"""How the store stays bounded, on SQLite and on PostgreSQL alike."""

import hashlib
from collections.abc import AsyncIterator

import numpy as np
import pytest

from crawld.model.crawl import Verdict
from crawld.model.fetched import RobotsState
from crawld.model.host import HostState
from crawld.model.signal import SignalGain, Source
from crawld.store.retention import Retention
from crawld.store.sources import Poll, SourceFile
from crawld.store.store import SqlStore
from tests.support.hand_clock import HandClock
from tests.support.store_builders import NOW, memory, point, record, rows, signal, wanted

DAY = 86_400.0


KEEP = Retention(days=100, crawls_per_page=5, crawls=12, signals=4, bodies_per_page=2)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """A store that keeps little, three pages in it."""
    store = SqlStore(store_url, keep_bodies="changes", retention=KEEP, clock=HandClock(NOW))
    await store.start()
    await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW - 300 * DAY)
    yield store
    await store.close()


async def prune(store: SqlStore) -> int:
    """Prune until there is nothing left to do; how many rows went."""
    total = 0
    while deleted := await store.prune():
        total += deleted
    return total


async def test_crawls_are_bounded_by_page(store: SqlStore, store_url: str) -> None:
    """The latest crawls of each page are kept, and nothing goes below the bound."""
    for i in range(9):
        store.record(record(1, Verdict.UNCHANGED, at=NOW - 100 + i, tau=1.0))
    for i in range(4):
        store.record(record(2, Verdict.UNCHANGED, at=NOW - 50 + i, tau=1.0))
    await store.flush()
    assert await prune(store) == 4
    assert await rows(store_url, "SELECT page_id, count(*) FROM crawls GROUP BY 1 ORDER BY 1") == [(1, 5), (2, 4)]
    assert (await store.histories(np.array([1]))).at.tolist() == [NOW - 100 + i for i in range(4, 9)]


async def test_rows_from_before_the_start_are_bounded_too(store: SqlStore, store_url: str) -> None:
    """A smaller bound takes hold at the next start, also for pages that are not crawled again."""
    for i in range(5):
        store.record(record(1, Verdict.CHANGED, at=NOW + i, tau=1.0))
    await store.close()
    stricter = SqlStore(store_url, retention=Retention(crawls_per_page=2), clock=HandClock(NOW))
    await stricter.start()
    await prune(stricter)
    await stricter.close()
    assert await rows(store_url, "SELECT count(*) FROM crawls") == [(2,)]


async def test_crawls_and_signals_are_bounded_overall(store: SqlStore, store_url: str) -> None:
    """The oldest rows of all go where there are too many, also those that came after the first count."""
    for at in range(5):
        for page_id in (1, 2, 3):
            store.record(record(page_id, Verdict.UNCHANGED, at=NOW - 10 + at, tau=1.0))
    store.record_signals([signal(1, at=NOW - 10 + i) for i in range(6)])
    await store.flush()
    assert await prune(store) == 3 + 2
    store.record(record(1, Verdict.UNCHANGED, at=NOW, tau=1.0))
    await store.flush()
    assert await prune(store) == 1
    assert await rows(store_url, "SELECT count(*) FROM crawls") == [(12,)]
    assert await rows(store_url, "SELECT count(*) FROM signals") == [(4,)]


async def test_old_rows_go(store: SqlStore, store_url: str) -> None:
    """What is older than the days kept goes, whatever the other bounds say."""
    store.record(record(1, Verdict.NEW, at=NOW - 101 * DAY, predicted=0.5))
    store.record(record(1, Verdict.CHANGED, at=NOW - 101 * DAY, predicted=0.5))
    store.record(record(1, Verdict.CHANGED, at=NOW - 99 * DAY, predicted=0.5))
    store.record_signals([signal(1, at=NOW - 101 * DAY), signal(1, at=NOW)])
    await store.change_setting("bandwidth", "1/s", now=NOW - 101 * DAY)
    await store.flush()
    assert await prune(store) == 7
    assert await rows(store_url, "SELECT count(*) FROM crawls") == [(1,)]
    assert await rows(store_url, "SELECT id FROM changes") == [(3,)]
    assert await store.setting("bandwidth") == "1/s"


async def test_bodies_of_changes_are_bounded_by_page(store: SqlStore, store_url: str) -> None:
    """Of many versions the latest few are kept."""
    for i in range(5):
        store.record(record(1, Verdict.CHANGED, at=NOW + i, body=b"version %d" % i, memory=memory(1)))
    await store.flush()
    assert await prune(store) == 3
    assert await rows(store_url, "SELECT at - 1700000000 FROM bodies ORDER BY id") == [(3.0,), (4.0,)]


async def test_earlier_versions_are_bounded_by_bytes(store_url: str) -> None:
    """The oldest of them go first, whosever they are; every page keeps its latest copy."""
    store = SqlStore(store_url, retention=Retention(days=9_999, version_bytes=250))
    await store.start()
    await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
    for later, page_id in enumerate((1, 2, 3, 1, 2, 1, 2)):
        body = hashlib.shake_128(bytes([later])).digest(100)  # cannot be compressed
        store.record(record(page_id, Verdict.CHANGED, at=NOW + later, body=body, memory=memory(page_id)))
        await store.flush()
    await prune(store)
    await store.close()
    assert await rows(store_url, "SELECT page_id, at - 1700000000 FROM bodies ORDER BY id") == [
        (3, 2.0), (1, 3.0), (2, 4.0), (1, 5.0), (2, 6.0),
    ]  # fmt: skip


async def test_pages_retired_long_ago_are_forgotten(store: SqlStore, store_url: str) -> None:
    """A page retired before the days kept goes with all that is its own; one retired lately stays."""
    store.record(record(2, Verdict.NEW, at=NOW, memory=memory(2), body=b"b"))
    store.record_signals([signal(2, at=NOW)])
    await store.flush()
    await store.retire(["https://example.org/b"], now=NOW - 101 * DAY)
    await store.retire(["https://example.org/c"], now=NOW - 99 * DAY)
    assert await prune(store) == 5
    assert await rows(store_url, "SELECT id FROM pages ORDER BY id") == [(1,), (3,)]


async def test_the_freshness_history_thins_with_age(store: SqlStore, store_url: str) -> None:
    """A row a minute for two days, one in ten minutes for a month, one an hour after that, none beyond the days."""
    for days, minutes in ((1, 120), (10, 120), (50, 120), (101, 120)):
        start = (NOW - days * DAY) // 3600 * 3600
        for minute in range(minutes):
            store.record_freshness(point(start + 60.0 * minute + 7.5))
    await store.flush()
    await prune(store)
    by_age = "SELECT round((1700000000 - at) / 864000), count(*) FROM freshness_history GROUP BY 1 ORDER BY 1"
    assert await rows(store_url, by_age) == [(0, 120), (1, 12), (5, 2)]


async def test_the_slot_history_is_summed_up_with_age(store: SqlStore, store_url: str) -> None:
    """Minutes become ten minutes after two days and hours after thirty, and no slot is lost until the days are over."""
    for days in (1, 10, 50, 101):
        start = (NOW - days * DAY) // 3600 * 3600
        for minute in range(120):
            slots = {("page", "ok"): 5, ("idle", "host_busy"): 1}
            store.record_freshness(point(start + 60.0 * minute + 7.5, slots=slots))
    await store.flush()
    await prune(store)
    by_age = (
        "SELECT round((1700000000 - at) / 864000), span, use, count(*), sum(slots) FROM slot_history "
        "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
    assert await rows(store_url, by_age) == [
        (0, 60, "idle", 120, 120), (0, 60, "page", 120, 600),
        (1, 600, "idle", 12, 120), (1, 600, "page", 12, 600),
        (5, 3600, "idle", 2, 120), (5, 3600, "page", 2, 600),
    ]  # fmt: skip


@pytest.mark.parametrize(("keep", "kept"), [("latest", [b"two"]), ("changes", [b"one", b"two"]), ("none", [])])
async def test_bodies_are_kept_as_told(store_url: str, keep: str, kept: list[bytes]) -> None:
    """`latest` keeps one body a page, `changes` each version, `none` none."""
    store = SqlStore(store_url, keep_bodies=keep)  # type: ignore[arg-type]
    await store.start()
    await store.adopt(wanted("a"), origin="list", now=NOW)
    store.record(record(1, Verdict.NEW, body=b"one", memory=memory(1)))
    await store.flush()
    store.record(record(1, Verdict.CHANGED, at=NOW + 1, body=b"two", memory=memory(1)))
    await store.close()
    sizes = await rows(store_url, "SELECT size FROM bodies ORDER BY id")
    assert sizes == [(len(body),) for body in kept]


@pytest.mark.parametrize("keep", ["latest", "changes"])
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_renewed_copy_takes_the_place_of_the_latest(store_url: str, keep: str, at_once: bool) -> None:
    """The copy of an unchanged page that looks different is renewed: no version is added, and none but it is lost."""
    store = SqlStore(store_url, keep_bodies=keep)  # type: ignore[arg-type]
    await store.start()
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    crawls = [(Verdict.NEW, b"1"), (Verdict.CHANGED, b"22"), (Verdict.UNCHANGED, b"333"), (Verdict.UNCHANGED, b"4444")]
    for later, (verdict, body) in enumerate([*crawls, (Verdict.CHANGED, b"55555"), (Verdict.UNCHANGED, b"666666")]):
        store.record(record(1, verdict, at=NOW + later, body=body, memory=memory(1)))
        if not at_once:
            await store.flush()
    store.record(record(2, Verdict.UNCHANGED, body=b"never kept before", memory=memory(2)))
    await store.flush()
    assert await store.copy(1) == b"666666"
    assert await store.copy(3) is None
    await store.close()
    sizes = await rows(store_url, "SELECT size FROM bodies WHERE page_id = 1 ORDER BY id")
    assert sizes == ([(6,)] if keep == "latest" else [(1,), (4,), (6,)])


async def test_source_files_are_kept_and_their_polls_counted(store: SqlStore, store_url: str) -> None:
    """A file's latest state survives, its polls add up by host and source, and it can be forgotten."""
    first = SourceFile("https://example.org/sitemap.xml", Source.SITEMAP, "example.org", NOW, b"\x00first")
    later = SourceFile("https://example.org/sitemap.xml", Source.SITEMAP, "example.org", NOW + 60, b"\xfflater")
    feed = SourceFile("https://feeds.example/f", Source.FEED, "feeds.example", NOW, b"")
    store.record_poll(Poll(first, polls=0))
    store.record_poll(Poll(later))
    store.record_poll(Poll(later, site_events=1))
    store.record_poll(Poll(feed))
    await store.flush()
    assert await store.sources() == [later, feed]
    counts = "SELECT name, source, polls, site_events FROM signal_counts JOIN hosts ON id = host_id ORDER BY 1"
    assert await rows(store_url, counts) == [("example.org", "sitemap", 2, 1), ("feeds.example", "feed", 1, 0)]
    await store.forget_sources([later.url])
    assert await store.sources() == [feed]


async def test_what_signals_gained_adds_up_by_host_and_source(store: SqlStore, store_url: str) -> None:
    """Each crawl after believed signals adds to the account of their host and source, also within one batch."""
    store.record_host(HostState("example.org"))
    for gain in (3.0, 4.0):
        store.record_signal_gain(SignalGain("example.org", Source.FEED, 1, 0, gain, 0.5))
    await store.flush()
    store.record_signal_gain(SignalGain("example.org", Source.FEED, 0, 1, 0.0, -0.25))
    await store.flush()
    counts = "SELECT name, source, confirmed, in_vain, gain, saved FROM signal_gains JOIN hosts ON id = host_id"
    assert await rows(store_url, counts) == [("example.org", "feed", 2, 1, 7.0, 0.75)]


async def test_hosts_that_turned_up_once_are_forgotten(store: SqlStore, store_url: str) -> None:
    """Hosts without pages and files go with their counts, but for what the operator said and waits that last."""
    for number in range(2_500):
        store.record_host(HostState(f"once{number}.example", crawl_delay=1.0, asked_until=NOW - 1))
    for host in (HostState("blocked.example", blocked=True), HostState("asked.example", asked_until=NOW + 1)):
        store.record_host(host)
    for name in ("once1.example", "listed.example"):
        store.record_poll(Poll(SourceFile(f"https://{name}/map.xml", Source.SITEMAP, name, NOW, b"")))
    await store.flush()
    await store.forget_sources(["https://once1.example/map.xml"])
    assert await prune(store) >= 2_500
    left = {str(name) for (name,) in await rows(store_url, "SELECT name FROM hosts")}
    assert left == {"example.org", "blocked.example", "asked.example", "listed.example"}
    store.record_host(HostState("once2.example", delay=1.0))
    await store.flush()
    assert "once2.example" in {host.name for host in await store.hosts()}


async def test_old_robots_are_forgotten(store: SqlStore, store_url: str) -> None:
    """What is known of a robots.txt that was not renewed for thirty days goes."""
    for name, fresh_until in (("old", NOW - 31 * DAY), ("new", NOW - 29 * DAY)):
        store.record_robots(RobotsState(f"https://{name}.example", "crawld", fresh_until))
    await store.flush()
    assert await prune(store) == 1
    assert await rows(store_url, "SELECT origin FROM robots") == [("https://new.example",)]
