"""Forecasts beside what the simulator then reaches: same beliefs, same hosts, a quarter to four times a bandwidth.

Run as `python -m benchmarks.forecast [--json] [--pages 600] [--repeats 2]`. The pages are those of Busa-Fekete et al.
2025, section 6, on six hosts of which three have a delay. Each contestant believes something of them; the forecast is
made from that, and the daemon's own scheduler then crawls by it, learning nothing more, in a world it has not seen. The
difference is to be at most .02 everywhere. `cpu_seconds` is what the forecast of a million pages takes.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks import argument_parser
from crawld.choose.forecast import Forecast
from crawld.choose.greedy import GreedyNcis
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.policies import DEFAULT, build
from crawld.choose.sample import Believed
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.choose.valuation import Beliefs
from crawld.learn.observations import Prior
from crawld.learn.online_learner import OnlineLearner
from crawld.model.estimate import Histories
from crawld.model.signal import SOURCES
from crawld.research.crawler import ScheduledCrawler
from crawld.research.engine import simulate
from crawld.research.experiments.ncis import NOISY
from crawld.research.world import Floats, Population, World, draw_world, run_key

MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class ForecastLimits:
    """Numbers of this benchmark."""

    reach: float = 0.02
    hosts: int = 6
    learnt_for: float = 30.0
    visits_per_time: float = 1.0
    rounds: int = 10


LIMITS = ForecastLimits()
DELAYS = (0.0, 0.0, 0.0, 0.3, 1.2, 3.0)
"""By host, in multiples of what an even share of the bandwidth leaves between two requests."""
PRIOR = Prior(1.0, 1.0, 1.0, 1.0)
"""Vague, and in the units of these worlds: a daemon's prior is in seconds."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """Knowledge of the pages, and the limits that hold."""

    name: str
    learnt: bool = False
    delays: bool = True
    intervals: Intervals = Intervals(longest=np.inf, shortest=0.0)  # noqa: RUF009 - frozen


BOUNDED = Intervals(longest=40.0, shortest=0.05)
CONTESTANTS = (
    Contestant("known, no limits", delays=False),
    Contestant("known"),
    Contestant("known, intervals", intervals=BOUNDED),
    Contestant("learnt", learnt=True),
    Contestant("learnt, intervals", learnt=True, intervals=BOUNDED),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One forecast and what came of it."""

    contestant: str
    multiple: float
    repeat: int
    forecast: float
    reached: float
    round_robin: float
    given_up: int
    limited: int


class GatedCrawler(ScheduledCrawler):
    """The daemon's scheduler behind its gate; every answer comes at once."""

    def __init__(self, scheduler: Scheduler, gate: HostGate, hosts: "np.typing.NDArray[np.int64]") -> None:
        super().__init__(scheduler, len(hosts))
        self._gate, self._hosts = gate, hosts.tolist()

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Give the page back and let its host rest."""
        super().settle(page, now, changed)
        self._gate.acquire(self._hosts[page], now)
        self._gate.finish(self._hosts[page], now)


def observe(world: World, key: int, hosts: "np.typing.NDArray[np.int64]", until: float) -> Histories:
    """Histories for the daemon's learner: findings of visits at random times until then."""
    rng = np.random.default_rng(key)
    pages = world.population.pages
    by_page = [world.signal_times[world.signal_pages == page] for page in range(pages)]
    offsets, at, tau, signals, changed = [0], [], [], [], []
    firsts, counts = np.zeros(pages), np.zeros((pages, len(SOURCES)), dtype=np.int64)
    for page in range(pages):
        first = rng.uniform(0.0, 1.0)
        further = rng.uniform(1.0, world.horizon, rng.poisson(LIMITS.visits_per_time * world.horizon))
        times = np.sort(np.append(first, further[further <= until]))
        heard = np.searchsorted(by_page[page], times)
        at.append(times[1:])
        tau.append(np.diff(times))
        signals.append(np.diff(heard))
        changed.append([world.changed_between(page, a, b) for a, b in pairwise(times)])
        firsts[page], counts[page, 0] = first, np.searchsorted(by_page[page], until) - heard[0]
        offsets.append(offsets[-1] + len(times) - 1)
    table = np.zeros((offsets[-1], len(SOURCES)), dtype=np.int64)
    table[:, 0] = np.concatenate(signals)
    return Histories(
        page_ids=np.arange(pages),
        offsets=np.array(offsets),
        at=np.concatenate(at),
        tau=np.concatenate(tau),
        signals=table,
        changed=np.concatenate(changed).astype(bool),
        hosts=[f"host{host}" for host in hosts],
        first_success=firsts,
        signal_counts=counts,
    )


def _first_source(column: Floats) -> Floats:
    table = np.zeros((len(column), len(SOURCES)))
    table[:, 0] = column
    return table


@dataclass(frozen=True, slots=True)
class Site:
    """Pages on hosts, what is true of them, and what visits have taught."""

    population: Population
    hosts: "np.typing.NDArray[np.int64]"
    learnt: tuple[Floats, ...]  # mean and shape of α, κ and γ by source, and the deaf part
    bandwidth: float

    @classmethod
    def draw(cls, pages: int, key: int) -> "Site":
        """Draw pages and learn of them."""
        population = Population.draw(NOISY.draw, pages, key)
        hosts = np.arange(pages) % LIMITS.hosts
        world, learner = draw_world(population, LIMITS.learnt_for, key + 1), OnlineLearner(PRIOR, len(SOURCES))
        for until in np.linspace(0.0, LIMITS.learnt_for, LIMITS.rounds + 1)[
            1:
        ].tolist():  # each is predicted by what was learnt before
            update = learner.teach(observe(world, key, hosts, until), until)
        mixed = np.column_stack([update.heard, update.deaf_alpha, update.deaf_shape])
        learnt = update.shape / update.rate, update.shape, update.kappa, update.gamma, mixed
        return cls(population, hosts, learnt, pages / 10.0)

    def scheduler(self, contestant: Contestant, rate: float) -> tuple[Scheduler, HostGate]:
        """A scheduler that believes what the contestant knows, with a copy of every page."""
        gate = HostGate(HostLimits(spacing=0.0))
        for host, delay in enumerate(DELAYS):
            gate.set_delay(gate.host_of_pages(f"host{host}"), delay * LIMITS.hosts / self.bandwidth * contestant.delays)
        chooser = build(DEFAULT, bandwidth=rate, gate=gate, intervals=contestant.intervals)
        scheduler = Scheduler(chooser)
        truth, pages = self.population, self.population.pages
        whole = np.tile((1.0, 0.0, np.inf), (pages, 1))
        known = (truth.alpha, np.full(pages, np.inf), _first_source(truth.kappa), _first_source(truth.gamma), whole)
        alpha, shape, kappa, gamma, mixed = self.learnt if contestant.learnt else known
        spread = min(contestant.intervals.longest, 3.0 * pages / rate)  # copies of one moment would all be due at once
        last = -spread * np.random.default_rng(pages).permutation(pages) / pages
        ids, beliefs = np.arange(pages), (alpha, shape, kappa, gamma, mixed)
        scheduler.add(Arrivals(ids, self.hosts, truth.mu, last, None, *beliefs))
        return scheduler, gate


def compare(site: Site, contestant: Contestant, multiple: float, key: int, repeat: int = 0) -> Compared:
    """Forecast, then let the scheduler run."""
    rate = multiple * site.bandwidth
    scheduler, gate = site.scheduler(contestant, rate)
    point = Forecast(scheduler.believed(0.0), gate.min_spacing(), GreedyNcis(), contestant.intervals).at(rate)
    start = 10.0 + 3.0 * site.population.pages / rate
    world = draw_world(site.population, start + 60.0 + 30.0 / multiple, key)
    run = simulate(world, GatedCrawler(scheduler, gate, site.hosts), rate)
    reached = run.ledger().accuracy(start, world.horizon)
    return Compared(
        contestant.name, multiple, repeat, point.freshness, reached, point.round_robin, point.given_up,
        len(point.limited),
    )  # fmt: skip


def comparisons(pages: int, repeats: int, seed: int) -> Iterator[Compared]:
    """Every contestant at every bandwidth."""
    for repeat in range(repeats):
        key = run_key(seed, repeat)
        site = Site.draw(pages, key)
        for contestant in CONTESTANTS:
            for multiple in MULTIPLES:
                yield compare(site, contestant, multiple, key + 2, repeat)


def seconds_for(pages: int) -> dict[str, float]:
    """Processor time for the forecast of so many pages, half of them with signals, on a thousand hosts."""
    rng = np.random.default_rng(1)
    day = 86_400.0
    mu, alpha = rng.pareto(1.2, pages) + 0.1, rng.gamma(0.5, 2 / (20 * day), pages) + 1e-9
    shape, signalled = rng.uniform(1.0, 6.0, pages), rng.random(pages) < 0.5
    gamma = np.where(signalled, rng.gamma(0.5, 2 / (10 * day), pages), 0.0)
    kappa = np.where(signalled, rng.choice([0.02, 0.1, 0.3, 1.0, 2.5], pages), 0.0)
    hosts = np.minimum(rng.pareto(0.8, pages) * 20, 999).astype(np.int64)
    no = np.zeros(pages, dtype=np.bool_)
    believed = Believed(hosts, mu, Beliefs(mu, alpha, shape, kappa, gamma), no, no)
    began = time.process_time()
    forecast = Forecast(believed, np.ones(1000), GreedyNcis(), Intervals(), 0.95)
    made = time.process_time()
    forecast.at(10.0)
    return {"make": round(made - began, 2), "one_bandwidth": round(time.process_time() - made, 3)}


def main() -> None:
    """Print every comparison, the largest difference of each contestant, and the cost."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timed-pages", type=int, default=1_000_000, help="pages of the forecast that is timed")
    given = parser.parse_args()
    found = []
    if not given.json:
        print(f"{'':28}{'×':>6}{'forecast':>10}{'reached':>9}{'off by':>8}{'round robin':>13}{'given up':>10}")
    for one in comparisons(given.pages, given.repeats, given.seed):
        found.append(one)
        if not given.json:
            print(
                f"{one.contestant:28}{one.multiple:>6g}{one.forecast:>10.4f}{one.reached:>9.4f}"
                f"{one.forecast - one.reached:>+8.4f}{one.round_robin:>13.4f}{one.given_up:>10}"
            )
    largest = {
        contestant.name: max(abs(one.forecast - one.reached) for one in found if one.contestant == contestant.name)
        for contestant in CONTESTANTS
    }
    cost = seconds_for(given.timed_pages)
    if given.json:
        rows = [{name: getattr(one, name) for name in one.__slots__} for one in found]
        print(json.dumps({"reach": LIMITS.reach, "largest": largest, "cpu_seconds": cost, "compared": rows}, indent=2))
        return
    print("\nlargest difference (to be at most .02):")
    for name, value in largest.items():
        print(f"  {name:28}{value:.4f}{'' if value <= LIMITS.reach else '  TOO LARGE'}")
    print(
        f"processor seconds for {given.timed_pages:,} pages: {cost['make']} once, {cost['one_bandwidth']} a bandwidth"
    )


if __name__ == "__main__":
    main()
