"""The frontier picks what the scan picks, whatever happens in between."""

from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crawld.choose.frontier import Frontier, Scan
from crawld.choose.greedy import GreedyAge, GreedyApproximate, GreedyBlind, GreedyCis, GreedyHarmonic, GreedyNcis
from crawld.choose.host_gate import Evidence, HostGate, HostLimits
from crawld.choose.page_table import VALUED, Intervals, Ints
from crawld.choose.valuation import Beliefs, Valuation
from tests.support.rising_values import Bounded, Plain

VALUATIONS: list[Valuation] = [
    Plain(),
    Bounded(),
    GreedyNcis(),
    GreedyBlind(),
    GreedyCis(),
    GreedyApproximate(2),
    GreedyHarmonic(),
    GreedyAge(),
]

amounts = st.sampled_from([0.0, 0.25, 1.0, 3.0])
rates = st.sampled_from([0.0, 1e-6, 0.01, 0.3, 2.0])


@st.composite
def beliefs_of(draw: Any, count: int) -> Beliefs:
    """Beliefs in which every special case and every tie is likely; half of the time with parts that are deaf."""
    columns = [
        [draw(amounts) for _ in range(count)],
        [draw(rates) for _ in range(count)],
        [draw(st.sampled_from([np.inf] * 6 + [0.7, 1.0, 1.0, 4.0])) for _ in range(count)],
        [draw(st.sampled_from([0.0, 0.1, 2.0, np.inf])) for _ in range(count)],
        [draw(rates) for _ in range(count)],
    ]
    if draw(st.booleans()):
        columns.append([draw(st.sampled_from([1.0, 0.0, 0.02, 0.5, 0.97])) for _ in range(count)])
        columns.append([draw(rates) for _ in range(count)])
        columns.append([draw(st.sampled_from([np.inf, 0.7, 1.0, 4.0])) for _ in range(count)])
    return Beliefs(*(np.array(column, dtype=float) for column in columns))


class Twins(RuleBasedStateMachine):
    """Both choosers see the same events and the same gate."""

    @initialize(
        valuation=st.sampled_from(VALUATIONS),
        gated=st.booleans(),
        longest=st.sampled_from([np.inf, 50.0]),
        shortest=st.sampled_from([0.0, 2.0]),
    )
    def start(self, valuation: Valuation, gated: bool, longest: float, shortest: float) -> None:
        """Start with no page."""
        self.gate = HostGate(HostLimits(spacing=1.0, first_backoff=5.0), Random(0)) if gated else None
        if self.gate:
            for name in "abcd":
                self.gate.host(name)
        intervals = Intervals(longest, shortest)
        self.scan = Scan(valuation, self.gate, intervals)
        self.frontier = Frontier(valuation, self.gate, intervals)
        self.now = 1000.0
        self.rows: list[int] = []
        self.held: list[int] = []
        self.flying: list[int] = []
        self.leaving: list[int] = []

    @rule(data=st.data(), count=st.integers(1, 12))
    def add(self, data: Any, count: int) -> None:
        """Pages come, crawled or not."""
        beliefs = data.draw(beliefs_of(count))
        hosts = np.array([data.draw(st.integers(0, 3)) for _ in range(count)])
        ages = [data.draw(st.sampled_from([np.nan, 0.0, 1.0, 5.0, 60.0, -1.0])) for _ in range(count)]
        boost = np.array([data.draw(st.sampled_from([0.0, 0.0, 0.5, np.inf])) for _ in range(count)])
        last = self.now - np.array(ages)
        later = None if data.draw(st.booleans()) else np.full(count, self.now + 3.0)
        rows = self.scan.add(hosts, beliefs, last, boost, later)
        assert rows.tolist() == self.frontier.add(hosts, beliefs, last, boost, later).tolist()
        self.rows += rows.tolist()

    @rule(step=st.sampled_from([0.0, 0.0, 1e-9, 0.01, 0.01, 0.01, 0.3, 2.0, 40.0, -0.2, -5.0]), count=st.integers(1, 6))
    def pick(self, step: float, count: int) -> None:
        """The same page is picked, also twice at one moment."""
        self.now += step
        for _ in range(count):
            row = self.frontier.pick(self.now)
            assert row == self.scan.pick(self.now)
            if row is not None:
                self.held.append(row)
                self.ask(row)

    def ask(self, row: int) -> None:
        """Let the gate know of a request, where it may be made."""
        host = int(self.scan.pages.host[row])
        if self.gate and self.gate.ready(host, self.now):
            self.gate.acquire(host, self.now)
            self.flying.append(host)

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99), crawled=st.booleans(), wait=st.sampled_from([-np.inf, 0.5, 5.0]))
    def give_back(self, which: int, crawled: bool, wait: float) -> None:
        """A held page comes back, crawled or not."""
        row = self.held.pop(which % len(self.held))
        for chooser in (self.scan, self.frontier):
            if crawled:
                chooser.settle(row, self.now)
            else:
                chooser.release(row, self.now + wait)
            assert not chooser.pages.held(row)
        if row in self.leaving:
            self.leaving.remove(row)

    @rule(count=st.integers(1, 8), step=st.sampled_from([0.0, 0.1, 1.0]))
    def crawl(self, count: int, step: float) -> None:
        """The daily business: pick, ask, settle."""
        for _ in range(count):
            self.now += step
            row = self.frontier.pick(self.now)
            assert row == self.scan.pick(self.now)
            if row is not None:
                self.ask(row)
                self.scan.settle(row, self.now)
                self.frontier.settle(row, self.now)

    @precondition(lambda self: self.rows)
    @rule(which=st.integers(0, 99), boost=st.sampled_from([0.0, 0.1, 1.0, 5.0, np.inf]))
    def notice(self, which: int, boost: float) -> None:
        """A signal arrives."""
        row = self.rows[which % len(self.rows)]
        self.scan.notice(row, boost)
        self.frontier.notice(row, boost)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), count=st.integers(1, 9), virtual=st.booleans())
    def learn(self, data: Any, count: int, virtual: bool) -> None:
        """Estimates change."""
        rows = self.some(data, count)
        beliefs = data.draw(beliefs_of(len(rows)))
        boost = np.array([data.draw(st.sampled_from([0.0, 0.5])) for _ in rows])
        last = np.full(len(rows), self.now - 3.0) if virtual else None
        self.scan.learn(rows, beliefs, boost, last)
        self.frontier.learn(rows, beliefs, boost, last)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), count=st.integers(1, 9), mu=amounts)
    def reweight(self, data: Any, count: int, mu: float) -> None:
        """Importance changes."""
        rows = self.some(data, count)
        self.scan.reweight(rows, np.full(len(rows), mu))
        self.frontier.reweight(rows, np.full(len(rows), mu))

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), count=st.integers(1, 3))
    def retire(self, data: Any, count: int) -> None:
        """Pages go, also while held."""
        rows = self.some(data, count)
        self.scan.retire(rows)
        self.frontier.retire(rows)
        self.rows = [row for row in self.rows if row not in rows]
        self.leaving += [row for row in self.held if row in rows]

    @precondition(lambda self: self.flying)
    @rule(well=st.booleans(), retry_after=st.sampled_from([None, 0.0, 7.0]))
    def answer(self, well: bool, retry_after: float | None) -> None:
        """A host answers, which ends its back-off, or fails."""
        assert self.gate
        said = Evidence("url", self.now, well, retry_after=retry_after, enough=1)
        self.gate.finish(self.flying.pop(), self.now, said)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), ago=st.floats(0, 20))
    def lift(self, data: Any, ago: float) -> None:
        """A page need not wait any longer."""
        row = data.draw(st.sampled_from(self.rows))
        self.scan.lift(row, self.now - ago)
        self.frontier.lift(row, self.now - ago)

    @precondition(lambda self: self.gate)
    @rule(host=st.integers(0, 3), how=st.sampled_from(["block", "unblock", "slow", "quick", "all"]))
    def operate(self, host: int, how: str) -> None:
        """The operator changes how a host is treated."""
        assert self.gate
        if how == "block":
            self.gate.block(host)
        elif how == "unblock":
            self.gate.unblock(host)
        elif how == "all":
            for each in range(4):
                self.gate.block(each)
        else:
            self.gate.set_delay(host, 20.0 if how == "slow" else 0.0)

    def some(self, data: Any, count: int) -> Ints:
        """Some distinct rows."""
        return np.array(data.draw(st.lists(st.sampled_from(self.rows), min_size=1, max_size=count, unique=True)))

    @invariant()
    def same_pages(self) -> None:
        """Both hold the same state."""
        if hasattr(self, "scan"):
            size = self.scan.pages.size
            assert size == self.frontier.pages.size
            for name in ("state", "host", *VALUED):
                ours, theirs = getattr(self.scan.pages, name), getattr(self.frontier.pages, name)
                assert np.array_equal(ours[:size], theirs[:size], equal_nan=True), name


Twins.TestCase.settings = settings(max_examples=40, stateful_step_count=20, suppress_health_check=list(HealthCheck))
TestTwins = Twins.TestCase
