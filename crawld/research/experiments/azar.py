"""Azar et al. 2018 Fig. 1: the randomised optimum, made deterministic, beside the true one and simpler policies."""

import numpy as np

from crawld.choose.allocation import azar_continuous, freshness_optimal, uniform
from crawld.choose.allocation_costs import VisitOrder, freshness, weighted
from crawld.research.crawler import scheduled
from crawld.research.engine import simulate
from crawld.research.population import Floats, Population, run_key
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import draw_world

VISITED = 0.1
BURN_IN, MEASURED = 60.0, 200.0
ZIPF = 1.0 / np.arange(1, 10_001) ** 2.0


def uniform_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    """Utility and change rate uniform on (0, 1)."""
    mu, delta = stream.random(2)
    return mu, delta, 0.0, 0.0


def zipf_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    """Utility Zipf with exponent 2 on 1..10000, change rate uniform on (0, 1)."""
    utility = 1 + int(np.searchsorted(np.cumsum(ZIPF) / ZIPF.sum(), stream.random()))
    return float(utility), float(stream.random()), 0.0, 0.0


RECIPES = {"uniform utility": uniform_page, "zipf utility": zipf_page}


def rates_of(policy: str, mu: Floats, delta: Floats, bandwidth: float) -> Floats:
    """Visits per unit of time to each page."""
    match policy:
        case "azar":
            return azar_continuous(mu, delta, bandwidth)
        case "optimum":
            return freshness_optimal(mu, delta, bandwidth)
        case "change-rate":
            return freshness_optimal(np.ones_like(mu), delta, bandwidth)
        case "utility-proportional":
            return np.asarray(bandwidth * mu / mu.sum())
    return uniform(mu, delta, bandwidth)


SIMULATED = {"azar": "lds", "optimum": "freshness-optimal", "change-rate": "freshness-optimal", "uniform": "uniform"}


def measure(trial: Trial) -> Measures:
    """Utility of fresh copies: by formula, at even intervals and at random moments, and simulated where possible."""
    policy, utility = trial.contestant.split(", ")
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(RECIPES[utility], trial.pages, key)
    mu, delta = population.mu, population.delta
    bandwidth = VISITED * trial.pages
    rates = rates_of(policy, mu, delta, bandwidth)
    even = weighted(mu, freshness(delta, rates))
    measures = {
        "accuracy": even,
        "even": even,
        "at_random": weighted(mu, freshness(delta, rates, VisitOrder.PURELY_RANDOM)),
    }
    if policy in SIMULATED:
        blind = np.ones_like(mu) if policy == "change-rate" else mu
        believed = Population(blind, delta, population.lam, population.nu)
        world = draw_world(population, BURN_IN + MEASURED, key)
        run = simulate(world, scheduled(SIMULATED[policy], believed, bandwidth), bandwidth)
        measures["accuracy"] = run.ledger().accuracy(BURN_IN, world.horizon)
    return measures


_POLICIES = ("optimum", "azar", "change-rate", "utility-proportional", "uniform")
AZAR = Experiment(
    name="azar",
    shows="Azar et al. 2018 Fig. 1: its rates, visited in turn, come within a percent or so of the optimum",
    pages=(500, 1000),
    repeats=3,
    contestants=tuple(f"{policy}, {utility}" for utility in RECIPES for policy in _POLICIES),
    measure=measure,
    pairs=tuple(
        (f"azar, {utility}", f"{other}, {utility}") for utility in RECIPES for other in _POLICIES if other != "azar"
    ),
    settings={
        "bandwidth": "0.1 * pages", "burn_in": BURN_IN, "measured_time": MEASURED, "delta": "U(0,1)",
        "mu": "U(0,1), or Zipf with exponent 2 on 1..10000", "even, at_random": "by formula for the same rates",
        "accuracy": "simulated, but for utility-proportional",
    },
)  # fmt: skip
