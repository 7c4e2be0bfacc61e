"""Accounts: freshness, age and harmonic cost, exact."""

from dataclasses import replace

import numpy as np
import pytest

from crawld.research.engine import settle_accounts
from crawld.research.world import Population, World, draw_world


def _world(changes: list[list[float]], horizon: float, mu: list[float]) -> World:
    pages = len(mu)
    population = Population(np.array(mu), np.ones(pages), np.zeros(pages), np.zeros(pages))
    return World(
        population=population,
        horizon=horizon,
        changes=np.concatenate([np.array(one, dtype=float) for one in changes]),
        change_offsets=np.cumsum([0] + [len(one) for one in changes]),
        signal_times=np.empty(0),
        signal_pages=np.empty(0, dtype=np.int64),
    )


def test_one_page_by_hand() -> None:
    """A page crawled at 4 that changed at 1, 2 and 7 is fresh in [0,1) and [4,7), and its costs add up by hand."""
    world = _world([[1.0, 2.0, 7.0]], 10.0, [3.0])
    ledger = settle_accounts(world, np.array([4.0]), np.array([0]))
    assert ledger.accuracy(0.0, 10.0) == pytest.approx(0.4)
    assert ledger.accuracy(2.0, 8.0) == pytest.approx(3 / 6)
    assert ledger.harmonic(0.0, 10.0) == pytest.approx((3 + 2 / 2 + 3) / 10)
    assert ledger.age(0.0, 10.0) == pytest.approx((3**2 / 2 + 3**2 / 2) / 10)
    assert ledger.age(2.0, 8.0) == pytest.approx(((3**2 - 1**2) / 2 + 1 / 2) / 6)


def test_words_by_hand() -> None:
    """Half of the text outdated at 1 and half of the rest at 2, crawled at 4; all of it at 7: the words add up."""
    world = replace(_world([[1.0, 2.0, 7.0]], 10.0, [3.0]), magnitudes=np.array([0.5, 0.5, 1.0]))
    ledger = settle_accounts(world, np.array([4.0]), np.array([0]))
    assert ledger.words(0.0, 10.0) == pytest.approx(1.0 - (0.5 * 1 + 0.75 * 2 + 3) / 10)
    whole = settle_accounts(replace(world, magnitudes=None), np.array([4.0]), np.array([0]))
    assert whole.words(0.0, 10.0) == pytest.approx(0.4)
    assert world.magnitude_between(0, 0.0, 4.0) == pytest.approx(0.75)
    assert world.magnitude_between(0, 4.0, 6.0) == 0.0


def test_a_copy_that_was_never_taken_is_not_fresh() -> None:
    """Without a copy at the start a page is fresh only from its first crawl on."""
    world = _world([[9.0]], 10.0, [1.0])
    ledger = settle_accounts(world, np.array([5.0]), np.array([0]), fresh_at_start=False)
    assert ledger.accuracy(0.0, 10.0) == pytest.approx(0.4)


def test_importance_weighs() -> None:
    """A page three times as important counts three times as much."""
    world = _world([[], [0.0]], 10.0, [3.0, 1.0])
    nothing = settle_accounts(world, np.empty(0), np.empty(0, dtype=np.int64), fresh_at_start=False)
    assert nothing.accuracy(0.0, 10.0) == 0.0
    once = settle_accounts(world, np.array([0.0]), np.array([0]), fresh_at_start=False)
    assert once.accuracy(0.0, 10.0) == pytest.approx(0.75)


def test_accounts_agree_with_looking_often() -> None:
    """On a random world the integrals are what a fine grid of looks gives."""
    rng = np.random.default_rng(5)
    pages = 6
    population = Population(rng.random(pages), rng.uniform(0.2, 2.0, pages), np.zeros(pages), np.zeros(pages))
    world = draw_world(population, 30.0, 5)
    times = np.sort(rng.uniform(0.0, 30.0, 80))
    who = rng.integers(0, pages, 80)
    ledger = settle_accounts(world, times, who)
    looks = np.arange(5.0, 30.0, 0.01) + 0.005
    fresh, age, harmonic = (np.zeros(len(looks)) for _ in range(3))
    weight = population.mu / population.mu.sum()
    for page in range(pages):
        crawls = np.concatenate([[0.0], times[who == page]])
        for index, look in enumerate(looks):
            last = crawls[crawls <= look].max()
            unseen = world.changes_by_page[page]
            unseen = unseen[(unseen > last) & (unseen <= look)]
            fresh[index] += weight[page] * (len(unseen) == 0)
            age[index] += weight[page] * (look - unseen[0] if len(unseen) else 0.0)
            harmonic[index] += weight[page] * (1.0 / np.arange(1, len(unseen) + 1)).sum()
    assert ledger.accuracy(5.0, 30.0) == pytest.approx(fresh.mean(), abs=2e-3)
    assert ledger.age(5.0, 30.0) == pytest.approx(age.mean(), abs=5e-3)
    assert ledger.harmonic(5.0, 30.0) == pytest.approx(harmonic.mean(), abs=5e-3)
    series = ledger.accuracy_series(np.array([5.0, 10.0, 30.0]))
    assert (5 * series[0] + 20 * series[1]) / 25 == pytest.approx(ledger.accuracy(5.0, 30.0))


def test_pages_count_while_they_live() -> None:
    """A page born at 2 and gone at 6, stale from 3 until it is crawled and from 5 on, is fresh 2.5 of its 4 days."""
    nothing = np.zeros(1)
    world = World(
        Population(np.ones(1), nothing, nothing, nothing), 10.0, np.array([3.0, 5.0]), np.array([0, 2]),
        np.empty(0), np.empty(0, dtype=np.int64), births=np.array([2.0]), deaths=np.array([6.0]),
    )  # fmt: skip
    ledger = settle_accounts(world, np.array([3.5]), np.array([0]))
    assert ledger.accuracy(0.0, 10.0) == pytest.approx(2.5 / 4.0)
    assert ledger.delay(0.0, 10.0) == pytest.approx(0.5)
    assert ledger.missed(0.0, 10.0) == pytest.approx(0.5)
    assert ledger.age(0.0, 10.0) == pytest.approx((0.5**2 / 2 + 1.0 / 2) / 4.0)
