"""One page in plain floats is worth what it is worth in arrays, and moves as it moves there."""

import numpy as np
import pytest

from crawld.choose.bounds import LIMITS as BOUNDS_LIMITS
from crawld.choose.bounds import models
from crawld.choose.greedy import LIMITS as GREEDY_LIMITS
from crawld.choose.greedy import (
    GreedyApproximate,
    GreedyBlind,
    GreedyCis,
    GreedyCisPlus,
    GreedyHarmonic,
    GreedyNcis,
)
from crawld.choose.page_table import Intervals, PageTable
from crawld.choose.scalar import measure_page
from crawld.choose.series import measure_pages
from crawld.choose.valuation import Beliefs, Floats, Valuation


def population(count: int) -> tuple[Floats, Floats, Beliefs]:
    """Time, boost and beliefs of pages in every special case."""
    rng = np.random.default_rng(7)
    alpha = np.where(rng.random(count) < 0.05, 0.0, 10 ** rng.uniform(-4, 1, count))
    gamma = np.where(rng.random(count) < 0.1, 0.0, 10 ** rng.uniform(-5, 1, count))
    kappa = np.where(rng.random(count) < 0.1, rng.choice([0.0, np.inf], count), 10 ** rng.uniform(-3, 1, count))
    shape = np.where(rng.random(count) < 0.5, np.inf, rng.choice([0.3, 1.0, 1.0 + 5e-7, 1.0 - 5e-7, 2.5, 40.0], count))
    signals = rng.poisson(1, count)
    boost = np.zeros(count)
    boost[signals > 0] = (kappa * np.maximum(signals, 1))[signals > 0]
    tau = 10 ** rng.uniform(-4, 1, count) / np.maximum(alpha, 1e-4)
    return tau, boost, Beliefs(rng.random(count), alpha, shape, kappa, gamma)


@pytest.mark.parametrize(
    "valuation",
    [GreedyNcis(), GreedyBlind(), GreedyCis(), GreedyCisPlus(), GreedyApproximate(1), GreedyApproximate(2)],
)
def test_few_pages_move_as_in_the_arrays(valuation: Valuation) -> None:
    """Value, slope, curvature and bound agree, the value to 1e-12."""
    tau, boost, beliefs = population(1500)
    few = [slice(start, start + GREEDY_LIMITS.singly) for start in range(0, 1500, GREEDY_LIMITS.singly)]
    alone = np.hstack([valuation.taylor(tau[some], boost[some], beliefs.select(some)) for some in few])
    together = valuation.taylor(tau, boost, beliefs)
    np.testing.assert_allclose(alone[0], together.value, rtol=1e-12)
    for power, (one, many) in enumerate(zip(alone[1:], together[1:], strict=True), start=1):
        # What is left to come of a page in saturation is nothing beside its value.
        small = 1e-12 * together.value / np.maximum(tau, 1e-9) ** power
        assert (np.abs(one - many) <= 1e-9 * np.abs(many) + small).all()


@pytest.mark.parametrize(
    "valuation",
    [GreedyNcis(), GreedyBlind(), GreedyCis(), GreedyCisPlus(), GreedyApproximate(2), GreedyHarmonic()],
)
def test_models_of_few_pages_are_those_of_many(valuation: Valuation) -> None:
    """Few candidates are modelled in plain floats, many in arrays; pages that hear signals only in part too."""
    tau, boost, beliefs = population(1500)
    rng, pages = np.random.default_rng(8), PageTable(Intervals())
    heard = np.where(rng.random(1500) < 0.5, 1.0, rng.random(1500))
    for column, endless in zip((*beliefs[:5], boost), (1.0, 1e-300, np.inf, 1.0, 0.0, np.inf), strict=True):
        column[:3] = endless
    mixed = Beliefs(*beliefs[:5], heard, 2 * beliefs.alpha, np.full(1500, 1.5))
    rows = pages.insert(np.zeros(1500, dtype=np.int64), mixed, -tau, boost)
    few = np.hstack([models(valuation, pages, some, 0.0) for some in np.array_split(rows, 150)])
    many = models(valuation, pages, rows, 0.0)
    np.testing.assert_allclose(few[[0, 1, 5, 6]], many[[0, 1, 5, 6]], rtol=1e-12)
    for power, (one, other) in enumerate(zip(few[2:5], many[2:5], strict=True), start=1):
        assert (np.abs(one - other) <= 1e-9 * np.abs(other) + 1e-12 * many[1] / np.maximum(tau, 1e-9) ** power).all()
    endless = (few[1] >= BOUNDS_LIMITS.huge).any()
    assert endless != isinstance(valuation, GreedyBlind | GreedyCisPlus)  # to them a signal of these pages is none


@pytest.mark.parametrize("seed", range(3))
def test_a_page_of_known_rates_is_measured_alike_over_many_orders_of_magnitude(seed: int) -> None:
    """V and ψ of one page agree with the arrays to 1e-12."""
    rng = np.random.default_rng(seed)
    alpha = 10 ** rng.uniform(-12, 2, 1000)
    gamma = alpha * 10 ** rng.uniform(-6, 6, 1000)
    kappa = np.where(rng.random(1000) < 0.9, 10 ** rng.uniform(-6, 1.5, 1000), np.inf)
    x = np.minimum(kappa, 1.0) * 10 ** rng.uniform(-3, 1.6, 1000)
    columns = (x, alpha, kappa, gamma)
    many = measure_pages(*columns)
    one = np.array([measure_page(*page) for page in zip(*(column.tolist() for column in columns), strict=True)]).T
    np.testing.assert_allclose(one[0], many.value, rtol=1e-12)
    np.testing.assert_allclose(one[1], alpha * many.length, rtol=1e-12)
    np.testing.assert_allclose(one[2], many.density, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("valuation", [GreedyNcis(), GreedyBlind(), GreedyCis(), GreedyCisPlus(), GreedyApproximate(2)])
def test_before_the_first_signal_a_value_grows_at_most_with_the_square_of_time(valuation: Valuation) -> None:
    """V ≤ μrτ²/2 with the rate that the valuation tells."""
    tau, boost, beliefs = population(1500)
    rate = valuation.early_rate(beliefs.alpha, beliefs.kappa, beliefs.gamma)
    value = valuation.value(tau, np.zeros_like(boost), beliefs)
    assert (value <= 0.5 * beliefs.mu * rate * tau**2 * (1 + 1e-12)).all()


@pytest.mark.parametrize("valuation", [GreedyNcis(), GreedyBlind(), GreedyCis(), GreedyCisPlus(), GreedyApproximate(2)])
def test_no_value_exceeds_its_cheap_ceiling(valuation: Valuation) -> None:
    """Also where it says something, which for learnt pages with signals it mostly does."""
    tau, boost, beliefs = population(1500)
    pages = zip(
        tau.tolist(), boost.tolist(), zip(*(column.tolist() for column in beliefs[:5]), strict=True), strict=True
    )
    ceiling = np.array([valuation.ceiling(*page) for page in pages])
    assert (valuation.value(tau, boost, beliefs) <= ceiling).all()
    signalled = ceiling[(boost > 0) & (boost < np.inf)]
    assert np.mean(signalled < np.inf) > (0.7 if isinstance(valuation, GreedyNcis) else -1)
    assert np.mean(ceiling < np.inf) > 0.3
