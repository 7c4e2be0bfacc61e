"""What the papers claim, on small worlds that every policy shares."""

import numpy as np
import pytest

from crawld.choose.value import level_crossing
from crawld.research.crawler import Learning, SmoothedFit, scheduled
from crawld.research.engine import Bandwidth, simulate, slot_times
from crawld.research.experiments import EXPERIMENTS
from crawld.research.experiments.learning import LIMITS as LEARNING_LIMITS
from crawld.research.experiments.learning import days_to_95
from crawld.research.experiments.ncis import (
    NOISY,
    NONE,
    PARTIAL,
    Signals,
    corrupted,
    promised,
    shaped_page,
)
from crawld.research.experiments.papers import TABLE_5, table_6
from crawld.research.trial import Trial
from crawld.research.world import Population, draw_world, run_key

RATE, PAGES, BURN_IN, HORIZON, WORLDS = 10.0, 30, 10.0, 90.0, 3


def _accuracy(policy: str, signals: Signals, repeat: int, delay: float = 0.0) -> float:
    key = run_key(1, repeat)
    population = Population.draw(signals.draw, PAGES, key)
    formula = promised(policy, population, RATE)
    if formula is not None:
        return formula
    world = draw_world(population, HORIZON, key, delay_mean=delay, slot=1 / RATE)
    return simulate(world, scheduled(policy, population, RATE), RATE).ledger().accuracy(BURN_IN, HORIZON)


def _gain(a: str, b: str, signals: Signals) -> float:
    return float(np.mean([_accuracy(a, signals, i) - _accuracy(b, signals, i) for i in range(WORLDS)]))


def test_greedy_and_lds_reach_the_baseline() -> None:
    """Without signals both discrete policies are near the continuous optimum."""
    assert abs(_gain("greedy", "baseline", NONE)) < 0.02
    assert abs(_gain("lds", "baseline", NONE)) < 0.02


def test_signals_of_some_changes_help() -> None:
    """Where no signal is false, believing all of them gains a lot."""
    assert _gain("greedy-cis", "greedy", PARTIAL) > 0.03


def test_noisy_signals_help_who_weighs_them() -> None:
    """Under false signals the exact value gains over ignoring them and comes near to the optimum."""
    assert _gain("greedy-ncis", "greedy", NOISY) > 0.03
    assert abs(_gain("greedy-ncis", "optimum", NOISY)) < 0.02


def test_late_signals_lose_their_worth() -> None:
    """Signals three rounds of all pages late are worth less than prompt ones, taken for prompt."""
    prompt, late = (
        np.mean([_accuracy("greedy-ncis", NOISY, i, delay) for i in range(WORLDS)]) for delay in (0.0, 3 * PAGES)
    )
    assert prompt - late > 0.03


def test_the_optimum_is_where_its_dual_is_least() -> None:
    """Σμe^−X(Λ) + ΛR bounds the optimum from above at every level Λ, and touches it at one."""
    population = Population.draw(NOISY.draw, 40, 5)
    p = population
    optimum = promised("optimum", population, RATE)
    assert optimum is not None
    levels = np.geomspace(0.01, float((p.mu / p.delta).max()), 200)
    x = level_crossing(levels[:, None], p.alpha, p.kappa, p.gamma, p.mu)
    bounds = (np.exp(-x) @ p.mu + levels * RATE) / p.mu.sum()
    assert bounds.min() == pytest.approx(optimum, abs=1e-3)
    assert bounds.min() >= optimum - 1e-12


def test_a_policy_of_rates_learns_what_it_needs() -> None:
    """From one guess for all pages LambdaCrawl learns rates that make it about as good as the true ones."""
    key = run_key(4, 0)
    population = Population.draw(NONE.draw, 60, key).without_signals()
    world = draw_world(population, 80.0, key)
    known = simulate(world, scheduled("lambdacrawl", population, 30.0), 30.0).ledger()
    learning = Learning(lambda: SmoothedFit(1.0), 1.0, (1.0, np.inf))
    learner = scheduled("lambdacrawl", population, 30.0, learning=learning)
    learnt = simulate(world, learner, 30.0, started_fresh=False).ledger()
    assert learnt.accuracy(0.0, 1.0) < 0.5
    assert learnt.accuracy(30.0, 80.0) > 0.9 * known.accuracy(30.0, 80.0)


def test_who_starts_with_copies_learns_from_the_first_crawl() -> None:
    """What LambdaCrawl has learnt is worth more of its oracle, by its own cost, than what it guessed at the start."""
    found = [EXPERIMENTS["learning"].measure(Trial("lambdacrawl", 60, 1, repeat)) for repeat in range(3)]
    first, last = (np.mean([one[f"share@{day}"] for one in found]) for day in (0, 10))
    assert first < last < 1.01


def test_the_day_of_95_percent_is_the_last_time_it_is_crossed() -> None:
    """A share that dips again has not arrived; one that never dips was there from the start."""

    def reached(*shares: float) -> float:
        series = dict(
            zip(
                (f"share@{mark:g}" for mark in LEARNING_LIMITS.marks),
                (*shares, *[shares[-1]] * len(LEARNING_LIMITS.marks)),
                strict=False,
            )
        )
        return days_to_95(series)["days_to_95"]

    assert reached(0.9, 0.96, 0.94, 0.96) == pytest.approx((LEARNING_LIMITS.marks[2] + LEARNING_LIMITS.marks[3]) / 2)
    assert reached(0.96, 0.97) == 0.0
    assert reached(0.96, 0.9) == np.inf


def test_tables_of_cho_to_their_printed_digits() -> None:
    """Table 5's rates, and Table 6's freshness and age by formula."""
    measure = EXPERIMENTS["allocation"].measure
    best = measure(Trial("table 5, freshness-optimal", 5, 1, 0))
    assert [round(best[f"rate_{page}"], 2) for page in range(1, 6)] == [1.15, 1.36, 1.35, 1.14, 0.0]
    youngest = measure(Trial("table 5, age-optimal", 5, 1, 0))
    assert [round(youngest[f"rate_{page}"], 2) for page in range(1, 6)] == [0.83, 0.97, 1.03, 1.07, 1.09]
    assert len(TABLE_5) == 5
    assert table_6(100).size == 100
    oldest = measure(Trial("table 6, age-optimal", 100, 1, 0))
    assert oldest["age"] == pytest.approx(4.3, abs=0.05)


def test_noise_mixes_in_chance_and_stays_within_bounds() -> None:
    """Without noise nothing changes; with noise precision and recall move and remain probabilities."""
    population = Population.draw(shaped_page, 50, 3)
    assert np.allclose(corrupted(population, 0.0, 3).precision, population.precision)
    noisy = corrupted(population, 0.2, 3)
    assert not np.allclose(noisy.lam, population.lam)
    assert np.all((noisy.lam >= 0) & (noisy.lam <= 1) & (noisy.precision <= 1))


def test_slots_follow_the_bandwidth() -> None:
    """A step of the bandwidth changes the spacing from there on."""
    slots = slot_times([Bandwidth(0.0, 2.0), Bandwidth(2.0, 4.0)], 3.0)
    assert slots.tolist() == [0.5, 1.0, 1.5, 2.0, 2.25, 2.5, 2.75, 3.0]


def test_counting_intervals_overstates_and_the_model_does_not() -> None:
    """The counted precision is off by far more than the fitted one."""
    measure = EXPERIMENTS["estimation"].measure
    counted, fitted = (measure(Trial(method, 10, 1, 0)) for method in ("counted", "likelihood"))
    assert counted["precision_bias"] > 0.15
    assert counted["recall_bias"] > 0.15
    assert fitted["precision_rmse"] < 0.03
