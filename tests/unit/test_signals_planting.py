"""Who may have files watched, how many, and whose turn it is; and whom an answer may speak for."""

import dataclasses
from collections import Counter
from collections.abc import Iterable

import pytest

from crawld.model.fetched import Fetched, Request
from crawld.model.page import Page
from crawld.model.signal import Source
from crawld.signals import schedule as planting
from crawld.signals.poll_signals import Baseline, PageIndex, at_once
from crawld.signals.polled_sources import PolledSources, PollResult, PollSettings
from crawld.signals.reading import PollReading
from crawld.signals.schedule import LIMITS as SCHEDULE_LIMITS
from crawld.signals.schedule import File, Origin, PollRotation, PollSchedule

NOW = 1_790_000_000.0
DAY = 86_400.0
VICTIM = "https://victim.example"


class Watch:
    """Polled sources for pages /0 to /9 of some hosts, each crawled a day ago."""

    def __init__(self, *hosts: str, settings: PollSettings | None = None) -> None:
        pages = PageIndex()
        self.pages = [
            Page(10 * n + i, f"https://{host}/{i}", host) for n, host in enumerate(hosts, 1) for i in range(10)
        ]
        pages.put(self.pages)
        self.sources = PolledSources(pages, lambda _: NOW - DAY, settings or PollSettings(), hosts.__contains__)

    def answer(self, url: str, body: str, answered: str | None = None, now: float = NOW) -> PollResult:
        """Take over the answer to a poll of this file, which redirects led to `answered`."""
        request = Request(url, "")
        reading = self.sources.reader(request)(Fetched(answered or url, 200, body.encode()), now)
        assert isinstance(reading, PollReading)
        return at_once(self.sources.finish(request, reading, now))

    def planted(self) -> Counter[str]:
        """How many files are watched on each host."""
        return Counter(file.host for file in self.sources.schedule)

    def signalled(self, result: PollResult) -> set[str]:
        """The hosts of the pages that a poll signalled."""
        hosts = {page.id: page.host for page in self.pages}
        return {hosts[signal.page_id] for signal in result.signals}


def listing(host: str, at: str = "2026-09-21T13:00:00Z") -> str:
    """A sitemap of the pages of a host, all changed after our crawls."""
    rows = (f"<url><loc>https://{host}/{i}</loc><lastmod>{at}</lastmod></url>" for i in range(3))
    return f"<urlset>{''.join(rows)}</urlset>"


def index_of(urls: Iterable[str]) -> str:
    """An index of these sitemaps."""
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{url}</loc></sitemap>' for url in urls)}</sitemapindex>"


# -- who plants ----------------------------------------------------------------------------------------------


def test_only_hosts_with_pages_of_ours_plant() -> None:
    """A host plants nothing, not even a guess, unless pages of ours are on it or the settings name it."""
    watch = Watch("a.org", settings=PollSettings(sites=["https://wanted.org/blog"]))
    assert not watch.sources.found("https://evil.example/robots.txt", ["https://evil.example/s.xml"], NOW)
    assert not watch.sources.found("https://evil.example/robots.txt", [], NOW)
    assert not watch.sources.found_feeds("https://evil.example/", ["/feed"], NOW)
    assert watch.sources.found("https://www.a.org/robots.txt", [], NOW)
    assert watch.sources.found("https://wanted.org/robots.txt", [], NOW)


def test_a_host_plants_on_few_others() -> None:
    """One robots.txt plants on a handful of other hosts, however often it is read, and on its own."""
    watch = Watch("evil.example", "a.org")
    for round_ in range(200):
        fresh = [f"https://host{round_}-{i}.example/s.xml" for i in range(100)]
        watch.sources.found("https://evil.example/robots.txt", fresh, NOW + round_)
    assert len(watch.planted()) == SCHEDULE_LIMITS.max_other_hosts
    assert watch.sources.found("https://evil.example/robots.txt", ["/own.xml"], NOW)
    assert watch.sources.found("https://a.org/robots.txt", ["https://cdn.example/a.xml"], NOW)


def test_indexes_plant_at_the_expense_of_who_planted_them() -> None:
    """The files of an index, and of indexes in it, count for the host whose robots.txt led there."""
    watch = Watch("evil.example")
    watch.sources.found("https://evil.example/robots.txt", ["https://evil.example/i.xml"], NOW)
    watch.answer("https://evil.example/i.xml", index_of(f"https://host{i}.example/i.xml" for i in range(1_000)))
    assert len(watch.planted()) == 1 + SCHEDULE_LIMITS.max_other_hosts
    for host in list(watch.planted()):
        if host != "evil.example":
            urls = [f"https://{host}/{i}.xml" for i in range(1_900)]
            watch.answer(f"https://{host}/i.xml", index_of(urls))
    planted = watch.planted()
    assert len(planted) == 1 + SCHEDULE_LIMITS.max_other_hosts
    assert planted.total() == 1 + SCHEDULE_LIMITS.max_planted_elsewhere
    assert {file.planter for file in watch.sources.schedule} == {"evil.example"}


def test_a_host_plants_so_many_files_and_no_more() -> None:
    """On its own host, too, a host has so many files watched; one that is gone makes room."""
    schedule = PollSchedule()
    files = [
        File(f"https://h{i % 3}.a.org/{i}", Source.SITEMAP, f"h{i % 3}.a.org", Origin.CONFIG, planter="a.org")
        for i in range(SCHEDULE_LIMITS.max_planted + 5)
    ]
    assert sum(schedule.add(file) for file in files) == SCHEDULE_LIMITS.max_planted
    schedule.remove(files[0].url)
    assert schedule.add(files[-1])


def test_feeds_found_in_pages_are_counted_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feeds that pages link to are few for each host, and no other file is looked at to know it."""
    watch = Watch("a.org")
    watch.sources.found("https://a.org/robots.txt", ["/s.xml"], NOW)
    found = watch.sources.found_feeds("https://a.org/1", [f"/feed{i}" for i in range(9)], NOW)
    assert len(found) == SCHEDULE_LIMITS.max_feeds_per_host

    def search(_: PollSchedule) -> None:
        raise AssertionError

    monkeypatch.setattr(PollSchedule, "__iter__", search)
    assert not watch.sources.found_feeds("https://a.org/2", ["/another"], NOW)


def test_a_flood_of_an_older_version_is_cut_off_at_a_restart() -> None:
    """Files beyond the budgets are forgotten at a restart, and those that brought signals stay."""
    flood = [
        File(f"https://host{i}.example/s.xml", Source.SITEMAP, f"host{i}.example", Origin.ROBOTS, ("evil.example",))
        for i in range(14_400)
    ]
    honest = File("https://cdn.example/a.xml", Source.SITEMAP, "cdn.example", Origin.ROBOTS, ("a.org",), signals=7)
    orphan = File("https://gone.example/s.xml", Source.SITEMAP, "gone.example", Origin.GUESS)
    useful = File(
        "https://zzz.example/s.xml", Source.SITEMAP, "zzz.example", Origin.ROBOTS, ("evil.example",), signals=1
    )
    watch = Watch("a.org", "evil.example")
    dropped = watch.sources.restore([file.exported() for file in (*flood, orphan, honest, useful)])
    assert len(dropped) == 14_400 - SCHEDULE_LIMITS.max_other_hosts + 1 + 1
    assert orphan.url in dropped
    assert {honest.url, useful.url} <= {file.url for file in watch.sources.schedule}


def test_what_files_listed_is_remembered_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a host's files list too much to remember it all, our own pages are still remembered."""
    monkeypatch.setattr(
        planting, "LIMITS", dataclasses.replace(planting.LIMITS, max_remembered_bytes_per_planter=2_000)
    )
    watch = Watch("a.org")
    url = "https://a.org/s.xml"
    watch.sources.found("https://a.org/robots.txt", [url], NOW)
    others = "".join(f"<url><loc>https://a.org/other/{i}</loc></url>" for i in range(1_000))
    watch.answer(url, listing("a.org", "2026-01-01").replace("</urlset>", f"{others}</urlset>"))
    file = watch.sources.schedule.get(url)
    assert file is not None
    assert len(Baseline.unpacked(file.baseline) or ()) == 3
    assert watch.signalled(watch.answer(url, listing("a.org"))) == {"a.org"}


# -- whose turn it is ----------------------------------------------------------------------------------------


def polled(schedule: PollSchedule, now: float, not_ready: Iterable[str] = ()) -> str:
    """The host of the next poll, where some hosts are not ready; it is under way from then on."""
    for file in schedule.due(now):
        if file.host not in not_ready:
            schedule.begin(file.url)
            return file.host
    return ""


def test_a_site_with_thousands_of_due_files_delays_others_by_one_poll() -> None:
    """Files come up by turns of the hosts that planted them, however many each has and however long they wait."""
    schedule = PollSchedule()
    for i in range(1_900):
        schedule.add(File(f"https://evil.example/{i}", Source.SITEMAP, "evil.example", Origin.ROBOTS, next_poll=-DAY))
    for name in ("a.org", "b.org"):
        schedule.add(File(f"https://{name}/s", Source.SITEMAP, name, Origin.ROBOTS, next_poll=0.0))
    assert {polled(schedule, 0.0) for _ in range(3)} == {"a.org", "b.org", "evil.example"}
    assert polled(schedule, 0.0) == "evil.example"


def test_hosts_that_are_not_ready_hide_nothing() -> None:
    """Due files of hosts that may not be asked are passed over, whoever planted them, and come up again later."""
    schedule = PollSchedule()
    slow = [f"slow{i}.example" for i in range(100)]
    for i, name in enumerate(slow):
        schedule.add(File(f"https://{name}/s", Source.SITEMAP, name, Origin.ROBOTS, next_poll=float(i - 1_000)))
    for i in range(50):
        schedule.add(File(f"https://cdn.example/{i}", Source.SITEMAP, "cdn.example", Origin.ROBOTS, ("a.org",)))
    schedule.add(File("https://a.org/s", Source.SITEMAP, "a.org", Origin.ROBOTS, ("a.org",)))
    not_ready = [*slow, "cdn.example"]
    tries = [polled(schedule, 0.0, not_ready) for _ in range(20)]
    assert [name for name in tries if name] == ["a.org"]
    assert {polled(schedule, 0.0) for _ in range(150)} == {*slow, "cdn.example"}


def test_a_host_that_rests_is_not_offered() -> None:
    """A host that may not be asked for a while is offered when that is over, and no other waits for it."""
    schedule = PollSchedule()
    for name in ("a.org", "b.org"):
        schedule.add(File(f"https://{name}/s", Source.SITEMAP, name, Origin.ROBOTS, next_poll=0.0))
    schedule.rest("https://a.org/s", 60.0)
    assert [file.host for file in schedule.due(1.0)] == ["b.org"]
    assert sorted(file.host for file in schedule.due(60.0)) == ["a.org", "b.org"]


def test_planning_a_file_again_and_again_takes_no_room() -> None:
    """Plans that are out of date are dropped long before their time comes."""
    file = File("https://a.org/s", Source.SITEMAP, "a.org", Origin.ROBOTS, next_poll=0.0)
    rotation = PollRotation(lambda at, _: file if file.next_poll == at else None)
    rotation.join(file)
    for i in range(10_000):
        file.next_poll = DAY - i
        rotation.plan(file)
    assert len(rotation) < 100
    assert [one.url for one in rotation.due(DAY - 9_999)] == [file.url]


# -- whom an answer speaks for -------------------------------------------------------------------------------


def test_an_answer_speaks_for_the_host_that_gave_it() -> None:
    """A sitemap of the victim that redirects to another site says nothing about the victim's pages."""
    watch = Watch("victim.example", "evil.example")
    url = f"{VICTIM}/go?to=evil"
    watch.sources.found(f"{VICTIM}/robots.txt", [url], NOW)
    result = watch.answer(url, listing("victim.example"), "https://evil.example/s.xml")
    assert (watch.signalled(result), result.summary) == (set(), "foreign=3")
    own = watch.answer(url, listing("evil.example"), "https://evil.example/s.xml")
    assert watch.signalled(own) == {"evil.example"}


def test_a_sitemap_on_another_host_speaks_for_who_named_it() -> None:
    """robots.txt may name a sitemap elsewhere, which speaks for it; not so whoever that one redirects to."""
    watch = Watch("victim.example")
    url = "https://cdn.example/victim.xml"
    watch.sources.found(f"{VICTIM}/robots.txt", [url], NOW)
    assert not watch.answer(url, listing("victim.example"), "https://evil.example/s.xml").signals
    assert watch.signalled(watch.answer(url, listing("victim.example"))) == {"victim.example"}
    assert watch.answer(url, listing("victim.example", "2026-09-21T13:30:00Z"), "https://www.cdn.example/v.xml").signals


def test_relative_addresses_count_from_where_the_answer_came_from() -> None:
    """Relative addresses in an answer are those of the host that gave it."""
    watch = Watch("victim.example", "evil.example")
    url = f"{VICTIM}/go"
    watch.sources.found(f"{VICTIM}/robots.txt", [url], NOW)
    feed = "<rss><channel><item><link>/1</link><pubDate>Mon, 21 Sep 2026 13:00:00 GMT</pubDate></item></channel></rss>"
    assert watch.signalled(watch.answer(url, feed, "https://evil.example/feed")) == {"evil.example"}


def test_an_index_answered_by_a_stranger_gives_its_files_no_word() -> None:
    """Files of an index that another site answered speak for themselves and that site alone, settings or not."""
    given = f"{VICTIM}/given.xml"
    settings = PollSettings(given_sitemaps=[given])
    watch = Watch("victim.example", settings=settings)
    watch.sources.watch_given(NOW)
    watch.sources.found(f"{VICTIM}/robots.txt", [f"{VICTIM}/go"], NOW)
    for number, url in enumerate((given, f"{VICTIM}/go")):
        child = f"https://evil.example/{number}.xml"
        watch.answer(url, index_of([child]), "https://evil.example/i.xml")
        file = watch.sources.schedule.get(child)
        assert file is not None
        assert file.hosts == frozenset({"evil.example"})
        assert not watch.answer(child, listing("victim.example")).signals


def test_a_given_file_speaks_for_any_host_unless_another_site_answers() -> None:
    """What the settings name may speak for every host; what a redirect puts in its place may not."""
    given = "https://aggregator.example/all.xml"
    watch = Watch("victim.example", settings=PollSettings(given_sitemaps=[given]))
    watch.sources.watch_given(NOW)
    assert not watch.answer(given, listing("victim.example"), "https://evil.example/all.xml").signals
    assert watch.signalled(watch.answer(given, listing("victim.example"))) == {"victim.example"}


def test_a_strangers_hub_is_not_asked() -> None:
    """A feed that another site answers offers no hub and no topic of the victim's, inside or in its headers."""
    watch = Watch("victim.example")
    url = f"{VICTIM}/feed"
    watch.sources.found_feeds(f"{VICTIM}/1", [url], NOW)
    body = '<feed><link rel="hub" href="https://hub.evil.example/"/><link rel="self" href="https://victim.example/feed"/></feed>'
    assert watch.answer(url, body).hubs
    assert not watch.answer(url, body, "https://evil.example/feed").hubs
    request = Request(url, "victim.example")
    header = {"link": '<https://hub.evil.example/>; rel="hub"'}
    reading = watch.sources.reader(request)(Fetched("https://evil.example/feed", 200, b"<feed/>", header), NOW)
    assert not at_once(watch.sources.finish(request, reading, NOW)).hubs


def test_a_robots_txt_answered_by_a_stranger_names_nothing() -> None:
    """Sitemap lines of a robots.txt that another site answered are left alone; the usual address is tried."""
    watch = Watch("victim.example")
    lines = ["https://evil.example/s.xml", f"{VICTIM}/go"]
    found = watch.sources.found(f"{VICTIM}/robots.txt", lines, NOW, "https://evil.example/robots.txt")
    assert [poll.file.url for poll in found] == [f"{VICTIM}/sitemap.xml"]
    assert watch.sources.found(f"{VICTIM}/robots.txt", lines, NOW, "https://www.victim.example/robots.txt")
