"""What a poll means: what is a signal, what a baseline, what stale, what an event of the whole site."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.model.fetched import Fetched, FetchFailed, Redirected, Scope, Trouble
from crawld.model.page import Page
from crawld.model.signal import Source, sitemap_source
from crawld.signals.poll_signals import (
    EMPTY,
    Baseline,
    Finding,
    Known,
    PageIndex,
    at_once,
    differ,
    find_signals,
    stamp_of,
)
from crawld.signals.reading import Polled, PollReading, read_answer

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
HOUR = 3600.0
FILE = "https://a.org/sitemap.xml"


def moment(at: float) -> str:
    """A time as a sitemap writes it."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def sitemap(lastmods: dict[int, str | None]) -> PollReading:
    """A sitemap that lists pages /1, /2, … with these lastmods."""
    urls = "".join(
        f"<url><loc>http://a.org/{i}/</loc>{'' if lastmod is None else f'<lastmod>{lastmod}</lastmod>'}</url>"
        for i, lastmod in lastmods.items()
    )
    return read_answer(Polled(FILE, frozenset({"a.org"})), Fetched(FILE, 200, f"<urlset>{urls}</urlset>".encode()), NOW)


class Site:
    """Pages /1 to /20 with the times of their last successful crawls, and a file that is polled."""

    def __init__(self, last: dict[int, float] | None = None, delay: float = 0.0, source: str = "sitemap") -> None:
        self.last = last or {}
        self.source = Source(source)
        pages = PageIndex()
        pages.put([Page(i, f"https://a.org/{i}", "a.org") for i in range(1, 21)])
        self.gone: set[int] = set()
        self.known = Known(
            pages, lambda page_id: self.last.get(page_id, NOW - 100 * HOUR), delay, self.gone.__contains__
        )
        self.baseline = b""

    def source_of(self, moved: int, of: int) -> Source:
        """The source of a poll's signals."""
        return sitemap_source(moved, of) if self.source is Source.SITEMAP else self.source

    def poll(self, lastmods: dict[int, str | None], now: float = NOW, *, complete: bool = True) -> Finding:
        """Poll the file and remember what it listed."""
        listed = sitemap(lastmods).listed
        assert listed is not None
        feed = self.source is Source.FEED
        difference = differ(self.baseline, listed, feed=feed, complete=complete)
        self.baseline = difference.baseline
        return at_once(find_signals(listed, difference, self.source_of, self.known, now))


def signalled(finding: Finding) -> dict[int, bool]:
    """Each page signalled, and whether the signal is stale."""
    return {signal.page_id: signal.stale for signal in finding.signals}


def test_a_change_of_lastmod_is_a_signal() -> None:
    """A lastmod that moved since the last poll signals its page, now, with the time it claims."""
    site = Site()
    assert not site.poll({1: moment(NOW - 200 * HOUR), 2: moment(NOW - 200 * HOUR)}).signals
    finding = site.poll({1: moment(NOW - HOUR), 2: moment(NOW - 200 * HOUR)})
    (signal,) = finding.signals
    assert (signal.page_id, signal.source, signal.seen_at) == (1, Source.SITEMAP, NOW)
    assert (signal.claimed_at, signal.stale) == (NOW - HOUR, False)
    assert not site.poll({1: moment(NOW - HOUR), 2: moment(NOW - 200 * HOUR)}).signals


def test_the_first_sight_is_a_baseline_unless_it_claims_a_later_time() -> None:
    """A lastmod first seen signals only a page whose last crawl it surely postdates."""
    site = Site({1: NOW - 2 * HOUR, 2: NOW - 2 * HOUR, 3: NOW - 2 * HOUR, 4: math.nan})
    finding = site.poll(
        {1: moment(NOW - HOUR), 2: moment(NOW - 3 * HOUR), 3: "2026-11-16", 4: moment(NOW - HOUR), 5: None, 6: "NaN"}
    )
    assert signalled(finding) == {1: False}
    later = site.poll({7: moment(NOW - 200 * HOUR), 8: moment(NOW - HOUR)})
    assert signalled(later) == {8: False}


def test_a_claim_before_our_last_crawl_is_stale() -> None:
    """A change that claims a time before our last crawl is kept but not counted; a date counts to its end."""
    site = Site(dict.fromkeys((1, 2, 3, 4), NOW - HOUR))
    site.poll(dict.fromkeys((1, 2, 3, 4), "2026-01-01"))
    finding = site.poll({1: moment(NOW - 2 * HOUR), 2: "2026-11-15", 3: "2026-11-16", 4: moment(NOW - 60)})
    assert signalled(finding) == {1: True, 2: True, 3: False, 4: False}


def test_a_gone_page_is_signalled_where_it_is_listed_or_dated_anew() -> None:
    """Whatever time its entry claims; not at the first poll of a file, and not while its entry stays as it was."""
    site = Site(dict.fromkeys(range(1, 6), NOW - HOUR))
    site.gone |= {1, 2, 3, 4}
    assert not site.poll({1: "2026-01-01", 2: None, 5: "2026-01-01"}).signals
    assert not site.poll({1: "2026-01-01", 2: None, 5: "2026-01-01"}).signals
    finding = site.poll({1: "2025-01-01", 2: "2025-01-01", 3: None, 4: "2025-01-01", 5: "2026-01-01", 6: None})
    assert signalled(finding) == dict.fromkeys((1, 2, 3, 4), False)


def test_a_value_that_cannot_be_read_signals_by_changing() -> None:
    """Garbled and future lastmods claim nothing but may still change; placeholders never signal."""
    site = Site()
    site.poll({1: "Mi, 3. Mai", 2: "2030-01-01", 3: "Invalid Date", 4: "2026-01-01", 5: "1970-01-01"})
    finding = site.poll({1: "Do, 4. Mai", 2: "2031-01-01", 3: "NaN", 4: "", 5: "0001-01-01"})
    assert signalled(finding) == {1: False, 2: False}
    assert {signal.claimed_at for signal in finding.signals} == {None}


def test_a_new_spelling_of_the_same_time_is_no_change() -> None:
    """Only the moment is compared, and a lastmod that was missing in between is still remembered."""
    site = Site()
    site.poll({1: "2026-11-16T10:00:00Z"})
    assert not site.poll({1: "2026-11-16T11:00:00+01:00"}).signals
    assert not site.poll({1: None}).signals
    assert not site.poll({1: "2026-11-16 10:00:00"}).signals
    assert signalled(site.poll({1: "2026-11-16T10:30:00Z"})) == {1: False}


def test_signals_shortly_after_a_crawl_are_discarded() -> None:
    """Within the source's delay a signal tells of what we already hold."""
    site = Site({1: NOW - 30.0, 2: NOW - 90.0}, delay=60.0)
    site.poll({1: "2026-01-01", 2: "2026-01-01"})
    finding = site.poll({1: moment(NOW), 2: moment(NOW)})
    assert (signalled(finding), finding.discarded) == ({2: False}, 1)


@pytest.mark.parametrize(("moved", "event"), [(20, True), (18, True), (17, False), (1, False)])
def test_all_lastmods_at_once_are_one_event(moved: int, event: bool) -> None:
    """Nearly all lastmods moved in one poll are an event of the site, and signals of its pages."""
    site = Site()
    site.poll(dict.fromkeys(range(1, 21), "2026-01-01"))
    finding = site.poll({i: moment(NOW) if i <= moved else "2026-01-01" for i in range(1, 21)})
    assert (finding.is_event, len(finding.signals)) == (event, moved)


def test_a_few_lastmods_moving_together_are_no_event() -> None:
    """With fewer than five lastmods nothing can be said of the site."""
    site = Site()
    site.poll(dict.fromkeys((1, 2, 3, 4), "2026-01-01"))
    assert not site.poll(dict.fromkeys((1, 2, 3, 4), moment(NOW))).is_event


def test_a_new_entry_of_a_feed_is_a_signal() -> None:
    """What a feed lists for the first time is news, what falls out of it and returns is not."""
    site = Site(source="feed")
    assert not site.poll({1: None, 2: "2026-01-01"}).signals
    assert signalled(site.poll({2: "2026-01-01", 3: None})) == {3: False}
    assert not site.poll({1: None, 3: None}).signals
    assert site.poll({4: "2026-01-01"}).signals[0].stale


def test_entries_that_vanish_are_told_where_the_listing_is_complete() -> None:
    """A page no longer listed is reported once; a listing cut short proves nothing."""
    site = Site()
    site.poll({1: None, 2: None})
    assert not site.poll({1: None}, complete=False).vanished
    assert site.poll({1: None}).vanished == 1
    assert not site.poll({1: None}).vanished


def test_of_several_entries_for_one_page_the_latest_counts() -> None:
    """Duplicates under another scheme or slash are one entry."""
    body = b"<urlset><url><loc>http://a.org/1</loc><lastmod>2026-03-01</lastmod></url>"
    body += b"<url><loc>https://a.org/1/</loc><lastmod>2026-02-01</lastmod></url></urlset>"
    listed = read_answer(Polled(FILE, None), Fetched(FILE, 200, body), NOW).listed
    assert listed is not None
    assert listed.stamps.tolist() == [int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)]


def test_a_file_speaks_only_for_its_hosts() -> None:
    """Entries of other hosts are counted and left alone, `www.` or not."""
    body = b"\n".join([b"https://a.org/1", b"https://www.a.org/2", b"https://b.org/3"])
    polled = Polled(FILE, frozenset({"a.org"}), scope=("http",))
    listed = read_answer(polled, Fetched(FILE, 200, body), NOW).listed
    assert listed is not None
    assert sorted(listed.wanted_urls.split()) == ["https://a.org/1", "https://www.a.org/2"]
    assert (listed.foreign, listed.wanted.tolist()) == (1, [0, 1])


def test_answers_without_a_listing_say_why() -> None:
    """Trouble, a missing file, a redirect and an unreadable body are values; 304 is no trouble."""
    failed = FetchFailed(FILE, Trouble.TIMEOUT, Scope.HOST, "after 60 s")
    assert read_answer(Polled(FILE, None), failed, NOW).trouble == "timeout: after 60 s"
    assert read_answer(Polled(FILE, None), Fetched(FILE, 404), NOW).gone
    assert read_answer(Polled(FILE, None), Redirected(FILE, 301, FILE), NOW).trouble == "redirected"
    assert read_answer(Polled(FILE, None), Fetched(FILE, 200, b"<html>"), NOW).trouble == "an HTML page"
    assert read_answer(Polled(FILE, None), Fetched(FILE, 304), NOW) == PollReading(unchanged=True)


def test_a_baseline_is_compact_and_survives() -> None:
    """Fifty thousand entries take less than a megabyte and come back equal; rubbish is no baseline."""
    keys = np.sort(np.random.default_rng(1).integers(0, 2**63, 50_000).astype(np.uint64))
    packed = Baseline(keys, np.arange(50_000)).packed()
    back = Baseline.unpacked(packed)
    assert back is not None
    assert len(packed) < 1_000_000
    assert (back.keys == keys).all()
    assert (back.stamps == np.arange(50_000)).all()
    assert Baseline.unpacked(b"") is Baseline.unpacked(b"\x07x") is Baseline.unpacked(b"\x01x") is None


LASTMODS = st.sampled_from(["2026-01-01", "2026-02-01", "soon", ""])


@given(st.lists(st.dictionaries(st.integers(1, 6), LASTMODS, max_size=6)))
def test_no_poll_signals_what_did_not_change(polls: list[dict[int, str]]) -> None:
    """A poll equal to the one before brings nothing, whatever came before."""
    site = Site()
    for lastmods in polls:
        site.poll(dict(lastmods))
        assert not site.poll(dict(lastmods)).signals


def test_an_empty_baseline_knows_nothing() -> None:
    """The first poll has nothing to compare with, and no claim has no stamp."""
    known, stamps = EMPTY.stamps_for(np.array([1, 2], dtype=np.uint64))
    assert (known.tolist(), stamps.tolist(), stamp_of(None)) == ([False, False], [0, 0], 0)
