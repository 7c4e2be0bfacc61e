"""What a sequence of crawls was worth: freshness, age and harmonic cost, exact and event by event.

A copy is fresh from its crawl until the page's first change after it. Nothing is sampled: every figure is an integral
over time of a step or piecewise linear function whose corners are the crawls and the changes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.sim.population import Floats
from crawld.sim.world import Ints, World


@dataclass(frozen=True, slots=True)
class Ledger:
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
        """The same for each span between neighbouring edges."""
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


def settle_accounts(world: World, times: Floats, pages: Ints, *, fresh_at_start: bool = True) -> Ledger:
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
    return Ledger(
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
    """By change, how much of the text that was still current it changed: m·∏(1 − m) over those unseen before it."""
    first = rank == 1
    if magnitudes is None:
        return np.asarray(first, float)
    left = np.ones(len(rank))
    for at in np.flatnonzero(~first).tolist():
        left[at] = left[at - 1] * (1.0 - magnitudes[at - 1])
    return np.asarray(magnitudes * left)
