"""The printed tables of Cho & Garcia-Molina 2000, and the closed forms against integration."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, special

from crawld.choose import allocation
from crawld.choose.allocation import (
    Floats,
    VisitOrder,
    age,
    baseline_accuracy,
    entire_exponential_integral,
    freshness,
    freshness_announced,
    harmonic,
    harmonic_announced,
    weighted,
)

RATIOS = np.array([1e-7, 1e-3, 0.3, 1.0, 1.9999, 2.0, 2.5, 30.0, 1e3])


@pytest.mark.parametrize("r", [0.3, 0.46, 1.0, 2.5])
def test_table_2_of_cho(r: float) -> None:
    """Freshness and age under the three orders are the printed formulas of Cho & Garcia-Molina 2000 Table 2."""
    interval, e = 1.7, np.exp(-r)
    rates = [1 / interval]
    fixed, visited = (1 - e) / r, (1 - e) / r**2
    expected = {
        VisitOrder.FIXED: (fixed, 1 / 2 - 1 / r + visited),
        VisitOrder.RANDOM: ((1 - fixed**2) / r, 1 / 3 + (1 / 2 - 1 / r) ** 2 - visited**2),
        VisitOrder.PURELY_RANDOM: (1 / (1 + r), r / (1 + r)),
    }
    for order, (fresh, old) in expected.items():
        assert freshness([r / interval], rates, order)[0] == pytest.approx(fresh, rel=1e-12)
        assert age([r / interval], rates, order)[0] == pytest.approx(interval * old, rel=1e-12)


def test_what_cho_reads_off_table_2() -> None:
    """At r = 1 fixed order is .63 fresh, its age a fourth of purely random's, not of random's; .46 gives .8."""
    assert round(float(freshness([1.0], [1.0])[0]), 2) == 0.63
    assert round(float(freshness([0.46], [1.0])[0]), 2) == 0.80
    ratio = age([1.0], [1.0])[0] / age([1.0], [1.0], VisitOrder.PURELY_RANDOM)[0]
    assert round(float(ratio), 2) == 0.26
    assert age([1.0], [1.0])[0] / age([1.0], [1.0], VisitOrder.RANDOM)[0] > 0.7


def test_table_5_of_cho() -> None:
    """The optimal rates of five pages changing 1 to 5 times a day, as printed (the first age rate is .83, not .84)."""
    delta = np.arange(1.0, 6.0)
    assert allocation.freshness_optimal(np.ones(5), delta, 5.0).round(2).tolist() == [1.15, 1.36, 1.35, 1.14, 0.0]
    assert allocation.age_optimal(np.ones(5), delta, 5.0).round(2).tolist() == [0.83, 0.97, 1.03, 1.07, 1.09]


def test_table_6_of_cho() -> None:
    """The web of 1999: proportional .13 (printed .12) and 400 days, uniform .57 and 5.6, optimal .62 and 4.3."""
    share, delta, rate = np.array([23, 15, 16, 16, 30]) / 100, 1 / np.array([1.0, 7, 30, 120, 365]), 1 / 30

    def both(fresh_rates: Floats, old_rates: Floats) -> tuple[float, float]:
        fresh, old = freshness(delta, fresh_rates), age(delta, old_rates)
        return round(weighted(share, fresh), 2), round(weighted(share, old), 1)

    mean = float((share * delta).sum())
    in_proportion = delta * rate / mean
    fresh, old = both(in_proportion, in_proportion)
    assert fresh == 0.13
    assert round(old, -2) == 400
    # The allocations count pages, so each bin enters as many times as it has pages of a hundred.
    pages = np.repeat(np.arange(5), [23, 15, 16, 16, 30])
    first = np.searchsorted(pages, np.arange(5))
    even = allocation.uniform(np.ones(100), delta[pages], 100 * rate)[first]
    assert both(even, even) == (0.57, 5.6)
    freshest = allocation.freshness_optimal(np.ones(100), delta[pages], 100 * rate)[first]
    youngest = allocation.age_optimal(np.ones(100), delta[pages], 100 * rate)[first]
    assert both(freshest, youngest) == (0.62, 4.3)


@pytest.mark.parametrize("r", RATIOS)
def test_costs_are_the_time_averages_they_stand_for(r: float) -> None:
    """Freshness, age and harmonic penalty at even intervals agree with direct integration over one interval."""
    ones = [1.0]
    fresh = integrate.quad(lambda t: np.exp(-r * t), 0, 1, epsabs=0, epsrel=1e-11, limit=400, points=[1 / (1 + r)])[0]
    assert freshness([r], ones)[0] == pytest.approx(fresh, rel=1e-9)
    old = integrate.quad(
        lambda t: t + np.expm1(-r * t) / r, 0, 1, epsabs=0, epsrel=1e-11, limit=400, points=[1 / (1 + r)]
    )[0]
    assert age([r], ones)[0] == pytest.approx(old, rel=1e-6 if r < 1e-2 else 1e-9, abs=1e-12)
    penalty = integrate.quad(lambda t: float(entire_exponential_integral(np.array([r * t]))[0]), 0, 1, limit=400)[0]
    assert harmonic([r], ones)[0] == pytest.approx(penalty, rel=1e-8)


def test_the_exponential_integral() -> None:
    """Ein agrees with scipy's E₁ where that is exact."""
    y = np.array([0.5, 1.0, 1.999, 2.0, 2.001, 5.0, 20.0, 500.0])
    assert entire_exponential_integral(y) == pytest.approx(np.log(y) + np.euler_gamma + special.exp1(y), rel=1e-14)


@pytest.mark.parametrize("cost", [freshness, age, harmonic])
def test_costs_know_their_corners(cost: object) -> None:
    """A page that never changes costs nothing; one that changes unvisited is never fresh and costs without bound."""
    for order in VisitOrder:
        assert freshness([0.0, 1.0, 0.0], [0.0, 0.0, 2.0], order).tolist() == [1.0, 0.0, 1.0]
        assert age([0.0, 1.0, 0.0], [0.0, 0.0, 2.0], order).tolist() == [0.0, np.inf, 0.0]
        assert harmonic([0.0, 1.0, 0.0], [0.0, 0.0, 2.0], order).tolist() == [0.0, np.inf, 0.0]
        assert np.all(np.isfinite(cost([1e-300, 1e300], [1.0, 1.0], order)))  # type: ignore[operator]


def test_announced_pages() -> None:
    """Crawling upon half of the announcements leaves a page half fresh, at a harmonic penalty of ln 2."""
    assert freshness_announced([2.0, 2.0, 0.0], [1.0, 3.0, 0.0]).tolist() == [0.5, 1.0, 1.0]
    assert harmonic_announced([2.0, 2.0, 0.0, 1.0], [1.0, 3.0, 0.0, 0.0]) == pytest.approx([np.log(2), 0, 0, np.inf])


def test_each_optimum_beats_the_others_at_its_own_cost() -> None:
    """Each periodic optimum is the best of all allocations by its own measure, and so is LambdaCrawl by its own."""
    rng = np.random.default_rng(3)
    mu, delta = rng.uniform(0.01, 1, 200), rng.uniform(0.01, 1, 200)
    allocations = {
        name: getattr(allocation, name)(mu, delta, 40.0)
        for name in (
            "freshness_optimal",
            "age_optimal",
            "harmonic_optimal",
            "lambdacrawl",
            "azar_continuous",
            "uniform",
        )
    }
    poisson = VisitOrder.PURELY_RANDOM
    scores: dict[str, Callable[[Floats], float]] = {
        "freshness_optimal": lambda rates: -weighted(mu, freshness(delta, rates)),
        "age_optimal": lambda rates: weighted(mu, age(delta, rates)),
        "harmonic_optimal": lambda rates: weighted(mu, harmonic(delta, rates)),
        "lambdacrawl": lambda rates: weighted(mu, harmonic(delta, rates, poisson)),
        "azar_continuous": lambda rates: -weighted(mu, freshness(delta, rates, poisson)),
    }
    for name, score in scores.items():
        assert min(allocations, key=lambda other: score(allocations[other])) == name
    assert baseline_accuracy(mu, delta, 40.0) == pytest.approx(
        -scores["freshness_optimal"](allocations["freshness_optimal"])
    )
