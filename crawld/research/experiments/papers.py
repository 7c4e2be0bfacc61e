"""Cho & Garcia-Molina 2000: the order in which pages are visited (Table 2), and how often each (Tables 5 and 6)."""

from itertools import takewhile

import numpy as np

from crawld.choose.allocation import age_optimal, freshness_optimal, proportional, uniform
from crawld.choose.allocation_costs import VisitOrder, age, freshness
from crawld.choose.order import fixed_order, purely_random_order, random_order
from crawld.choose.policies import POLICIES
from crawld.research.crawler import scheduled
from crawld.research.engine import simulate
from crawld.research.ledger import settle_accounts
from crawld.research.population import VISITS, Floats, Population, page_stream, run_key
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import draw_world

ORDER_RATIOS = (0.5, 1.0, 2.0)
TABLE_5 = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
TABLE_6_DAYS = np.array([1.0, 7.0, 30.0, 120.0, 365.0])
TABLE_6_SHARES = np.array([0.23, 0.15, 0.16, 0.16, 0.30])
ALLOCATIONS = {
    "uniform": uniform,
    "proportional": proportional,
    "freshness-optimal": freshness_optimal,
    "age-optimal": age_optimal,
}


def table_6(pages: int) -> Floats:
    """Change rates per day of so many pages in the shares of the table."""
    ends = np.round(np.cumsum(TABLE_6_SHARES) * pages).astype(int)
    return np.repeat(1.0 / TABLE_6_DAYS, np.diff(ends, prepend=0))


YEARS = 365.0
ALLOCATION_BURN_IN, ALLOCATION_HORIZON = 2 * YEARS, 10 * YEARS


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
        world = draw_world(population, ALLOCATION_HORIZON, run_key(trial.seed, trial.repeat))
        ledger = simulate(world, scheduled(policy, population, bandwidth), bandwidth).ledger()
        measures["accuracy"] = ledger.accuracy(ALLOCATION_BURN_IN, world.horizon)
    return measures


ALLOCATION = Experiment(
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
        "burn_in": ALLOCATION_BURN_IN, "horizon": ALLOCATION_HORIZON,
    },
)  # fmt: skip


ORDERS_HORIZON = 200.0
ORDER_OF = {
    VisitOrder.FIXED: fixed_order,
    VisitOrder.RANDOM: random_order,
    VisitOrder.PURELY_RANDOM: purely_random_order,
}


def measure_orders(trial: Trial) -> Measures:
    """Pages alike, each visited once per unit of time on average, in one of three orders; by formula beside it."""
    name, ratio = trial.contestant.split(", r = ")
    order, delta = VisitOrder(name), np.full(trial.pages, float(ratio))
    none, rates = np.zeros(trial.pages), np.ones(trial.pages)
    key = run_key(trial.seed, trial.repeat)
    world = draw_world(Population(np.ones(trial.pages), delta, none, none), ORDERS_HORIZON, key)
    visits = ORDER_OF[order](rates, page_stream(key, 0, VISITS))
    times, pages = zip(*takewhile(lambda visit: visit[0] < ORDERS_HORIZON, visits), strict=True)
    ledger = settle_accounts(world, np.array(times), np.array(pages))
    span = 20.0, ORDERS_HORIZON
    return {
        "accuracy": ledger.accuracy(*span),
        "formula": float(freshness(delta, rates, order)[0]),
        "age": ledger.age(*span),
        "age_formula": float(age(delta, rates, order)[0]),
    }


ORDERS = Experiment(
    name="orders",
    shows="Cho & Garcia-Molina 2000 Table 2: freshness and age of fixed, random and purely random order",
    pages=(200,),
    repeats=5,
    contestants=tuple(f"{order}, r = {ratio:g}" for ratio in ORDER_RATIOS for order in VisitOrder),
    measure=measure_orders,
    pairs=tuple(
        (f"{a}, r = {ratio:g}", f"{b}, r = {ratio:g}")
        for ratio in ORDER_RATIOS
        for a, b in ((VisitOrder.FIXED, VisitOrder.RANDOM), (VisitOrder.RANDOM, VisitOrder.PURELY_RANDOM))
    ),
    settings={
        "r": "changes per visit", "bandwidth": "1 visit per page and unit of time", "horizon": ORDERS_HORIZON,
        "burn_in": 20, "formula, age_formula": "Table 2",
    },
)  # fmt: skip
