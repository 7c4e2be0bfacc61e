"""Busa-Fekete et al. 2025 section 6 and its appendices: what noisy signals are worth, with oracle parameters."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from crawld.research.crawler import scheduled
from crawld.research.engine import simulate
from crawld.research.experiments.analytic import promised
from crawld.research.population import Population, Recipe, run_key
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import draw_world

BANDWIDTH = 100.0
MEASURED = 100.0


def burn_in(pages: int, bandwidth: float = BANDWIDTH) -> float:
    """Time left out of account: a little, and two rounds of all pages."""
    return 10.0 + 2.0 * pages / bandwidth


@dataclass(frozen=True, slots=True)
class Signals:
    """How signals come about in a family of worlds."""

    recall: tuple[float, float] | None = None  # λ ~ Beta of this, None: no signals
    false: tuple[float, float] = (0.0, 0.0)  # ν ~ U of this

    def draw(self, stream: np.random.Generator) -> tuple[float, float, float, float]:
        """One page: importance and change rate are uniform on (0, 1)."""
        mu, delta = stream.random(2)
        if self.recall is None:
            return mu, delta, 0.0, 0.0
        return mu, delta, stream.beta(*self.recall), stream.uniform(*self.false)


NONE = Signals()
PARTIAL = Signals((0.25, 0.25))
NOISY = Signals((0.25, 0.25), (0.1, 0.6))
COMMON = {
    "bandwidth": BANDWIDTH,
    "measured_time": MEASURED,
    "burn_in": "10 + 2 * pages / bandwidth",
    "mu": "U(0,1)",
    "delta": "U(0,1)",
    "parameters": "known",
}
NOISY_SETTINGS = {**COMMON, "lambda": "Beta(.25,.25)", "nu": "U(.1,.6)"}


def measure(recipe: Recipe, trial: Trial) -> Measures:
    """A policy by its name, or what a formula gives for the same pages."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(recipe, trial.pages, key)
    formula = promised(trial.contestant, population, BANDWIDTH)
    if formula is not None:
        return {"accuracy": formula}
    start = burn_in(trial.pages)
    world = draw_world(population, start + MEASURED, key)
    run = simulate(world, scheduled(trial.contestant, population, BANDWIDTH), BANDWIDTH)
    return {"accuracy": run.ledger().accuracy(start, world.horizon)}


DISCRETE = Experiment(
    name="discrete",
    shows="Busa-Fekete et al. 2025 Fig. 2: without signals GREEDY and LDS reach the continuous optimum",
    pages=(100, 500, 1000),
    repeats=3,
    contestants=("baseline", "greedy", "lds"),
    measure=partial(measure, NONE.draw),
    pairs=(("greedy", "baseline"), ("lds", "baseline"), ("greedy", "lds")),
    settings=COMMON,
)

PARTIAL_SIGNALS = Experiment(
    name="partial-signals",
    shows="Busa-Fekete et al. 2025 Fig. 3: signals of some changes, none false, help at every size",
    pages=(100, 500, 1000),
    repeats=3,
    contestants=("baseline", "optimum", "greedy", "greedy-cis"),
    measure=partial(measure, PARTIAL.draw),
    pairs=(("greedy-cis", "greedy"), ("greedy-cis", "optimum")),
    settings={**COMMON, "lambda": "Beta(.25,.25)", "nu": 0},
)

FALSE_SIGNALS = Experiment(
    name="false-signals",
    shows="Busa-Fekete et al. 2025 Fig. 4: with false signals only the exact crawl value is best at every size",
    pages=(100, 500, 1000),
    repeats=3,
    contestants=(
        "baseline", "optimum", "greedy", "greedy-cis", "greedy-ncis-1", "greedy-ncis-2", "greedy-ncis",
    ),
    measure=partial(measure, NOISY.draw),
    pairs=(
        ("greedy-ncis", "greedy"), ("greedy-ncis", "optimum"), ("greedy-cis", "greedy"), ("greedy-ncis-1", "greedy"),
        ("greedy-ncis-2", "greedy"), ("greedy-ncis", "greedy-ncis-2"),
    ),
    settings=NOISY_SETTINGS,
)  # fmt: skip
