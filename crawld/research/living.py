"""The demo's scenario: three hosts; one sitemap is honest, one stamps every page, and one stands still."""

import numpy as np

from crawld.research.population import Population
from crawld.research.scenario import Scenario
from crawld.research.sitemaps import Announced
from crawld.research.world import World

HOSTS = ("honest", "stamped", "frozen")
BUILD_SECONDS = 5.0
INTERVALS = ((1.5, 5.0), (8.0, 40.0), (150.0, 3000.0))
"""Mean seconds between changes: a third of the pages each is restless, lively, and quiet."""


TYPICAL = 3
"""The seed of ten whose lead over round robin is nearest to their mean in the simulator (docs/method.md)."""


def living_scenario(pages: int, seconds: float, seed: int = TYPICAL) -> Scenario:
    """So many pages that live for that time and somewhat longer."""
    rng = np.random.default_rng(seed)
    horizon = 2.0 * seconds + 60.0
    changes, importance = [], []
    for page in range(pages):
        low, high = INTERVALS[page // len(HOSTS) % len(INTERVALS)]
        interval = np.exp(rng.uniform(np.log(low), np.log(high)))
        at = np.cumsum(rng.exponential(interval, size=int(2.0 * horizon / interval) + 20))
        changes.append(at[at < horizon])
        importance.append(round(float(10.0 / (1.0 + rng.integers(0, 20))), 2))
    host = np.arange(pages) % len(HOSTS)
    told = Announced.merged([*(_honest(page, changes[page]) for page in np.flatnonzero(host == 0).tolist()),
                             _stamped(np.flatnonzero(host == 1), horizon)])  # fmt: skip
    rates, nothing = np.array([len(one) for one in changes]) / horizon, np.zeros(pages)
    world = World(
        population=Population(np.array(importance), rates, nothing, nothing),
        horizon=horizon,
        changes=np.concatenate(changes),
        change_offsets=np.cumsum([0] + [len(one) for one in changes]),
        signal_times=told.seen,
        signal_pages=told.pages,
        signal_claims=told.claims,
        signal_spans=told.spans,
        hosts=host,
        listed=np.ones(pages, bool),
    )
    return Scenario(world, HOSTS, (True,) * len(HOSTS))


def _honest(page: int, changes: np.ndarray) -> Announced:
    return Announced(changes, np.full(len(changes), page), changes, np.zeros(len(changes)))


def _stamped(pages: np.ndarray, horizon: float) -> Announced:
    builds = np.repeat(np.arange(BUILD_SECONDS, horizon, BUILD_SECONDS), len(pages))
    return Announced(builds, np.tile(pages, len(builds) // max(len(pages), 1)), builds, np.zeros(len(builds)))
