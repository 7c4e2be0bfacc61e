"""One contestant of `benchmarks.freshness` in one world at one budget: what it did, and what that was worth."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.freshness_worlds import Spec
from crawld.policies.policies import DEFAULT, POLICIES
from crawld.sim.contestants import ROUND_ROBIN, contestant
from crawld.sim.engine import Run, simulate
from crawld.sim.online_crawler import OnlineLearning
from crawld.sim.peers import PEERS

BUDGETS = (0.1, 0.3, 1.0, 3.0)
"""Crawls per change."""
CRAWLD = DEFAULT


@dataclass(frozen=True, slots=True)
class Job:
    """Who runs in which world at which budget, and by which weights it is judged."""

    spec: Spec
    budget: float
    contestant: str
    weights: tuple[str, ...]
    round_share: float = 0.01

    @property
    def cost(self) -> float:
        """About how long it takes, to start with the longest."""
        learns = self.contestant in POLICIES and self.contestant != ROUND_ROBIN
        return self.budget * self.spec.pages * (50.0 * len(self.weights) if learns else 1.0)


Measures = Mapping[str, float]


def measure(job: Job) -> dict[str, Measures]:
    """By weights: freshness, age and delay (days), share of changes missed, share of slots used.

    Whoever does not look at importance runs once and is judged by every weighting.
    """
    world = job.spec.make(job.budget)
    rate = job.budget * len(world.changes) / world.horizon
    judged: dict[str, Measures] = {}
    run: Run | None = None
    for weights in job.weights:
        seen = job.spec.weighted(world, weights)
        blind = job.contestant in PEERS or job.contestant == ROUND_ROBIN
        if run is None or not blind:
            run = simulate(
                seen, contestant(job.contestant, seen, rate, OnlineLearning(round_share=job.round_share)), rate
            )
        judged[weights] = _worth(replace(run, world=seen), job.spec.judged_from)
    return judged


def _worth(run: Run, start: float) -> Measures:
    ledger, end = run.ledger(), run.world.horizon
    return {
        "freshness": ledger.accuracy(start, end),
        "age": ledger.age(start, end),
        "delay": ledger.delay(start, end),
        "missed": ledger.missed(start, end),
        "used": run.used,
    }
