"""Many pages, many slots: the frontier picks what the scan picks, at a fraction of the evaluations."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from crawld.choose import bounds
from crawld.choose.frontier import Frontier, Scan
from crawld.choose.greedy import GreedyApproximate, GreedyBlind, GreedyCis, GreedyCisPlus, GreedyNcis
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.choose.valuation import Beliefs, Valuation
from crawld.model.signal import SOURCES
from tests.support.rising_values import Bounded, Plain


class Course:
    """A frontier and a scan over many pages, driven through the same slots."""

    def __init__(
        self,
        valuation: Valuation,
        pages: int,
        gate: HostGate | None,
        shortest: float = 0.0,
        longest: float = 1e9,
    ) -> None:
        self.rng = np.random.default_rng(3)
        self.gate = gate
        self.pages = pages
        intervals = Intervals(longest, shortest)
        self.scan, self.frontier = Scan(valuation, gate, intervals), Frontier(valuation, gate, intervals)
        beliefs, last = self.beliefs(pages), -self.rng.random(pages) * pages / 10.0
        hosts = np.arange(pages) % (gate.size if gate else 1)
        for chooser in (self.scan, self.frontier):
            chooser.add(hosts, beliefs, last, np.zeros(pages))
        self.now = 0.0

    def beliefs(self, count: int) -> Beliefs:
        """Pages that change once in a few rounds."""
        rng = self.rng
        rate = rng.uniform(0.1, 3.0, count) * 10.0 / self.pages
        return Beliefs(rng.random(count), rate, np.full(count, np.inf), rng.random(count), rate)

    def run(self, slots: int, rate: float) -> list[int | None]:
        """Pick, crawl, signal and learn; every pick is compared."""
        picked = []
        for slot in range(slots):
            self.now += 1 / rate
            row = self.frontier.pick(self.now)
            assert row == self.scan.pick(self.now)
            picked.append(row)
            signalled, boost = int(self.rng.integers(self.pages)), float(self.rng.random())
            rows = self.rng.choice(self.pages, 16, replace=False)
            beliefs = self.beliefs(16)
            for chooser in (self.scan, self.frontier):
                if row is not None:
                    chooser.settle(row, self.now)
                chooser.notice(signalled, boost)
                if slot % 16 == 0:
                    chooser.learn(rows, beliefs, np.zeros(16))
            if self.gate and row is not None:
                host = int(self.scan.pages.host[row])
                self.gate.acquire(host, self.now)
                self.gate.finish(host, self.now)
        return picked


def hosts(count: int, spacing: float) -> HostGate:
    """A gate with so many hosts."""
    gate = HostGate(HostLimits(spacing=spacing))
    for index in range(count):
        gate.host(f"h{index}")
    return gate


@pytest.mark.parametrize("valuation", [Plain(), Bounded()], ids=["plain", "bounded"])
@pytest.mark.parametrize("gated", [False, True], ids=["no gate", "gate"])
def test_many_pages_are_picked_as_by_the_scan_while_the_bandwidth_steps(valuation: Valuation, gated: bool) -> None:
    """Restored pages, steady picks, ten times the bandwidth and back: never a different page."""
    course = Course(valuation, 6000, hosts(200, 0.5) if gated else None)
    for rate in (10.0, 100.0, 10.0):
        assert None not in course.run(150, rate)
    assert course.frontier.pages.evaluations < course.scan.pages.evaluations / 20
    assert course.frontier.active < 3000


@pytest.mark.parametrize("looked_at", [0.0, 30.0], ids=["at once", "long before"])
@pytest.mark.parametrize("longest", [1e9, 400.0], ids=["none overdue", "a third overdue"])
def test_pages_looked_over_before_the_first_pick_are_picked_as_by_the_scan(
    monkeypatch: pytest.MonkeyPatch, looked_at: float, longest: float
) -> None:
    """A start bounds its pages in slices: the first pick looks at few of them, and no pick is another one for it."""
    monkeypatch.setattr(bounds, "LIMITS", dataclasses.replace(bounds.LIMITS, bounded_at_once=500))
    course = Course(GreedyNcis(), 6000, hosts(200, 0.5), longest=longest)
    assert len(list(course.frontier.look_over(0.0))) == 12
    course.now, before = looked_at, course.frontier.pages.evaluations
    course.run(1, 10.0)
    assert course.frontier.pages.evaluations - before < 6000
    for rate in (10.0, 100.0, 10.0):
        course.run(150, rate)


def test_saturated_hosts_leave_slots_unused_and_give_their_best() -> None:
    """When hosts allow half the rate, half the slots find nobody and the others the best of whoever is ready."""
    course = Course(Bounded(), 2000, hosts(40, 8.0))
    picked = course.run(1200, 10.0)
    assert 500 <= sum(row is not None for row in picked) <= 700


def test_a_blocked_host_with_most_pages_is_set_aside_and_comes_back() -> None:
    """Its pages are neither watched nor picked while it is blocked, and at once when the operator unblocks it."""
    gate = hosts(2, 0.0)
    course = Course(Bounded(), 5000, gate)
    course.scan.pages.host[1000:5000] = course.frontier.pages.host[1000:5000] = 0
    gate.block(0)
    assert {int(course.scan.pages.host[row]) for row in course.run(100, 10.0) if row is not None} == {1}
    assert course.frontier.active <= 800
    gate.unblock(0)
    assert 0 in {int(course.scan.pages.host[row]) for row in course.run(100, 10.0) if row is not None}


def test_equal_pages_take_turns_by_row() -> None:
    """Thousands of pages alike in everything are picked in the order of their rows."""
    frontier = Frontier(Bounded(), None, Intervals(shortest=0.0))
    ones = np.ones(5000)
    frontier.add(np.zeros(5000, dtype=np.int64), Beliefs(ones, ones, ones * np.inf, ones, ones), -ones, 0 * ones)
    assert [frontier.pick(0.0) for _ in range(50)] == list(range(50))


def test_pages_never_crawled_are_picked_by_importance_among_ready_hosts() -> None:
    """A first crawl of a long list follows importance, and a busy host does not hold up the others."""
    gate = hosts(3, 5.0)
    frontier = Frontier(Bounded(), gate)
    count = 300
    columns = np.arange(count, dtype=float)
    ones = np.ones(count)
    frontier.add(np.arange(count) % 3, Beliefs(columns, ones, ones * np.inf, ones, ones), ones * np.nan, 0 * ones)
    picked = []
    for now in (0.0, 0.1, 0.2, 0.3, 5.0):
        row = frontier.pick(now)
        picked.append(row)
        if row is not None:
            gate.acquire(row % 3, now)
            gate.finish(row % 3, now)
    assert picked == [299, 298, 297, None, 296]
    assert frontier.level == 0.0  # late pages do not move the level


def test_a_host_that_comes_free_earlier_wakes_all_its_pages() -> None:
    """Also those put aside before, where other pages were put aside in between."""
    gate = hosts(1, 0.0)
    frontier = Frontier(GreedyBlind(), gate, Intervals(shortest=0.0))
    some, host = Beliefs(*(np.ones(8) for _ in range(5))), np.zeros(8, dtype=np.int64)
    gate.block(0)
    frontier.add(host, some, np.zeros(8), np.zeros(8))
    gate.unblock(0)
    frontier.add(host, some, np.zeros(8), np.zeros(8))
    assert {frontier.pick(10.0) for _ in range(16)} == set(range(16))


def test_few_equal_pages_in_flight_by_the_dozen_cost_few_evaluations() -> None:
    """A hundred pages out at once on one host: neither level nor models are renewed at every slot."""
    pages, gate = 1000, HostGate(HostLimits(spacing=0.0, per_host=100))
    host = gate.host("one")
    beliefs = Beliefs(*(np.full(pages, x) for x in (1.0, 1e-6, 1.0, 0.0, 0.0)))
    last = -np.random.default_rng(5).random(pages)
    scan, frontier = (kind(GreedyNcis(), gate, Intervals(shortest=0.0)) for kind in (Scan, Frontier))
    for chooser in (scan, frontier):
        chooser.add(np.full(pages, host), beliefs, last, np.zeros(pages))
    out: list[tuple[int, float]] = []
    for slot in range(2500):
        now = slot / 1000
        if len(out) == 100:
            row, at = out.pop(0)
            gate.finish(host, now)
            for chooser in (scan, frontier):
                chooser.settle(row, at)
        picked = frontier.pick(now)
        assert picked is not None
        assert picked == scan.pick(now)
        gate.acquire(host, now)
        out.append((picked, now))
    assert frontier.pages.evaluations < 6 * frontier.picks


def test_many_alike_pages_that_surely_changed_cost_few_evaluations() -> None:
    """Values that hardly grow any more are bounded far ahead, not evaluated anew by each of ever shorter passes."""
    pages, rate = 10_000, 2500.0
    rng, frontier = np.random.default_rng(7), Frontier(GreedyNcis(), None, Intervals(shortest=0.0))
    often = 20.0 * rate / pages * np.exp(0.3 * rng.normal(size=pages))  # changes of each in the time of one round
    nothing = np.zeros(pages)
    frontier.add(
        nothing.astype(np.int64), Beliefs(np.ones(pages), often, np.ones(pages), nothing, nothing),
        -rng.permutation(pages) / rate, nothing,
    )  # fmt: skip
    out: list[int] = []
    for slot in range(pages + 3000):
        now = slot / rate
        if slot == pages:
            before = frontier.pages.evaluations
        out.append(frontier.pick(now) or 0)
        if len(out) > 60:
            frontier.settle(out.pop(0), now)
    assert frontier.pages.evaluations - before < 40 * 3000


@pytest.mark.parametrize("valuation", [GreedyNcis(), GreedyBlind(), GreedyCis(), GreedyCisPlus(), GreedyApproximate(2)])
def test_pages_with_many_signals_each_are_picked_as_by_the_scan(valuation: Valuation) -> None:
    """Signals add up, crawls take them away, and what is known of a page serves from one crawl to the next."""
    rng, pages = np.random.default_rng(11), 300
    delta, recall, false = rng.random(pages), rng.beta(0.25, 0.25, pages), rng.uniform(0.1, 0.6, pages)
    gamma = recall * delta + false
    kappa = -np.log(false / gamma)
    beliefs = Beliefs(rng.random(pages), (1 - recall) * delta, np.full(pages, np.inf), kappa, gamma)
    intervals = Intervals(longest=np.inf, shortest=0.0)
    scan, frontier = Scan(valuation, None, intervals), Frontier(valuation, None, intervals)
    for chooser in (scan, frontier):
        chooser.add(np.zeros(pages, dtype=np.int64), beliefs, np.zeros(pages), np.zeros(pages))
    counts = np.zeros(pages)
    for slot in range(900):
        now = (slot + 1) / 30.0
        for page in rng.choice(pages, 6, p=gamma / gamma.sum()).tolist():
            counts[page] += 1
            for chooser in (scan, frontier):
                chooser.notice(page, counts[page] * kappa[page])
        row = frontier.pick(now)
        assert row == scan.pick(now)
        assert row is not None
        counts[row] = 0
        for chooser in (scan, frontier):
            chooser.settle(row, now)
    assert frontier.pages.evaluations < scan.pages.evaluations / 10  # looks at single pages count as well


def believed(rng: np.random.Generator, pages: int, shape: str, sources: int) -> dict[str, Any]:
    """What the learner may say of pages that hear so many sources of signals."""
    shapes = {"known": np.full(pages, np.inf), "one": np.ones(pages), "grid": 10 ** rng.uniform(-0.6, 2, pages)}
    heard = np.arange(len(SOURCES)) < sources
    kappa = np.where(heard, rng.choice([0.02, 0.3, 2.0, 0.0], (pages, len(SOURCES))), 0.0)
    gamma = np.where(heard, rng.uniform(0.0, 0.05, (pages, len(SOURCES))), 0.0)
    return {"alpha": rng.uniform(0.001, 0.1, pages), "shape": shapes[shape], "kappa": kappa, "gamma": gamma}


@pytest.mark.parametrize("shape", ["known", "one", "grid"])
@pytest.mark.parametrize("sources", [0, 1, 3])
@pytest.mark.parametrize("rough", [False, True], ids=["steady", "due pages, failures and clock steps"])
def test_every_regime_of_the_daemon_is_picked_as_by_the_scan(shape: str, sources: int, rough: bool) -> None:
    """Known and learnt rates, capped and as the grid gives them, with no, one and several sources of signals.

    And the same where some pages were never crawled, others become due, attempts fail and the clock is set.
    """
    rng, count, gate = np.random.default_rng(13), 400, hosts(40, 0.5)
    intervals = Intervals(longest=25.0, shortest=1.0) if rough else Intervals(shortest=0.0)
    schedulers = [Scheduler(kind(GreedyNcis(), gate, intervals)) for kind in (Scan, Frontier)]
    ids, where = np.arange(count), rng.integers(0, 40, count)
    last = np.where(rng.random(count) < (0.2 if rough else 0.0), np.nan, -rng.random(count) * (20 if rough else 40))
    arrivals = Arrivals(ids, where, rng.random(count), last, **believed(rng, count, shape, sources))
    for scheduler in schedulers:
        scheduler.add(arrivals)
    steps = {150: -7.0, 250: 12.0, 350: -0.3, 420: 300.0} if rough else {}  # seconds by which the clock is set, by slot
    now, free = 0.0, 0
    for slot in range(500):
        now += 0.1 + steps.get(slot, 0.0)
        signalled, source = int(rng.integers(count)), int(rng.integers(max(sources, 1)))
        taught, news = rng.choice(count, 8, replace=False), believed(rng, 8, shape, sources)
        fails = rough and rng.random() < 0.1
        picked = [scheduler.pick(now) for scheduler in schedulers]
        assert picked[0] == picked[1]
        for scheduler in schedulers:
            if picked[0] is not None and fails:
                scheduler.release(picked[0], now + 3.0)
            elif picked[0] is not None:
                scheduler.settle(picked[0], now)
            if sources:
                scheduler.notice(signalled, source)
            if slot % 8 == 0:
                scheduler.teach(taught.tolist(), **news)
        if picked[0] is not None:
            free += schedulers[0].chooser.pages.due[picked[0]] > now
            gate.acquire(int(where[picked[0]]), now)
            gate.finish(int(where[picked[0]]), now)
    assert free > 100
    assert rough or schedulers[1].chooser.pages.evaluations < schedulers[0].chooser.pages.evaluations / 10
