"""Kolobov et al. 2019 section 7: which penalty to optimise, and what complete signals are worth."""

import numpy as np
from numpy.typing import NDArray

from crawld.choose import allocation
from crawld.choose.allocation_costs import (
    VisitOrder,
    freshness,
    freshness_announced,
    harmonic,
    harmonic_announced,
    weighted,
)
from crawld.research.crawler import scheduled
from crawld.research.engine import simulate
from crawld.research.population import Floats, Population, run_key
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import draw_world

VISITED = 0.2
"""Kolobov et al.'s bandwidth: a fifth of the pages a day."""
COMPLETE = 0.04
"""Share of the pages of which every change is announced; they carry 26 % of the importance."""
EPSILON = 0.4
BURN_IN, MEASURED = 40.0, 60.0


def observed_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    """A page shaped like Kolobov et al.'s data: all or none of its changes are announced."""
    complete = stream.random() < COMPLETE
    mu = float(stream.lognormal(0.0, 1.5)) * (8.6 if complete else 1.0)
    return mu, float(stream.lognormal(np.log(0.25), 1.2)), float(complete), 0.0


def paper_rates(policy: str, population: Population, complete: NDArray[np.bool_], bandwidth: float) -> Floats | None:
    """Rates as the paper's algorithm gives them; None for policies that have none."""
    mu, delta = population.mu, population.delta
    match policy:
        case "lambdacrawl":
            return allocation.lambdacrawl(mu, delta, bandwidth, complete)
        case "lambdacrawl-approximate":
            return allocation.lambdacrawl_approximate(mu, delta, bandwidth, complete)
        case "binary-lambdacrawl":
            return allocation.binary_lambdacrawl(mu, delta, bandwidth)
        case "binary-lambdacrawl-epsilon":
            return allocation.binary_lambdacrawl(mu, delta, bandwidth, EPSILON)
        case "uniform":
            return allocation.uniform(mu, delta, bandwidth)
        case "proportional":
            return allocation.proportional(mu, delta, bandwidth)
    return None


def paper_costs(rates: Floats, population: Population, announced: NDArray[np.bool_]) -> tuple[float, float]:
    """The harmonic and the binary cost by the paper's formulas, per unit of importance."""
    delta = population.delta
    blind = harmonic(delta, rates, VisitOrder.PURELY_RANDOM)
    fresh = freshness(delta, rates, VisitOrder.PURELY_RANDOM)
    costs = np.where(announced, harmonic_announced(delta, rates), blind)
    fresh = np.where(announced, freshness_announced(delta, rates), fresh)
    return weighted(population.mu, costs), 1.0 - weighted(population.mu, fresh)


def measure_costs(trial: Trial) -> Measures:
    """What a policy costs in simulation and, where the paper has a formula, by that."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(observed_page, trial.pages, key)
    bandwidth = VISITED * trial.pages
    complete = population.lam > 0
    rates = paper_rates(trial.contestant, population, complete, bandwidth)
    measures = {"accuracy": np.nan, "harmonic": np.nan, "age": np.nan, "paper_harmonic": np.nan, "paper_binary": np.nan}
    if rates is not None:
        uses_signals = trial.contestant.startswith("lambdacrawl")
        costs = paper_costs(rates, population, complete if uses_signals else np.zeros_like(complete))
        measures["paper_harmonic"], measures["paper_binary"] = costs
    world = draw_world(population, BURN_IN + MEASURED, key)
    ledger = simulate(world, scheduled(trial.contestant, population, bandwidth), bandwidth).ledger()
    span = BURN_IN, world.horizon
    measures["accuracy"], measures["harmonic"] = ledger.accuracy(*span), ledger.harmonic(*span)
    measures["age"] = ledger.age(*span)
    return measures


LAMBDACRAWL = Experiment(
    name="lambdacrawl",
    shows="Kolobov et al. Figs. 1, 2: the harmonic and the binary cost of each policy, by formula and in simulation",
    pages=(1000,),
    repeats=3,
    contestants=(
        "lambdacrawl", "lambdacrawl-approximate", "binary-lambdacrawl", "binary-lambdacrawl-epsilon", "uniform",
        "proportional", "greedy-harmonic", "greedy-ncis",
    ),
    measure=measure_costs,
    pairs=(
        ("lambdacrawl", "binary-lambdacrawl"), ("lambdacrawl", "lambdacrawl-approximate"), ("lambdacrawl", "uniform"),
        ("uniform", "proportional"), ("greedy-harmonic", "lambdacrawl"), ("greedy-ncis", "lambdacrawl"),
    ),
    settings={
        "bandwidth": "0.2 * pages a day", "burn_in": BURN_IN, "measured_time": MEASURED,
        "mu": "lognormal(0, 1.5), times 8.6 where every change is announced", "delta": "lognormal(ln .25, 1.2)",
        "complete": COMPLETE, "epsilon": EPSILON, "parameters": "known",
        "paper_": "by the paper's formulas for visits at random moments, per unit of importance",
    },
)  # fmt: skip
