"""Speed and exactness of picks: `python -m benchmarks.pick [--pages N…] [--json]`.

A mixed load over the papers' world (docs/method.md, "Experiments"): each slot picks a
page, asks its host, settles it and brings one signal; estimates are learnt anew for each crawled page, in batches as
the learner does; one page in a thousand slots is added and one retired; there are 10,000 hosts; in the middle the
bandwidth rises tenfold and falls again. Rates are learnt and signals heard, as in the daemon, and then, for comparison
with the papers, rates are known. Some picks are compared with those of the plain scan on the same state.
Figures named `cpu` are the same by processor time: what a machine shared with other work still tells truly. (Asking for
that time is a call into the system, which costs some microseconds: it is asked outside of what is timed.)
"""

import resource
import time
import tracemalloc
from dataclasses import dataclass, field

import numpy as np

from benchmarks import argument_parser, show
from crawld.choose.chooser import Span
from crawld.choose.frontier import Frontier, Scan
from crawld.choose.greedy import GreedyNcis
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.choose.valuation import Beliefs, Floats
from crawld.model.signal import SOURCES


@dataclass(frozen=True)
class PickLimits:
    """Numbers of this benchmark."""

    hosts: int = 10_000
    rate: float = 500.0  # slots a second
    batch: int = 64  # crawled pages learnt at once


LIMITS = PickLimits()


@dataclass
class World:
    """Pages of the papers' world, in a unit of time that fits the bandwidth."""

    pages: int
    expected: bool  # rates are learnt, as the daemon has them; else they are known
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def beliefs(self, count: int) -> Beliefs:
        """Beliefs on so many pages."""
        rng = self.rng
        # With one signal a slot, the signals' total rate is the bandwidth.
        unit = LIMITS.rate / (0.6 * self.pages)
        delta, recall, false = rng.random(count), rng.beta(0.25, 0.25, count), rng.uniform(0.1, 0.6, count)
        gamma = recall * delta + false
        shape = np.full(count, np.inf)
        if self.expected:  # half of the hosts under the cap, half with what their crawls have told
            shape = np.where(rng.random(count) < 0.5, 1.0, 10 ** rng.uniform(-0.3, 1.5, count))
        return Beliefs(rng.random(count), (1 - recall) * delta * unit, shape, -np.log(false / gamma), gamma * unit)

    def last(self, count: int) -> Floats:
        """Times of the last crawls: any within one round of all pages."""
        return np.asarray(-self.rng.random(count) * self.pages / LIMITS.rate)


class Load:
    """Drives a chooser through the mixed load."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gate = HostGate(HostLimits(spacing=1.0))
        for index in range(LIMITS.hosts):
            self.gate.host_of_pages(f"host{index}")
        self.intervals = Intervals(shortest=0.0)
        self.frontier = Frontier(GreedyNcis(), self.gate, self.intervals)
        self.scan: Scan | None = None
        self.now = 0.0
        self.crawled: list[int] = []
        self.spare: list[int] = []
        self.seconds = self.cpu_seconds = 0.0  # spent in the frontier and the gate
        self.slots = 0
        self.longest = self.cpu_longest = 0.0
        self.wrong = 0
        self.checked = 0

    def restore(self) -> float:
        """Take in all pages as a start does, up to the first pick; returns the seconds that took."""
        world = self.world
        beliefs, last = world.beliefs(world.pages), world.last(world.pages)
        hosts = world.rng.integers(0, LIMITS.hosts, world.pages)
        began = time.perf_counter()
        self.frontier.add(hosts, beliefs, last, np.zeros(world.pages))
        self.frontier.pick(self.now)
        seconds = time.perf_counter() - began
        weights = np.cumsum(self.frontier.pages.gamma[: world.pages])
        self.noticed = np.searchsorted(weights, world.rng.random(1 << 18) * weights[-1])
        return seconds

    def run(self, slots: int, rate: float, *, check: bool = False) -> None:
        """Run the load; the time of the benchmark's own bookkeeping is not counted."""
        frontier, gate, pages = self.frontier, self.gate, self.frontier.pages
        clock, cpu_clock = time.perf_counter, time.thread_time
        for _ in range(slots):
            self.now += 1 / rate
            self.slots += 1
            right = self.scan_pick() if check else None
            signalled = int(self.noticed[self.slots % len(self.noticed)])
            boost = float(pages.boost[signalled] + pages.kappa[signalled])
            cpu_began, began = cpu_clock(), clock()
            row = frontier.pick(self.now)
            self.longest = max(self.longest, clock() - began)
            self.cpu_longest = max(self.cpu_longest, cpu_clock() - cpu_began)
            if row is not None:
                host = int(pages.host[row])
                gate.acquire(host, self.now)
                gate.finish(host, self.now)
                frontier.settle(row, self.now)
            frontier.notice(signalled, boost)
            self.seconds += clock() - began
            self.cpu_seconds += cpu_clock() - cpu_began
            if check:
                self.checked += 1
                self.wrong += row != right
            if row is not None:
                self.crawled.append(row)
            if len(self.crawled) == LIMITS.batch:
                self.learn()
            if self.slots % 1000 == 0:
                self.replace_one()

    def learn(self) -> None:
        """Learn the crawled pages anew: their rates move a little."""
        rows = np.unique(self.crawled)
        self.crawled.clear()
        old = self.frontier.pages.beliefs(rows)
        alpha = old.alpha * self.world.rng.uniform(0.9, 1.1, len(rows))
        beliefs = Beliefs(old.mu, alpha, old.shape, old.kappa, old.gamma)
        boost = self.frontier.pages.boost[rows].copy()
        cpu_began, began = time.thread_time(), time.perf_counter()
        self.frontier.learn(rows, beliefs, boost)
        self.seconds += time.perf_counter() - began
        self.cpu_seconds += time.thread_time() - cpu_began

    def replace_one(self) -> None:
        """One page goes and another comes, crawled just now."""
        row = int(self.world.rng.integers(0, self.world.pages))
        beliefs = self.world.beliefs(1)
        cpu_began, began = time.thread_time(), time.perf_counter()
        self.frontier.retire(np.array([row]))
        host = np.array([row % LIMITS.hosts])
        self.frontier.add(host, beliefs, np.array([self.now]), np.zeros(1))
        self.seconds += time.perf_counter() - began
        self.cpu_seconds += time.thread_time() - cpu_began

    def scan_pick(self) -> int | None:
        """Pick of the plain scan at the same state."""
        if self.scan is None:
            self.scan = Scan(GreedyNcis(), self.gate, self.intervals)
            self.scan.pages = self.frontier.pages
        return self.scan.best(self.now)[0]


def steps(load: Load, slots: int, *, check: bool = False) -> None:
    """The whole course: steady, ten times the bandwidth, steady again."""
    load.run(slots * 4 // 10, LIMITS.rate, check=check)
    load.run(slots * 3 // 10, 10 * LIMITS.rate, check=check)
    load.run(slots - slots * 4 // 10 - slots * 3 // 10, LIMITS.rate, check=check)


def bid_milliseconds(load: Load) -> dict[str, float]:
    """Time that a worker of a fleet takes for its bid in a round."""
    seconds, cpu_seconds = [], []
    for _ in range(20):
        load.run(100, LIMITS.rate)
        cpu_began, began = time.thread_time(), time.perf_counter()
        load.frontier.bid(Span(load.now, load.now + 2.0, load.now + 4.0, 2.0 * LIMITS.rate))
        seconds.append(time.perf_counter() - began)
        cpu_seconds.append(time.thread_time() - cpu_began)
    return {"bid_ms": 1e3 * float(np.median(seconds)), "cpu_bid_ms": 1e3 * float(np.median(cpu_seconds))}


def measure(pages: int, slots: int, *, expected: bool) -> dict[str, float]:
    """Speed, evaluations, the longest pick and restore of one size."""
    load = Load(World(pages, expected))
    restore_seconds = load.restore()
    warm = max(2000, slots // 10)
    load.run(warm, LIMITS.rate)
    load.seconds = load.cpu_seconds = load.longest = load.cpu_longest = 0.0
    evaluations, picks = load.frontier.pages.evaluations, load.frontier.picks
    steps(load, slots)
    return {
        "picks_per_second": slots / load.seconds,
        "cpu_picks_per_second": slots / load.cpu_seconds,
        "evaluations_per_pick": (load.frontier.pages.evaluations - evaluations) / (load.frontier.picks - picks),
        "longest_pick_ms": load.longest * 1e3,
        "cpu_longest_pick_ms": load.cpu_longest * 1e3,
        "restore_seconds": restore_seconds,
    } | bid_milliseconds(load)


def picks_to_check(pages: int, *, expected: bool) -> int:
    """Number of picks whose scans take a minute: one over a million pages takes half a second, or five."""
    scans = 10_000_000 if expected else 100_000_000
    return min(max(scans // pages, 10), 1_000)


def check(pages: int, slots: int, *, expected: bool) -> tuple[int, int, float]:
    """Wrong and checked picks, and the seconds that one scan takes."""
    load = Load(World(pages, expected))
    load.restore()
    load.run(min(pages, 20_000), LIMITS.rate)
    steps(load, slots, check=True)
    began = time.perf_counter()
    for _ in range(3):
        load.scan_pick()
    return load.wrong, load.checked, (time.perf_counter() - began) / 3


def saturated(pages: int, slots: int, *, expected: bool) -> dict[str, float]:
    """Slots a second where the hosts together allow only half the rate."""
    load = Load(World(pages, expected))
    mean = 2 * LIMITS.hosts / LIMITS.rate
    for host, delay in enumerate(load.world.rng.uniform(0.5, 1.5, LIMITS.hosts)):
        # Different delays, so that hosts do not become ready all at once; their rates add up to half the bandwidth.
        load.gate.set_delay(host, float(delay) * mean * np.log(3))
    load.restore()
    load.run(3 * LIMITS.hosts, LIMITS.rate)
    load.seconds = load.cpu_seconds = 0.0
    load.run(slots, LIMITS.rate)
    return {
        "saturated_slots_per_second": slots / load.seconds,
        "cpu_saturated_slots_per_second": slots / load.cpu_seconds,
    }


def bytes_per_page(pages: int) -> float:
    """Memory of the scheduler and its frontier, with signals of one source heard."""
    world = World(pages, expected=True)
    tracemalloc.start()
    scheduler = Scheduler(Frontier(GreedyNcis(), None, Intervals(shortest=0.0)))
    for start in range(0, pages, 5_000):
        ids = np.arange(start, min(start + 5_000, pages))
        some, one = world.beliefs(len(ids)), np.eye(1, len(SOURCES))
        kappa, gamma, last = some.kappa[:, None] * one, some.gamma[:, None] * one, world.last(len(ids))
        scheduler.add(Arrivals(ids, ids % LIMITS.hosts, some.mu, last, None, some.alpha, some.shape, kappa, gamma))
    scheduler.pick(0.0)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / pages


def main() -> None:
    """Measure and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--slots", type=int, default=20_000)
    parser.add_argument("--checked", type=int, help="picks compared with the scan")
    parser.add_argument("--value", choices=("expected", "known"), nargs="+", default=["expected", "known"])
    options = parser.parse_args()
    figures: dict[str, float] = {}
    for value in options.value:
        expected = value == "expected"
        for pages in options.pages:
            found = measure(pages, options.slots, expected=expected)
            checked = options.checked or picks_to_check(pages, expected=expected)
            wrong, compared, scan_seconds = check(pages, checked, expected=expected)
            found |= {"wrong_picks": wrong, "checked_picks": compared}
            found["speedup_over_scan"] = scan_seconds * found["picks_per_second"]
            figures |= {f"{value}_{pages}_{name}": round(figure, 3) for name, figure in found.items()}
        slots = saturated(options.pages[0], options.slots, expected=expected)
        figures |= {f"{value}_{options.pages[0]}_{name}": round(figure, 3) for name, figure in slots.items()}
    figures["bytes_per_page"] = round(bytes_per_page(options.pages[0]), 1)
    figures["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    show(figures, as_json=options.json)


if __name__ == "__main__":
    main()
