"""The daemon's scheduler and learner in simulated time: rounds of learning, host clocks, scores, signals and all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from crawld.choose.host_gate import HostGate
from crawld.choose.policies import build
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.learn.estimate_update import EstimateSink, EstimateUpdate
from crawld.learn.observations import Prior, first_guess
from crawld.learn.online_learner import LIMITS as ONLINE_LEARNER_LIMITS
from crawld.learn.online_learner import OnlineLearner
from crawld.model.estimate import AgeCurve, Estimate, Floats
from crawld.model.signal import SOURCES, sitemap_source
from crawld.model.units import DAY
from crawld.research.crawler import UNBOUND, Learnt, MemoryHistories
from crawld.research.engine import SimulatedCrawler
from crawld.research.world import NO_CLAIM, Claim, Ints, World


@dataclass(frozen=True)
class OnlineCrawlerLimits:
    """Numbers that bound and tune this module."""

    batch: int = 500
    """Pages of one update at most, as in the daemon."""


LIMITS = OnlineCrawlerLimits()


@dataclass(frozen=True, slots=True)
class OnlineLearning:
    """Settings of learning: the prior, the rounds, and whether signals are heard."""

    prior: Prior | None = None  # None: the daemon's first guess; rates are per second
    round_share: float = 0.01  # of the pages are crawled between two rounds, at least one
    max_updates: int = 3  # of a round: pages whose host's prior moved are fitted again
    signals: bool = True
    significance: bool = False  # whether changes are weighed by how much of the text they change


class SchedulerSink:
    """Passes updates on to the scheduler, which knows hosts by number."""

    def __init__(self, scheduler: Scheduler, numbers: Mapping[str, int]) -> None:
        self._scheduler, self._numbers = scheduler, numbers

    def learn(self, estimates: Sequence[Estimate]) -> None:
        """Let the scheduler take over new estimates."""
        self._scheduler.learn(estimates)

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Let the scheduler go by the hosts' clocks."""
        self._scheduler.shift(page_ids, last, since)

    def signify(self, page_ids: Sequence[int], significance: Floats) -> None:
        """Let the scheduler weigh changes by how much of the text they change."""
        self._scheduler.signify(page_ids, significance)

    def set_age_curve(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """Let freshness go by the hosts' clocks."""
        for host, curve in curves.items():
            self._scheduler.set_age_curve(self._numbers[host], curve)


@dataclass(frozen=True, slots=True)
class Past:
    """Findings of crawls before the start, as a restart gives them back; times are seconds."""

    histories: MemoryHistories
    last: Floats  # by page: its last crawl
    signals: Ints  # (pages, sources): those since then
    others: Floats | float = 0.0  # what others' hosts have taught (`OnlineLearner.hear`)


class OnlineCrawler(SimulatedCrawler):
    """crawld as the daemon runs it, in a world; `copies` says whether pages there from the start have been copied.

    With a past it goes on from there. With a gate the caller asks the gate.
    """

    def __init__(
        self,
        policy: str,
        world: World,
        bandwidth: float,
        learning: OnlineLearning | None = None,
        *,
        copies: bool = True,
        gate: HostGate | None = None,
        past: Past | None = None,
    ) -> None:
        self._world = world
        self._how = learning or OnlineLearning()
        names = [f"host{number}" for number in world.host_of]
        chooser = build(policy, bandwidth=bandwidth / DAY, gate=gate, intervals=UNBOUND)
        self.scheduler = Scheduler(chooser)
        self.sink: EstimateSink = SchedulerSink(self.scheduler, dict(zip(names, world.host_of.tolist(), strict=True)))
        self.histories = MemoryHistories(names) if past is None else past.histories
        guess = self._how.prior or _first_guess(world, bandwidth)
        self.learner = OnlineLearner(guess, len(SOURCES), significance=self._how.significance)
        self._host: list[int] = world.host_of.tolist()
        self._size = Counter(self._host)
        self._moved = Counter(zip(world.host_of[world.signal_pages].tolist(), world.signal_times.tolist(), strict=True))
        self._dirty: dict[int, None] = {}
        self._again: dict[int, None] = {}
        self._crawls = 0
        self._per_round = max(1, int(self._how.round_share * world.population.pages))
        if past is None:
            self._add(np.flatnonzero(world.born <= 0), 0.0 if copies else np.nan)
            self.learn(0.0)
        else:
            self._recall(past)

    def appear(self, pages: Ints, at: float) -> None:
        """Take in pages that are born, with their first copies."""
        self._add(pages, at * DAY)

    def vanish(self, pages: Ints) -> None:
        """Forget pages that are gone."""
        self.scheduler.retire(pages.tolist())

    def pick(self, now: float) -> int | None:
        """The page most worth crawling."""
        return self.scheduler.pick(now * DAY)

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Keep what the crawl found, and learn where a round is full."""
        at, before = now * DAY, self.scheduler.last_success(page) / DAY
        signals = np.array([self.scheduler.heard(page)])
        self.scheduler.settle(page, at)
        magnitude = self._world.magnitude_between(page, before, now) if self._how.significance else np.nan
        self.histories.crawled(np.array([page]), at, signals, np.array([changed]), magnitude)
        self._dirty[page] = None
        self._crawls += 1
        if self._crawls % self._per_round == 0:
            self.learn(at)

    def notice(self, page: int, now: float, claimed: Claim = NO_CLAIM) -> None:
        """Count a signal of a page that has been crawled, unless it claims a time before that."""
        if self._how.signals and self.scheduler.last_success(page) < claimed[1] * DAY:
            source = self._source_of(page, now)
            self.scheduler.notice(page, source)
            self.histories.heard(page, source)

    def change_bandwidth(self, rate: float, now: float) -> None:
        """Tell policies that plan ahead."""
        self.scheduler.change_bandwidth(rate / DAY, now * DAY)

    def learn(self, now: float) -> None:
        """One round: updates on pages with new crawls first, then on those whose host's prior moved."""
        for _ in range(self._how.max_updates):
            dirty = [*islice(self._dirty, LIMITS.batch)]
            waiting = dict.fromkeys([*dirty, *islice(self._again, LIMITS.batch - len(dirty))])
            if not waiting:
                return
            for page in waiting:
                self._dirty.pop(page, None)
                self._again.pop(page, None)
            update = EstimateUpdate.of(self.learner, self.histories.of(np.array([*waiting], np.int64)), now)
            update.apply_to(self.sink)
            self._again |= dict.fromkeys(update.again.tolist())

    def beliefs(self) -> Learnt:
        """Beliefs on every page now, per unit of simulated time."""
        held = [self.scheduler.standing(page) for page in range(self._world.population.pages)]
        rows = np.array([(one.alpha * DAY, one.shape, one.kappa[0], one.gamma[0] * DAY) for one in held if one])
        return Learnt(*rows.T.copy())

    def _source_of(self, page: int, at: float) -> int:
        """The sitemap's source by how many pages of the host moved at that moment."""
        host = self._host[page]
        return SOURCES.index(sitemap_source(self._moved[host, at], self._size[host]))

    def _recall(self, past: Past) -> None:
        """Take pages in as they were left, and learn what their histories teach, as the daemon does after a start."""
        self.learner.hear(np.zeros_like(self.learner.taught) + past.others)
        pages, now = np.arange(len(past.last)), float(past.last.max(initial=0.0))
        known = Arrivals(pages, self._world.host_of, self._world.population.mu, past.last, past.signals)
        self.scheduler.add(known)
        for start in range(0, len(pages), LIMITS.batch):
            histories = self.histories.of(pages[start : start + LIMITS.batch])
            update = EstimateUpdate.of(self.learner, histories, now, ONLINE_LEARNER_LIMITS.recalled)
            update.apply_to(self.sink)
            self._again |= dict.fromkeys(update.again.tolist())
        self.learn(now)

    def _add(self, pages: Ints, last: float) -> None:
        if not len(pages):
            return
        importance = self._world.population.mu[pages]
        self.scheduler.add(Arrivals(pages, self._world.host_of[pages], importance, np.full(len(pages), last)))
        if not np.isnan(last):
            self.histories.begin(pages, last)
            self._dirty |= dict.fromkeys(pages.tolist())


def _first_guess(world: World, bandwidth: float) -> Prior:
    """The daemon's: a page changes once a round of all pages, of which there are so many at a time on average."""
    present = float((world.died - world.born).sum()) / world.horizon
    return first_guess(present / bandwidth * DAY)
