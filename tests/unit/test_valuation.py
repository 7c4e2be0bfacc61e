"""Every greedy family keeps the contract of a valuation."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from crawld.choose.greedy import (
    GreedyAge,
    GreedyApproximate,
    GreedyBlind,
    GreedyCis,
    GreedyCisPlus,
    GreedyHarmonic,
    GreedyNcis,
)
from crawld.choose.valuation import Beliefs, Floats, Valuation
from crawld.choose.value import age_value, approximate_value, crawl_value, expected_value, harmonic_value

PAGES = 120
FAMILIES: dict[str, Callable[[], Valuation]] = {
    "greedy-ncis": GreedyNcis,
    "greedy": GreedyBlind,
    "greedy-cis": GreedyCis,
    "greedy-cis-plus": GreedyCisPlus,
    "greedy-ncis-1": lambda: GreedyApproximate(1),
    "greedy-ncis-2": lambda: GreedyApproximate(2),
    "greedy-harmonic": GreedyHarmonic,
    "greedy-age": GreedyAge,
}


@pytest.fixture(params=FAMILIES)
def valuation(request: pytest.FixtureRequest) -> Valuation:
    """One family after the other."""
    return FAMILIES[request.param]()


def population() -> tuple[Floats, Floats, Beliefs]:
    """Time, boost and beliefs of pages in seconds, known and learnt, with every corner among them."""
    rng = np.random.default_rng(5)
    alpha = 10 ** rng.uniform(-8, -2, PAGES)
    gamma = alpha * 10 ** rng.uniform(-2, 3, PAGES)
    kappa = 10 ** rng.uniform(-3, 1, PAGES)
    shape = np.where(rng.random(PAGES) < 0.5, np.inf, 10 ** rng.uniform(-0.5, 3, PAGES))
    mu = 10 ** rng.uniform(0, 6, PAGES)
    gamma[:8], kappa[8:16], kappa[16:24], alpha[24:32], mu[32:34] = 0.0, 0.0, np.inf, 0.0, 0.0
    alpha[34:36] = gamma[34:36] = 0.0
    tau = 10 ** rng.uniform(-1, 1, PAGES) / np.maximum(alpha, 1e-8)
    signals = np.where(gamma > 0, rng.poisson(1.0, PAGES), 0)
    boost = np.where(signals > 0, kappa * np.maximum(signals, 1), 0.0)
    return tau, boost, Beliefs(mu, alpha, shape, kappa, gamma)


def test_values_rise_with_time_and_signals(valuation: Valuation) -> None:
    """Later and after one more signal no page is worth less."""
    tau, boost, beliefs = population()
    now = valuation.value(tau, boost, beliefs)
    assert (now >= 0).all()
    for factor in (1 + 1e-9, 1.1, 3.0, 1e3):
        assert (valuation.value(tau * factor, boost, beliefs) >= now * (1 - 1e-13)).all()
    signalled = boost + np.where(beliefs.gamma > 0, beliefs.kappa, 0.0)
    assert (valuation.value(tau, signalled, beliefs) >= now * (1 - 1e-9)).all()


def test_the_taylor_model_bounds_the_value_for_all_time(valuation: Valuation) -> None:
    """The quadratic in time errs by no more than its cubic bound, near and far."""
    tau, boost, beliefs = population()
    model = valuation.taylor(tau, boost, beliefs)
    np.testing.assert_allclose(model.value, valuation.value(tau, boost, beliefs), rtol=1e-12)
    endless = np.isinf(model.value)
    for factor in (1e-3, 0.1, 1.0, 10.0):
        step = factor * tau
        then = valuation.value(tau + step, boost, beliefs)
        with np.errstate(invalid="ignore"):
            rest = np.abs(then - model.value - model.slope * step - model.curvature * step**2 / 2)
        allowed = model.bound * step**3 / 6 + 1e-9 * then
        assert (rest <= allowed)[~endless].all()


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.8])
def test_a_crossing_is_never_late_and_hardly_early(valuation: Valuation, quantile: float) -> None:
    """Before the crossing the value is below the level, soon after it is not."""
    tau, boost, beliefs = population()
    values = valuation.value(tau, boost, beliefs)
    level = float(np.quantile(values[np.isfinite(values)], quantile))
    crossing = valuation.crossing(level, boost, beliefs)
    open_ = (crossing > 0) & (crossing < math.inf)
    at = np.where(open_, crossing, 1.0)
    assert (valuation.value(at * (1 - 1e-15), boost, beliefs)[open_] < level).all()
    assert (valuation.value(at * 1.001, boost, beliefs)[open_] >= level).mean() > 0.98
    assert (valuation.value(np.zeros(PAGES), boost, beliefs)[crossing == 0] >= level * (1 - 1e-5)).all()
    assert (valuation.value(np.full(PAGES, 1e14), boost, beliefs)[crossing == math.inf] < level).all()


def test_families_are_the_papers_formulas_where_parameters_are_known() -> None:
    """Each family's value is its formula, and GREEDY-CIS+ is GREEDY or GREEDY-CIS by the quality of the signals."""
    alpha, kappa, gamma, mu = np.array([0.4, 0.1]), np.array([0.5, 3.0]), np.array([0.7, 0.9]), np.array([2.0, 3.0])
    beliefs = Beliefs(mu, alpha, np.full(2, np.inf), kappa, gamma)
    tau, boost = np.array([2.0, 3.0]), np.array([0.5, 0.0])
    x, true = alpha * tau + boost, gamma * -np.expm1(-kappa)
    delta = alpha + true
    signalled = np.where(boost > 0, np.inf, alpha * tau)
    cis, blind = crawl_value(signalled, alpha, np.inf, true, mu), crawl_value(delta * tau, delta, 0.0, 0.0, mu)
    want = {
        "greedy-ncis": crawl_value(x, alpha, kappa, gamma, mu),
        "greedy": blind,
        "greedy-cis": cis,
        "greedy-cis-plus": np.array([blind[0], cis[1]]),
        "greedy-ncis-1": approximate_value(x, alpha, kappa, gamma, mu, terms=1),
        "greedy-ncis-2": approximate_value(x, alpha, kappa, gamma, mu, terms=2),
        "greedy-harmonic": harmonic_value(x, alpha, kappa, gamma, mu),
        "greedy-age": age_value(x, alpha, kappa, gamma, mu),
    }
    for name, family in FAMILIES.items():
        np.testing.assert_allclose(family().value(tau, boost, beliefs), want[name], rtol=1e-14, err_msg=name)
    assert cis[0] == pytest.approx(mu[0] / delta[0])


def test_learnt_pages_are_worth_their_expectation() -> None:
    """A finite shape means the posterior-expected value."""
    shape, alpha, tau = np.array([1.0, 5.0, 80.0]), np.array([0.3, 0.2, 0.1]), np.array([2.0, 9.0, 4.0])
    kappa, gamma = np.array([0.0, 0.4, 0.8]), np.full(3, 0.5)
    beliefs = Beliefs(np.ones(3), alpha, shape, kappa, gamma)
    want = expected_value(tau, 2, shape, shape / alpha, kappa, gamma)
    np.testing.assert_allclose(GreedyNcis().value(tau, 2 * kappa, beliefs), want, rtol=1e-4)


def test_a_page_is_worth_the_same_in_any_company(valuation: Valuation) -> None:
    """The value of a page does not depend on the pages evaluated with it, not even in the last digit."""
    tau, boost, beliefs = population()
    whole = valuation.value(tau, boost, beliefs)
    np.testing.assert_array_equal(valuation.taylor(tau, boost, beliefs).value, whole)
    for few in (np.arange(PAGES)[i::17] for i in range(17)):
        np.testing.assert_array_equal(valuation.value(tau[few], boost[few], beliefs.select(few)), whole[few])
