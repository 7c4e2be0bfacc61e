"""Several recorded sites in one replay, and their signals by the crowd they came with."""

import numpy as np
import pytest

from crawld.model.signal import CROWDS, Crowd
from tests.support.replay.learner import Learnt
from tests.support.replay.mix import mix, together, window
from tests.support.replay.signals import CrowdCounts
from tests.support.replay.site import Clairvoyant, Moments, RoundRobin, Site, replay


def site(pages: int, days: float, every: float, stamps: float = 50.0) -> Site:
    """Pages that change in turn every so many days each, and are all stamped at regular builds."""
    times = [np.arange(every * (1 + page / pages), days, every) for page in range(pages)]
    changes = Moments(np.r_[0, np.cumsum([len(t) for t in times])], np.concatenate(times), 0.0, days)
    builds = np.arange(stamps, days, stamps)
    signals = Moments(np.arange(pages + 1) * len(builds), np.tile(builds, pages), 0.0, days)
    return Site("drawn", np.zeros(pages), np.full(pages, days), changes, signals)


def test_a_window_keeps_what_happened_in_it_and_counts_from_its_start() -> None:
    """Changes, signals and lives are cut at both ends."""
    whole = site(10, 400.0, 30.0)
    cut = window(whole, 100.0, 200.0)
    everyone = np.arange(10)
    before, after = np.zeros(10), np.full(10, 100.0)
    assert (
        cut.changes.count(everyone, before, after).tolist()
        == whole.changes.count(everyone, before + 100.0, after + 100.0).tolist()
    )
    assert cut.death.tolist() == [100.0] * 10


def test_sites_side_by_side_are_hosts_of_their_own() -> None:
    """Every page keeps its changes and has the number of its site."""
    both = together([site(3, 200.0, 20.0), site(2, 300.0, 50.0)])
    assert both.hosts is not None
    assert both.hosts.tolist() == [0, 0, 0, 1, 1]
    assert both.changes.next(np.arange(5), np.zeros(5)) == pytest.approx([20.0, 20 * 4 / 3, 20 * 5 / 3, 50.0, 75.0])


def test_signals_are_told_apart_by_the_crowd_they_came_with() -> None:
    """A stamp on every page is bulk; one page's own is alone."""
    stamped = site(40, 100.0, 30.0)
    own = Moments(np.r_[0, np.ones(40, np.int64).cumsum()], np.linspace(1.0, 40.0, 40), 0.0, 100.0)
    single = Site("drawn", stamped.birth, stamped.death, stamped.changes, own)
    for drawn, crowd in ((stamped, Crowd.BULK), (single, Crowd.ALONE)):
        counts = CrowdCounts(drawn).count(np.arange(40), np.zeros(40), 99.0)
        assert (counts[:, CROWDS.index(crowd)] == 1).all()
        assert counts.sum() == 40


def test_a_mix_is_the_same_for_the_same_seed_and_nobody_beats_the_clairvoyant() -> None:
    """The learner and round robin crawl several hosts on one budget, both below who knows the future."""
    drawn = mix([site(30, 400.0, 20.0), site(30, 500.0, 90.0)], 1, pages=20)
    again = mix([site(30, 400.0, 20.0), site(30, 500.0, 90.0)], 1, pages=20)
    assert drawn.changes.times.tolist() == again.changes.times.tolist()
    weights, slots = np.ones(drawn.pages), drawn.slots(0.5)
    best = replay(drawn, Clairvoyant(drawn, weights), slots, weights)
    for policy in (RoundRobin(), Learnt(drawn, weights), Learnt(drawn, weights, signals=True)):
        assert replay(drawn, policy, slots, weights) < best


def test_signals_that_are_not_heard_change_nothing() -> None:
    """Where nothing is heard, crawling with a sitemap that stamps every page is crawling without it."""
    stamped = site(40, 300.0, 30.0, stamps=7.0)
    weights, slots = np.ones(40), stamped.slots(1.0)
    listening = Learnt(stamped, weights, signals=True)
    assert replay(stamped, listening, slots, weights) == replay(stamped, Learnt(stamped, weights), slots, weights)
    assert not any(one.heard for one in listening.learner.trust(["host0"]))
