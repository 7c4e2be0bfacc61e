"""Busa-Fekete et al. 2025 appendices C and D: signals that come late, and a bandwidth that changes."""

import numpy as np

from crawld.learn.observations import Prior
from crawld.research.crawler import scheduled
from crawld.research.engine import Bandwidth, Crawler, simulate
from crawld.research.experiments.analytic import promised
from crawld.research.experiments.ncis import BANDWIDTH, COMMON, MEASURED, NOISY, NOISY_SETTINGS, NONE, burn_in
from crawld.research.online_crawler import DAY, OnlineCrawler, OnlineLearning
from crawld.research.population import Floats, Population, run_key
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import World, draw_world

SHORT_DELAY = 6.0
"""Mean delay in slots, Poisson."""
DISCARD = 5.0 / BANDWIDTH
LONG_DELAY = 3.0
"""Mean delay in rounds of all pages, where it is to be long."""
LEARNING_TIME = 100.0


def _delayed_crawler(contestant: str, world: World) -> Crawler:
    population = world.population
    if contestant.endswith("fitted"):
        # A vague prior: with this many crawls the evidence speaks for itself, delays and all.
        vague = OnlineLearning(Prior(1.0, 2.0 * DAY, 1.0, 1.0), round_share=0.1)
        return OnlineCrawler("greedy-ncis", world, BANDWIDTH, vague, copies=False)
    discard = DISCARD if "discarding" in contestant else 0.0
    return scheduled(contestant.partition(",")[0], population, BANDWIDTH, discard=discard)


def measure_delays(trial: Trial) -> Measures:
    """A policy with prompt signals, with signals some slots late, or with signals rounds late."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(NOISY.draw, trial.pages, key)
    formula = promised(trial.contestant, population, BANDWIDTH)
    if formula is not None:
        return {"accuracy": formula}
    start = burn_in(trial.pages) + LEARNING_TIME
    delay = 0.0
    if "late" in trial.contestant:
        delay = LONG_DELAY * trial.pages if "very late" in trial.contestant else SHORT_DELAY
    world = draw_world(population, start + MEASURED, key, delay_mean=delay, slot=1.0 / BANDWIDTH)
    learnt = trial.contestant.endswith("fitted")
    run = simulate(world, _delayed_crawler(trial.contestant, world), BANDWIDTH, started_fresh=not learnt)
    return {"accuracy": run.ledger().accuracy(start, world.horizon)}


DELAYED_SIGNALS = Experiment(
    name="delayed-signals",
    shows="Busa-Fekete et al. Fig. 8: late signals cost most at a loose bandwidth; very late ones need a fit",
    pages=(100, 500),
    repeats=3,
    contestants=(
        "baseline", "optimum", "greedy", "greedy-ncis", "greedy-ncis, late", "greedy-ncis, late, discarding",
        "greedy-ncis, very late", "greedy-ncis, very late, fitted",
    ),
    measure=measure_delays,
    pairs=(
        ("greedy-ncis, late", "greedy-ncis"), ("greedy-ncis, late, discarding", "greedy-ncis, late"),
        ("greedy-ncis, very late", "greedy"), ("greedy-ncis, very late, fitted", "greedy"),
        ("greedy-ncis, very late, fitted", "greedy-ncis, very late"),
    ),
    settings={
        **NOISY_SETTINGS, "burn_in": "110 + 2 * pages / bandwidth", "late": "Poisson, mean 6 slots",
        "very late": "Poisson, mean 3 * pages slots", "discarding": "signals within 5 slots after a crawl",
        "fitted": "parameters learnt from crawls, without a copy at the start",
    },
)  # fmt: skip

STEPS = (Bandwidth(0.0, 100.0), Bandwidth(133.0, 150.0), Bandwidth(266.0, 100.0))
HORIZON, STEP_BURN_IN = 400.0, 40.0
WINDOW = 2.0
SETTLED = 0.1
"""Share of the step in accuracy that may still be missing."""


def _series(policy: str, population: Population, key: int, steps: tuple[Bandwidth, ...]) -> Floats:
    world = draw_world(population, HORIZON, key)
    run = simulate(world, scheduled(policy, population, steps[0].rate), steps)
    return run.ledger().accuracy_series(np.arange(0.0, HORIZON + WINDOW / 2, WINDOW))


def _settling(changing: Floats, steady: Floats, step: float, since: float) -> float:
    """Time from a step until accuracy, over three windows, is within a tenth of that step of the steady one."""
    first = int(np.ceil(since / WINDOW))
    gap = np.convolve((changing - steady)[first : first + 50], np.ones(3) / 3, mode="valid")
    calm = np.flatnonzero(np.abs(gap) < SETTLED * step)
    return float(calm[0]) * WINDOW if len(calm) else float("inf")


def measure_steps(trial: Trial) -> Measures:
    """Accuracy over time; for the changing bandwidth also how long after each step it is that of a steady one."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(NONE.draw, trial.pages, key)
    policy, _, how = trial.contestant.partition(", ")
    low, high = (Bandwidth(0.0, 100.0),), (Bandwidth(0.0, 150.0),)
    steps = {"100": low, "150": high}.get(how, STEPS)
    series = _series(policy, population, key, steps)
    measures = {"accuracy": float(series[int(STEP_BURN_IN / WINDOW) :].mean())}
    if steps is STEPS:
        little, much = (_series(policy, population, key, steady) for steady in (low, high))
        step = float(np.mean((much - little)[int(STEP_BURN_IN / WINDOW) :]))
        measures["settles_up"] = _settling(series, much, step, STEPS[1].start)
        measures["settles_down"] = _settling(series, little, step, STEPS[2].start)
    else:
        measures |= {"settles_up": np.nan, "settles_down": np.nan}
    ends = np.arange(1, len(series) + 1) * WINDOW
    return {**measures, **{f"accuracy@{end:g}": float(value) for end, value in zip(ends, series, strict=True)}}


BANDWIDTH_CHANGE = Experiment(
    name="bandwidth-change",
    shows="Busa-Fekete et al. Fig. 9: after a bandwidth step GREEDY is at its new optimum within 10 units of time",
    pages=(1000,),
    repeats=2,
    contestants=("greedy, 100", "greedy, 150", "greedy, 100-150-100", "lds, 100-150-100"),
    measure=measure_steps,
    pairs=(("greedy, 150", "greedy, 100"), ("greedy, 100-150-100", "lds, 100-150-100")),
    settings={
        **{name: COMMON[name] for name in ("mu", "delta", "parameters")},
        "bandwidth": "100, from 133 on 150, from 266 on 100", "horizon": HORIZON, "burn_in": STEP_BURN_IN,
        "settles": "time until, over 6 units, the gap to a steady bandwidth is below a tenth of the step in accuracy",
    },
)  # fmt: skip
