"""The estimator against brute force, in every corner, and one page against many."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from crawld.learn.observations import YEAR, Prior, age_weights
from crawld.research.gamma_posterior import Posterior, fit, fit_pages, map_pages, smoothed_rates
from tests.support.hard_histories import hard_history

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Exact:
    """Moments of α and κ by summing the posterior over a fine grid."""

    alpha: float
    alpha_se: float
    kappa: float
    kappa_se: float
    survival: Floats  # E[e^−αT] for T = .3, 1, 3


def brute_force(tau: Floats, signals: Floats, changed: NDArray[np.bool_], prior: Prior) -> Exact:
    """Sum the posterior of one source over 300 × 300 points of (ln α, ln κ)."""
    alphas, kappas = np.geomspace(1e-4, 1e3, 300), np.geomspace(1e-5, 1e2, 300)
    alpha, kappa = alphas[:, None], kappas[None, :]
    density = np.asarray(prior.alpha_shape) * np.log(alpha) - np.asarray(prior.alpha_rate) * alpha
    density = density + np.asarray(prior.kappa_shape) * np.log(kappa) - np.asarray(prior.kappa_rate) * kappa
    for length, count, change in zip(tau, signals, changed):
        x = alpha * length + kappa * count
        density = density + (np.log(-np.expm1(-x)) if change else -x)
    mass = np.exp(density - density.max())
    mass /= mass.sum()
    of_alpha, of_kappa = mass.sum(axis=1), mass.sum(axis=0)
    mean, mean_kappa = of_alpha @ alphas, of_kappa @ kappas
    return Exact(
        mean,
        np.sqrt(of_alpha @ alphas**2 - mean**2),
        mean_kappa,
        np.sqrt(of_kappa @ kappas**2 - mean_kappa**2),
        np.array([of_alpha @ np.exp(-alphas * T) for T in (0.3, 1.0, 3.0)]),
    )


def history(rng: np.random.Generator, rows: int, sources: int = 1) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Intervals of a page drawn from the model."""
    alpha, kappa = 10 ** rng.uniform(-1, 0.7), 10 ** rng.uniform(-2, 0.7, sources)
    tau = rng.exponential(1.0, rows)
    signals = rng.poisson(rng.uniform(0.1, 2.0), (rows, sources)).astype(float)
    return tau, signals, rng.random(rows) < -np.expm1(-(alpha * tau + signals @ kappa))


def test_without_a_changed_interval_the_posterior_is_the_exact_gamma() -> None:
    """Unchanged time only adds to the rates, and no approximation is left."""
    prior = Prior(1.5, 2.0, 1.0, 50.0)
    posterior = fit([3.0, 4.0], [[1.0], [2.0]], [False, False], prior)
    assert (posterior.shape, posterior.rate) == pytest.approx((1.5, 9.0), rel=1e-12)
    assert (posterior.kappa_shape[0], posterior.kappa_rate[0]) == pytest.approx((1.0, 53.0), rel=1e-12)


def test_the_gammas_follow_the_posterior_summed_by_brute_force() -> None:
    """Means, deviations and expected survival stay close to the exact ones on pages drawn from the model."""
    rng = np.random.default_rng(3)
    offsets, survival = [], []
    for rows in rng.integers(1, 40, 40):
        tau, signals, changed = history(rng, rows)
        prior = Prior(rng.choice([0.5, 1.0, 2.0]), 1.0, rng.choice([0.5, 1.0, 2.0]), rng.choice([1.0, 5.0, 50.0]))
        exact, found = brute_force(tau, signals[:, 0], changed, prior), fit(tau, signals, changed, prior)
        offsets.append(
            [
                (found.alpha - exact.alpha) / exact.alpha_se,
                found.alpha_se / exact.alpha_se - 1,
                (found.kappa[0] - exact.kappa) / exact.kappa_se,
                found.kappa_se[0] / exact.kappa_se - 1,
            ]
        )
        survival.append((1 + np.array([0.3, 1.0, 3.0]) / found.rate) ** -found.shape - exact.survival)
    assert np.sqrt(np.mean(np.square(offsets), axis=0)).max() < 0.15
    assert np.abs(offsets).max() < 0.4
    assert np.sqrt(np.mean(np.square(survival))) < 0.02


def test_the_map_is_where_the_density_is_highest() -> None:
    """No neighbour of the reported maximum has a higher density."""
    rng = np.random.default_rng(4)
    prior = Prior(2.0, 1.0, 2.0, 5.0)
    for _ in range(20):
        tau, signals, changed = history(rng, 15)
        found = fit(tau, signals, changed, prior)
        assert found.alpha_map is not None
        assert found.kappa_map is not None

        def density(alpha: float, kappa: float) -> float:
            x = alpha * tau + kappa * signals[:, 0]  # noqa: B023 - used within the loop only
            told = np.where(changed, np.log(-np.expm1(-np.maximum(x, 1e-300))), -x)  # noqa: B023
            return float(told.sum() + np.log(alpha) - alpha + np.log(kappa) - 5.0 * kappa)

        best = density(float(found.alpha_map), float(found.kappa_map[0]))
        for nudge in (0.999, 1.001):
            assert density(float(found.alpha_map) * nudge, float(found.kappa_map[0])) < best
            assert density(float(found.alpha_map), float(found.kappa_map[0]) * nudge) < best


def test_many_pages_at_once_are_the_same_as_each_alone() -> None:
    """Ragged histories, empty ones among them, do not touch each other."""
    rng = np.random.default_rng(5)
    lengths = [0, 3, 1, 0, 12, 30, 0]
    parts = [history(rng, rows, sources=3) for rows in lengths]
    tau, signals, changed = (np.concatenate(column) for column in zip(*parts))
    weights = rng.random(len(tau))
    prior = Prior(0.7, 3.0, np.array([1.0, 2.0, 0.5]), np.array([50.0, 5.0, 1.0]))
    offsets = np.r_[0, np.cumsum(lengths)]
    many = fit_pages(offsets, tau, signals, changed, prior, weights)
    for page in range(len(lengths)):
        rows = slice(offsets[page], offsets[page + 1])
        one = fit(tau[rows], signals[rows], changed[rows], prior, weights[rows])
        assert many.shape[page] == pytest.approx(one.shape, rel=1e-7)
        assert many.rate[page] == pytest.approx(one.rate, rel=1e-7)
        assert many.kappa[page] == pytest.approx(one.kappa, rel=1e-7)


def test_the_unit_of_time_does_not_matter() -> None:
    """Seconds or days: the same belief in other units."""
    rng = np.random.default_rng(6)
    tau, signals, changed = history(rng, 20)
    days = fit(tau, signals, changed, Prior(0.5, 2.0))
    seconds = fit(tau * 86400, signals, changed, Prior(0.5, 2.0 * 86400))
    assert seconds.alpha * 86400 == pytest.approx(days.alpha, rel=1e-7)
    assert seconds.shape == pytest.approx(days.shape, rel=1e-7)


def test_weights_count_observations() -> None:
    """A weight of two is the observation seen twice, a weight of zero is none."""
    prior = Prior(1.0, 1.0)
    twice = fit([1.0, 1.0, 2.0], [0, 0, 1], [True, True, False], prior)
    weighted = fit([1.0, 2.0, 9.0], [0, 1, 0], [True, False, True], prior, [2.0, 1.0, 0.0])
    assert weighted.alpha == pytest.approx(twice.alpha, rel=1e-9)


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1), sources=st.integers(0, 3), rows=st.integers(0, 12))
def test_no_corner_gives_anything_but_a_finite_positive_belief(seed: int, sources: int, rows: int) -> None:
    """Lengths from 0 to 1e9 s, a million signals, all or none changed, weights of 0: never nan, inf or a warning."""
    rng = np.random.default_rng(seed)
    offsets, tau, signals, changed, weights = hard_history(rng, sources, rows)
    prior = Prior(10 ** rng.uniform(-2, 2), 10 ** rng.uniform(-3, 9), 10 ** rng.uniform(-1, 1), 50.0)
    with warnings.catch_warnings(), np.errstate(divide="raise", invalid="raise", over="raise"):
        warnings.simplefilter("error")
        found = fit_pages(offsets, tau, signals, changed, prior, weights)
        modes = map_pages(offsets, tau, signals, changed, prior, weights)
    for column in (found.shape, found.rate, found.alpha_se, found.kappa_shape, found.kappa_rate, found.kappa_se):
        assert np.isfinite(column).all()
        assert (column > 0).all()
    for column in modes:
        assert np.isfinite(column).all()
        assert (column >= 0).all()


def test_a_learnt_kappa_rises_with_evidence_only() -> None:
    """Signals that are always followed by a change earn trust; those before unchanged crawls lose it."""
    honest = fit(np.full(60, 1.0), np.ones(60), np.ones(60, bool), Prior(1.0, 50.0, 1.0, 50.0))
    lying = fit(np.full(60, 1.0), np.ones(60), np.zeros(60, bool), Prior(1.0, 50.0, 1.0, 50.0))
    unheard = fit(np.full(60, 1.0), np.zeros(60), np.zeros(60, bool), Prior(1.0, 50.0, 1.0, 50.0))
    assert honest.kappa[0] > 10 * unheard.kappa[0] > 15 * lying.kappa[0]


def test_trust_is_what_one_signal_is_expected_to_leave_fresh() -> None:
    """e^−trust is E[e^−κ]: below the mean of a wide κ, and the mean itself of a narrow one."""
    wide, narrow = (fit([], [], [], Prior(1.0, 1.0, shape, shape / 0.8)) for shape in (0.5, 5000.0))
    assert np.exp(-wide.trust[0]) == pytest.approx((1 + 1.6) ** -0.5)
    assert narrow.trust[0] == pytest.approx(0.8, rel=1e-3)


def test_age_halves_the_weight() -> None:
    """An observation of a half-life ago counts half; one from the future counts whole."""
    assert age_weights([0.0, YEAR, 2 * YEAR, 3 * YEAR], 2 * YEAR) == pytest.approx([0.25, 0.5, 1.0, 1.0])


def test_the_smoothed_estimator_solves_the_papers_equation() -> None:
    """Σ a/(e^{aΔ}−1) over changed plus .5/(e^{.5Δ}−1) equals Σ a over unchanged plus .5, page by page."""
    rng = np.random.default_rng(7)
    lengths = [0, 1, 5, 40]
    tau = rng.exponential(2.0, sum(lengths))
    changed = rng.random(len(tau)) < 0.5
    changed[0] = True
    offsets = np.r_[0, np.cumsum(lengths)]
    found = smoothed_rates(offsets, tau, changed)
    for page, rate in enumerate(found):
        own = slice(offsets[page], offsets[page + 1])
        seen = np.append(tau[own][changed[own]], 0.5)
        assert np.sum(seen / np.expm1(rate * seen)) == pytest.approx(tau[own][~changed[own]].sum() + 0.5, rel=1e-7)


def test_priors_by_page_are_taken_by_page() -> None:
    """Each page may have a prior of its own."""
    prior = Prior(np.ones(2), np.array([1.0, 100.0]), np.ones((2, 1)), np.full((2, 1), 50.0))
    found: Posterior = fit_pages([0, 0, 0], [], np.zeros((0, 1)), [], prior)
    assert found.alpha == pytest.approx([1.0, 0.01])
