"""Policies, other crawlers and papers' learners compared on recorded histories, in simulated time.

All have the same crawls and learn from what they find; crawld's scheduler and learner are the daemon's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from crawld.model.errors import InputError
from crawld.model.units import DAY
from crawld.research.contestants import ROUND_ROBIN, contestant
from crawld.research.engine import Bandwidth, simulate
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning
from crawld.research.recorded import (
    history_files,
    is_polite_crawling,
    measured_rates,
    of_pages,
    polite_crawling_world,
    recorded_world,
    together,
)
from crawld.research.scenario import Scenario, in_seconds
from crawld.research.score import Visits
from crawld.research.world import World


@dataclass(frozen=True)
class ReplayedLimits:
    """Numbers that bound and tune this module."""

    runs: int = 4
    """Simulated runs, each begun later by a part of a round of all pages: at which moments a page's changes are met
    by a crawler that takes turns is luck, in the lab as well."""
    min_days: float = 30.0
    """Days that a history lasts at least to take part among others."""


LIMITS = ReplayedLimits()


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
    for number in range(LIMITS.runs):
        crawler = OnlineCrawler(policy, world, rate, learning, copies=False)
        begin = first / DAY + number / LIMITS.runs * scenario.pages / rate
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


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of one contestant: freshness, its lead over round robin, and how late it was."""

    crawler: str
    freshness: float
    lead: float | None  # None where round robin does not take part
    age_days: float
    delay_days: float | None  # None where it saw no change
    missed: float
    used: float

    def as_dict(self) -> dict[str, float | str | None]:
        """Every figure by its name."""
        return asdict(self)


def open_history(path: Path, pages: int, seed: int) -> World:
    """A history file, a folder of them (a host each, the same last days), or the PoliteCrawling set; a sample of it."""
    if path.is_dir() and is_polite_crawling(path):
        world = polite_crawling_world(path, pages, seed)
    elif path.is_dir():
        files = history_files(path)
        each = max(1, pages // len(files))
        hosts = [
            one
            for one in (_sampled(recorded_world(file), each, seed) for file in files)
            if one.horizon >= LIMITS.min_days
        ]
        if not hosts:
            raise InputError(f"no history in {path} lasts {LIMITS.min_days:.0f} days")
        world = together(hosts, min(host.horizon for host in hosts))
    elif path.exists():
        world = _sampled(recorded_world(path), pages, seed)
    else:
        raise InputError(f"there is no history {path}: name a file (.npz), a folder of them, or the PoliteCrawling set")
    if not len(world.changes):
        raise InputError(f"no page of {path} that was drawn ever changed: there is nothing to compare")
    return world


def weighted(world: World, importance: ArrayLike) -> World:
    """Gives the pages of a world another importance."""
    return replace(world, population=replace(world.population, mu=np.asarray(importance, float)))


def compare_replayed(
    world: World, crawlers: Sequence[str], budget: float, show: Callable[[str], None]
) -> list[Replayed]:
    """Let each crawl the world with so many crawls per change; `show` is told who begins."""
    world = measured_rates(world)
    rate = budget * len(world.changes) / world.horizon
    if rate * world.horizon < 1.0:
        raise InputError("--budget: not a single crawl would be made")
    rows = []
    for name in crawlers:
        show(name)
        run = simulate(world, contestant(name, world, rate), rate)
        ledger, end = run.ledger(), world.horizon
        delay = ledger.delay(0.0, end)
        late = ledger.age(0.0, end), delay if np.isfinite(delay) else None, ledger.missed(0.0, end)
        rows.append(Replayed(name, ledger.accuracy(0.0, end), None, *late, run.used))
    base = next((row.freshness for row in rows if row.crawler == ROUND_ROBIN), None)
    return [replace(row, lead=None if base is None else row.freshness - base) for row in rows]


def _sampled(world: World, pages: int, seed: int) -> World:
    if world.population.pages <= pages:
        return world
    return of_pages(world, np.sort(np.random.default_rng(seed).permutation(world.population.pages)[:pages]))
