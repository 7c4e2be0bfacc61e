"""What people read: the views, and the reader that needs no daemon. On SQLite and on PostgreSQL alike."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from crawld.model.clock import SystemClock
from crawld.model.crawl import Digest, Memory, Verdict
from crawld.model.errors import StoreError
from crawld.model.host import HostState, HostTrouble
from crawld.model.page import OverduePages, PageState, Wanted
from crawld.model.signal import SOURCES, SignalTrust, Source
from crawld.read.page.digest import block_number
from crawld.store.report import Reader
from crawld.store.store import SqlStore
from crawld.store.views import AuditFigures, Copy
from tests.support.store_builders import by_source, estimate, memory, point, record, signal, wanted

NOW = SystemClock().now()  # the views compare with the real time
HOUR = 3600.0


async def test_page_stats_are_what_the_estimate_means(store: SqlStore, store_url: str) -> None:
    """Δ, β, κ, precision, recall, staleness and freshness follow from the estimate, the time and the signals."""
    await store.adopt(wanted("a", importance=2.0), origin="list", now=NOW - 10 * HOUR)
    store.record(record(1, Verdict.NEW, at=NOW - 8 * HOUR))
    store.record(record(1, Verdict.CHANGED, at=NOW - 5 * HOUR, tau=3 * HOUR))
    store.record(record(1, Verdict.FAILED, at=NOW - 1 * HOUR, state=PageState.FAILING))
    store.record_signals([signal(1, at=NOW - 60), signal(1, at=NOW - 50)])
    await store.flush()
    kappa, gamma = by_source(sitemap=0.5, feed=math.inf), by_source(sitemap=1e-4)
    await store.save_estimates([estimate(1, at=NOW, shape=2.0, rate=20 * HOUR, kappa=kappa, gamma=gamma)])
    async with Reader(store_url) as reader:
        (row,) = await reader.page_stats()
    alpha, announced = 2.0 / (20 * HOUR), 1e-4 * (1 - math.exp(-0.5))
    assert (row.url, row.host, row.importance) == ("https://example.org/a", "example.org", 2.0)
    assert (row.state, row.crawls, row.changes, row.failures) == ("failing", 3, 1, 1)
    assert (row.signals, row.last_crawl_at, row.last_change_at) == (2, NOW - 5 * HOUR, NOW - 5 * HOUR)
    assert row.alpha == pytest.approx(alpha)
    assert row.change_rate == pytest.approx(alpha + announced)
    assert [row.kappa, row.gamma] == pytest.approx([0.5, 1e-4])
    assert row.beta_seconds == pytest.approx(0.5 / alpha)
    assert row.precision == pytest.approx(1 - math.exp(-0.5))
    assert row.recall == pytest.approx(announced / (alpha + announced))
    age = (SystemClock().now() - NOW) / HOUR + 5  # the suite may have begun long ago
    assert row.staleness == pytest.approx(2 * math.log1p(age / 20) + 1.0, rel=1e-2)
    assert row.freshness == pytest.approx(math.exp(-(row.staleness or 0.0)))


async def test_extreme_beliefs_do_not_break_the_views(store: SqlStore, store_url: str) -> None:
    """Never crawled, no estimate yet, infinite and huge κ, a rate beyond measure: every row can be read."""
    await store.adopt(wanted("a", "b", "c", "d"), origin="list", now=NOW)
    for page_id in (2, 3, 4):
        store.record(record(page_id, Verdict.NEW, at=NOW - HOUR))
        store.record_signals([signal(page_id, at=NOW)])
    await store.flush()
    sure = {"kappa": by_source(sitemap=math.inf), "gamma": by_source(sitemap=1e-5)}
    huge = {"kappa": by_source(sitemap=5e3), "gamma": by_source(), "shape": 1e6, "rate": 1e-9}
    await store.save_estimates([estimate(3, at=NOW, **sure), estimate(4, at=NOW, **huge)])
    async with Reader(store_url) as reader:
        rows = {row.url[-1]: row for row in await reader.page_stats()}
        (host,) = await reader.host_stats()
    assert rows["a"].freshness == 0.0
    assert rows["b"].freshness == pytest.approx(1 / (1 + 1 / 168), rel=1e-2)  # once a week is assumed
    assert rows["b"].alpha is None
    assert (rows["c"].kappa, rows["c"].precision) == (math.inf, 1.0)
    assert rows["c"].freshness < 1e-300
    assert rows["d"].freshness < 1e-300
    assert rows["d"].precision is None
    assert host.freshness == pytest.approx(rows["b"].freshness / 4, rel=1e-3)


async def test_what_is_left_out_of_a_page(store: SqlStore, store_url: str) -> None:
    """The blocks that a host's pages share are counted, and what was learnt of a page can be read."""
    await store.adopt(wanted(*"abcdef"), origin="list", now=NOW)
    own = [block_number(letter * 300) for letter in "abcdef"]
    for page_id in range(1, 7):
        made = Memory(page_id, NOW, Digest(b"r", b"t", (5, 6, own[page_id - 1], 7)))
        store.record(record(page_id, Verdict.NEW, memory=made))
    await store.flush()
    async with Reader(store_url) as reader:
        page = await reader.page("https://example.org/a")
        learnt = await reader.learnt_of("https://example.org/a")
        assert await reader.learnt_of("https://example.org/unknown") is None
    assert page is not None
    assert page.memory is not None
    assert (page.memory.frame_blocks, page.memory.volatile_places) == (3, 0)
    assert learnt is not None
    assert learnt[1] is not None
    assert learnt[1].left_out(1, learnt[0].digest) == [True, True, False, True]


async def test_host_stats_sum_up_their_pages(store: SqlStore, store_url: str) -> None:
    """Counts add up, freshness is weighted by importance, retired pages are left out."""
    lines = [*wanted("a", importance=3.0), *wanted("b", "c"), Wanted("https://other.example/", 1.0)]
    await store.adopt(lines, origin="list", now=NOW)
    store.record(record(1, Verdict.NEW, at=NOW, host=HostState("example.org", blocked_until=NOW + 9, delay=2.0)))
    store.record(record(3, Verdict.NEW, at=NOW))
    await store.flush()
    # so slow that a suite which began an hour ago changes nothing
    await store.save_estimates([estimate(1, at=NOW, rate=2e9)])
    await store.retire(["https://example.org/c"], now=NOW)
    async with Reader(store_url) as reader:
        first, second = await reader.host_stats()
    assert (first.host, first.pages, first.copies, first.crawls) == ("example.org", 2, 1, 1)
    assert first.freshness == pytest.approx(0.75, abs=0.01)
    assert (first.delay_seconds, first.blocked_until) == (2.0, NOW + 9)
    assert (second.host, second.pages, second.freshness) == ("other.example", 1, 0.0)


async def test_hosts_tell_how_they_are_asked(store: SqlStore, store_url: str) -> None:
    """Every host with what was said and learnt of it, and the number of its pages that are not retired."""
    await store.adopt([*wanted("a", "b", "c"), Wanted("https://other.example/", 1.0)], origin="list", now=NOW)
    store.record_host(HostState("other.example", blocked=True, failures=2, crawl_delay=4.0))
    await store.flush()
    await store.retire(["https://example.org/c", "https://other.example/"], now=NOW)
    async with Reader(store_url) as reader:
        first, second = await reader.hosts()
    assert (first.host, first.pages, first.blocked, first.delay_seconds) == ("example.org", 2, False, None)
    assert (second.host, second.pages, second.blocked) == ("other.example", 0, True)
    assert (second.successive_failures, second.crawl_delay_seconds) == (2, 4.0)


async def test_signal_stats_by_host_and_source(store: SqlStore, store_url: str) -> None:
    """Signals are counted by host and source with stale ones apart; precision and recall pool the host's pages."""
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    store.record_signals([signal(1, at=NOW), signal(2, at=NOW), signal(2, at=NOW, stale=True)])
    store.record_signals([signal(2, at=NOW, source=Source.PING)])
    await store.flush()
    half = math.log(2)
    beliefs = {"shape": 1.0, "rate": 1e5, "kappa": by_source(sitemap=half), "gamma": by_source(sitemap=2e-5)}
    await store.save_estimates([estimate(1, at=NOW, **beliefs), estimate(2, at=NOW, **beliefs)])
    async with Reader(store_url) as reader:
        ping, sitemap = await reader.signal_stats()
    assert (ping.source, ping.signals, ping.precision) == ("ping", 1, None)
    assert (sitemap.source, sitemap.signals, sitemap.stale) == ("sitemap", 3, 1)
    assert [sitemap.precision, sitemap.recall] == pytest.approx([0.5, 0.5])


async def test_a_host_has_sources_that_are_heard_and_others_that_are_not(store: SqlStore, store_url: str) -> None:
    """Which sources are heard is kept, the latest word counts, and every report gives it with why."""
    await store.adopt(wanted("a"), origin="list", now=NOW)
    store.record_signals([signal(1, at=NOW), signal(1, at=NOW, source=Source.SITEMAP_BULK)])
    store.record_signals([signal(1, at=NOW, source=Source.PING)])
    await store.flush()
    alone = SignalTrust("example.org", Source.SITEMAP, True, 4.5, 12, "it predicted better")
    bulk = SignalTrust("example.org", Source.SITEMAP_BULK, True, 3.5, 40, "so far")
    await store.save_signal_trust([alone, bulk, replace(alone, host="unknown.example")])
    async with Reader(store_url) as reader:
        since = {row.source.value: row.heard_since for row in await reader.signal_stats()}
    await store.save_signal_trust([alone, replace(bulk, heard=False, score=-9.0, why="every build stamps every page")])
    async with Reader(store_url) as reader:
        stats = await reader.signal_stats()
        rows = {row.source.value: (row.heard, row.score, row.why) for row in stats}
        page = await reader.page("https://example.org/a")
    assert {row.source.value: row.heard_since for row in stats} == since | {"sitemap_bulk": None}
    assert (since["ping"], since["sitemap"]) == (None, since["sitemap_bulk"])
    assert since["sitemap"] is not None
    assert rows["ping"] == (None, None, None)
    assert rows["sitemap"] == (True, 4.5, "it predicted better")
    assert rows["sitemap_bulk"] == (False, -9.0, "every build stamps every page")
    assert page is not None
    assert [(one.source, one.heard, one.intervals) for one in page.signal_trust] == [
        ("sitemap", True, 12),
        ("sitemap_bulk", False, 40),
    ]


async def test_calibration_compares_predicted_with_seen(store: SqlStore, store_url: str) -> None:
    """Revisits with a prediction fall into tenths; failures and first copies tell nothing."""
    await store.adopt(wanted("a"), origin="list", now=NOW)
    for verdict, predicted in (("unchanged", 0.82), ("changed", 0.88), ("unchanged", 1.0), ("failed", 0.5)):
        store.record(record(1, Verdict(verdict), predicted=predicted, at=NOW))
        await store.flush()
    async with Reader(store_url) as reader:
        low, high = await reader.calibration()
    assert [low.bin, low.crawls, low.predicted, low.seen] == pytest.approx([8, 2, 0.85, 0.5])
    assert low.gap == pytest.approx(-0.35)
    assert (high.bin, high.predicted_low, high.predicted_high, high.seen) == (9, 0.9, 1.0, 1.0)


async def test_one_page_with_its_past(store: SqlStore, store_url: str) -> None:
    """A page's answer holds its estimate, memory, last crawls and signals, newest first; unknown pages have none."""
    await store.adopt(wanted("a"), origin="list", now=NOW)
    store.record(record(1, Verdict.NEW, at=NOW - 9, status=200, memory=memory(1, etag='"x"')))
    store.record_signals([signal(1, at=NOW - 5, source=Source.FEED)])
    store.record(record(1, Verdict.CHANGED, at=NOW - 1, tau=8.0, signals=by_source(feed=1)))
    await store.flush()
    await store.save_estimates([estimate(1, at=NOW, alpha_se=0.5, crawls=2)])
    async with Reader(store_url) as reader:
        page = await reader.page("https://example.org/a", crawls=1)
        assert await reader.page("https://example.org/unknown") is None
    assert page is not None
    assert page.estimate is not None
    assert page.estimate.alpha_se == 0.5
    assert page.estimate.kappa_se == {source.value: None for source in SOURCES}
    assert page.memory is not None
    assert (page.memory.etag, page.memory.blocks) == ('"x"', 2)
    assert [crawl.signals["feed"] for crawl in page.last_crawls] == [1]
    assert [seen.source for seen in page.last_signals] == [Source.FEED]
    assert page.pending_signals == {source.value: 0 for source in SOURCES}


async def test_a_page_is_found_by_every_spelling(store: SqlStore, store_url: str) -> None:
    """Reports take any spelling of a page's URL and show the one that is asked."""
    await store.adopt(wanted("%7euser?a|b"), origin="list", now=NOW)
    store.record(record(1, Verdict.NEW, at=NOW, memory=memory(1), body=b"copy"))
    await store.flush()
    async with Reader(store_url) as reader:
        for path in ("%7euser?a|b", "~user?a%7Cb", "%7Euser?a%7cb"):
            page = await reader.page(f"https://example.org/{path}")
            copy = await reader.copy(f"https://example.org/{path}")
            assert page is not None
            assert isinstance(copy, Copy)
            assert page.url == copy.url == "https://example.org/%7euser?a|b"
        assert await reader.page("https://example.org/~user") is None


async def test_the_latest_body_comes_back_as_it_was(store: SqlStore, store_url: str) -> None:
    """The copy is what was fetched, with its time, the time it was last confirmed, and its freshness."""
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    body = bytes(range(256)) * 1_000
    store.record(record(1, Verdict.NEW, at=NOW - 9, memory=memory(1), body=body))
    store.record(record(1, Verdict.UNCHANGED, at=NOW - 1, tau=8.0))
    await store.flush()
    async with Reader(store_url) as reader:
        copy = await reader.copy("https://example.org/a")
        assert await reader.copy("https://example.org/b") is None
    assert isinstance(copy, Copy)
    assert copy.body == body
    assert (copy.content_type, copy.fetched_at, copy.checked_at) == ("text/html", NOW - 9, NOW - 1)
    assert copy.freshness == pytest.approx(1.0, abs=0.01)  # it ages while other tests run


async def test_overall_on_a_stopped_and_on_an_empty_database(store: SqlStore, store_url: str) -> None:
    """The sums are there before the first page and after the daemon has gone."""
    async with Reader(store_url) as reader:
        nothing = await reader.overall()
    assert (nothing.pages, nothing.freshness, nothing.latest) == (0, None, None)
    await store.adopt(wanted("a", "b", "c"), origin="list", now=NOW)
    await store.retire(["https://example.org/c"], now=NOW)
    store.record(record(1, Verdict.NEW, at=NOW))
    start = NOW // 600 * 600 - 600
    store.record_freshness(point(start, slots={("page", "ok"): 3, ("audit", "not_modified"): 1}))
    store.record_freshness(point(start + 60, predicted=0.5, slots={("page", "ok"): 4, ("skipped", ""): 2}))
    await store.close()
    async with Reader(store_url) as reader:
        overall = await reader.overall()
        spent = await reader.slot_history(since=NOW - 3600, bucket=600)
    assert [(line.use, line.outcome, line.slots) for line in spent] == [
        ("audit", "not_modified", 1), ("page", "ok", 7), ("skipped", "", 2)
    ]  # fmt: skip
    assert {line.at for line in spent} == {start}
    assert (overall.pages, overall.hosts, overall.crawls) == (2, 1, 1)
    assert overall.states["retired"] == 1
    assert overall.freshness == pytest.approx(0.5, abs=0.01)
    assert overall.latest is not None
    assert overall.latest.predicted == 0.5
    assert overall.database_bytes > 10_000


async def test_reading_changes_no_file(tmp_path: Path) -> None:
    """A reader neither creates a database nor leaves anything beside a stopped daemon's."""
    with pytest.raises(StoreError, match="there is no database at"):
        async with Reader(f"sqlite:///{tmp_path / 'none.db'}"):
            pass
    url = f"sqlite:///{tmp_path / 'crawld.db'}"
    store = SqlStore(url)
    await store.start()
    await store.close()
    before = sorted(tmp_path.iterdir())
    async with Reader(url) as reader:
        await reader.overall()
    assert sorted(tmp_path.iterdir()) == before


async def test_what_is_no_database_of_ours_cannot_be_read(empty_store_url: str, tmp_path: Path) -> None:
    """An empty database and a file that is none are refused in a sentence."""
    if empty_store_url.startswith("sqlite"):
        (tmp_path / "crawld.db").write_bytes(b"not a database, not a database, not a database" * 99)
        match = "is not a SQLite database"
    else:
        match = "is empty: start the daemon once"
    with pytest.raises(StoreError, match=match):
        async with Reader(empty_store_url):
            pass


async def test_troubles_are_counted_without_a_daemon(store: SqlStore, store_url: str) -> None:
    """Hosts in back-off, asking us to wait and blocked with their pages, pages overdue, and the latest audits."""
    lines = [*wanted("a", "b", "c"), Wanted("https://other.example/", 1.0), Wanted("https://well.example/", 1.0)]
    await store.adopt(lines, origin="list", now=NOW - 9 * HOUR)
    blocked = HostState("other.example", blocked=True)
    store.record(
        record(1, Verdict.NEW, at=NOW - 8 * HOUR, host=HostState("example.org", NOW + 60.0, 3, asked_until=NOW + 40.0))
    )
    store.record(record(2, Verdict.NEW, at=NOW - HOUR, host=blocked))
    for at in (NOW - 50.0, NOW - 40.0, NOW - 30.0):
        store.record(record(2, Verdict.UNCHANGED, at=at, audit=True))
    await store.flush()
    async with Reader(store_url) as reader:
        found = await reader.troubles(NOW, 2 * HOUR)
        waiting = (await reader.troubles(NOW + 50.0, HOUR)).hosts_in_trouble.backoff
    backoff, stopped = found.hosts_in_trouble.asked_to_wait, found.hosts_in_trouble.blocked
    assert (found.hosts_in_trouble.backoff.count, waiting.count) == (0, 1)
    assert (backoff.count, backoff.pages) == (1, 3)
    assert backoff.worst == [HostTrouble("example.org", 3, NOW + 60.0, 3)]
    assert (stopped.count, stopped.worst[0].host) == (1, "other.example")
    assert found.overdue == OverduePages(1, NOW - 8 * HOUR)
    assert found.audits == AuditFigures(3, NOW - 50.0, NOW - 30.0)


async def test_a_posterior_comes_with_its_evidence(store: SqlStore, store_url: str) -> None:
    """Only pages with an estimate have one; the revisits behind it are counted."""
    await store.adopt(wanted("a", "b"), origin="list", now=NOW)
    await store.save_estimates([estimate(1, at=NOW, shape=2.0, rate=600.0)])
    async with Reader(store_url) as reader:
        found = await reader.posteriors(["https://example.org/a", "https://example.org/b"])
    assert list(found) == ["https://example.org/a"]
    posterior = found["https://example.org/a"]
    assert (posterior.shape, posterior.rate, posterior.evidence) == (2.0, 600.0, estimate(1, at=NOW).crawls)
