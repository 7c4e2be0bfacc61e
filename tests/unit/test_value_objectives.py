"""Crawl values of the harmonic penalty, of age, and of pages with several sources."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from crawld.choose.value import age_value, crawl_value, cycle_length, harmonic_value, multi_source_value

anything = st.one_of(st.sampled_from([0.0, 5e-324, 1.0, 1e300]), st.floats(-300, 300).map(lambda power: 10.0**power))


def test_without_signals_both_objectives_are_closed() -> None:
    """The harmonic value is (x − 1 + e^−x)/Δ, the age value τ²/2 − P(2, x)/Δ²."""
    x, delta = np.array([0.5, 3.0, 40.0]), 0.5
    np.testing.assert_allclose(harmonic_value(x, delta, 0, 0, 2.0), 2 * (x - 1 + np.exp(-x)) / delta, rtol=1e-13)
    gap = x**2 / 2 - (1 - (1 + x) * np.exp(-x))
    np.testing.assert_allclose(age_value(x, delta, 0, 0, 2.0), 2 * gap / delta**2, rtol=1e-13)
    np.testing.assert_allclose(harmonic_value(1e-9, delta, 0, 0), 0.5e-18 / delta, rtol=1e-8)
    np.testing.assert_allclose(age_value(1e-9, delta, 0, 0), 1e-27 / 3 / delta**2, rtol=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_with_signals_both_are_integrals_over_the_cycle_length(seed: int) -> None:
    """V_C = ∫ψC′ by adaptive quadrature between the kinks of ψ."""
    rng = np.random.default_rng(seed)
    alpha, kappa, x = 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-1.5, 1), 10 ** rng.uniform(-2, 1.4)
    gamma = alpha * 10 ** rng.uniform(-1, 1.5)
    delta = alpha - gamma * math.expm1(-kappa)
    kinks = [i * kappa for i in range(1, min(int(x / kappa), 40) + 1)]

    def integral(slope: Any) -> float:
        edges = [0.0, min(3 * alpha / gamma, x / 2), *kinks, x]
        return math.fsum(
            integrate.fixed_quad(lambda y: cycle_length(y, alpha, kappa, gamma) * slope(y), low, high, n=60)[0]
            for low, high in zip(sorted(edges), sorted(edges)[1:])
        )

    harmonic, age = integral(lambda y: -np.expm1(-y) / y), integral(lambda y: -np.expm1(-y) / delta)
    assert harmonic_value(x, alpha, kappa, gamma) == pytest.approx(harmonic, rel=1e-7)
    assert age_value(x, alpha, kappa, gamma) == pytest.approx(age, rel=1e-7)


@settings(max_examples=200)
@given(x=anything, alpha=anything, kappa=anything, gamma=anything)
def test_no_objective_is_worth_less_than_nothing(x: float, alpha: float, kappa: float, gamma: float) -> None:
    """No NaN, no warning, no negative number."""
    found = (
        harmonic_value(x, alpha, kappa, gamma),
        age_value(x, alpha, kappa, gamma),
        multi_source_value(x, alpha, [kappa, 1.0], [gamma, alpha]),
    )
    assert all(number >= 0 for number in found), found


def test_one_source_among_several_is_the_value_with_one() -> None:
    """A single source, or one split into two alike, gives the exact series to a thousandth."""
    rng = np.random.default_rng(3)
    size = 200
    alpha, kappa, x = 10 ** rng.uniform(-3, 1, size), 10 ** rng.uniform(-3, 1, size), 10 ** rng.uniform(-2, 1.3, size)
    gamma = alpha * 10 ** rng.uniform(-2, 3, size)
    alpha[:10], kappa[10:20], kappa[20:30] = 0.0, np.inf, 0.0
    want = crawl_value(x, alpha, kappa, gamma, 3.0)
    one = multi_source_value(x, alpha, kappa[:, None], gamma[:, None], 3.0)
    two = multi_source_value(x, alpha, kappa[:, None], gamma[:, None] * [0.3, 0.7], 3.0)
    np.testing.assert_allclose(one, want, rtol=1e-3)
    np.testing.assert_allclose(two, one, rtol=1e-10)


def test_sources_end_where_every_page_ends() -> None:
    """At x = ∞ several sources are worth μ/Δ, and no sources are GREEDY."""
    kappas, gammas = [0.5, np.inf, 2.0], [1.0, 0.2, 0.0]
    delta = 0.3 - 1.0 * math.expm1(-0.5) + 0.2
    assert multi_source_value(np.inf, 0.3, kappas, gammas) == pytest.approx(1 / delta)
    assert multi_source_value(2.0, 0.3, [0.0], [1.0]) == pytest.approx(float(crawl_value(2.0, 0.3, 0.0, 0.0)), rel=1e-4)
