"""One contestant of `benchmarks.freshness` in one world at one budget: what it did, and what that was worth."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from crawld.choose.policies import DEFAULT, POLICIES
from crawld.research.contestants import LEARNERS, ROUND_ROBIN, contestant
from crawld.research.engine import Run, simulate
from crawld.research.online_crawler import OnlineLearning
from crawld.research.peers import PEERS
from tests.support.freshness.worlds import SHARED, WEIGHTS, Size, Spec, specs

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


PEERS_PART, POLICIES_PART = "peers", "policies"
SHORT = {
    PEERS_PART: Size(3, 40, 40.0, 120, 90.0, 300, 25, 2, 600),
    POLICIES_PART: Size(2, 30, 40.0, 60, 90.0, 100, 10, 0, 150),
}
FULL = {
    PEERS_PART: Size(8, 80, 90.0, 240, 180.0, 500, 60, 4, 5000),
    POLICIES_PART: Size(6, 50, 60.0, 120, 120.0, 200, 20, 2, 800),
}
POLICY_ROUND = 0.05
"""The share of pages crawled between two rounds of learning where policies are compared with each other."""


def jobs(part: str, *, full: bool, folder: Path | None = SHARED) -> Iterator[Job]:
    """Everything to be run for one part."""
    size = (FULL if full else SHORT)[part]
    if part == PEERS_PART:
        for spec in specs(size, folder):
            for budget in BUDGETS:
                for contestant in (CRAWLD, ROUND_ROBIN, *LEARNERS, *PEERS):
                    yield Job(spec, budget, contestant, WEIGHTS[spec.kind])
        return
    for spec in specs(size, folder):
        for budget in BUDGETS if full else BUDGETS[1:3]:
            for policy in POLICIES:
                yield Job(spec, budget, policy, WEIGHTS[spec.kind][-1:], POLICY_ROUND)
