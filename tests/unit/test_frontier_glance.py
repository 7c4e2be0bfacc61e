"""A quick look at one page is within its own error of the exact value."""

import numpy as np
import pytest

from crawld.scheduler.glance import quick_look
from crawld.scheduler.greedy import GreedyApproximate, GreedyBlind, GreedyCis, GreedyCisPlus, GreedyNcis
from crawld.scheduler.valuation import Beliefs, Valuation


@pytest.mark.parametrize(
    "valuation",
    [
        GreedyNcis(),
        GreedyBlind(),
        GreedyCis(),
        GreedyCisPlus(),
        GreedyApproximate(1),
        GreedyApproximate(2),
    ],
)
def test_the_exact_value_lies_within_the_glimpse_over_the_whole_span(valuation: Valuation) -> None:
    """The model bounds the value to the end of the span, and beyond if it is lasting, in every special case."""
    rng, count = np.random.default_rng(7), 3000
    alpha = np.where(rng.random(count) < 0.05, 0.0, 10 ** rng.uniform(-4, 1, count))
    gamma = np.where(rng.random(count) < 0.1, 0.0, 10 ** rng.uniform(-5, 1, count))
    kappa = np.where(rng.random(count) < 0.1, rng.choice([0.0, np.inf], count), 10 ** rng.uniform(-3, 1, count))
    shape = np.where(rng.random(count) < 0.9, np.inf, rng.choice([0.3, 1.0, 1.0 + 5e-7, 1.0 - 5e-7, 2.5, 40.0], count))
    beliefs = Beliefs(rng.random(count), alpha, shape, kappa, gamma)
    signals = rng.poisson(1, count)
    boost = np.zeros(count)
    boost[signals > 0] = (kappa * np.maximum(signals, 1))[signals > 0]
    tau = 10 ** rng.uniform(-4, 1, count) / np.maximum(alpha, 1e-4)
    span = tau * 10 ** rng.uniform(-4, 0, count)
    look = quick_look(valuation)
    assert look is not None
    columns = (beliefs.mu, alpha, shape, kappa, gamma)
    pages = [tuple(float(column[i]) for column in columns) for i in range(count)]
    seen = np.array([look(float(tau[i]), float(span[i]), float(boost[i]), pages[i]) for i in range(count)])  # type: ignore[arg-type]
    value, slope, bend, twist, error, lasting = seen.T
    for ahead in (0.0 * span, span / 3, span, 100 * span):
        exact = valuation.value(tau + ahead, boost, beliefs)
        model = value + ahead * (slope + ahead * bend)
        held = np.abs(exact - model) <= twist * ahead**3 + error + 1e-12 * exact
        assert np.all(held | ((lasting == 0) & (ahead > span)))
    assert np.mean(error <= 1e-6 * value) > 0.7


def test_a_page_crawled_a_moment_ago_is_told_apart_however_slowly_it_changes() -> None:
    """Where a posterior is of shape 1, the error is small beside the value even if hardly anything has changed yet."""
    look = quick_look(GreedyNcis())
    assert look is not None
    seen = look(0.5, 0.0, 0.0, (1.0, 1e-7, 1.0, 0.0, 0.0))
    assert seen.error < 1e-4 * seen.value
