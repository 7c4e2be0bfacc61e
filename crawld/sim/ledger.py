"""What a sequence of crawls was worth: freshness, age and harmonic cost, exact and event by event.

A copy is fresh from its crawl until the page's first change after it. Nothing is sampled: every figure is an integral
over time of a step or piecewise linear function whose corners are the crawls and the changes.
"""

from dataclasses import dataclass

import numpy as np

from crawld.sim.population import Floats
from crawld.sim.world import Ints, World


@dataclass(frozen=True, slots=True)
class Ledger:
    """The fresh spells of all copies, and each change with the moment the crawler caught up with it.

    A copy is fresh during [fresh_from, fresh_until). A change is unseen during [changed_at, seen_at); it is the
    `rank`-th one since the crawl before.
    """

    weight: Floats  # of a page: its share of all importance
    spell_page: Ints
    fresh_from: Floats
    fresh_until: Floats
    change_page: Ints
    changed_at: Floats
    seen_at: Floats
    rank: Ints

    def accuracy(self, start: float, end: float) -> float:
        """Time average, over [start, end), of the importance-weighted share of pages whose copy is fresh."""
        return float(self.accuracy_series(np.array([start, end]))[0])

    def accuracy_series(self, edges: Floats) -> Floats:
        """The same for each span between neighbouring edges."""
        weight = self.weight[self.spell_page]
        reached = [weight @ (np.minimum(self.fresh_until, edge) - np.minimum(self.fresh_from, edge)) for edge in edges]
        return np.asarray(np.diff(reached) / np.diff(edges))

    def harmonic(self, start: float, end: float) -> float:
        """Time average of the weighted harmonic penalty H(n), n the number of changes not seen yet."""
        unseen = np.clip(self.seen_at, start, end) - np.clip(self.changed_at, start, end)
        return float(self.weight[self.change_page] @ (unseen / self.rank)) / (end - start)

    def age(self, start: float, end: float) -> float:
        """Time average of the weighted age: time since the first change that the crawler has not seen."""
        first = self.rank == 1
        began = self.changed_at[first]
        old = np.clip(self.seen_at[first], start, end) - began
        young = np.clip(np.maximum(began, start), None, end) - began
        area = np.where(self.seen_at[first] > start, (old**2 - young**2) / 2.0, 0.0)
        return float(self.weight[self.change_page[first]] @ np.where(began < end, area, 0.0)) / (end - start)


def settle_accounts(world: World, times: Floats, pages: Ints, *, fresh_at_start: bool = True) -> Ledger:
    """Account for crawls of `pages` at `times` (in order); copies are taken, or not, at time 0."""
    order = np.argsort(pages, kind="stable")
    by_page = np.split(times[order], np.searchsorted(pages[order], np.arange(1, world.population.pages)))
    spells: list[tuple[Floats, Floats]] = []
    seen: list[Floats] = []
    ranks: list[Ints] = []
    for changes, crawls in zip(world.changes_by_page, by_page, strict=True):
        starts = np.concatenate([[0.0], crawls]) if fresh_at_start else crawls
        next_change = np.searchsorted(changes, starts, side="right")
        limit = np.append(changes, world.horizon)[next_change]
        spells.append((starts, np.minimum(limit, np.append(starts[1:], world.horizon)[: len(starts)])))
        caught = np.searchsorted(crawls, changes, side="left")
        seen.append(np.append(crawls, world.horizon)[caught])
        first = np.searchsorted(changes, np.concatenate([[0.0], crawls]), side="right")
        ranks.append(np.arange(len(changes)) - first[caught] + 1)
    total = float(world.population.mu.sum())
    return Ledger(
        weight=world.population.mu / total if total > 0 else world.population.mu,
        spell_page=np.repeat(np.arange(len(spells)), [len(one[0]) for one in spells]),
        fresh_from=np.concatenate([one[0] for one in spells]),
        fresh_until=np.concatenate([one[1] for one in spells]),
        change_page=np.repeat(np.arange(len(seen)), [len(one) for one in seen]),
        changed_at=world.changes,
        seen_at=np.concatenate(seen),
        rank=np.concatenate(ranks),
    )
