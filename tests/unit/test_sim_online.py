"""crawld in simulated time: several hosts, pages that come and go, signals, and histories in memory."""

from dataclasses import replace

import numpy as np
import pytest

from crawld.model.signal import SOURCES, Source
from crawld.model.units import DAY
from crawld.research.crawler import MemoryHistories, scheduled
from crawld.research.engine import simulate
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning
from crawld.research.weblike import Sitemap, SiteStyle, draw_weblike
from crawld.research.world import Population, World


def _lives() -> World:
    """Three pages: one all the time, one gone at 4, one born at 6."""
    nothing = np.zeros(3)
    return World(
        Population(np.ones(3), nothing, nothing, nothing), 10.0, np.empty(0), np.zeros(4, dtype=np.int64),
        np.empty(0), np.empty(0, dtype=np.int64), births=np.array([0.0, 0.0, 6.0]), deaths=np.array([10.0, 4.0, 10.0]),
    )  # fmt: skip


def test_pages_are_crawled_while_they_live() -> None:
    """None before its birth or after its death, every living one again and again."""
    world = _lives()
    run = simulate(world, OnlineCrawler("greedy-ncis", world, 2.0), 2.0)
    assert len(run.times) == 20
    for page in range(3):
        times = run.times[run.pages == page]
        assert len(times) >= 3
        assert times.min() > world.born[page]
        assert times.max() <= world.died[page]


def test_a_crawler_with_a_fixed_list_refuses_such_a_world() -> None:
    """The papers' crawlers know no births."""
    world = _lives()
    with pytest.raises(TypeError, match="come and go"):
        simulate(world, scheduled("greedy", world.population, 2.0), 2.0)


def test_hosts_learn_apart() -> None:
    """Pages of a busy host are believed busier than those of a quiet one."""
    quiet = SiteStyle(pages=20, rate=0.01, never=0.0, spread=0.3, mass_every=1e9, sitemap=Sitemap.NONE)
    styles = [replace(quiet, rate=0.5), quiet]
    world = draw_weblike(styles, 60.0, 1, zipf=False)
    crawler = OnlineCrawler("uniform", world, 10.0)
    simulate(world, crawler, 10.0)
    believed = crawler.beliefs().alpha
    assert believed[:20].mean() > 5 * believed[20:].mean()


def test_stamps_of_a_build_are_a_source_of_their_own() -> None:
    """Signals of a whole site are counted in bulk, and none at all by whoever does not listen."""
    world = draw_weblike([SiteStyle(pages=30, sitemap=Sitemap.BUILD)], 30.0, 1)
    crawler = OnlineCrawler("greedy-ncis", world, 5.0)
    simulate(world, crawler, 5.0)
    heard = crawler.histories.of(np.arange(30)).signal_counts
    assert heard[:, SOURCES.index(Source.SITEMAP_BULK)].min() > 0
    assert heard[:, SOURCES.index(Source.SITEMAP)].sum() == 0
    deaf = OnlineCrawler("greedy-ncis", world, 5.0, OnlineLearning(signals=False))
    simulate(world, deaf, 5.0)
    assert deaf.histories.of(np.arange(30)).signal_counts.sum() == 0


def test_signals_that_are_not_heard_change_nothing() -> None:
    """Stamps of every build, which foretell nothing, leave each single pick as it is without them."""
    world = draw_weblike([SiteStyle(pages=30, sitemap=Sitemap.BUILD)], 60.0, 1)
    hearing = OnlineCrawler("greedy-ncis", world, 5.0)
    picks = simulate(world, hearing, 5.0).pages
    (stamps,) = hearing.learner.trust(["host0"])
    assert (stamps.heard, stamps.intervals > 100) == (False, True)
    deaf = OnlineCrawler("greedy-ncis", world, 5.0, OnlineLearning(signals=False))
    assert picks.tolist() == simulate(world, deaf, 5.0).pages.tolist()


def test_a_claim_from_before_the_last_crawl_is_stale() -> None:
    """It is not counted; one from after it is."""
    world = _lives()
    crawler = OnlineCrawler("greedy-ncis", world, 2.0)
    page = crawler.pick(1.0)
    assert page is not None
    crawler.settle(page, 1.0, changed=False)
    crawler.notice(page, 2.0, (0.5, 0.5))
    assert sum(crawler.scheduler.heard(page)) == 0
    crawler.notice(page, 2.0, (0.5, 1.5))
    assert sum(crawler.scheduler.heard(page)) == 1


def test_significance_keeps_more_words_fresh_and_fewer_pages() -> None:
    """Of pages that change alike, half rewritten and half touched up each time, the first are crawled more often."""
    pages = 40
    style = SiteStyle(pages=pages, rate=0.2, never=0.0, spread=0.1, mass_every=1e9, sitemap=Sitemap.NONE)
    world = draw_weblike([style], 120.0, 1, zipf=False)
    of_page = np.repeat(np.arange(pages), np.diff(world.change_offsets))
    world = replace(world, magnitudes=np.where(of_page % 2 == 0, 0.9, 0.02))
    words, fresh = [], []
    for significance in (False, True):
        how = OnlineLearning(round_share=0.1, significance=significance)
        ledger = simulate(world, OnlineCrawler("greedy-ncis", world, 4.0, how), 4.0).ledger()
        words.append(ledger.words(40.0, 120.0))
        fresh.append(ledger.accuracy(40.0, 120.0))
    assert words[1] > words[0] + 0.01
    assert fresh[1] < fresh[0]


def test_histories_keep_the_latest_rows() -> None:
    """The first crawl begins, later ones are rows, and beyond the most the oldest are forgotten."""
    kept = MemoryHistories(["a", "b"], sources=1, max_rows=6)
    both = np.array([0, 1])
    for day in range(10):
        kept.crawled(both[: 2 if day < 3 else 1], day * DAY, np.full((2 if day < 3 else 1, 1), day),
                     np.array([day % 2 == 0, False])[: 2 if day < 3 else 1])  # fmt: skip
    found = kept.of(np.array([1, 0]))
    assert found.hosts == ["b", "a"]
    assert np.diff(found.offsets).tolist() == [2, 6]
    assert (found.at[2:] / DAY).tolist() == [4, 5, 6, 7, 8, 9]
    assert found.signals[2:, 0].tolist() == [4, 5, 6, 7, 8, 9]
    assert found.changed[2:].tolist() == [True, False, True, False, True, False]
    assert np.all(found.tau == DAY)
    assert found.first_success.tolist() == [0.0, 0.0]
