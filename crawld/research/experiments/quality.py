"""Busa-Fekete et al. 2025 section 6.7: what happens when the quality of signals is not known exactly."""

import numpy as np

from crawld.research.crawler import scheduled
from crawld.research.engine import simulate
from crawld.research.experiments.analytic import promised
from crawld.research.population import NOISE, Population, from_quality, page_stream, run_key
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import draw_world

BURN_IN, MEASURED = 60.0, 140.0
VISITED = 0.05
"""Share of the pages that can be crawled in a unit of time."""
TOP = 0.05
"""Share of pages whose signals are the best ones."""
NOISES = (0.0, 0.1, 0.2)


def bounded_quantile(u: float, a: float, b: float) -> float:
    """The u-quantile of a Kumaraswamy distribution: like a Beta(a, b), but in closed form."""
    return float((1.0 - (1.0 - u) ** (1.0 / b)) ** (1.0 / a))


def shaped_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    """A page of a web shaped like Kolobov et al.'s data, with signals as Busa-Fekete et al. 2025 measured them.

    Importance is skewed, most pages change once in a few days, and one in twenty has signals of the upper tail of
    precision and recall, the others of the rest.
    """
    top = stream.random() < TOP
    mu = float(stream.lognormal(0.0, 1.5)) * (8.6 if top else 1.0)
    delta = float(stream.lognormal(np.log(0.25), 1.2))
    low, high = (1.0 - TOP, 1.0) if top else (0.0, 1.0 - TOP)
    precision, recall = (bounded_quantile(stream.uniform(low, high), 1.5, 3.0) for _ in range(2))
    return from_quality(mu, delta, precision, recall)


def corrupted(population: Population, noise: float, key: int) -> Population:
    """What is believed when that share of every precision and recall is replaced by chance.

    The papers print the recall without the factor before its noise, which would leave [0, 1].
    """
    rows = []
    for page in range(population.pages):
        chance = page_stream(key, page, NOISE).random(2)
        precision = (1 - noise) * population.precision[page] + noise * chance[0]
        recall = (1 - noise) * population.lam[page] + noise * chance[1]
        rows.append(from_quality(population.mu[page], population.delta[page], precision, recall))
    return Population(*np.array(rows).T.copy())


def measure(trial: Trial) -> Measures:
    """A policy that believes in a share of noise, named after an `@`."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(shaped_page, trial.pages, key)
    bandwidth = VISITED * trial.pages
    policy, _, noise = trial.contestant.partition(" noise ")
    formula = promised(policy, population, bandwidth)
    if formula is not None:
        return {"accuracy": formula}
    believed = corrupted(population, float(noise), key) if noise else population
    world = draw_world(population, BURN_IN + MEASURED, key)
    run = simulate(world, scheduled(policy, believed, bandwidth), bandwidth)
    return {"accuracy": run.ledger().accuracy(BURN_IN, world.horizon)}


def _noisy(policy: str) -> tuple[str, ...]:
    return tuple(f"{policy} noise {noise:g}" for noise in NOISES)


CORRUPTED_SIGNALS = Experiment(
    name="corrupted-signals",
    shows="Busa-Fekete et al. Fig. 5: exact values bear wrong precision and recall better than trusting the best pages",
    pages=(2000,),
    repeats=4,
    contestants=("baseline", "optimum", "greedy", *_noisy("greedy-cis-plus"), *_noisy("greedy-ncis")),
    measure=measure,
    pairs=(
        *((f"greedy-ncis noise {noise:g}", f"greedy-cis-plus noise {noise:g}") for noise in NOISES),
        *((f"greedy-ncis noise {noise:g}", "greedy") for noise in NOISES),
        *((f"greedy-cis-plus noise {noise:g}", "greedy") for noise in NOISES),
    ),
    settings={
        "bandwidth": "0.05 * pages",
        "burn_in": BURN_IN,
        "measured_time": MEASURED,
        "mu": "lognormal(0, 1.5), times 8.6 for the top pages",
        "delta": "lognormal(ln .25, 1.2)",
        "precision, recall": "Kumaraswamy(1.5, 3): highest 5 % for the top 5 % of pages, the rest for the others",
        "parameters": "known but for the noise",
    },
)
