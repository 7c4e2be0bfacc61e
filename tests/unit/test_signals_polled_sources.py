"""Polled sources: what is polled when, and what an answer leads to."""

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from crawld.model.fetched import Fetched, FetchFailed, Outcome, Purpose, Request, Scope, Trouble
from crawld.model.page import Page
from crawld.model.signal import Source
from crawld.signals.poll_signals import LIMITS as POLL_SIGNALS_LIMITS
from crawld.signals.poll_signals import PageIndex, at_once
from crawld.signals.polled_sources import LIMITS as POLLED_SOURCES_LIMITS
from crawld.signals.polled_sources import Discovery, PolledSources, PollResult, PollSettings
from crawld.signals.schedule import LIMITS as SCHEDULE_LIMITS
from crawld.signals.schedule import File, Origin, PollSchedule, restored
from crawld.store.sources import Poll, SourceFile

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
HOUR = 3600.0
ROBOTS = "https://a.org/robots.txt"
SITEMAP = "https://a.org/sitemap.xml"


def urlset(*entries: tuple[str, float | None]) -> bytes:
    """A sitemap of these paths and times."""
    urls = "".join(
        f"<url><loc>https://a.org{path}</loc>"
        + ("" if at is None else f"<lastmod>{datetime.fromtimestamp(at, UTC).isoformat()}</lastmod>")
        + "</url>"
        for path, at in entries
    )
    return f"<urlset>{urls}</urlset>".encode()


class Desk:
    """Polled sources for pages /0 to /9 of a.org, last crawled ten hours ago."""

    def __init__(self, settings: PollSettings | None = None) -> None:
        self.pages = PageIndex()
        self.pages.put([Page(i, f"http://a.org/{i}", "a.org") for i in range(10)])
        self.sources = PolledSources(
            self.pages, lambda _: NOW - 10 * HOUR, settings or PollSettings(), {"a.org", "b.org"}.__contains__
        )

    def poll(self, outcome: Outcome | bytes, url: str = SITEMAP, now: float = NOW) -> PollResult:
        """Send the poll of this file and take over its answer."""
        (request,) = [request for request in self.due(now) if request.url == url]
        self.sources.begin(request)
        assert url not in self.due_urls(now)
        if isinstance(outcome, bytes):
            outcome = Fetched(url, 200, outcome, {"etag": '"1"', "last-modified": "then"})
        reading = self.sources.reader(request)(outcome, now)
        return at_once(self.sources.finish(request, reading, now))

    def file(self, url: str = SITEMAP) -> File:
        """What is known of a file."""
        file = self.sources.schedule.get(url)
        assert file is not None
        return file

    def due(self, now: float) -> list[Request]:
        """Everything that is due, in the order in which it would be polled."""
        found: list[Request] = []
        while (request := next(self.sources.due(now), None)) is not None:
            self.sources.begin(request)
            found.append(request)
        for request in found:
            self.sources.release(request, self.file(request.url).next_poll)
        return found

    def due_urls(self, now: float = NOW) -> list[str]:
        """What is due."""
        return [request.url for request in self.due(now)]


def counted(result: PollResult) -> list[tuple[int, Source]]:
    """The page and the source of each signal that counts."""
    return [(signal.page_id, signal.source) for signal in result.signals if not signal.stale]


def urls(polls: Sequence[Poll]) -> list[str]:
    """The addresses of files."""
    return [poll.file.url for poll in polls]


def test_robots_lines_are_watched_else_the_usual_address() -> None:
    """The Sitemap lines of robots.txt are polled at once; without any, /sitemap.xml is tried."""
    desk = Desk()
    found = desk.sources.found(ROBOTS, ["https://cdn.org/s.xml", "/other.xml", "https://cdn.org/s.xml", "::"], NOW)
    assert urls(found) == ["https://cdn.org/s.xml", "https://a.org/other.xml", "https://a.org/::"]
    assert desk.due_urls() == ["https://cdn.org/s.xml", "https://a.org/::", "https://a.org/other.xml"]
    assert urls(desk.sources.found("http://b.org/robots.txt", [], NOW)) == ["http://b.org/sitemap.xml"]
    assert not desk.sources.found("http://b.org/robots.txt", [], NOW)


def test_polls_are_requests_with_validators() -> None:
    """A poll asks conditionally once the server gave validators, with a limit of its own."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    desk.poll(urlset(("/1", None)))
    (request,) = desk.sources.due(NOW + 10 * SCHEDULE_LIMITS.first_wait)
    assert request == Request(SITEMAP, "a.org", Purpose.SITEMAP, '"1"', "then", 50 * 2**20)


def test_a_poll_brings_signals_statistics_and_a_summary() -> None:
    """Signals of our pages are returned with what is to be kept, and counted by host and source."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    old = [(f"/{i}", NOW - 99 * HOUR) for i in range(20)]
    assert desk.poll(urlset(*old)).signals == []
    later = NOW + HOUR
    result = desk.poll(urlset(("/1", NOW), ("/2", NOW - 50 * HOUR), ("/15", NOW), *old[3:15]), now=later)
    assert sorted((s.page_id, s.stale) for s in result.signals) == [(1, False), (2, True)]
    assert counted(result) == [(1, Source.SITEMAP_FEW)]
    assert (result.polls[0].site_events, result.summary) == (0, "entries=15 ours=9 moved=3 signals=1 stale=1")
    statistics = desk.sources.statistics()["a.org", Source.SITEMAP]
    assert {name: statistics[name] for name in ("polls", "signals", "stale", "site_events")} == {
        "polls": 2, "signals": 1, "stale": 1, "site_events": 0,
    }  # fmt: skip
    event = desk.poll(urlset(*((path, later) for path, _ in old)), now=later + HOUR)
    assert (event.polls[0].site_events, len(event.signals)) == (1, 10)


def test_the_wait_follows_what_polls_bring() -> None:
    """Signals halve the wait down to its floor, silence lengthens it to a week, what is dear is asked less often."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    desk.poll(urlset(("/1", NOW - 99 * HOUR)))
    now = NOW
    for i in range(8):
        now = desk.file().next_poll
        desk.poll(urlset(("/1", NOW + i)), now=now)
    assert desk.file().wait == pytest.approx(SCHEDULE_LIMITS.min_wait, rel=0.01)
    waits = []
    for _ in range(40):
        now = desk.file().next_poll
        desk.poll(Fetched(SITEMAP, 304), now=now)
        waits.append(desk.file().wait)
    assert waits == sorted(waits)
    assert waits[-1] == SCHEDULE_LIMITS.max_wait
    dear = File("u", Source.FEED, "h", Origin.CONFIG, size=50 * 2**20)
    for _ in range(20):
        dear.succeeded(NOW, worth=1.0)
    assert dear.wait == 51 * SCHEDULE_LIMITS.min_wait


def test_signals_that_proved_wrong_make_a_file_fade() -> None:
    """A file that changes at every poll is asked less and less where its host's signals are worth nothing."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    desk.sources.appraise("a.org", Source.SITEMAP, 0.05)
    desk.poll(urlset(("/1", NOW - 99 * HOUR)))
    before = desk.file().wait
    result = desk.poll(urlset(("/1", NOW)), now=NOW + HOUR)
    assert len(result.signals) == 1
    assert desk.file().wait > before


def test_dead_files_fade_out() -> None:
    """Failures double the wait up to once a month; a guess that the host denies is dead at once, a busy host is not."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    now = NOW
    for _ in range(SCHEDULE_LIMITS.dead_after):
        now = desk.file().next_poll
        desk.poll(Fetched(SITEMAP, 404), now=now)
    assert (desk.file().dead, desk.file().next_poll - now) == (True, SCHEDULE_LIMITS.max_wait_dead)
    guess = "https://b.org/sitemap.xml"
    desk.sources.found("https://b.org/robots.txt", [], now)
    desk.poll(FetchFailed(guess, Trouble.TIMEOUT, Scope.HOST), guess, now)
    assert not desk.file(guess).dead
    result = desk.poll(b"<html>not here</html>", guess, desk.file(guess).next_poll)
    assert (desk.file(guess).dead, result.summary) == (True, "an HTML page")
    desk.poll(urlset(), guess, desk.file(guess).next_poll)
    assert not desk.file(guess).dead


def test_an_index_is_walked_bit_by_bit() -> None:
    """The files of an index are polled one after the other, the latest first, dropped and hastened as it says."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)

    def index(lastmods: dict[int, str]) -> bytes:
        rows = (f"<sitemap><loc>/{i}.xml</loc><lastmod>{at}</lastmod></sitemap>" for i, at in lastmods.items())
        return f"<sitemapindex>{''.join(rows)}</sitemapindex>".encode()

    result = desk.poll(index(dict.fromkeys(range(500), "2026-01-01") | {499: "2026-02-01"}))
    assert len(result.polls) == 501
    assert desk.due_urls() == ["https://a.org/499.xml"]
    assert (
        len([f for f in desk.sources.schedule if f.parent and f.next_poll <= NOW + 10 * POLLED_SOURCES_LIMITS.step])
        == 11
    )
    child = "https://a.org/499.xml"
    assert not desk.poll(urlset(("/1", NOW - 99 * HOUR)), child).signals
    waits = desk.file(child).next_poll
    later = NOW + 30.0
    result = desk.poll(index({498: "2026-01-01", 499: "2026-03-01"}), now=desk.file().next_poll)
    assert len(result.removed) == 498
    assert urls(result.polls) == [SITEMAP, child]
    assert desk.file(child).next_poll <= max(waits, later + 60)
    assert len(desk.sources.schedule) == 3
    assert desk.file(child).hosts == frozenset({"a.org"})


def test_an_index_of_indexes_ends() -> None:
    """An index that lists itself or ever deeper ones is not followed for ever."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    now = NOW
    for depth in range(5):
        for request in desk.due(now):
            deeper = (f"{request.url}.{number}" for number in range(depth + 1))
            rows = (f"<sitemap><loc>{url}</loc></sitemap>" for url in (request.url, *deeper))
            body = f"<sitemapindex>{''.join(rows)}</sitemapindex>"
            desk.poll(body.encode(), request.url, now)
        now += 10 * POLLED_SOURCES_LIMITS.step
    assert len(desk.sources.schedule) <= 1 + 5 + 25
    assert max(file.depth for file in desk.sources.schedule) == 2


def test_the_same_change_in_two_files_is_one_signal() -> None:
    """A page listed twice with the same new lastmod is signalled once."""
    desk = Desk()
    other = "https://a.org/news.xml"
    desk.sources.found(ROBOTS, [SITEMAP, other], NOW)
    for url in (SITEMAP, other):
        desk.poll(urlset(("/1", NOW - 99 * HOUR)), url)
    results = [desk.poll(urlset(("/1", NOW)), url, NOW + HOUR) for url in (SITEMAP, other)]
    assert [len(result.signals) for result in results] == [1, 0]


def test_a_feed_at_a_sitemaps_address_is_a_feed() -> None:
    """What a file is decides its source, and a feed's hub is offered."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    feed = '<feed><link rel="hub" href="https://hub.org/"/><link rel="self" href="/me"/>{}</feed>'
    result = desk.poll(feed.format("").encode())
    assert (result.polls[0].file.source, list(result.hubs), result.topic) == (
        Source.FEED,
        ["https://hub.org/"],
        "https://a.org/me",
    )
    result = desk.poll(feed.format('<entry><link href="/1"/></entry>').encode(), now=NOW + HOUR)
    assert counted(result) == [(1, Source.FEED)]


def test_changes_on_other_sites_are_told_where_others_hold_those_pages() -> None:
    """A given sitemap speaks for any site: what moved elsewhere is told by URL, what is listed first is not."""
    of_both = b"<urlset>%s<url><loc>https://c.org/9</loc><lastmod>2020-01-0%d</lastmod></url></urlset>"
    for others, told in ((True, ["https://c.org/9"]), (False, [])):
        desk = Desk(PollSettings(given_sitemaps=[SITEMAP], others=others))
        desk.sources.watch_given(NOW)
        own = urlset(("/1", NOW - HOUR)).removeprefix(b"<urlset>").removesuffix(b"</urlset>")
        assert not desk.poll(of_both % (own, 1)).elsewhere
        result = desk.poll(of_both % (own, 2), now=NOW + HOUR)
        assert [url for url, *_ in result.elsewhere] == told


def test_a_file_that_somebody_told_of_is_polled_at_once() -> None:
    """A feed that a hub delivered to another worker is due; one that is not watched stays unknown."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    desk.poll(urlset(("/1", NOW)))
    assert SITEMAP not in desk.due_urls(NOW + 1)
    desk.sources.poll_soon(SITEMAP, NOW + 1)
    desk.sources.poll_soon("https://a.org/other", NOW + 1)
    assert desk.due_urls(NOW + 1) == [SITEMAP]


def test_feeds_linked_from_pages_are_watched_within_limits() -> None:
    """A few feeds of each host are found by links in pages."""
    desk = Desk()
    found = desk.sources.found_feeds("https://a.org/1", [f"/feed{i}" for i in range(9)], NOW)
    assert len(found) == SCHEDULE_LIMITS.max_feeds_per_host
    assert not desk.sources.found_feeds("https://a.org/2", ["/another"], NOW)
    assert next(desk.sources.due(NOW)).purpose is Purpose.FEED


def test_discovery_names_what_came_and_what_is_still_there() -> None:
    """With discovery on, listed URLs within the scope that are no pages of ours are named."""
    desk = Desk(PollSettings(discovery=Discovery(("https://a.org/x",))))
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    came = desk.poll(urlset(("/1", None), ("/2", None), ("/x1", None), ("/x2", None), ("/x3", None))).discoveries
    assert came is not None
    assert len(came.urls) == 3
    assert all("/x" in url for url in came.urls)
    assert (sorted(came.listed), came.complete) == ([1, 2], True)
    left = desk.poll(urlset(("/1", None)), now=NOW + HOUR).discoveries
    assert left is not None
    assert (list(left.urls), list(left.listed), left.complete) == ([], [1], True)
    assert desk.poll(urlset(("/1", None)), now=NOW + 2 * HOUR).discoveries is None


def test_without_discovery_nothing_is_named() -> None:
    """Discovery is off by default."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    desk.poll(urlset(("/x", None), ("/1", None)))
    assert desk.poll(urlset(("/x", None)), now=NOW + HOUR).discoveries is None


def test_only_what_the_settings_want_is_watched() -> None:
    """Given files are watched and may speak for any host; with finding off nothing else is, restored or found."""
    settings = PollSettings(False, False, ["https://c.org/s.xml"], ["https://c.org/feed"])
    desk = Desk(settings)
    assert urls(desk.sources.watch_given(NOW)) == ["https://c.org/s.xml", "https://c.org/feed"]
    assert desk.file("https://c.org/s.xml").hosts is None
    assert not desk.sources.found(ROBOTS, [SITEMAP], NOW)
    assert not desk.sources.found_feeds("https://a.org/", ["/feed"], NOW)
    other = Desk()
    kept = [*other.sources.found(ROBOTS, [SITEMAP], NOW), *other.sources.found_feeds("https://a.org/", ["/f"], NOW)]
    again = Desk(settings)
    again.sources.restore([poll.file for poll in (*kept, *Desk(settings).sources.watch_given(NOW))])
    assert sorted(again.due_urls()) == ["https://c.org/feed", "https://c.org/s.xml"]


def test_a_restart_loses_nothing() -> None:
    """What was kept of a file brings it back as it was, and its baseline tells the next change."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    result = desk.poll(urlset(("/1", NOW - 99 * HOUR)))
    again = Desk()
    again.sources.restore([poll.file for poll in result.polls])
    assert again.file() == desk.file()
    assert counted(again.poll(urlset(("/1", NOW)), now=NOW + HOUR)) == [(1, Source.SITEMAP)]


def test_state_of_a_newer_version_is_read_as_far_as_known() -> None:
    """Names in a file's kept state that are not known are left out."""
    state = b'{"origin": "page", "novelty": 3, "polls": 2}\0'
    file = restored(SourceFile("https://a.org/s", Source.FEED, "a.org", 5.0, state))
    assert (file.origin, file.polls, file.next_poll) == (Origin.PAGE, 2, 5.0)


def test_a_poll_given_up_is_due_again() -> None:
    """A poll that was not sent, or never answered, comes back at the time asked for."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    (request,) = desk.sources.due(NOW)
    desk.sources.begin(request)
    desk.sources.release(request, NOW + 5)
    assert (desk.due_urls(NOW + 4), desk.due_urls(NOW + 5)) == ([], [SITEMAP])


def test_an_answer_for_a_file_dropped_meanwhile_changes_nothing() -> None:
    """A poll whose file left the schedule ends without a trace."""
    desk = Desk()
    desk.sources.found(ROBOTS, [SITEMAP], NOW)
    (request,) = desk.sources.due(NOW)
    desk.sources.begin(request)
    desk.sources.schedule.remove(SITEMAP)
    reading = desk.sources.reader(request)(Fetched(SITEMAP, 200, urlset(("/1", NOW))), NOW)
    result = at_once(desk.sources.finish(request, reading, NOW))
    assert (result.signals, list(result.removed), len(desk.sources.schedule)) == ((), [SITEMAP], 0)


def test_the_delay_is_one_for_each_source() -> None:
    """Signals of one source can be discarded after a crawl while another's are kept."""
    for delay, expected in (({Source.FEED: 99 * HOUR}, 1), ({Source.SITEMAP: 99 * HOUR}, 0), (99 * HOUR, 0)):
        desk = Desk(PollSettings(delay=delay))
        desk.sources.found(ROBOTS, [SITEMAP], NOW)
        desk.poll(urlset(("/1", NOW - 99 * HOUR)))
        assert len(desk.poll(urlset(("/1", NOW)), now=NOW + HOUR).signals) == expected


def test_a_host_cannot_fill_the_schedule() -> None:
    """Each host may have so many files and no more; a removed one makes room."""
    schedule = PollSchedule()
    added = [
        schedule.add(File(f"u{i}", Source.FEED, "h", Origin.INDEX))
        for i in range(SCHEDULE_LIMITS.max_files_per_host + 2)
    ]
    assert (sum(added), len(schedule), "u1" in schedule) == (
        SCHEDULE_LIMITS.max_files_per_host,
        SCHEDULE_LIMITS.max_files_per_host,
        True,
    )
    schedule.remove("u1")
    assert schedule.add(File("other", Source.FEED, "h", Origin.INDEX, next_poll=-5.0))
    assert next(file.url for file in schedule.due(0.0)) == "other"


def test_polled_sources_fit_their_contract() -> None:
    """The drivers' view of signal sources is what polled sources offer."""
    sources = Desk().sources
    assert not list(sources.due(NOW))


def test_a_large_file_is_taken_in_slices_and_sent_as_columns() -> None:
    """Of a large file no address travels unless discovery wants it, and each slice looks at few entries."""
    rows = [(f"/{i}", NOW - 99 * HOUR) for i in range(20_000)]
    for scope, most in (((), 50), (("https://a.org/",), 100)):
        desk = Desk(PollSettings(discovery=Discovery(scope)))
        desk.sources.found(ROBOTS, [SITEMAP], NOW)
        (request,) = desk.sources.due(NOW)
        read = pickle.loads(pickle.dumps(desk.sources.reader(request)))
        packed = pickle.dumps(read(Fetched(SITEMAP, 200, urlset(*rows)), NOW))
        assert len(packed) < most * len(rows)
        slices = desk.sources.finish(request, pickle.loads(packed), NOW)
        assert sum(1 for _ in slices) >= len(rows) // POLL_SIGNALS_LIMITS.found_at_once
        assert desk.file().entries == len(rows)
