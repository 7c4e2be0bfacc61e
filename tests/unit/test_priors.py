"""Priors learnt from pages: the right spread is found, hosts differ, and a new page profits."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from crawld.scheduler.estimator import Prior, fit_pages
from crawld.scheduler.priors import NARROWEST, cautious, digamma, pool_rates
from crawld.scheduler.siblings import Siblings

Floats = NDArray[np.float64]


def counted(rng: np.random.Generator, shape: float, rate: float, pages: int) -> tuple[Floats, Floats]:
    """Events counted in 20 units of time on pages whose rates are Gamma(shape, rate)."""
    exposure = np.full(pages, 20.0)
    return rng.poisson(rng.gamma(shape, 1 / rate, pages) * exposure).astype(float), exposure


def test_digamma_is_digamma() -> None:
    """ψ to 1e-8 over the shapes that occur."""
    x = np.geomspace(1e-3, 1e6, 200)
    assert digamma(x) == pytest.approx(special.digamma(x), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(("shape", "rate"), [(0.5, 1.0), (2.0, 10.0)])
def test_the_spread_of_the_rates_is_recovered(shape: float, rate: float) -> None:
    """With 2,000 pages the learnt shape and mean are those the pages were drawn from."""
    evidence = counted(np.random.default_rng(1), shape, rate, 2000)
    above = np.ones(1), np.ones(1)
    found_shape, found_rate = pool_rates(*evidence, np.zeros(2000, np.int64), above)
    assert found_shape[0] == pytest.approx(shape, rel=0.1)
    assert found_shape[0] / found_rate[0] == pytest.approx(shape / rate, rel=0.1)


def test_pages_all_alike_make_a_narrow_prior_but_not_a_certain_one() -> None:
    """However alike the pages, one page's own evidence can still move it."""
    same = np.full(500, 50.0), np.full(500, 50.0)
    shape, _ = pool_rates(*same, np.zeros(500, np.int64), (np.ones(1), np.ones(1)))
    assert 3.0 < shape[0] <= NARROWEST


def test_without_evidence_the_prior_above_stays() -> None:
    """A host that has not spoken is believed to be like the others."""
    silent = np.zeros(4), np.zeros(4)
    shape, rate = pool_rates(*silent, np.zeros(4, np.int64), (np.full(1, 0.7), np.full(1, 3.0)))
    assert shape[0] == pytest.approx(0.7, rel=0.05)
    assert shape[0] / rate[0] == pytest.approx(0.7 / 3.0, rel=0.05)


def test_a_new_page_starts_from_what_its_host_taught() -> None:
    """Page 201 of a fast host is believed fast, of a slow host slow, of an unknown host in between."""
    rng = np.random.default_rng(2)
    siblings = Siblings(Prior(1.0, 1.0, 1.0, 50.0), sources=1)
    hosts = ["fast"] * 200 + ["slow"] * 200
    alpha = np.repeat([5.0, 0.05], 200)
    tau = rng.exponential(1.0, (400, 10))
    changed = rng.random((400, 10)) < -np.expm1(-alpha[:, None] * tau)
    prior = siblings.prior(hosts)
    posterior = fit_pages(np.arange(401) * 10, tau.ravel(), np.zeros((4000, 1)), changed.ravel(), prior)
    moved = siblings.take_in(np.arange(400), hosts, posterior, prior)
    assert len(moved) == 400
    learnt = siblings.prior(["fast", "slow", "unknown"])
    fast, slow, unknown = np.asarray(learnt.alpha_shape) / np.asarray(learnt.alpha_rate)
    assert fast == pytest.approx(5.0, rel=0.3)
    assert slow == pytest.approx(0.05, rel=0.4)
    assert slow < unknown < fast


def test_trust_in_signals_is_shared_within_a_host() -> None:
    """Where a host's signals proved true, an unheard page of the same host trusts its first signal."""
    siblings = Siblings(Prior(1.0, 1.0, 1.0, 50.0), sources=1)
    hosts = ["honest"] * 50 + ["stamps"] * 50
    tau, signals = np.full(1000, 0.1), np.tile([[0], [1]], (500, 1))
    changed = (signals[:, 0] > 0) & np.repeat([True, False], 500)
    for _ in range(8):
        prior = siblings.prior(hosts)
        posterior = fit_pages(np.arange(101) * 10, tau, signals, changed, prior)
        siblings.take_in(np.arange(100), hosts, posterior, prior)
    learnt = siblings.prior(["honest", "stamps"])
    honest, stamps = (np.asarray(learnt.kappa_shape) / np.asarray(learnt.kappa_rate))[:, 0]
    assert honest > 0.5
    assert stamps < 0.02


def test_caution_keeps_the_mean_and_thickens_the_tail() -> None:
    """A capped posterior has the same mean; one of a lower shape stays as it is."""
    shape, rate = cautious(np.array([8.0, 0.5]), np.array([4.0, 4.0]))
    assert shape == pytest.approx([1.0, 0.5])
    assert shape / rate == pytest.approx([2.0, 0.125])
