"""Cho & Garcia-Molina 2000: the order in which pages are visited (Table 2), and how often each (Tables 5 and 6)."""

from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from crawld.choose.allocation import (
    VisitOrder,
    age,
    age_optimal,
    freshness,
    freshness_announced,
    freshness_optimal,
    harmonic,
    harmonic_announced,
    proportional,
    uniform,
    weighted,
)
from crawld.choose.order import fixed_order, purely_random_order, random_order
from crawld.choose.policies import LIMITS as POLICIES_LIMITS
from crawld.choose.policies import POLICIES
from crawld.choose.valuation import Beliefs
from crawld.research.crawler import scheduled
from crawld.research.engine import settle_accounts, simulate
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import Floats, Population, Stream, draw_world, page_stream, run_key


@dataclass(frozen=True)
class PapersLimits:
    """Numbers that bound and tune this module."""

    azar_policies: tuple[str, ...] = ("optimum", "azar", "change-rate", "utility-proportional", "uniform")
    order_ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Changes per visit."""
    visited: float = 0.1
    burn_in: float = 60.0
    measured: float = 200.0
    years: float = 365.0
    allocation_burn_in: float = 2 * years
    allocation_horizon: float = 10 * years
    orders_horizon: float = 200.0
    lambda_visited: float = 0.2
    """Kolobov et al.'s bandwidth: a fifth of the pages a day."""
    complete: float = 0.04
    """Share of the pages of which every change is announced; they carry 26 % of the importance."""
    lambda_burn_in: float = 40.0
    lambda_measured: float = 60.0


LIMITS = PapersLimits()


# Azar et al. 2018 Fig. 1: the randomised optimum, made deterministic, beside the true one and simpler policies.

ZIPF = 1.0 / np.arange(1, 10_001) ** 2.0


def uniform_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    """Utility and change rate uniform on (0, 1)."""
    mu, delta = stream.random(2)
    return mu, delta, 0.0, 0.0


def zipf_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    """Utility Zipf with exponent 2 on 1..10000, change rate uniform on (0, 1)."""
    utility = 1 + int(np.searchsorted(np.cumsum(ZIPF) / ZIPF.sum(), stream.random()))
    return float(utility), float(stream.random()), 0.0, 0.0


UTILITIES = {"uniform utility": uniform_page, "zipf utility": zipf_page}

SIMULATED = {
    "azar": "lds",
    "optimum": "freshness-optimal",
    "change-rate": "freshness-optimal",  # as if all pages were worth the same
    "uniform": "uniform",
}
"""crawld's policies for those of the figure; rates in proportion to utility are judged by formula alone."""


def measure(trial: Trial) -> Measures:
    """Utility of fresh copies: by formula, at even intervals and at random moments, and simulated where possible."""
    policy, utility = trial.contestant.split(", ")
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(UTILITIES[utility], trial.pages, key)
    mu, delta = population.mu, population.delta
    bandwidth = LIMITS.visited * trial.pages
    believed = replace(population, mu=np.ones_like(mu)) if policy == "change-rate" else population
    rates = paper_rates(SIMULATED[policy], believed, bandwidth) if policy in SIMULATED else None
    if rates is None:
        rates = np.asarray(bandwidth * mu / mu.sum())
    even = weighted(mu, freshness(delta, rates))
    at_random = weighted(mu, freshness(delta, rates, VisitOrder.PURELY_RANDOM))
    measures = {"accuracy": even, "even": even, "at_random": at_random}
    if policy in SIMULATED:
        world = draw_world(population, LIMITS.burn_in + LIMITS.measured, key)
        run = simulate(world, scheduled(SIMULATED[policy], believed, bandwidth), bandwidth)
        measures["accuracy"] = run.ledger().accuracy(LIMITS.burn_in, world.horizon)
    return measures


TABLE_5 = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
ALLOCATIONS = {
    "uniform": uniform,
    "proportional": proportional,
    "freshness-optimal": freshness_optimal,
    "age-optimal": age_optimal,
}


def table_6(pages: int) -> Floats:
    """Change rates per day of so many pages in the shares of the table."""
    days, shares = np.array([1.0, 7.0, 30.0, 120.0, 365.0]), np.array([0.23, 0.15, 0.16, 0.16, 0.30])
    ends = np.round(np.cumsum(shares) * pages).astype(int)
    return np.repeat(1.0 / days, np.diff(ends, prepend=0))


def measure_allocation(trial: Trial) -> Measures:
    """The rates of Table 5, or freshness and age of Table 6 by formula and, where crawld has the policy, simulated."""
    table, policy = trial.contestant.split(", ")
    if table == "table 5":
        rates = ALLOCATIONS[policy](np.ones(5), TABLE_5, 5.0)
        printed = {f"rate_{page + 1}": float(rate) for page, rate in enumerate(rates)}
        return {
            "accuracy": float(freshness(TABLE_5, rates).mean()),
            "age": float(age(TABLE_5, rates).mean()),
            **printed,
        }
    delta = table_6(trial.pages)
    mu, none = np.ones_like(delta), np.zeros_like(delta)
    bandwidth = trial.pages / 30.0
    rates = ALLOCATIONS[policy](mu, delta, bandwidth)
    formula = float(freshness(delta, rates).mean())
    measures = {"accuracy": formula, "freshness": formula, "age": float(age(delta, rates).mean())}
    if policy in POLICIES:
        population = Population(mu, delta, none, none)
        world = draw_world(population, LIMITS.allocation_horizon, run_key(trial.seed, trial.repeat))
        ledger = simulate(world, scheduled(policy, population, bandwidth), bandwidth).ledger()
        measures["accuracy"] = ledger.accuracy(LIMITS.allocation_burn_in, world.horizon)
    return measures


def measure_orders(trial: Trial) -> Measures:
    """Pages alike, each visited once per unit of time on average, in one of three orders; by formula beside it."""
    name, ratio = trial.contestant.split(", r = ")
    order, delta = VisitOrder(name), np.full(trial.pages, float(ratio))
    none, rates = np.zeros(trial.pages), np.ones(trial.pages)
    key = run_key(trial.seed, trial.repeat)
    world = draw_world(Population(np.ones(trial.pages), delta, none, none), LIMITS.orders_horizon, key)
    make_order = {
        VisitOrder.FIXED: fixed_order,
        VisitOrder.RANDOM: random_order,
        VisitOrder.PURELY_RANDOM: purely_random_order,
    }[order]
    visits = make_order(rates, page_stream(key, 0, Stream.VISITS))
    times, pages = zip(*takewhile(lambda visit: visit[0] < LIMITS.orders_horizon, visits), strict=True)
    ledger = settle_accounts(world, np.array(times), np.array(pages))
    span = 20.0, LIMITS.orders_horizon
    return {
        "accuracy": ledger.accuracy(*span),
        "formula": float(freshness(delta, rates, order)[0]),
        "age": ledger.age(*span),
        "age_formula": float(age(delta, rates, order)[0]),
    }


# Kolobov et al. 2019 section 7: which penalty to optimise, and what complete signals are worth.


def observed_page(stream: np.random.Generator) -> tuple[float, float, float, float]:
    """A page shaped like Kolobov et al.'s data: all or none of its changes are announced."""
    complete = stream.random() < LIMITS.complete
    mu = float(stream.lognormal(0.0, 1.5)) * (8.6 if complete else 1.0)
    return mu, float(stream.lognormal(np.log(0.25), 1.2)), float(complete), 0.0


def paper_rates(policy: str, believed: Population, bandwidth: float) -> Floats | None:
    """Visits per unit of time to each page, as the policy allots them; None for policies that pick by value."""
    plan, certain = POLICIES[policy].plan, np.full(believed.pages, np.inf)
    beliefs = Beliefs(believed.mu, believed.alpha, certain, believed.kappa, believed.gamma)
    return None if plan is None else plan.allot(beliefs, bandwidth)[0]


def paper_costs(rates: Floats, population: Population, announced: NDArray[np.bool_]) -> tuple[float, float]:
    """The harmonic and the binary cost by the paper's formulas, per unit of importance."""
    delta = population.delta
    blind = harmonic(delta, rates, VisitOrder.PURELY_RANDOM)
    fresh = freshness(delta, rates, VisitOrder.PURELY_RANDOM)
    costs = np.where(announced, harmonic_announced(delta, rates), blind)
    fresh = np.where(announced, freshness_announced(delta, rates), fresh)
    return weighted(population.mu, costs), 1.0 - weighted(population.mu, fresh)


def measure_costs(trial: Trial) -> Measures:
    """Measures the costs of a policy in simulation and, where the paper has a formula, by that."""
    key = run_key(trial.seed, trial.repeat)
    population = Population.draw(observed_page, trial.pages, key)
    bandwidth = LIMITS.lambda_visited * trial.pages
    complete = population.lam > 0
    rates, costs = paper_rates(trial.contestant, population, bandwidth), (np.nan, np.nan)
    if rates is not None:
        uses_signals = trial.contestant.startswith("lambdacrawl")
        costs = paper_costs(rates, population, complete if uses_signals else np.zeros_like(complete))
    world = draw_world(population, LIMITS.lambda_burn_in + LIMITS.lambda_measured, key)
    ledger = simulate(world, scheduled(trial.contestant, population, bandwidth), bandwidth).ledger()
    measured = ledger.costs(LIMITS.lambda_burn_in, world.horizon)
    return {**measured, "paper_harmonic": costs[0], "paper_binary": costs[1]}


EXPERIMENTS = (
    Experiment(
        name="orders",
        shows="Cho & Garcia-Molina 2000 Table 2: freshness and age of fixed, random and purely random order",
        pages=(200,),
        repeats=5,
        contestants=tuple(f"{order}, r = {ratio:g}" for ratio in LIMITS.order_ratios for order in VisitOrder),
        measure=measure_orders,
        pairs=tuple(
            (f"{a}, r = {ratio:g}", f"{b}, r = {ratio:g}")
            for ratio in LIMITS.order_ratios
            for a, b in ((VisitOrder.FIXED, VisitOrder.RANDOM), (VisitOrder.RANDOM, VisitOrder.PURELY_RANDOM))
        ),
        settings={
            "r": "changes per visit", "bandwidth": "1 visit per page and unit of time",
            "horizon": LIMITS.orders_horizon,
            "burn_in": 20, "formula, age_formula": "Table 2",
        },
    ),
    Experiment(
        name="allocation",
        shows="Cho & Garcia-Molina Tables 5, 6: rates best for freshness and for age; proportional ones fall short",
        pages=(300,),
        repeats=3,
        contestants=(
            "table 5, freshness-optimal", "table 5, age-optimal",
            *(f"table 6, {name}" for name in ("proportional", "uniform", "freshness-optimal", "age-optimal")),
        ),
        measure=measure_allocation,
        pairs=(
            ("table 6, uniform", "table 6, proportional"), ("table 6, freshness-optimal", "table 6, uniform"),
        ),
        settings={
            "table 5": "5 pages changing 1..5 times a day, 5 visits a day in all",
            "table 6": "23/15/16/16/30 % of pages change every 1/7/30/120/365 days; a visit a month each",
            "freshness, age": "by formula, in days", "accuracy": "simulated, but for table 5 and age-optimal",
            "burn_in": LIMITS.allocation_burn_in, "horizon": LIMITS.allocation_horizon,
        },
    ),
    Experiment(
        name="azar",
        shows="Azar et al. 2018 Fig. 1: its rates, visited in turn, come within a percent or so of the optimum",
        pages=(500, 1000),
        repeats=3,
        contestants=tuple(f"{policy}, {utility}" for utility in UTILITIES for policy in LIMITS.azar_policies),
        measure=measure,
        pairs=tuple(
            (f"azar, {utility}", f"{other}, {utility}")
            for utility in UTILITIES for other in LIMITS.azar_policies if other != "azar"
        ),
        settings={
            "bandwidth": "0.1 * pages", "burn_in": LIMITS.burn_in, "measured_time": LIMITS.measured, "delta": "U(0,1)",
            "mu": "U(0,1), or Zipf with exponent 2 on 1..10000", "even, at_random": "by formula for the same rates",
            "accuracy": "simulated, but for utility-proportional",
        },
    ),
    Experiment(
        name="lambdacrawl",
        shows="Kolobov et al. Figs. 1, 2: the harmonic and the binary cost of each policy, by formula and in "
        "simulation",
        pages=(1000,),
        repeats=3,
        contestants=(
            "lambdacrawl", "lambdacrawl-approximate", "binary-lambdacrawl", "binary-lambdacrawl-epsilon", "uniform",
            "proportional", "greedy-harmonic", "greedy-ncis",
        ),
        measure=measure_costs,
        pairs=(
            ("lambdacrawl", "binary-lambdacrawl"), ("lambdacrawl", "lambdacrawl-approximate"),
            ("lambdacrawl", "uniform"),
            ("uniform", "proportional"), ("greedy-harmonic", "lambdacrawl"), ("greedy-ncis", "lambdacrawl"),
        ),
        settings={
            "bandwidth": "0.2 * pages a day", "burn_in": LIMITS.lambda_burn_in, "measured_time": LIMITS.lambda_measured,
            "mu": "lognormal(0, 1.5), times 8.6 where every change is announced", "delta": "lognormal(ln .25, 1.2)",
            "complete": LIMITS.complete, "epsilon": POLICIES_LIMITS.floor, "parameters": "known",
            "paper_": "by the paper's formulas for visits at random moments, per unit of importance",
        },
    ),
)  # fmt: skip
