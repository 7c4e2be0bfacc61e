"""Every allocation spends the bandwidth exactly and is optimal for its own objective."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawld.choose import allocation
from crawld.choose.allocation import Floats, age_gain, freshness_gain, harmonic_gain
from crawld.model.errors import InputError

Allocation = Callable[[Floats, Floats, float], Floats]

ALLOCATIONS: dict[str, Allocation] = {
    "freshness_optimal": allocation.freshness_optimal,
    "age_optimal": allocation.age_optimal,
    "harmonic_optimal": allocation.harmonic_optimal,
    "azar_continuous": allocation.azar_continuous,
    "azar_discrete": allocation.azar_discrete,
    "binary_lambdacrawl": allocation.binary_lambdacrawl,
    "binary_lambdacrawl with a floor": lambda mu, delta, rate: allocation.binary_lambdacrawl(mu, delta, rate, 0.4),
    "lambdacrawl": allocation.lambdacrawl,
    "lambdacrawl, half announced": lambda mu, delta, rate: allocation.lambdacrawl(
        mu, delta, rate, np.arange(mu.size) % 2 == 0
    ),
    "lambdacrawl, all announced": lambda mu, delta, rate: allocation.lambdacrawl(mu, delta, rate, True),
    "lambdacrawl_approximate": allocation.lambdacrawl_approximate,
    "lambdacrawl_approximate, half announced": lambda mu, delta, rate: allocation.lambdacrawl_approximate(
        mu, delta, rate, np.arange(mu.size) % 2 == 0
    ),
    "uniform": allocation.uniform,
    "proportional": allocation.proportional,
}


def periodic(gain: Callable[[Floats], Floats], power: int) -> Callable[[Floats, Floats, Floats], Floats]:
    """The marginal value of rate at even intervals, a page never visited having r = inf (taken as 1e9)."""

    def marginal(mu: Floats, delta: Floats, rates: Floats) -> Floats:
        r = np.where(rates > 0, delta / np.where(rates > 0, rates, 1.0), 1e9)
        return mu / delta**power * gain(r)

    return marginal


MARGINALS: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "freshness_optimal": periodic(freshness_gain, 1),
    "age_optimal": periodic(age_gain, 2),
    "harmonic_optimal": periodic(harmonic_gain, 1),
    "azar_continuous": lambda mu, delta, rates: mu * delta / (rates + delta) ** 2,
    "azar_discrete": lambda mu, delta, rates: mu * delta / (rates + delta - rates * delta) ** 2,
    "lambdacrawl": lambda mu, delta, rates: mu * delta / (rates * (rates + delta)),
}

columns = st.integers(1, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e9)), min_size=n, max_size=n)] * 2)
)


def world(pages: int, seed: int = 1) -> tuple[Floats, Floats]:
    """Importances and change rates, all above zero."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.01, 1, pages), rng.uniform(0.01, 0.99, pages)


@pytest.mark.parametrize("name", ALLOCATIONS)
@given(given=columns, bandwidth=st.one_of(st.just(0.0), st.floats(1e-6, 1e6)))
@settings(max_examples=60)
def test_rates_sum_to_the_bandwidth(name: str, given: tuple[list[float], list[float]], bandwidth: float) -> None:
    """Whatever the pages are like, rates are finite, not negative and sum to the bandwidth to nine digits."""
    rates = ALLOCATIONS[name](np.array(given[0]), np.array(given[1]), bandwidth)
    assert rates.shape == (len(given[0]),)
    assert np.all(np.isfinite(rates))
    assert np.all(rates >= 0)
    assert float(rates.sum()) == pytest.approx(bandwidth, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(
    "name", sorted(set(ALLOCATIONS) - {"uniform", "proportional", "binary_lambdacrawl with a floor"})
)
def test_a_page_without_use_gets_nothing(name: str) -> None:
    """A page of no importance, or one that never changes, gets no rate while another has use for it."""
    rates = ALLOCATIONS[name](np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.5, 0.5, 0.0, 0.4]), 0.3)
    assert rates[1] == rates[2] == 0
    assert rates[0] > 0


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_corners(name: str) -> None:
    """One page gets all, equal pages get equal shares, no page is no trouble, and useless bandwidth is spread."""
    allocate = ALLOCATIONS[name]
    assert allocate(np.array([2.0]), np.array([0.3]), 7.0) == pytest.approx([7.0], rel=1e-12)
    for bandwidth in (1e-9, 0.1, 1e9):
        even = allocate(np.full(4, 2.0), np.full(4, 0.3), bandwidth)
        if "half announced" not in name:
            assert even == pytest.approx(np.full(4, bandwidth / 4), rel=1e-12)
    assert allocate(np.zeros(0), np.zeros(0), 1.0).size == 0
    assert allocate(np.zeros(3), np.ones(3) / 2, 6.0).sum() == pytest.approx(6.0)


@pytest.mark.parametrize("name", MARGINALS)
@pytest.mark.parametrize("bandwidth", [0.02, 3.0, 40.0, 190.0])
def test_optimal_rates_meet_the_kkt_conditions(name: str, bandwidth: float) -> None:
    """Every page visited has the same marginal value, and no page left out has a higher one, to nine digits."""
    mu, delta = world(200)
    rates = ALLOCATIONS[name](mu, delta, bandwidth)
    marginal = MARGINALS[name](mu, delta, rates)
    free = rates < 1 - 1e-12 if name == "azar_discrete" else np.ones(200, dtype=bool)
    multiplier = float(np.median(marginal[free & (rates > 0)]))
    assert allocation.kkt_residual(marginal[free], rates[free], multiplier) <= 1e-9
    assert np.all(marginal[~free] >= multiplier)


def test_announced_and_other_pages_share_one_multiplier() -> None:
    """LambdaCrawl values one more visit alike for both kinds of page, unless each announcement is followed already."""
    mu, delta = world(300)
    complete = np.arange(300) % 3 == 0
    rates = allocation.lambdacrawl(mu, delta, 60.0, complete)
    marginal = np.where(complete, mu / rates, mu * delta / (rates * (rates + delta)))
    capped = complete & (rates >= delta * (1 - 1e-12))
    multiplier = float(np.median(marginal[~capped]))
    assert allocation.kkt_residual(marginal[~capped], rates[~capped], multiplier) <= 1e-9
    assert capped.any()
    assert np.all(marginal[capped] >= multiplier * (1 - 1e-9))
    assert np.all(rates[complete] <= delta[complete] * (1 + 1e-9))


def test_lambdacrawl_with_all_pages_announced_follows_the_papers_rounds() -> None:
    """Kolobov et al.'s Algorithm 2, round by round, gives the same rates."""
    mu, delta = world(100)
    left, rates, remaining = 20.0, np.zeros(100), np.arange(100)
    while True:
        wanted = mu[remaining] * left / mu[remaining].sum()
        over = wanted >= delta[remaining]
        if not over.any():
            rates[remaining] = wanted
            break
        rates[remaining[over]] = delta[remaining[over]]
        left -= delta[remaining[over]].sum()
        remaining = remaining[~over]
    assert allocation.lambdacrawl(mu, delta, 20.0, True) == pytest.approx(rates, rel=1e-9)


def test_the_approximation_is_exact_when_importance_follows_change() -> None:
    """With μ/Δ the same for all pages, LambdaCrawl and its approximation agree (Kolobov et al. 2019 Proposition 9)."""
    mu, _ = world(50)
    complete = np.arange(50) % 5 == 0
    exact = allocation.lambdacrawl(mu, 2 * mu, 12.0, complete)
    assert allocation.lambdacrawl_approximate(mu, 2 * mu, 12.0, complete) == pytest.approx(exact, rel=1e-8)


def test_azars_algorithms_as_printed() -> None:
    """Azar et al.'s Algorithms 1 and 2, line by line with the running sums, give the same rates."""
    mu, delta = world(80)
    order = np.argsort(mu / delta)
    for allocate, total, scale in (
        (allocation.azar_discrete, 1.0, 1 / (1 - delta)),
        (allocation.azar_continuous, 5.0, np.ones(80)),
    ):
        r, s = float(np.sum(np.sqrt(mu * delta) * scale)), float(np.sum(delta * scale))
        rates = np.zeros(80)
        for i in order:
            if mu[i] / delta[i] <= (r / (total + s)) ** 2:
                r, s = r - float(np.sqrt(mu[i] * delta[i]) * scale[i]), s - float(delta[i] * scale[i])
            else:
                rates[i] = ((total + s) * np.sqrt(mu[i] * delta[i]) / r - delta[i]) * scale[i]
        assert allocate(mu, delta, total) == pytest.approx(rates, rel=1e-9, abs=1e-12)


def test_a_page_that_surely_changes_each_step_is_all_or_nothing() -> None:
    """In discrete time a page changing in every step is worth μ a visit, so two such pages never both get a part."""
    rates = allocation.azar_discrete(np.array([3.0, 2.0, 1.0]), np.ones(3), 1.5)
    assert rates == pytest.approx([1.0, 0.5, 0.0])


def test_the_floor_of_blc_epsilon() -> None:
    """BLCε leaves no page below ε times the even share and is optimal among the pages above it."""
    mu, delta = world(200)
    rates = allocation.binary_lambdacrawl(mu, delta, 20.0, 0.4)
    floor = 0.4 * 20.0 / 200
    assert rates.min() == pytest.approx(floor, rel=1e-9)
    above = rates > floor * (1 + 1e-9)
    marginal = mu * delta / (rates + delta) ** 2
    multiplier = float(np.median(marginal[above]))
    assert allocation.kkt_residual(marginal[above], rates[above], multiplier) <= 1e-9
    assert np.all(marginal[~above] <= multiplier * (1 + 1e-9))
    assert allocation.binary_lambdacrawl(mu, delta, 20.0) == pytest.approx(
        allocation.azar_continuous(mu, delta, 20.0), rel=1e-12
    )


@pytest.mark.parametrize("name", ["azar_continuous", "lambdacrawl", "freshness_optimal"])
def test_a_million_pages_in_one_call(name: str) -> None:
    """A million pages are allocated in one call, to the same nine digits."""
    mu, delta = world(1_000_000)
    rates = ALLOCATIONS[name](mu, delta, 1e5)
    assert float(rates.sum()) == pytest.approx(1e5, rel=1e-9)


def test_input_that_cannot_be_is_refused() -> None:
    """Negative, infinite or missing numbers are an InputError, not a wrong answer."""
    for mu, delta, bandwidth in (
        ([-1.0], [1.0], 1.0),
        ([1.0], [np.nan], 1.0),
        ([1.0], [1.0], -1.0),
        ([1], [1], np.inf),
    ):
        with pytest.raises(InputError):
            allocation.freshness_optimal(mu, delta, bandwidth)
    with pytest.raises(InputError):
        allocation.binary_lambdacrawl([1.0], [1.0], 1.0, 1.5)
