"""Simulated time: slots pass, signals arrive, a crawler picks; the crawler here is the daemon's own scheduler."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from crawld.research.world import NO_CLAIM, Claim, Floats, Ints, World


@dataclass(frozen=True, slots=True)
class FreshSpells:
    """The fresh spells of all copies, and each change with the moment the crawler caught up with it.

    A copy is fresh during [fresh_from, fresh_until). A change is unseen during [changed_at, seen_at); it is the
    `rank`-th one since the crawl before. Pages count while they live.
    """

    weight: Floats  # of a page: its share of all importance
    born: Floats
    died: Floats
    spell_page: Ints
    fresh_from: Floats
    fresh_until: Floats
    change_page: Ints
    changed_at: Floats
    seen_at: Floats
    rank: Ints
    caught: NDArray[np.bool_]  # by change: whether a crawl saw it
    outdated: Floats  # by change: the share of the text that it made outdated, of what was not yet; 1 where unknown

    def accuracy(self, start: float, end: float) -> float:
        """Time average, over [start, end), of the importance-weighted share of pages whose copy is fresh."""
        return float(self.accuracy_series(np.array([start, end]))[0])

    def accuracy_series(self, edges: Floats) -> Floats:
        """Accuracy of each span between neighbouring edges."""
        weight = self.weight[self.spell_page]
        reached = [weight @ (np.minimum(self.fresh_until, edge) - np.minimum(self.fresh_from, edge)) for edge in edges]
        lived = [self.weight @ (np.minimum(self.died, edge) - np.minimum(self.born, edge)) for edge in edges]
        return np.asarray(np.diff(reached) / np.diff(lived))

    def words(self, start: float, end: float) -> float:
        """Time average, over [start, end), of the weighted share of text that is current, where each page is copied."""
        unseen = np.clip(self.seen_at, start, end) - np.clip(self.changed_at, start, end)
        return 1.0 - float(self.weight[self.change_page] @ (unseen * self.outdated)) / self._lived(start, end)

    def harmonic(self, start: float, end: float) -> float:
        """Time average of the weighted harmonic penalty H(n), n the number of changes not seen yet."""
        unseen = np.clip(self.seen_at, start, end) - np.clip(self.changed_at, start, end)
        return float(self.weight[self.change_page] @ (unseen / self.rank)) / self._lived(start, end)

    def age(self, start: float, end: float) -> float:
        """Time average of the weighted age: time since the first change that the crawler has not seen."""
        first = self.rank == 1
        began = self.changed_at[first]
        old = np.clip(self.seen_at[first], start, end) - began
        young = np.clip(np.maximum(began, start), None, end) - began
        area = np.where(self.seen_at[first] > start, (old**2 - young**2) / 2.0, 0.0)
        return float(self.weight[self.change_page[first]] @ np.where(began < end, area, 0.0)) / self._lived(start, end)

    def costs(self, start: float, end: float) -> dict[str, float]:
        """Accuracy, harmonic penalty and age over [start, end), by name."""
        span = start, end
        return {"accuracy": self.accuracy(*span), "harmonic": self.harmonic(*span), "age": self.age(*span)}

    def delay(self, start: float, end: float) -> float:
        """Weighted mean time from a change to the crawl that saw it, of changes in [start, end); nan if none was seen.

        Changes that were never seen are left out; `missed` says how many they are.
        """
        within = self.caught & (self.changed_at >= start) & (self.changed_at < end)
        weight = self.weight[self.change_page[within]]
        total = float(weight.sum())
        return float(weight @ (self.seen_at - self.changed_at)[within]) / total if total > 0 else float("nan")

    def missed(self, start: float, end: float) -> float:
        """The weighted share of the changes in [start, end) that no crawl saw before the page or the world ended."""
        within = (self.changed_at >= start) & (self.changed_at < end)
        weight = self.weight[self.change_page[within]]
        total = float(weight.sum())
        return float(weight @ ~self.caught[within]) / total if total > 0 else 0.0

    def _lived(self, start: float, end: float) -> float:
        return float(self.weight @ (np.clip(self.died, start, end) - np.clip(self.born, start, end)))


def settle_accounts(world: World, times: Floats, pages: Ints, *, fresh_at_start: bool = True) -> FreshSpells:
    """Account for crawls of `pages` at `times` (in order); pages there at time 0 are copied then, or not.

    Of a page that is born later the first copy is taken at its birth.
    """
    order = np.argsort(pages, kind="stable")
    by_page = np.split(times[order], np.searchsorted(pages[order], np.arange(1, world.population.pages)))
    spells: list[tuple[Floats, Floats]] = []
    seen: list[Floats] = []
    ranks: list[Ints] = []
    caught: list[NDArray[np.bool_]] = []
    lives = zip(world.born.tolist(), world.died.tolist(), strict=True)
    for changes, crawls, (born, died) in zip(world.changes_by_page, by_page, lives, strict=True):
        starts = np.concatenate([[born], crawls]) if fresh_at_start or born > 0 else crawls
        next_change = np.searchsorted(changes, starts, side="right")
        limit = np.minimum(np.append(changes, died)[next_change], died)
        spells.append((starts, np.minimum(limit, np.append(starts[1:], died)[: len(starts)])))
        by_crawl = np.searchsorted(crawls, changes, side="left")
        caught.append(by_crawl < len(crawls))
        seen.append(np.maximum(np.append(crawls, died)[by_crawl], changes))
        first = np.searchsorted(changes, np.concatenate([[born], crawls]), side="right")
        ranks.append(np.maximum(np.arange(len(changes)) - first[by_crawl] + 1, 1))
    total, rank = float(world.population.mu.sum()), np.concatenate(ranks)
    return FreshSpells(
        weight=world.population.mu / total if total > 0 else world.population.mu,
        born=world.born,
        died=world.died,
        spell_page=np.repeat(np.arange(len(spells)), [len(one[0]) for one in spells]),
        fresh_from=np.concatenate([one[0] for one in spells]),
        fresh_until=np.concatenate([one[1] for one in spells]),
        change_page=np.repeat(np.arange(len(seen)), [len(one) for one in seen]),
        changed_at=world.changes,
        seen_at=np.concatenate(seen),
        rank=rank,
        caught=np.concatenate(caught),
        outdated=_outdated(rank, world.magnitudes),
    )


def _outdated(rank: Ints, magnitudes: Floats | None) -> Floats:
    """Share of the still current text that each change changed: m·∏(1 − m) over those unseen before it."""
    first = rank == 1
    if magnitudes is None:
        return np.asarray(first, float)
    left = np.ones(len(rank))
    for at in np.flatnonzero(~first).tolist():
        left[at] = left[at - 1] * (1.0 - magnitudes[at - 1])
    return np.asarray(magnitudes * left)


class SimulatedCrawler(ABC):
    """Decides what to ask: crawld's scheduler, or a peer's timers."""

    @abstractmethod
    def pick(self, now: float) -> int | None:
        """The page to crawl in this slot, or None to leave it idle."""

    @abstractmethod
    def settle(self, page: int, now: float, changed: bool) -> None:
        """The page was crawled and had changed, or not, since the crawl before."""

    def notice(self, page: int, now: float, claimed: Claim = NO_CLAIM) -> None:  # noqa: B027 - not all look at signals
        """A signal of the page arrived, which claims a change in a span of time."""

    def change_bandwidth(self, rate: float, now: float) -> None:  # noqa: B027 - timers do not look at the budget
        """From now on slots come at that rate."""


@runtime_checkable
class ChangingList(Protocol):
    """A crawler whose pages come and go."""

    def appear(self, pages: Ints, at: float) -> None:
        """Pages are born, and their first copies taken."""

    def vanish(self, pages: Ints) -> None:
        """Pages are gone, and never asked again."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Slots per unit of time from `start` on."""

    start: float
    rate: float


@dataclass(frozen=True, slots=True)
class Run:
    """The crawls of a crawler in a world."""

    world: World
    times: Floats
    pages: Ints
    slots: int
    started_fresh: bool

    @property
    def used(self) -> float:
        """The share of slots that were not left idle."""
        return len(self.times) / self.slots

    def starved(self, start: float) -> float:
        """The share of pages that were not crawled once from `start` on."""
        return 1.0 - len(np.unique(self.pages[self.times >= start])) / self.world.population.pages

    def ledger(self) -> FreshSpells:
        """Exact accounts of the run."""
        return settle_accounts(self.world, self.times, self.pages, fresh_at_start=self.started_fresh)


def slot_times(bandwidth: Sequence[Bandwidth], horizon: float) -> Floats:
    """Every slot before the horizon; after a change of rate the first comes a whole new spacing later."""
    ends = [step.start for step in bandwidth[1:]] + [horizon]
    steps = []
    for step, end in zip(bandwidth, ends, strict=True):
        count = int(np.floor((end - step.start) * step.rate * (1 + 1e-12)))
        steps.append(step.start + np.arange(1, count + 1) / step.rate)
    return np.concatenate(steps)


def simulate(
    world: World, crawler: SimulatedCrawler, bandwidth: float | Sequence[Bandwidth], *, started_fresh: bool = True
) -> Run:
    """Let the crawler run through the world, one pick a slot. A crawl takes no time and always succeeds."""
    steps = [Bandwidth(0.0, bandwidth)] if isinstance(bandwidth, float | int) else list(bandwidth)
    slots = slot_times(steps, world.horizon)
    events = Events(world, crawler, steps)
    last: list[float] = world.born.tolist()
    times: list[float] = []
    pages: list[int] = []
    due = -np.inf
    for now in slots.tolist():
        if now >= due:
            events.tell(now)
            due = events.next
        picked = crawler.pick(now)
        if picked is None:
            continue
        crawler.settle(picked, now, world.changed_between(picked, last[picked], now))
        last[picked] = now
        times.append(now)
        pages.append(picked)
    return Run(world, np.array(times), np.array(pages, dtype=np.int64), len(slots), started_fresh)


class Events:
    """Events that a crawler learns of besides answers: rates, births, signals and deaths, each in order of time."""

    def __init__(self, world: World, crawler: SimulatedCrawler, steps: Sequence[Bandwidth]) -> None:
        self._crawler = crawler
        self._steps = [(step.start, step.rate) for step in reversed(steps)]
        self._times, self._told = [*world.signal_times.tolist(), np.inf], world.signal_pages.tolist()
        self._claims = world.claims
        self._heard = 0
        self._births = _groups(world.born, world.born > 0)
        self._deaths = _groups(world.died, world.died < world.horizon)
        if isinstance(crawler, ChangingList):
            self._list = crawler
        elif self._births or self._deaths:
            raise TypeError(f"{type(crawler).__name__} knows no pages that come and go")

    @property
    def next(self) -> float:
        """Time of the next event."""
        at: float = self._times[self._heard]
        for waiting in (self._steps, self._births, self._deaths):
            if waiting:
                at = min(at, waiting[-1][0])
        return at

    def tell(self, now: float) -> None:
        """Tell everything that has happened by now."""
        while self._steps and self._steps[-1][0] <= now:
            at, rate = self._steps.pop()
            self._crawler.change_bandwidth(rate, at)
        while self._births and self._births[-1][0] <= now:
            at, pages = self._births.pop()
            self._list.appear(pages, at)
        heard, self._heard = self._heard, bisect_right(self._times, now, self._heard)
        notice = self._crawler.notice
        for signal in range(heard, self._heard):
            notice(self._told[signal], self._times[signal], self._claims[signal])
        while self._deaths and self._deaths[-1][0] <= now:
            self._list.vanish(self._deaths.pop()[1])


def _groups(times: Floats, chosen: NDArray[np.bool_]) -> list[tuple[float, Ints]]:
    """The chosen pages by their time, the latest first."""
    pages = np.flatnonzero(chosen)
    return [(at, pages[times[pages] == at]) for at in np.unique(times[pages])[::-1].tolist()]
