"""Simulated time: slots pass, signals arrive, a crawler picks; the crawler here is the daemon's own scheduler."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from crawld.sim.ledger import Ledger, settle_accounts
from crawld.sim.population import Floats
from crawld.sim.world import Ints, World


class Crawler(Protocol):
    """Whoever decides what to ask: crawld's scheduler, or a peer's timers."""

    def pick(self, now: float) -> int | None:
        """The page to crawl in this slot, or None to leave it idle."""

    def settle(self, page: int, now: float, changed: bool) -> None:
        """The page was crawled and had changed, or not, since the crawl before."""

    def notice(self, page: int, now: float) -> None:
        """A signal of the page arrived."""

    def change_bandwidth(self, rate: float, now: float) -> None:
        """From now on slots come at that rate."""


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
    arrived = np.searchsorted(world.signal_times, slots, side="right").tolist()
    signals = list(zip(world.signal_pages.tolist(), world.signal_times.tolist(), strict=True))
    changes_of_rate = [(step.start, step.rate) for step in steps]
    last: list[float] = [0.0] * world.population.pages
    times: list[float] = []
    pages: list[int] = []
    heard = 0
    for now, upto in zip(slots.tolist(), arrived, strict=True):
        while changes_of_rate and changes_of_rate[0][0] <= now:
            at, rate = changes_of_rate.pop(0)
            crawler.change_bandwidth(rate, at)
        for page, at in signals[heard:upto]:
            crawler.notice(page, at)
        heard = upto
        picked = crawler.pick(now)
        if picked is None:
            continue
        crawler.settle(picked, now, world.changed_between(picked, last[picked], now))
        last[picked] = now
        times.append(now)
        pages.append(picked)
    return Run(world, np.array(times), np.array(pages, dtype=np.int64), len(slots), started_fresh)
