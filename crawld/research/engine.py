"""Simulated time: slots pass, signals arrive, a crawler picks; the crawler here is the daemon's own scheduler."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from crawld.research.ledger import Ledger, settle_accounts
from crawld.research.population import Floats
from crawld.research.world import NO_CLAIM, Claim, Ints, World


class Crawler(Protocol):
    """Whoever decides what to ask: crawld's scheduler, or a peer's timers."""

    def pick(self, now: float) -> int | None:
        """The page to crawl in this slot, or None to leave it idle."""

    def settle(self, page: int, now: float, changed: bool) -> None:
        """The page was crawled and had changed, or not, since the crawl before."""

    def notice(self, page: int, now: float, claimed: Claim = NO_CLAIM) -> None:
        """A signal of the page arrived, which claims a change in a span of time."""

    def change_bandwidth(self, rate: float, now: float) -> None:
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
    """So many slots per unit of time from `start` on."""

    start: float
    rate: float


@dataclass(frozen=True, slots=True)
class Run:
    """What a crawler did in a world."""

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

    def ledger(self) -> Ledger:
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
    world: World, crawler: Crawler, bandwidth: float | Sequence[Bandwidth], *, started_fresh: bool = True
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
    """What a crawler is told besides what it asks: rates, births, signals and deaths, each in the order of time."""

    def __init__(self, world: World, crawler: Crawler, steps: Sequence[Bandwidth]) -> None:
        self._crawler = crawler
        self._steps = [(step.start, step.rate) for step in reversed(steps)]
        self._times, self._told = world.signal_times.tolist(), world.signal_pages.tolist()
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
        """When the next event comes."""
        signal = self._times[self._heard] if self._heard < len(self._times) else np.inf
        return min(
            signal, *(waiting[-1][0] for waiting in (self._steps, self._births, self._deaths) if waiting), np.inf
        )

    def tell(self, now: float) -> None:
        """Tell everything that has happened by now."""
        while self._steps and self._steps[-1][0] <= now:
            at, rate = self._steps.pop()
            self._crawler.change_bandwidth(rate, at)
        while self._births and self._births[-1][0] <= now:
            at, pages = self._births.pop()
            self._list.appear(pages, at)
        upto = bisect_right(self._times, now, self._heard)
        for signal in range(self._heard, upto):
            self._crawler.notice(self._told[signal], self._times[signal], self._claims[signal])
        self._heard = upto
        while self._deaths and self._deaths[-1][0] <= now:
            self._list.vanish(self._deaths.pop()[1])


def _groups(times: Floats, chosen: NDArray[np.bool_]) -> list[tuple[float, Ints]]:
    """The chosen pages by their time, the latest first."""
    pages = np.flatnonzero(chosen)
    return [(at, pages[times[pages] == at]) for at in np.unique(times[pages])[::-1].tolist()]
