"""Lastmods that move together: over one file, and over the files of one site that are polled within minutes."""

import dataclasses
from collections.abc import Sequence

import pytest

from crawld.model.fetched import Fetched, Purpose, Request
from crawld.model.page import Page
from crawld.model.signal import Source
from crawld.signals import polled_sources as site_moves
from crawld.signals.poll_signals import PageIndex, at_once
from crawld.signals.polled_sources import LIMITS as POLLED_SOURCES_LIMITS
from crawld.signals.polled_sources import MovedShare, PolledSources, PollResult, PollSettings, SiteMoves

NOW = 1_790_000_000.0
DAY = 86_400.0
SITE = "https://a.org"


@pytest.mark.parametrize(
    ("moved", "listed", "expected"),
    [
        (1, 1, Source.SITEMAP),
        (1, 1_000, Source.SITEMAP),
        (3, 20, Source.SITEMAP_FEW),
        (40, 1_000, Source.SITEMAP_FEW),
        (1_000, 1_000, Source.SITEMAP_BULK),
    ],
)
def test_one_file_alone_is_judged_by_its_own_share(moved: int, listed: int, expected: Source) -> None:
    """A page edited by hand, a handful, and a build that stamps every page are three sources."""
    assert SiteMoves().source("a.org", "s", MovedShare(moved, listed, listed), NOW) is expected


def test_many_small_files_of_one_site_are_one_event() -> None:
    """One entry in each of a hundred files is a deploy, if they moved within minutes; later ones are news again."""
    moves = SiteMoves()
    sources = [moves.source("a.org", f"s{i}", MovedShare(1, 1, 100), NOW + i) for i in range(100)]
    assert sources[0] is Source.SITEMAP
    assert set(sources[10:]) == {Source.SITEMAP_BULK}
    assert moves.source("b.org", "s", MovedShare(1, 1, 100), NOW + 100) is Source.SITEMAP
    assert (
        moves.source("a.org", "s", MovedShare(1, 1, 100), NOW + 101 + POLLED_SOURCES_LIMITS.together_seconds)
        is Source.SITEMAP
    )


def test_a_file_polled_again_takes_its_own_place() -> None:
    """A busy sitemap that brings one page at every poll brings each alone."""
    moves = SiteMoves()
    sources = {moves.source("a.org", "s", MovedShare(1, 500, 500), NOW + 15 * i) for i in range(100)}
    sources.add(moves.source("a.org", "s", MovedShare(0, 500, 500), NOW + 1_515))
    assert sources == {Source.SITEMAP}


def test_the_sites_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the older half is forgotten, whoever moved last is kept."""
    monkeypatch.setattr(site_moves, "LIMITS", dataclasses.replace(site_moves.LIMITS, max_sites=10))
    moves = SiteMoves()
    for i in range(25):
        moves.expect(f"h{i}", "s", NOW)
    assert len(moves.sites) <= 10
    assert "h24" in moves.sites


class Watch:
    """An index of twenty sitemaps, each with one page of ours that was crawled a day ago."""

    def __init__(self) -> None:
        pages = PageIndex()
        pages.put([Page(i, f"{SITE}/{i}", "a.org") for i in range(20)])
        self.sources = PolledSources(pages, lambda _: NOW - DAY, PollSettings(), lambda _: True)
        self.sources.found(f"{SITE}/robots.txt", [f"{SITE}/index.xml"], NOW)

    def poll(self, url: str, body: str, now: float) -> PollResult:
        """Poll a file, due or not."""
        request = Request(url, "a.org", Purpose.SITEMAP)
        reading = self.sources.reader(request)(Fetched(url, 200, body.encode()), now)
        return at_once(self.sources.finish(request, reading, now))

    def poll_index(self, moved: Sequence[int], now: float) -> None:
        """The index, with newer lastmods for these files."""
        dates = ["2026-02-01" if i in moved else "2026-01-01" for i in range(20)]
        rows = "".join(
            f"<sitemap><loc>{SITE}/s{i}.xml</loc><lastmod>{date}</lastmod></sitemap>" for i, date in enumerate(dates)
        )
        self.poll(f"{SITE}/index.xml", f"<sitemapindex>{rows}</sitemapindex>", now)

    def poll_file(self, number: int, lastmod: str, now: float) -> list[Source]:
        """One of its files; the sources of the signals."""
        row = f"<url><loc>{SITE}/{number}</loc><lastmod>{lastmod}</lastmod></url>"
        result = self.poll(f"{SITE}/s{number}.xml", f"<urlset>{row}</urlset>", now)
        return [signal.source for signal in result.signals]


def test_an_index_tells_at_once_how_many_files_moved() -> None:
    """The first file polled after a deploy is already known to be one of many; one file that moves alone is alone."""
    for moved, expected in ((range(20), Source.SITEMAP_BULK), ([7], Source.SITEMAP)):
        watch = Watch()
        watch.poll_index([], NOW)
        for number in range(20):
            assert not watch.poll_file(number, "2026-01-01", NOW)
        watch.poll_index(moved, NOW + DAY)
        assert watch.poll_file(7, "2026-09-30", NOW + DAY + 5) == [expected]


def test_the_first_poll_of_a_build_time_sitemap_is_bulk() -> None:
    """Dates never seen before that all claim a time after our crawls came together, whoever stamped them."""
    watch = Watch()
    rows = "".join(f"<url><loc>{SITE}/{i}</loc><lastmod>2026-09-22T00:00:00Z</lastmod></url>" for i in range(20))
    result = watch.poll(f"{SITE}/index.xml", f"<urlset>{rows}</urlset>", NOW)
    assert {signal.source for signal in result.signals} == {Source.SITEMAP_BULK}
    assert len(result.signals) == 20


def test_a_page_in_two_files_is_signalled_once() -> None:
    """The same new lastmod in another file is no second signal, though it came alone there and in bulk here."""
    watch = Watch()
    watch.sources.found(f"{SITE}/robots.txt", [f"{SITE}/all.xml", f"{SITE}/one.xml"], NOW)

    def listing(numbers: Sequence[int], date: str) -> str:
        return "".join(f"<url><loc>{SITE}/{i}</loc><lastmod>{date}</lastmod></url>" for i in numbers)

    for name, numbers in (("all", range(20)), ("one", [3])):
        watch.poll(f"{SITE}/{name}.xml", f"<urlset>{listing(numbers, '2026-01-01')}</urlset>", NOW)
    everything = watch.poll(f"{SITE}/all.xml", f"<urlset>{listing(range(20), '2026-09-30')}</urlset>", NOW + DAY)
    again = watch.poll(f"{SITE}/one.xml", f"<urlset>{listing([3], '2026-09-30')}</urlset>", NOW + 2 * DAY)
    assert (len(everything.signals), len(again.signals)) == (20, 0)
