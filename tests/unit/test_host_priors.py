"""Priors learnt from pages: the right masses are found, hosts differ, and a new page profits."""

import numpy as np
import pytest
from numpy.typing import NDArray

from crawld.learn.grid_posterior import KAPPAS
from crawld.learn.host_priors import HostPriors, pool
from crawld.learn.observations import Observations, Prior

Floats = NDArray[np.float64]

RATES = np.geomspace(0.01, 10.0, 40)
EVEN = np.full((1, 40), 1 / 40)


def counted(rng: np.random.Generator, rates: Floats) -> Floats:
    """Likelihoods of RATES from events counted in 50 units of time on pages of these rates."""
    events = rng.poisson(rates * 50.0)[:, None]
    logs = events * np.log(RATES) - 50.0 * RATES
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def test_the_distribution_of_the_rates_is_recovered_whatever_its_form() -> None:
    """Of 3,000 pages, a third slow and the rest evenly spread up to a sharp end: the learnt masses say so."""
    rng = np.random.default_rng(1)
    rates = np.where(rng.random(3000) < 1 / 3, 0.05, rng.uniform(0.5, 2.0, 3000))
    likelihood, masses = counted(rng, rates), EVEN
    for _ in range(30):
        masses = pool(likelihood, np.zeros(3000, np.int64), EVEN, masses, 10.0)
    masses = masses[0]
    assert masses.sum() == pytest.approx(1.0)
    assert masses[RATES < 0.15].sum() == pytest.approx(1 / 3, abs=0.03)
    assert masses[RATES > 2.5].sum() < 0.01
    assert masses @ RATES == pytest.approx(rates.mean(), rel=0.03)


def test_without_evidence_the_prior_above_stays() -> None:
    """Pages that say nothing leave their host where it was, and do not count."""
    above = RATES[None] / RATES.sum()
    assert pool(np.zeros((4, 40)), np.zeros(4, np.int64), above, above, 10.0) == pytest.approx(above)
    assert pool(np.ones((4, 40)), np.zeros(4, np.int64), above, above, 10.0) == pytest.approx(above, rel=1e-5)


def test_one_page_moves_its_host_by_its_share() -> None:
    """A page that is sure of a rate weighs one against the imaginary pages of the prior above."""
    sure = np.zeros((1, 40))
    sure[0, 7] = 1.0
    masses = pool(sure, np.zeros(1, np.int64), EVEN, EVEN, 10.0)[0]
    assert masses[7] == pytest.approx((1.0 + 10.0 / 40) / 11.0)


def test_groups_do_not_touch_each_other() -> None:
    """Hosts learnt together, their pages in any order, are as if each were learnt alone."""
    rng = np.random.default_rng(2)
    likelihood = counted(rng, rng.uniform(0.1, 2.0, 60))
    group = rng.integers(0, 3, 60)
    group[group == 1] = 2  # a group without pages
    weights = rng.uniform(0.5, 2.0, 60)
    together = pool(likelihood, group, EVEN, np.repeat(EVEN, 3, axis=0), 10.0, weights)
    assert together[1] == pytest.approx(EVEN[0])
    for number in (0, 2):
        own = group == number
        alone = pool(likelihood[own], np.zeros(own.sum(), np.int64), EVEN, EVEN, 10.0, weights[own])
        assert together[number] == pytest.approx(alone[0], rel=1e-5)


def test_a_new_page_starts_from_what_its_host_taught() -> None:
    """Page 201 of a fast host is believed fast, of a slow host slow, of an unknown host in between."""
    rng = np.random.default_rng(2)
    siblings = HostPriors(Prior(1.0, 1.0, 1.0, 50.0), sources=1)
    hosts = np.repeat([0, 1], 200)
    alpha = np.repeat([5.0, 0.05], 200)
    tau = rng.exponential(1.0, (400, 10))
    changed = rng.random((400, 10)) < -np.expm1(-alpha[:, None] * tau)
    intervals = Observations.gather(np.arange(401) * 10, tau.ravel(), np.zeros((4000, 1)), changed.ravel(), None)
    *_, moved = siblings.fit(np.arange(400), hosts, intervals)
    assert len(moved) == 400
    learnt = siblings.prior(np.array([0, 1, 2]))
    fast, slow, unknown = np.exp(learnt.alpha @ np.log(siblings.grid.alpha))
    assert fast == pytest.approx(5.0, rel=0.4)
    assert slow == pytest.approx(0.05, rel=0.4)
    assert slow < unknown < fast


def test_trust_in_signals_is_shared_within_a_host() -> None:
    """Where a host's signals proved true, an unheard page of the same host trusts its first signal."""
    siblings = HostPriors(Prior(1.0, 1.0, 1.0, 50.0), sources=1)
    hosts = np.repeat([0, 1], 50)
    tau, signals = np.full(1000, 0.1), np.tile([[0], [1]], (500, 1))
    changed = (signals[:, 0] > 0) & np.repeat([True, False], 500)
    intervals = Observations.gather(np.arange(101) * 10, tau, signals, changed, None)
    for _ in range(8):
        siblings.fit(np.arange(100), hosts, intervals)
    honest, stamps = 1.0 - (siblings.prior(np.array([0, 1])).kappa @ np.exp(-KAPPAS))[:, 0]  # precision
    assert honest > 0.9
    assert stamps < 0.05
