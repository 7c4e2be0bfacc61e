"""Policies by the cost that they minimise, judged by all costs; and crawld beside its peers."""

from dataclasses import dataclass

import numpy as np

from crawld.choose import allocation
from crawld.choose.allocation import VisitOrder, age, freshness, harmonic, weighted
from crawld.research.crawler import scheduled
from crawld.research.engine import SimulatedCrawler, simulate
from crawld.research.experiments.ncis import NONE
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning
from crawld.research.peers import PEERS, peer_crawler
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import Population, draw_world, run_key


@dataclass(frozen=True)
class ExperimentsObjectivesLimits:
    """Numbers that bound and tune this module."""

    visited: float = 0.2
    burn_in: float = 100.0
    measured: float = 300.0
    peer_burn_in: float = 300.0
    peer_measured: float = 100.0
    learning_rounds: float = 4.0
    """Rounds of all pages between two rounds of learning."""
    budgets: tuple[str, ...] = ("", ", 4 a day")
    """Visits to each page, by what follows the contestant's name: one a day, or four."""
    contestants: tuple[str, ...] = (
        "uniform", "nutch-adaptive", "stormcrawler-adaptive", "changedetection.io", "miniflux-frequency", "greedy",
        "greedy-ncis learnt",
    )  # fmt: skip


LIMITS = ExperimentsObjectivesLimits()


FORMULAS = {
    "freshness optimum": (allocation.freshness_optimal, VisitOrder.FIXED),
    "harmonic optimum": (allocation.harmonic_optimal, VisitOrder.FIXED),
    "age optimum": (allocation.age_optimal, VisitOrder.FIXED),
    "harmonic optimum at random": (allocation.lambdacrawl, VisitOrder.PURELY_RANDOM),
}


def measure_objectives(trial: Trial) -> Measures:
    """Freshness, harmonic cost and age of a policy, or of the even intervals that are best for one of them."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(NONE.draw, trial.pages, key)
    mu, delta = population.mu, population.delta
    bandwidth = LIMITS.visited * trial.pages
    if trial.contestant in FORMULAS:
        solve, order = FORMULAS[trial.contestant]
        rates = solve(mu, delta, bandwidth)
        return {
            "accuracy": weighted(mu, freshness(delta, rates, order)),
            "harmonic": weighted(mu, harmonic(delta, rates, order)),
            "age": weighted(mu, age(delta, rates, order)),
            "starved": float(np.mean(rates == 0)),
        }
    world = draw_world(population, LIMITS.burn_in + LIMITS.measured, key)
    run = simulate(world, scheduled(trial.contestant, population, bandwidth), bandwidth)
    return {**run.ledger().costs(LIMITS.burn_in, world.horizon), "starved": run.starved(LIMITS.burn_in)}


def weekly_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    """Equal importance; change rates a day spread widely about once a week."""
    return 1.0, float(stream.lognormal(np.log(1.0 / 7.0), 2.0)), 0.0, 0.0


def measure_peers(trial: Trial) -> Measures:
    """A peer's timers, or one of crawld's policies, at so many crawls per page and day."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(weekly_page, trial.pages, key)
    world = draw_world(population, LIMITS.peer_burn_in + LIMITS.peer_measured, key)
    name, _, often = trial.contestant.partition(", ")
    bandwidth = trial.pages * (4.0 if often else 1.0)
    crawler: SimulatedCrawler
    if name in PEERS:
        crawler = peer_crawler(name, world, copies=False)
    elif name == "greedy-ncis learnt":
        crawler = OnlineCrawler(
            "greedy-ncis", world, bandwidth, OnlineLearning(round_share=LIMITS.learning_rounds), copies=False
        )
    else:
        crawler = scheduled(name, population, bandwidth)
    run = simulate(world, crawler, bandwidth, started_fresh=False)
    ledger = run.ledger()
    return {
        "accuracy": ledger.accuracy(LIMITS.peer_burn_in, world.horizon),
        "age": ledger.age(LIMITS.peer_burn_in, world.horizon),
        "budget_used": run.used,
    }


EXPERIMENTS = (
    Experiment(
        name="objectives",
        shows="policies for freshness, harmonic penalty and age, each judged by all three",
        pages=(200,),
        repeats=3,
        contestants=(*FORMULAS, "greedy", "greedy-harmonic", "greedy-age", "lambdacrawl"),
        measure=measure_objectives,
        pairs=(
            ("greedy", "greedy-harmonic"), ("greedy", "greedy-age"), ("greedy-harmonic", "lambdacrawl"),
            ("greedy", "freshness optimum"),
        ),
        settings={
            "bandwidth": "0.2 * pages", "burn_in": LIMITS.burn_in, "measured_time": LIMITS.measured,
            "mu": "U(0,1)", "delta": "U(0,1)", "parameters": "known", "starved": "share never crawled while measured",
        },
    ),
    Experiment(
        name="peers",
        shows="crawld beside the revisit rules of Nutch, StormCrawler, changedetection.io and miniflux, same budget",
        pages=(40,),
        repeats=3,
        contestants=tuple(f"{name}{budget}" for budget in LIMITS.budgets for name in LIMITS.contestants),
        measure=measure_peers,
        pairs=tuple(
            (f"greedy-ncis learnt{budget}", f"{name}{budget}")
            for budget in LIMITS.budgets for name in LIMITS.contestants if name != "greedy-ncis learnt"
        ),
        settings={
            "bandwidth": "1 or 4 crawls per page and day",
            "burn_in": LIMITS.peer_burn_in, "measured_time": LIMITS.peer_measured,
            "mu": 1, "delta": "lognormal(ln 1/7, 2) a day", "signals": "none", "start": "no copies",
            "parameters": "known, but for 'learnt' and the peers",
            "learnt": f"every {LIMITS.learning_rounds:g} rounds of all pages",
        },
    ),
)  # fmt: skip
