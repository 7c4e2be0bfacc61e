"""Posteriors on the grid against brute force, in every corner, and one page against many."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from crawld.learn.grid_posterior import KAPPAS, POINTS, GridPosterior, Masses, shape_of_spread, trust_in
from crawld.learn.observations import Observations, Prior
from tests.support.hard_histories import HARD_PAGES, hard_history

Floats = NDArray[np.float64]
GUESS = Prior(1.0, 1.0, 1.0, 2.0)


def gathered(tau: Floats, signals: Floats, changed: NDArray[np.bool_], weights: Floats | None = None) -> Observations:
    """One page's intervals."""
    return Observations.gather([0, len(tau)], tau, signals, changed, weights)


def history(rng: np.random.Generator, rows: int, sources: int = 1) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Observations of a page drawn from the model."""
    alpha, kappa = 10 ** rng.uniform(-1, 0.7), 10 ** rng.uniform(-2, 0.7, sources)
    tau = rng.exponential(1.0, rows)
    signals = rng.poisson(rng.uniform(0.1, 2.0), (rows, sources)).astype(float)
    return tau, signals, rng.random(rows) < -np.expm1(-(alpha * tau + signals @ kappa))


def fitted(grid: GridPosterior, intervals: Observations, prior: Masses) -> tuple[Floats, Floats, Floats, Masses]:
    """Mean and shape of α, what a signal is trusted to mean, and the evidence."""
    fit = grid.fit(intervals, prior)
    shape, rate = grid.gamma_of(fit.found.alpha)
    return shape / rate, shape, trust_in(fit.found.kappa, np.ones(fit.found.kappa.shape[:2])), fit.evidence


def brute_force(grid: GridPosterior, prior: Masses, tau: Floats, count: Floats, changed: NDArray[np.bool_]) -> Floats:
    """The joint posterior of one page with one source, interval by interval in double precision."""
    logs = np.log(prior.alpha[0])[:, None] + np.log(prior.kappa[0, 0])[None, :]
    for length, signals, change in zip(tau, count, changed):
        x = grid.alpha[:, None] * length + KAPPAS[None, :] * signals
        logs = logs + (np.log(-np.expm1(-x)) if change else -x)
    mass = np.exp(logs - logs.max())
    return np.asarray(mass / mass.sum())


def test_beliefs_are_those_of_the_posterior_summed_by_brute_force() -> None:
    """Mean and spread of the rate and freshness after a signal are exact; evidence times prior is the posterior."""
    rng = np.random.default_rng(3)
    grid = GridPosterior(GUESS)
    for rows in rng.integers(1, 40, 25):
        tau, signals, changed = history(rng, rows)
        drawn = rng.dirichlet(np.ones(POINTS)) + 1e-6, rng.dirichlet(np.ones(len(KAPPAS))) + 1e-6
        prior = Masses((drawn[0] / drawn[0].sum())[None], (drawn[1] / drawn[1].sum())[None, None])
        exact = brute_force(grid, prior, tau, signals[:, 0], changed)
        of_alpha, of_kappa = exact.sum(axis=1), exact.sum(axis=0)
        alpha, shape, trust, evidence = fitted(grid, gathered(tau, signals, changed), prior)
        assert alpha[0] == pytest.approx(of_alpha @ grid.alpha, rel=1e-4)
        spread = np.log(of_alpha @ grid.alpha) - of_alpha @ np.log(grid.alpha)
        assert np.log(shape[0]) - special.digamma(shape[0]) == pytest.approx(spread, rel=0.02)
        if signals.any():
            assert np.exp(-trust[0, 0]) == pytest.approx(of_kappa @ np.exp(-KAPPAS), rel=1e-4)
            again = evidence.kappa[0, 0] * prior.kappa[0, 0]
            assert again / again.sum() == pytest.approx(of_kappa, abs=1e-5)
        again = evidence.alpha[0] * prior.alpha[0]
        assert again / again.sum() == pytest.approx(of_alpha, abs=1e-5)


def test_a_gamma_prior_gives_the_gamma_posterior_where_nothing_changed() -> None:
    """Unchanged time turns Gamma(a, b) into Gamma(a, b + T), and the grid finds it within 2 %."""
    grid = GridPosterior(Prior(1.5, 2.0))
    prior = grid.masses(Prior(1.5, 2.0), 0)
    still = gathered(np.array([3.0, 4.0]), np.zeros((2, 0)), np.array([False, False]))
    alpha, shape, *_ = fitted(grid, still, prior)
    assert shape[0] == pytest.approx(1.5, rel=0.02)
    assert shape[0] / alpha[0] == pytest.approx(9.0, rel=0.02)


def test_with_much_evidence_the_rate_is_found() -> None:
    """Two hundred crawls of a page: the belief is the true rate, whatever the prior held likely."""
    rng = np.random.default_rng(4)
    grid = GridPosterior(GUESS)
    for rate in (0.05, 0.7, 4.0):
        tau = rng.exponential(1.0 / rate, 200)
        changed = rng.random(200) < -np.expm1(-rate * tau)
        alpha, shape, *_ = fitted(grid, gathered(tau, np.zeros((200, 0)), changed), grid.masses(GUESS, 0))
        assert alpha[0] == pytest.approx(rate, rel=0.3)
        assert alpha[0] / np.sqrt(shape[0]) < 0.15 * rate


def test_the_first_guess_is_kept_by_pages_without_intervals() -> None:
    """Nothing seen: the belief is the prior, and the page has nothing to say to its siblings."""
    grid = GridPosterior(GUESS)
    nothing = gathered(np.zeros(0), np.zeros((0, 2)), np.zeros(0, bool))
    alpha, shape, _, evidence = fitted(grid, nothing, grid.masses(GUESS, 2))
    assert alpha[0] == pytest.approx(1.0, rel=0.1)
    assert shape[0] == pytest.approx(1.0, rel=0.1)
    assert not evidence.alpha.any()
    assert not evidence.kappa.any()


def test_honest_signals_earn_trust_and_false_ones_lose_it() -> None:
    """Each source for itself, also when a page hears both at once."""
    tau, signals = np.full(40, 0.2), np.tile([[1.0, 1.0], [0.0, 1.0]], (20, 1))
    changed = signals[:, 0] > 0
    grid = GridPosterior(GUESS)
    _, _, trust, _ = fitted(grid, gathered(tau, signals, changed), grid.masses(Prior(1.0, 1.0, 1.0, 1.0), 2))
    assert trust[0, 0] > 1.0
    assert trust[0, 1] < 0.1


def test_many_pages_at_once_are_the_same_as_each_alone() -> None:
    """Ragged histories, empty ones among them, do not touch each other."""
    rng = np.random.default_rng(5)
    lengths = [0, 3, 1, 0, 12, 30, 0]
    parts = [history(rng, rows, sources=3) for rows in lengths]
    parts[4][1][:, 1:] = 0.0  # a page that heard one source only
    tau, signals, changed = (np.concatenate(column) for column in zip(*parts))
    weights, offsets = rng.random(len(tau)), np.r_[0, np.cumsum(lengths)]
    grid = GridPosterior(GUESS)
    one = grid.masses(GUESS, 3)
    each = Masses(np.repeat(one.alpha, 7, axis=0), np.repeat(one.kappa, 7, axis=0))
    mean, shape, trust, told = fitted(grid, Observations.gather(offsets, tau, signals, changed, weights), each)
    for page in range(len(lengths)):
        rows = slice(offsets[page], offsets[page + 1])
        alone = gathered(tau[rows], signals[rows], changed[rows], weights[rows])
        own_mean, own_shape, own_trust, said = fitted(grid, alone, one)
        assert shape[page] == pytest.approx(own_shape[0], rel=1e-4)
        assert mean[page] == pytest.approx(own_mean[0], rel=1e-4)
        assert trust[page] == pytest.approx(own_trust[0], rel=1e-4)
        assert told.alpha[page] == pytest.approx(said.alpha[0], abs=1e-4)


def test_the_unit_of_time_does_not_matter() -> None:
    """Seconds or days: the same belief in other units."""
    tau, signals, changed = history(np.random.default_rng(6), 20)
    found = []
    for unit in (1.0, 86400.0):
        grid = GridPosterior(Prior(0.5, 2.0 * unit))
        found.append(fitted(grid, gathered(tau * unit, signals, changed), grid.masses(Prior(0.5, 2.0 * unit), 1)))
    assert found[1][0] * 86400 == pytest.approx(found[0][0], rel=1e-4)
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-4)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32 - 1), sources=st.integers(0, 3), rows=st.integers(0, 12))
def test_no_corner_gives_anything_but_a_finite_positive_belief(seed: int, sources: int, rows: int) -> None:
    """Lengths from 0 to 1e9 s, a million signals, all or none changed, weights of 0: never nan, inf or a warning."""
    rng = np.random.default_rng(seed)
    intervals = Observations.gather(*hard_history(rng, sources, rows))
    guess = Prior(1.0, 10 ** rng.uniform(-3, 9))
    grid = GridPosterior(guess)
    one = grid.masses(guess, sources)
    prior = Masses(np.repeat(one.alpha, HARD_PAGES, axis=0), np.repeat(one.kappa, HARD_PAGES, axis=0))
    with warnings.catch_warnings(), np.errstate(divide="raise", invalid="raise", over="raise"):
        warnings.simplefilter("error")
        alpha, shape, trust, evidence = fitted(grid, intervals, prior)
    for column in (alpha, shape):
        assert np.isfinite(column).all()
        assert (column > 0).all()
    assert np.isfinite(trust).all()
    assert (trust >= 0).all()
    for part in (evidence.alpha, evidence.kappa):
        assert ((part >= 0) & (part <= 1)).all()


def test_the_shape_that_fits_a_spread_is_found() -> None:
    """The spread ln a − ψ(a) is undone within 2 % over the shapes that occur."""
    shapes = np.geomspace(0.05, 1000.0, 50)
    assert shape_of_spread(np.log(shapes) - special.digamma(shapes)) == pytest.approx(shapes, rel=0.02)


def test_a_page_that_changes_far_faster_than_the_guess_is_believed() -> None:
    """A month was guessed, and 30 of 40 hourly visits find a change: the interval learnt is that of the evidence."""
    month, hour = 720.0, 1.0
    guess = Prior(1.0, month, 1.0, 2.0)
    grid = GridPosterior(guess)
    tau, changed = np.full(40, hour), np.arange(40) % 4 > 0
    seen, *_ = fitted(grid, gathered(tau, np.zeros((40, 1)), changed), grid.masses(guess, 1))
    assert seen[0] == pytest.approx(np.log(4.0), rel=0.25)
    unseen, *_ = fitted(grid, gathered(tau[:0], np.zeros((0, 1)), changed[:0]), grid.masses(guess, 1))
    assert unseen[0] == pytest.approx(1 / month, rel=0.2)


def test_caution_keeps_the_mean_and_thickens_the_tail() -> None:
    """With full caution a posterior has the spread of shape 1 and the same mean; a wider one stays as it is."""
    grid = GridPosterior(GUESS)
    sharp = grid.fit(gathered(np.full(30, 1.0), np.zeros((30, 0)), np.arange(30) % 2 > 0), grid.masses(GUESS, 0))
    masses = np.vstack([sharp.found.alpha, grid.masses(Prior(0.5, 0.5), 0).alpha])
    shape, rate = grid.gamma_of(masses)
    cautious, slower = grid.gamma_of(masses, 1.0)
    assert shape[0] > 5.0
    assert cautious == pytest.approx([1.0, shape[1]], rel=0.02)
    assert cautious / slower == pytest.approx(shape / rate)
