"""Busa-Fekete et al. 2025 section 6 and its appendices: what noisy signals are worth, with oracle parameters."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crawld.choose import allocation
from crawld.learn.observations import Prior
from crawld.model.units import DAY
from crawld.research.crawler import scheduled
from crawld.research.engine import Bandwidth, SimulatedCrawler, simulate
from crawld.research.gamma_posterior import fit_pages
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import (
    Floats,
    Ints,
    Population,
    Recipe,
    Stream,
    World,
    draw_world,
    from_quality,
    page_stream,
    run_key,
)


@dataclass(frozen=True)
class NcisLimits:
    """Numbers that bound and tune this module."""

    bandwidth: float = 100.0
    measured: float = 100.0
    short_delay: float = 6.0
    """Mean delay in slots, Poisson."""
    discard: float = 5.0 / bandwidth
    long_delay: float = 3.0
    """Mean delay in rounds of all pages, where it is to be long."""
    learning_time: float = 100.0
    """For which who learns crawls before the others begin."""
    learning_rounds: float = 4.0
    """Rounds of all pages between two rounds of learning."""
    horizon: float = 400.0
    step_burn_in: float = 40.0
    window: float = 2.0
    settled: float = 0.1
    """Share of the step in accuracy that may still be missing."""
    burn_in: float = 60.0
    quality_measured: float = 140.0
    visited: float = 0.05
    """Share of the pages that can be crawled in a unit of time."""
    top: float = 0.05
    """Share of pages whose signals are the best ones."""
    noises: tuple[float, ...] = (0.0, 0.1, 0.2)
    """Shares of precision and recall that are replaced by chance."""
    estimation_horizon: float = 100_000.0


LIMITS = NcisLimits()


def promised(contestant: str, population: Population, bandwidth: float) -> float | None:
    """The accuracy of a contestant that is a formula, else None.

    `baseline` is the best that even intervals can do without signals (Busa-Fekete et al. 2025 eq. 5), `optimum` the
    best possible with these signals and a bandwidth kept on average (Busa-Fekete et al. 2025 Theorem 1).
    """
    p = population
    if contestant == "baseline":
        return allocation.baseline_accuracy(p.mu, p.delta, bandwidth)
    if contestant == "optimum":
        return allocation.optimum_accuracy(p.mu, p.alpha, p.kappa, p.gamma, bandwidth)
    return None


def burn_in(pages: int, bandwidth: float = LIMITS.bandwidth) -> float:
    """Time left out of account: a little, and two rounds of all pages."""
    return 10.0 + 2.0 * pages / bandwidth


@dataclass(frozen=True, slots=True)
class Signals:
    """The distribution of signals in a family of worlds."""

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
    "bandwidth": LIMITS.bandwidth,
    "measured_time": LIMITS.measured,
    "burn_in": "10 + 2 * pages / bandwidth",
    "mu": "U(0,1)",
    "delta": "U(0,1)",
    "parameters": "known",
}


def measure(recipe: Recipe, trial: Trial) -> Measures:
    """A policy by its name, or what a formula gives for the same pages."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(recipe, trial.pages, key)
    formula = promised(trial.contestant, population, LIMITS.bandwidth)
    if formula is not None:
        return {"accuracy": formula}
    start = burn_in(trial.pages)
    world = draw_world(population, start + LIMITS.measured, key)
    run = simulate(world, scheduled(trial.contestant, population, LIMITS.bandwidth), LIMITS.bandwidth)
    return {"accuracy": run.ledger().accuracy(start, world.horizon)}


# Busa-Fekete et al. 2025 appendices C and D: signals that come late, and a bandwidth that changes.


def _delayed_crawler(contestant: str, world: World) -> SimulatedCrawler:
    population = world.population
    if contestant.endswith("fitted"):
        # A vague prior: with this many crawls the evidence speaks for itself, delays and all.
        vague = OnlineLearning(Prior(1.0, 2.0 * DAY, 1.0, 1.0), round_share=LIMITS.learning_rounds, max_updates=1)
        return OnlineCrawler("greedy-ncis", world, LIMITS.bandwidth, vague, copies=False)
    discard = LIMITS.discard if "discarding" in contestant else 0.0
    return scheduled(contestant.partition(",")[0], population, LIMITS.bandwidth, discard=discard)


def measure_delays(trial: Trial) -> Measures:
    """A policy with prompt signals, with signals some slots late, or with signals rounds late."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(NOISY.draw, trial.pages, key)
    formula = promised(trial.contestant, population, LIMITS.bandwidth)
    if formula is not None:
        return {"accuracy": formula}
    start = burn_in(trial.pages) + LIMITS.learning_time
    delay = 0.0
    if "late" in trial.contestant:
        delay = LIMITS.long_delay * trial.pages if "very late" in trial.contestant else LIMITS.short_delay
    world = draw_world(population, start + LIMITS.measured, key, delay_mean=delay, slot=1.0 / LIMITS.bandwidth)
    learnt = trial.contestant.endswith("fitted")
    begun = [Bandwidth(0.0 if learnt else LIMITS.learning_time, LIMITS.bandwidth)]
    run = simulate(world, _delayed_crawler(trial.contestant, world), begun, started_fresh=not learnt)
    return {"accuracy": run.ledger().accuracy(start, world.horizon)}


def _series(policy: str, population: Population, key: int, steps: tuple[Bandwidth, ...]) -> Floats:
    world = draw_world(population, LIMITS.horizon, key)
    run = simulate(world, scheduled(policy, population, steps[0].rate), steps)
    return run.ledger().accuracy_series(np.arange(0.0, LIMITS.horizon + LIMITS.window / 2, LIMITS.window))


def _settling(changing: Floats, steady: Floats, step: float, since: float) -> float:
    """Time from a step until accuracy, over three windows, is within a tenth of that step of the steady one."""
    first = int(np.ceil(since / LIMITS.window))
    gap = np.convolve((changing - steady)[first : first + 50], np.ones(3) / 3, mode="valid")
    calm = np.flatnonzero(np.abs(gap) < LIMITS.settled * step)
    return float(calm[0]) * LIMITS.window if len(calm) else float("inf")


def measure_steps(trial: Trial) -> Measures:
    """Accuracy over time; for the changing bandwidth also how long after each step it is that of a steady one."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(NONE.draw, trial.pages, key)
    policy, _, how = trial.contestant.partition(", ")
    low, high = (Bandwidth(0.0, 100.0),), (Bandwidth(0.0, 150.0),)
    changing = (Bandwidth(0.0, 100.0), Bandwidth(133.0, 150.0), Bandwidth(266.0, 100.0))
    steps = {"100": low, "150": high}.get(how, changing)
    series = _series(policy, population, key, steps)
    measures = {"accuracy": float(series[int(LIMITS.step_burn_in / LIMITS.window) :].mean())}
    if steps is changing:
        little, much = (_series(policy, population, key, steady) for steady in (low, high))
        step = float(np.mean((much - little)[int(LIMITS.step_burn_in / LIMITS.window) :]))
        measures["settles_up"] = _settling(series, much, step, changing[1].start)
        measures["settles_down"] = _settling(series, little, step, changing[2].start)
    else:
        measures |= {"settles_up": np.nan, "settles_down": np.nan}
    ends = np.arange(1, len(series) + 1) * LIMITS.window
    return {**measures, **{f"accuracy@{end:g}": float(value) for end, value in zip(ends, series, strict=True)}}


# Busa-Fekete et al. 2025 section 6.7: what happens when the quality of signals is not known exactly.


def bounded_quantile(u: float, a: float, b: float) -> float:
    """The u-quantile of a Kumaraswamy distribution: like a Beta(a, b), but in closed form."""
    return float((1.0 - (1.0 - u) ** (1.0 / b)) ** (1.0 / a))


def shaped_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    """A page of a web shaped like Kolobov et al.'s data, with signals as Busa-Fekete et al. 2025 measured them.

    Importance is skewed, most pages change once in a few days, and one in twenty has signals of the upper tail of
    precision and recall, the others of the rest.
    """
    top = stream.random() < LIMITS.top
    mu = float(stream.lognormal(0.0, 1.5)) * (8.6 if top else 1.0)
    delta = float(stream.lognormal(np.log(0.25), 1.2))
    low, high = (1.0 - LIMITS.top, 1.0) if top else (0.0, 1.0 - LIMITS.top)
    precision, recall = (bounded_quantile(stream.uniform(low, high), 1.5, 3.0) for _ in range(2))
    return from_quality(mu, delta, precision, recall)


def corrupted(population: Population, noise: float, key: int) -> Population:
    """Beliefs where that share of every precision and recall is replaced by chance.

    The papers print the recall without the factor before its noise, which would leave [0, 1].
    """
    rows = []
    for page in range(population.pages):
        chance = page_stream(key, page, Stream.NOISE).random(2)
        precision = (1 - noise) * population.precision[page] + noise * chance[0]
        recall = (1 - noise) * population.lam[page] + noise * chance[1]
        rows.append(from_quality(population.mu[page], population.delta[page], precision, recall))
    return Population(*np.array(rows).T.copy())


def measure_quality(trial: Trial) -> Measures:
    """A policy that believes in a share of noise, named after an `@`."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(shaped_page, trial.pages, key)
    bandwidth = LIMITS.visited * trial.pages
    policy, _, noise = trial.contestant.partition(" noise ")
    formula = promised(policy, population, bandwidth)
    if formula is not None:
        return {"accuracy": formula}
    believed = corrupted(population, float(noise), key) if noise else population
    world = draw_world(population, LIMITS.burn_in + LIMITS.quality_measured, key)
    run = simulate(world, scheduled(policy, believed, bandwidth), bandwidth)
    return {"accuracy": run.ledger().accuracy(LIMITS.burn_in, world.horizon)}


def _noisy(policy: str) -> tuple[str, ...]:
    return tuple(f"{policy} noise {noise:g}" for noise in LIMITS.noises)


# Busa-Fekete et al. 2025 appendix E: how well precision and recall can be told from what crawls find.

Bools = NDArray[np.bool_]


def intervals(page: int, key: int, crawls: int | None) -> tuple[Floats, Ints, Bools, tuple[float, float]]:
    """(τ, signals, changed) of a page crawled at random moments, and its true precision and recall."""
    draw = page_stream(key, page, Stream.PARAMETERS)
    precision, recall = draw.uniform(0.2, 0.95, 2)
    delta = 1.0 / draw.uniform(2.0, 20.0)
    every = 1.0 / (delta * 4.0 ** draw.uniform(-1.0, 1.0))
    count = int(LIMITS.estimation_horizon / every) if crawls is None else crawls
    times = np.cumsum(page_stream(key, page, Stream.VISITS).exponential(every, count))
    horizon = float(times[-1])
    stream = page_stream(key, page, Stream.EVENTS)
    changes = horizon * stream.random(stream.poisson(delta * horizon))
    announced = changes[stream.random(len(changes)) < recall]
    false = horizon * stream.random(stream.poisson(recall * delta * (1 - precision) / precision * horizon))
    seen = np.bincount(np.searchsorted(times, changes), minlength=count)[:count]
    heard = np.bincount(np.searchsorted(times, np.concatenate([announced, false])), minlength=count)[:count]
    return np.diff(times, prepend=0.0), heard, seen > 0, (float(precision), float(recall))


def counted(heard: Ints, changed: Bools) -> tuple[float, float]:
    """Precision and recall as shares of intervals: what Busa-Fekete et al. 2025 calls the statistical approach."""
    both = float(np.sum((heard > 0) & changed))
    return both / max(float(np.sum(heard > 0)), 1.0), both / max(float(np.sum(changed)), 1.0)


def quality(alpha: float, kappa: float, gamma: float) -> tuple[float, float]:
    """Precision and recall that (α, κ, γ) stand for (docs/method.md, "The model")."""
    precision = -float(np.expm1(-kappa))
    announced = gamma * precision
    return precision, announced / (alpha + announced) if alpha + announced > 0 else 0.0


def measure_estimation(trial: Trial) -> Measures:
    """Bias and root mean square error over the pages."""
    key = run_key(trial.seed, trial.repeat)
    method, _, crawls = trial.contestant.partition(" after ")
    limit = int(crawls.removesuffix(" crawls")) if crawls else None
    # So weak that the posterior's highest point is the maximum of the likelihood.
    vague = Prior(alpha_shape=1.0, alpha_rate=1e-9, kappa_shape=1.0, kappa_rate=1e-9)
    # A page changes every ten units of time and one signal in two or so is true, give or take a lot.
    wary = Prior(alpha_shape=1.0, alpha_rate=10.0, kappa_shape=1.0, kappa_rate=1.0)
    errors = []
    for page in range(trial.pages):
        tau, heard, changed, (precision, recall) = intervals(page, key, limit)
        if method == "counted":
            guess = counted(heard, changed)
        else:
            prior = vague if method == "likelihood" else wary
            posterior = fit_pages([0, len(tau)], tau, heard, changed, prior)
            gamma = float(heard.sum() / tau.sum())
            guess = quality(float(posterior.alpha[0]), float(posterior.kappa[0, 0]), gamma)
        errors.append((guess[0] - precision, guess[1] - recall))
    bias, rmse = np.mean(errors, axis=0), np.sqrt(np.mean(np.square(errors), axis=0))
    return {
        "accuracy": 1.0 - float(rmse.mean()),
        "precision_bias": float(bias[0]),
        "precision_rmse": float(rmse[0]),
        "recall_bias": float(bias[1]),
        "recall_rmse": float(rmse[1]),
    }


EXPERIMENTS = (
    Experiment(
        name="discrete",
        shows="Busa-Fekete et al. 2025 Fig. 2: without signals GREEDY and LDS reach the continuous optimum",
        pages=(100, 500, 1000),
        repeats=3,
        contestants=("baseline", "greedy", "lds"),
        measure=partial(measure, NONE.draw),
        pairs=(("greedy", "baseline"), ("lds", "baseline"), ("greedy", "lds")),
        settings=COMMON,
    ),
    Experiment(
        name="partial-signals",
        shows="Busa-Fekete et al. 2025 Fig. 3: signals of some changes, none false, help at every size",
        pages=(100, 500, 1000),
        repeats=3,
        contestants=("baseline", "optimum", "greedy", "greedy-cis"),
        measure=partial(measure, PARTIAL.draw),
        pairs=(("greedy-cis", "greedy"), ("greedy-cis", "optimum")),
        settings={**COMMON, "lambda": "Beta(.25,.25)", "nu": 0},
    ),
    Experiment(
        name="false-signals",
        shows="Busa-Fekete et al. 2025 Fig. 4: with false signals only the exact crawl value is best at every size",
        pages=(100, 500, 1000),
        repeats=3,
        contestants=(
            "baseline", "optimum", "greedy", "greedy-cis", "greedy-ncis-1", "greedy-ncis-2", "greedy-ncis",
        ),
        measure=partial(measure, NOISY.draw),
        pairs=(
            ("greedy-ncis", "greedy"), ("greedy-ncis", "optimum"), ("greedy-cis", "greedy"),
            ("greedy-ncis-1", "greedy"),
            ("greedy-ncis-2", "greedy"), ("greedy-ncis", "greedy-ncis-2"),
        ),
        settings={**COMMON, "lambda": "Beta(.25,.25)", "nu": "U(.1,.6)"},
    ),
    Experiment(
        name="corrupted-signals",
        shows="Busa-Fekete et al. Fig. 5: exact values bear wrong precision and recall better than trusting the best "
        "pages",
        pages=(1000,),
        repeats=3,
        contestants=("baseline", "optimum", "greedy", *_noisy("greedy-cis-plus"), *_noisy("greedy-ncis")),
        measure=measure_quality,
        pairs=(
            *((f"greedy-ncis noise {noise:g}", f"greedy-cis-plus noise {noise:g}") for noise in LIMITS.noises),
            *((f"greedy-ncis noise {noise:g}", "greedy") for noise in LIMITS.noises),
            *((f"greedy-cis-plus noise {noise:g}", "greedy") for noise in LIMITS.noises),
        ),
        settings={
            "bandwidth": "0.05 * pages",
            "burn_in": LIMITS.burn_in,
            "measured_time": LIMITS.quality_measured,
            "mu": "lognormal(0, 1.5), times 8.6 for the top pages",
            "delta": "lognormal(ln .25, 1.2)",
            "precision, recall": "Kumaraswamy(1.5, 3): highest 5 % for the top 5 % of pages, the rest for the others",
            "parameters": "known but for the noise",
        },
    ),
    Experiment(
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
            **COMMON, "lambda": "Beta(.25,.25)", "nu": "U(.1,.6)", "burn_in": "110 + 2 * pages / bandwidth",
            "late": "Poisson, mean 6 slots",
            "very late": "Poisson, mean 3 * pages slots", "discarding": "signals within 5 slots after a crawl",
            "fitted": f"parameters learnt every {LIMITS.learning_rounds:g} rounds of all pages; no copies at the start",
        },
    ),
    Experiment(
        name="bandwidth-change",
        shows="Busa-Fekete et al. Fig. 9: after a bandwidth step GREEDY is at its new optimum within 10 units of time",
        pages=(1000,),
        repeats=2,
        contestants=("greedy, 100", "greedy, 150", "greedy, 100-150-100", "lds, 100-150-100"),
        measure=measure_steps,
        pairs=(("greedy, 150", "greedy, 100"), ("greedy, 100-150-100", "lds, 100-150-100")),
        settings={
            **{name: COMMON[name] for name in ("mu", "delta", "parameters")},
            "bandwidth": "100, from 133 on 150, from 266 on 100", "horizon": LIMITS.horizon,
            "burn_in": LIMITS.step_burn_in,
            "settles": "time until, over 6 units, the gap to a steady bandwidth is below a tenth of the step in "
            "accuracy",
        },
    ),
    Experiment(
        name="estimation",
        shows="Busa-Fekete et al. Figs. 10, 11: counting intervals overstates precision and recall, the model does not",
        pages=(200,),
        repeats=3,
        contestants=(
            "counted", "likelihood", "posterior", "likelihood after 30 crawls", "posterior after 30 crawls",
            "likelihood after 5 crawls", "posterior after 5 crawls",
        ),
        measure=measure_estimation,
        pairs=(
            ("likelihood", "counted"), ("posterior", "likelihood"),
            ("posterior after 30 crawls", "likelihood after 30 crawls"),
            ("posterior after 5 crawls", "likelihood after 5 crawls"),
        ),
        settings={
            "accuracy": "1 - root mean square error of precision and recall",
            "horizon": LIMITS.estimation_horizon,
            "precision, recall": "U(.2, .95)",
            "mean time between changes": "U(2, 20)",
            "crawls per change": "4^U(-1, 1), at random moments",
            "prior of 'posterior'": "alpha ~ Gamma(1, 10), kappa ~ Gamma(1, 1)",
        },
    ),
)  # fmt: skip
