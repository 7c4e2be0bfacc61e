"""Crawl values against exact arithmetic, at every corner of their parameters."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawld.choose.series import measure_pages
from crawld.choose.value import approximate_value, crawl_value, cycle_length, fresh_time, level_crossing

anything = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-300, 1.0, 1e300, 1.7e308]),
    st.floats(0.0, 1.7e308),
    st.floats(-300, 300).map(lambda power: 10.0**power),
)
anything_or_endless = st.one_of(anything, st.just(math.inf))


def exactly(x: float, alpha: float, kappa: float, gamma: float) -> tuple[Any, Any]:
    """V for importance 1, and ψ, by the papers' sums in 90 digits."""
    with mpmath.workdps(90):
        x, alpha, kappa, gamma = (mpmath.mpf(number) for number in (x, alpha, kappa, gamma))
        value = length = mpmath.mpf(0)
        ratio = gamma / (alpha + gamma)
        for i in range(max(int(mpmath.ceil(x / kappa)), 1)):
            rest = x - i * kappa if i else x
            by_signal = mpmath.gammainc(i + 1, 0, gamma * rest / alpha, regularized=True)
            by_change = mpmath.gammainc(i + 1, 0, (1 + gamma / alpha) * rest, regularized=True)
            fade = mpmath.exp(-i * kappa) if i else 1
            length += by_signal / gamma
            value += fade * (ratio ** (i + 1) * by_change - mpmath.exp(-rest) * by_signal) / gamma
        return value, length


def draw(rng: np.random.Generator) -> tuple[float, float, float, float]:
    """A page from a wide range, with few enough signals for the exact sum."""
    alpha = 10 ** rng.uniform(-12, 2)
    gamma = alpha * 10 ** rng.uniform(-6, 6)
    kappa = 10 ** rng.uniform(-6, 1.5) if rng.random() < 0.9 else math.inf
    x = min(kappa, 1.0) * 10 ** rng.uniform(-3, 1.8)
    return x, alpha, kappa, gamma


@pytest.mark.parametrize("seed", range(6))
def test_values_and_cycles_keep_twelve_digits_everywhere(seed: int) -> None:
    """V and ψ agree with exact arithmetic on pages drawn over many orders of magnitude."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        page = draw(rng)
        value, length = exactly(*page)
        assert abs(crawl_value(*page) - value) <= 1e-13 * value, page
        assert abs(cycle_length(*page) - length) <= 1e-13 * length, page


@pytest.mark.parametrize(("x", "alpha", "kappa", "gamma"), [(0.4, 1e-3, 1e-3, 3.0), (2.0, 1e-4, 2e-3, 1.0)])
def test_hundreds_of_signals_are_integrated_as_exactly_as_a_few_are_summed(
    x: float, alpha: float, kappa: float, gamma: float
) -> None:
    """Counts above those that are summed one by one lose no digits."""
    value, length = exactly(x, alpha, kappa, gamma)
    assert crawl_value(x, alpha, kappa, gamma) == pytest.approx(float(value), rel=1e-12)
    assert cycle_length(x, alpha, kappa, gamma) == pytest.approx(float(length), rel=1e-12)


@settings(max_examples=400)
@given(x=anything_or_endless, alpha=anything, kappa=anything_or_endless, gamma=anything, mu=anything)
def test_no_page_is_worth_less_than_nothing(x: float, alpha: float, kappa: float, gamma: float, mu: float) -> None:
    """No NaN, no warning and no negative number for any page that can be written down."""
    found = (
        crawl_value(x, alpha, kappa, gamma, mu),
        cycle_length(x, alpha, kappa, gamma),
        fresh_time(x, alpha, kappa, gamma),
        approximate_value(x, alpha, kappa, gamma, mu, terms=2),
        level_crossing(x, alpha, kappa, gamma, mu),
    )
    assert all(number >= 0 for number in found), found


moderate = st.floats(-9, 3).map(lambda power: 10.0**power)


@settings(max_examples=200)
@given(x=moderate, step=moderate, alpha=moderate, kappa=moderate, gamma=moderate)
def test_value_and_cycle_rise_with_staleness(x: float, step: float, alpha: float, kappa: float, gamma: float) -> None:
    """V and ψ never fall as x grows, nor does the truncated V."""
    later = x * (1 + step)
    for function in (crawl_value, cycle_length):
        assert function(later, alpha, kappa, gamma) >= function(x, alpha, kappa, gamma) * (1 - 1e-13)
    for terms in (1, 2):
        before = approximate_value(x, alpha, kappa, gamma, terms=terms)
        assert approximate_value(later, alpha, kappa, gamma, terms=terms) >= before * (1 - 1e-13)


@settings(max_examples=100)
@given(x=moderate, alpha=moderate, kappa=moderate, gamma=moderate, unit=st.sampled_from([1e-9, 86400.0, 3e7]))
def test_values_are_times(x: float, alpha: float, kappa: float, gamma: float, unit: float) -> None:
    """Another unit of time scales V, ψ and w by that unit and changes nothing else."""
    for function in (crawl_value, cycle_length, fresh_time):
        assert function(x, alpha / unit, kappa, gamma / unit) == pytest.approx(
            unit * function(x, alpha, kappa, gamma), rel=1e-11
        )


@settings(max_examples=200)
@given(x=st.floats(-6, 1.2).map(lambda p: 10.0**p), alpha=moderate, kappa=moderate, gamma=moderate, mu=moderate)
def test_a_level_is_crossed_where_the_value_reaches_it(
    x: float, alpha: float, kappa: float, gamma: float, mu: float
) -> None:
    """The crossing of V(x) is where V is V(x) again."""
    level = crawl_value(x, alpha, kappa, gamma, mu)
    crossing = level_crossing(level, alpha, kappa, gamma, mu)
    if crossing < math.inf:
        assert crawl_value(crossing, alpha, kappa, gamma, mu) == pytest.approx(float(level), rel=1e-12)
    else:
        assert level >= crawl_value(math.inf, alpha, kappa, gamma, mu) * (1 - 1e-15)


def test_levels_that_are_nothing_or_too_high() -> None:
    """Nothing is reached at once, the value at infinity never."""
    assert level_crossing(0.0, 1.0, 1.0, 1.0) == 0
    assert level_crossing(1.0, 1.0, 0.0, 0.0) == math.inf
    assert level_crossing(0.1, 0.0, 0.0, 0.0) == math.inf
    assert level_crossing(0.1, 1.0, 1.0, 1.0, 0.0) == math.inf


def test_pages_without_useful_signals_are_greedy() -> None:
    """γ = 0 and κ = 0 give (1/α)P(2, x), and ψ = x/α."""
    x = np.array([1e-9, 0.1, 0.3, 1.0, 5.0, 60.0])
    want = [float(mpmath.gammainc(2, 0, y, regularized=True)) / 0.5 for y in x]
    for kappa, gamma in ((0.0, 3.0), (2.0, 0.0), (math.inf, 0.0)):
        np.testing.assert_allclose(crawl_value(x, 0.5, kappa, gamma), want, rtol=1e-14)
        np.testing.assert_allclose(cycle_length(x, 0.5, kappa, gamma), x / 0.5, rtol=1e-15)


def test_a_page_that_never_changes_is_never_worth_a_crawl() -> None:
    """Δ = 0: no value, and a cycle without end."""
    np.testing.assert_array_equal(crawl_value([0.0, 1.0, math.inf], 0.0, [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]), 0.0)
    assert cycle_length(1.0, 0.0, 0.0, 1.0) == math.inf


def test_one_shape_for_all_arguments() -> None:
    """Arrays broadcast, scalars give scalars."""
    assert isinstance(crawl_value(1.0, 1.0, 1.0, 1.0), np.float64)
    assert crawl_value(np.ones((3, 1)), np.ones(4), 1.0, 1.0).shape == (3, 4)
    assert crawl_value(np.ones((0,)), 1.0, 1.0, 1.0).shape == (0,)


def test_blocks_change_nothing() -> None:
    """A call with many pages gives each page what it gives alone or among few, to the last digit."""
    rng = np.random.default_rng(1)
    size = 40_000
    x, alpha, gamma = rng.exponential(2, size), rng.uniform(0, 1, size), rng.uniform(0, 2, size)
    kappa = rng.exponential(1, size)
    whole = crawl_value(x, alpha, kappa, gamma)
    some = rng.integers(0, size, 300)
    alone = [crawl_value(x[i], alpha[i], kappa[i], gamma[i]) for i in some]
    np.testing.assert_array_equal(whole[some], alone)
    for few in (some[:10], some[:60], some):
        here = measure_pages(x[few], alpha[few], kappa[few], gamma[few])
        np.testing.assert_array_equal(here.value, whole[few])
        np.testing.assert_array_equal(here.length, cycle_length(x, alpha, kappa, gamma)[few])


def test_density_is_the_slope_of_the_cycle() -> None:
    """αψ′ agrees with a difference of ψ, and its own slope stays below the unrest."""
    rng = np.random.default_rng(2)
    size = 300
    alpha, gamma, kappa = (10 ** rng.uniform(-1, 1, size) for _ in range(3))
    x, h = kappa * 10 ** rng.uniform(-1, 1.5, size), 1e-6
    here, after = (measure_pages(y, alpha, kappa, gamma) for y in (x, x * (1 + h)))
    np.testing.assert_allclose((after.length - here.length) / (x * h) * alpha, here.density, rtol=1e-3, atol=1e-6)
    assert (np.abs(after.density - here.density) / (x * h) * alpha <= here.unrest * 1.01 + 1e-6).all()
