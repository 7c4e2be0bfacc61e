"""Which sitemaps the learner comes to hear: an honest one within some tens of crawls, a build's stamps never."""

import numpy as np

from crawld.learn.estimate_update import EstimateUpdate
from crawld.learn.observations import first_guess
from crawld.learn.online_learner import LIMITS as ONLINE_LEARNER_LIMITS
from crawld.learn.online_learner import OnlineLearner
from crawld.model.signal import SOURCES, Source
from crawld.research.crawler import MemoryHistories

DAY = 86400.0
PAGES = 30
HOSTS = ["site"] * PAGES
ALONE, BULK = SOURCES.index(Source.SITEMAP), SOURCES.index(Source.SITEMAP_BULK)


def learner() -> OnlineLearner:
    """One that knows nothing yet; a page is visited every ten days."""
    return OnlineLearner(first_guess(10 * DAY), len(SOURCES))


def heard(learnt: OnlineLearner, source: int) -> float:
    """How far the site's pages listen to the source."""
    told = {one.source: one.weight for one in learnt.trust(["site"])}
    return told.get(SOURCES[source], 0.0)


class Visited:
    """A site of which every day three pages are crawled in turn and some change; its sitemap is told by source."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.histories = MemoryHistories(HOSTS)
        self.histories.begin(np.arange(PAGES), 0.0)
        self.signals = np.zeros((PAGES, len(SOURCES)), np.int64)
        self.changed = np.zeros(PAGES, bool)
        self.day = 0

    def announce(self, pages: np.ndarray, source: int) -> None:
        """The sitemap names these pages."""
        self.signals[pages, source] += 1
        for page in pages.tolist():
            self.histories.heard(page, source)

    def crawl(self, learnt: OnlineLearner) -> None:
        """A day's crawls, and a round of learning."""
        self.day += 1
        pages = np.arange(3 * self.day, 3 * self.day + 3) % PAGES
        self.histories.crawled(pages, self.day * DAY, self.signals[pages], self.changed[pages])
        self.signals[pages], self.changed[pages] = 0, False
        EstimateUpdate.of(learnt, self.histories.of(pages), self.day * DAY)


def test_an_honest_sitemap_is_heard_within_two_visits_of_each_page() -> None:
    """Lastmods that move alone, and only with their pages, are heard after 60 crawls."""
    site, learnt = Visited(1), learner()
    for _ in range(20):
        moved = np.flatnonzero(site.rng.random(PAGES) < 0.05)
        site.changed[moved] = True
        site.announce(moved, ALONE)
        site.crawl(learnt)
    assert heard(learnt, ALONE) > 0.9


def test_pages_of_one_host_differ_in_what_their_signals_are_worth() -> None:
    """Where half of a host's pages are announced rightly and half at random, each page goes by its own signals."""
    site, learnt = Visited(1), learner()
    honest = np.arange(PAGES) % 2 == 0
    for _ in range(60):
        moved = site.rng.random(PAGES) < 0.08
        site.changed[moved] = True
        site.announce(np.flatnonzero(np.where(honest, moved, site.rng.random(PAGES) < 0.08)), ALONE)
        site.crawl(learnt)
    update = EstimateUpdate.of(learnt, site.histories.of(np.arange(PAGES)), site.day * DAY)
    precision = -np.expm1([-one.kappa[ALONE] for one in update.estimates])
    assert heard(learnt, ALONE) > 0.9
    assert precision[honest].mean() > precision[~honest].mean() + 0.1


def test_a_sitemap_that_comes_late_is_judged_by_what_the_host_has_taught() -> None:
    """After fifty quiet days the first signals do not set the listening predictor back by the first guess."""
    site, learnt = Visited(5), learner()
    for _ in range(50):
        site.crawl(learnt)
    site.changed[0] = True
    site.announce(np.arange(1), ALONE)
    everyone, later = np.arange(PAGES), (site.day + 10) * DAY
    site.histories.crawled(everyone, later, site.signals, site.changed)
    EstimateUpdate.of(learnt, site.histories.of(everyone), later)
    told = {one.source: one.score for one in learnt.trust(["site"])}
    assert told[Source.SITEMAP] > 0.5


def test_a_restart_hears_the_same_sitemap() -> None:
    """What is heard follows from the stored histories, read page after page."""
    site, learnt = Visited(1), learner()
    for _ in range(40):
        moved = np.flatnonzero(site.rng.random(PAGES) < 0.05)
        site.changed[moved] = True
        site.announce(moved, ALONE)
        site.crawl(learnt)
    again = learner()
    for pages in np.array_split(np.arange(PAGES), 3):
        EstimateUpdate.of(again, site.histories.of(pages), site.day * DAY, ONLINE_LEARNER_LIMITS.recalled)
    assert heard(learnt, ALONE) > 0.9
    assert heard(again, ALONE) > 0.9


def test_a_build_that_stamps_every_page_is_never_heard() -> None:
    """Stamps that say nothing about which page changed stay unheard, and so do lone lastmods at random."""
    for seed in range(3):
        site, learnt = Visited(seed), learner()
        for day in range(120):
            site.changed[site.rng.random(PAGES) < 0.05] = True
            if day % 3 == 0:
                site.announce(np.arange(PAGES), BULK)
            site.announce(site.rng.integers(0, PAGES, 1), ALONE)
            site.crawl(learnt)
            assert heard(learnt, BULK) < 0.1
            assert heard(learnt, ALONE) < 0.1


def test_the_first_signal_of_a_page_counts_what_its_siblings_proved() -> None:
    """Where a source is heard, pages that it never named before are boosted by the host's κ as well."""
    site, learnt = Visited(1), learner()
    silent = np.arange(PAGES) >= PAGES - 5
    for _ in range(40):
        moved = np.flatnonzero((site.rng.random(PAGES) < 0.08) & ~silent)
        site.changed[moved] = True
        site.announce(moved, ALONE)
        site.crawl(learnt)
    update = EstimateUpdate.of(learnt, site.histories.of(np.flatnonzero(silent)), site.day * DAY)
    assert heard(learnt, ALONE) > 0.9
    for estimate in update.estimates:
        assert estimate.kappa[ALONE] > 0.3
        assert estimate.kappa[BULK] == 0.0
