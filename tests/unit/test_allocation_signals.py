"""Busa-Fekete et al. 2025 Theorem 1: one level for all pages spends the bandwidth, also where rates jump."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawld.choose import allocation
from crawld.choose.allocation import Floats, baseline_accuracy
from crawld.choose.value import crawl_value, cycle_length, fresh_time
from crawld.model.errors import InputError

numbers = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
page = st.tuples(numbers, numbers, st.one_of(st.just(np.inf), st.just(0.0), st.floats(1e-6, 50.0)), numbers)


def world(pages: int, seed: int = 1) -> tuple[Floats, Floats, Floats, Floats]:
    """Busa-Fekete et al.'s population: μ, Δ uniform, recall Beta(¼, ¼), false signals at rates from .1 to .6."""
    rng = np.random.default_rng(seed)
    mu, delta = rng.uniform(size=pages), rng.uniform(size=pages)
    recall, false = rng.beta(0.25, 0.25, pages), rng.uniform(0.1, 0.6, pages)
    gamma = recall * delta + false
    return mu, (1 - recall) * delta, -np.log(false / gamma), gamma


@given(st.lists(page, min_size=1, max_size=8), st.one_of(st.just(0.0), st.floats(1e-5, 1e5)))
@settings(max_examples=150)
def test_rates_sum_to_the_bandwidth(pages: list[tuple[float, float, float, float]], bandwidth: float) -> None:
    """Whatever the signals are like, rates and freshness are numbers in range and the bandwidth is spent."""
    mu, alpha, kappa, gamma = np.array(pages).T
    found = allocation.signal_optimum(mu, alpha, kappa, gamma, bandwidth)
    assert float(found.rates.sum()) == pytest.approx(bandwidth, rel=1e-9)
    assert np.all(found.rates >= 0)
    assert np.all((found.freshness >= 0) & (found.freshness <= 1))


@pytest.mark.parametrize(("pages", "bandwidth"), [(100, 100.0), (100, 0.5), (500, 100.0), (2000, 30.0)])
def test_every_page_is_crawled_at_the_level(pages: int, bandwidth: float) -> None:
    """Each page's crawl value at its threshold is the level to nine digits, or its value never gets there."""
    mu, alpha, kappa, gamma = world(pages)
    found = allocation.signal_optimum(mu, alpha, kappa, gamma, bandwidth)
    for x in found.thresholds:
        seen = x < np.inf
        value = crawl_value(x[seen], alpha[seen], kappa[seen], gamma[seen], mu[seen])
        assert value == pytest.approx(found.level, rel=1e-9)
        most = mu / (alpha - gamma * np.expm1(-kappa))
        assert np.all(most[~seen] <= found.level * (1 + 1e-9))


def test_rates_and_freshness_follow_from_the_thresholds() -> None:
    """A page that does not jump has the rate 1/ψ and the freshness w/ψ of its threshold."""
    mu, alpha, kappa, gamma = world(200)
    found = allocation.signal_optimum(mu, alpha, kappa, gamma, 50.0)
    x = found.thresholds[0]
    seen = x < np.inf
    length = cycle_length(x[seen], alpha[seen], kappa[seen], gamma[seen])
    assert found.rates[seen] == pytest.approx(1 / length, rel=1e-9)
    fresh = fresh_time(x[seen], alpha[seen], kappa[seen], gamma[seen]) / length
    assert found.freshness[seen] == pytest.approx(fresh, rel=1e-9)


def test_without_signals_it_is_the_baseline() -> None:
    """Signals that are worth nothing, or never come, leave the fixed-order optimum of eq. (5)."""
    mu, delta = world(300)[:2]
    rates = allocation.freshness_optimal(mu, delta, 40.0)
    for kappa, gamma in ((0.0, 0.3), (1.0, 0.0)):
        assert allocation.signal_optimal(mu, delta, kappa, gamma, 40.0) == pytest.approx(rates, rel=1e-9, abs=1e-12)
        accuracy = allocation.optimum_accuracy(mu, delta, kappa, gamma, 40.0)
        assert accuracy == pytest.approx(baseline_accuracy(mu, delta, 40.0), rel=1e-9)


def test_rates_are_mixed_where_they_jump() -> None:
    """Pages whose every change is announced truly are followed always or never, and one of them now and then."""
    mu, delta = np.array([4.0, 3.0, 2.0, 1.0]), np.ones(4)
    found = allocation.signal_optimum(mu, np.zeros(4), np.inf, delta, 2.25)
    assert found.rates == pytest.approx([1.0, 1.0, 0.25, 0.0])
    assert found.freshness == pytest.approx([1.0, 1.0, 0.25, 0.0])
    assert found.level == pytest.approx(2.0)
    everything = allocation.signal_optimum(mu, np.zeros(4), np.inf, delta, 8.0)
    assert everything.rates == pytest.approx(2.0)
    assert everything.freshness == pytest.approx(1.0)


def test_announcements_that_lie_are_counted_to_a_number() -> None:
    """With every change announced and false signals among them, pages are crawled at the n-th signal, n mixed."""
    rates = allocation.signal_optimal(np.ones(2), np.zeros(2), 0.5, 1.0, 0.9)
    assert rates == pytest.approx(0.45)
    third = allocation.signal_optimal(np.ones(1), np.zeros(1), 0.5, 1.0, 1 / 3)
    assert third == pytest.approx(1 / 3)


def test_signals_help() -> None:
    """The optimum with signals is above the baseline at every size of Busa-Fekete et al.'s population."""
    for pages in (100, 1000):
        mu, alpha, kappa, gamma = world(pages)
        delta = alpha - gamma * np.expm1(-kappa)
        optimum = allocation.optimum_accuracy(mu, alpha, kappa, gamma, 100.0)
        assert optimum > baseline_accuracy(mu, delta, 100.0) + 0.01


def test_many_pages_are_sought_on_a_sample_first() -> None:
    """Fifty thousand pages end at the same exactness as a few."""
    mu, alpha, kappa, gamma = world(50_000)
    found = allocation.signal_optimum(mu, alpha, kappa, gamma, 5000.0)
    assert float(found.rates.sum()) == pytest.approx(5000.0, rel=1e-9)
    x = found.thresholds[0]
    seen = np.flatnonzero(x < np.inf)[::50]
    value = crawl_value(x[seen], alpha[seen], kappa[seen], gamma[seen], mu[seen])
    assert value == pytest.approx(found.level, rel=1e-9)


def test_a_signal_of_negative_worth_is_refused() -> None:
    """κ below 0 is an InputError."""
    with pytest.raises(InputError):
        allocation.signal_optimal([1.0], [1.0], [-1.0], [1.0], 1.0)
