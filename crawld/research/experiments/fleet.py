"""A fleet of workers against one scheduler over all pages, by how the budget is shared among the workers."""

import numpy as np

from crawld.research.experiments.workers import AUCTION, BY_PAGES, EQUAL, LEARNING, ONE, run_fleet
from crawld.research.experiments.world import CALL, END, STEADY, STEEP, STEP, draw_fleet_world
from crawld.research.population import run_key
from crawld.research.trial import Experiment, Measures, Trial

LEAST_PAGES, PAGES_PER_WORKER = 1600, 100


def measure_fleet(trial: Trial) -> Measures:
    """The freshness that a way to share the budget reaches: steady, after a step of rates, and after a host's call."""
    workers = trial.pages
    fleet = draw_fleet_world(max(LEAST_PAGES, PAGES_PER_WORKER * workers), workers, run_key(trial.seed, trial.repeat))
    run = run_fleet(fleet, trial.contestant)
    steady, stepped, called = run.ledger().accuracy_series(np.array([STEADY, STEP, CALL, END])).tolist()
    return {"accuracy": steady, "after_step": stepped, "after_call": called}


FLEET = Experiment(
    name="fleet",
    shows="how much fresher one scheduler over all pages is than several workers, by how these share the budget",
    pages=(4, 16, 64),
    repeats=2,
    contestants=(AUCTION, BY_PAGES, EQUAL, ONE),
    measure=measure_fleet,
    x_axis="workers",
    measured="freshness",
    best=ONE,
    settings={
        "pages": f"{PAGES_PER_WORKER} a worker, at least {LEAST_PAGES}, in hosts of different sizes, each page crawled "
        "every 40 seconds on average",
        "round": "2 seconds, bids a second before it",
        "hosts": "asked once a second at most",
        "learning": f"by each worker from its own crawls, every {LEARNING} rounds; what hosts in general are like is "
        "shared",
        "after_step": f"from when the pages of one worker change {STEEP:g} times as often",
        "after_call": "from when the largest host signals all its pages within a second",
        "loss": f"in percent of what {ONE} reaches in the same world",
    },
)
