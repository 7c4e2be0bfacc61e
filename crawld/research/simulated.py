"""What the simulator makes of a policy in the lab's world: the daemon's own scheduler and learner, without HTTP.

The simulated crawler has what the real one had: as many requests for pages, begun at the same moment, and signals that
are seen when the real one polled the sitemap. So whatever differs is the daemon's own doing.
"""

from dataclasses import dataclass, replace

import numpy as np

from crawld.research.engine import Bandwidth, simulate
from crawld.research.online_crawler import DAY, OnlineCrawler, OnlineLearning
from crawld.research.scenario import Scenario, in_seconds
from crawld.research.score import Visits
from crawld.research.world import World

RUNS = 4
"""Simulated runs, each begun later by a part of a round of all pages: at which moments a page's changes are met by a
crawler that takes turns is luck, in the lab as well."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """The mean freshness over several runs, and how far single runs lie from it (standard deviation)."""

    freshness: float
    spread: float


def simulated_freshness(scenario: Scenario, policy: str, visits: Visits, span: tuple[float, float]) -> Simulated:
    """The mean freshness within a span of the scenario's seconds, from no copies at the start."""
    world = in_seconds(as_polled(scenario.world, visits), 1.0 / DAY)  # the simulator counts days
    first = visits.times[0]
    rate = len(visits.times) / (span[1] - first) * DAY
    learning, reached = OnlineLearning(signals=bool(visits.polls)), []
    for number in range(RUNS):
        crawler = OnlineCrawler(policy, world, rate, learning, copies=False)
        begin = first / DAY + number / RUNS * scenario.pages / rate
        run = simulate(world, crawler, [Bandwidth(begin, rate)], started_fresh=False)
        reached.append(run.ledger().accuracy(span[0] / DAY, span[1] / DAY))
    return Simulated(float(np.mean(reached)), float(np.std(reached, ddof=1)))


def as_polled(world: World, visits: Visits) -> World:
    """The world with signals seen when their host's sitemap was polled; of several of a page, the last is seen."""
    seen = np.full(len(world.signal_times), np.inf)
    host = world.host_of[world.signal_pages]
    for number, polls in visits.polls.items():
        own = host == number
        seen[own] = np.append(polls, np.inf)[np.searchsorted(polls, world.signal_times[own])]
    order = np.lexsort((world.signal_times, world.signal_pages, seen))
    order = order[seen[order] < world.horizon]
    page, at = world.signal_pages[order], seen[order]
    last = np.append((page[1:] != page[:-1]) | (at[1:] != at[:-1]), True)[: len(order)]
    kept = order[last]
    claims = world.signal_times if world.signal_claims is None else world.signal_claims
    return replace(
        world,
        signal_times=seen[kept],
        signal_pages=world.signal_pages[kept],
        signal_claims=claims[kept],
        signal_spans=None if world.signal_spans is None else world.signal_spans[kept],
    )
