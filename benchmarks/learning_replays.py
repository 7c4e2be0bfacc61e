"""Recorded histories, one host at a time and several on one budget: what learning and signals gain over round robin."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.learning_figure import Figure, mean_and_error, progress
from crawld.research.world import zipf
from tests.support.replay.learner import Learnt
from tests.support.replay.mix import mix
from tests.support.replay.site import SHARED, Clairvoyant, Floats, RoundRobin, Site, replay, sites


@dataclass(frozen=True)
class LearningReplaysLimits:
    """Numbers of this benchmark."""

    max_pages: int = 500  # of a replayed site, every k-th of more
    draws: int = 3


LIMITS = LearningReplaysLimits()
BUDGETS = (0.1, 0.3, 1.0, 3.0)
QUICK_BUDGETS = (0.3, 1.0)
WEIGHTS: dict[str, Callable[[int], Floats]] = {"equal": np.ones, "zipf": zipf}
MIX_TARGETS = {
    "equal": {0.1: 0.18, 0.3: 0.25, 1.0: 0.50, 3.0: 0.65},
    "zipf": {0.1: 0.68, 0.3: 0.72, 1.0: 0.80, 3.0: 0.86},
}


def thinned(site: Site, most: int) -> Site:
    """Every k-th page of a large site."""
    step = -(-site.pages // most)
    return site.only(np.arange(0, site.pages, step)) if step > 1 else site


@dataclass
class Cells:
    """Differences of freshness by data set and budget."""

    by_set: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, difference: float) -> None:
        """One more budget of a set."""
        self.by_set.setdefault(name, []).append(difference)

    @property
    def every(self) -> list[float]:
        """All cells."""
        return [cell for cells in self.by_set.values() for cell in cells]

    @property
    def means(self) -> dict[str, float]:
        """Mean of each set over its budgets."""
        return {name: float(np.mean(cells)) for name, cells in self.by_set.items()}

    def told(self) -> str:
        """Every cell, set by set."""
        return "; ".join(f"{name} {' '.join(f'{cell:+.4f}' for cell in cells)}" for name, cells in self.by_set.items())


def single_hosts(weights: str, folder: Path, *, quick: bool) -> tuple[Cells, Cells]:
    """Every set at every budget: learnt without signals over round robin, and what signals add to that."""
    gains, added = Cells(), Cells()
    for whole in sites(folder):
        site = thinned(whole, 100 if quick else LIMITS.max_pages)
        importance = WEIGHTS[weights](site.pages)
        for budget in QUICK_BUDGETS if quick else BUDGETS:
            slots = site.slots(budget)
            learnt = replay(site, Learnt(site, importance), slots, importance)
            gains.add(site.name, learnt - replay(site, RoundRobin(), slots, importance))
            if len(site.signals.times):
                added.add(site.name, replay(site, Learnt(site, importance, signals=True), slots, importance) - learnt)
        more = f", with its sitemap {added.means[site.name]:+.4f} more" if site.name in added.by_set else ""
        progress(f"{weights} weights: {site.name} {gains.means[site.name]:+.4f}{more}")
    return gains, added


def replay_figures(*, quick: bool, folder: Path = SHARED) -> Iterator[Figure]:
    """Single hosts against uniform round robin, and their sitemaps against ignoring them."""
    if not folder.is_dir():
        progress(f"no reference data in {folder}: replays left out")
        return
    for weights in WEIGHTS:
        gains, added = single_hosts(weights, folder, quick=quick)
        mean, error = mean_and_error([*gains.means.values()])
        least, target = min(gains.means, key=gains.means.__getitem__), {"equal": 0.004, "zipf": 0.135}[weights]
        name = f"single hosts, {weights} weights, against round robin"
        yield Figure(f"{name}: mean", f"≥ {target:+.3f}", mean, mean >= target, f"s.e. {error:.4f}; {gains.told()}")
        if weights == "equal":
            worst = gains.means[least]
            yield Figure(f"{name}: worst set", "≥ −0.002", worst, worst >= -0.002, least)
        mean, error = mean_and_error([*added.means.values()])
        least = min(added.means, key=added.means.__getitem__)
        worst, cell = added.means[least], min(added.every)
        name = f"signals against ignoring them, {weights} weights"
        yield Figure(f"{name}: mean", "≥ 0", mean, mean >= 0, f"s.e. {error:.4f}; {added.told()}")
        yield Figure(f"{name}: worst set", "≥ −0.002", worst, worst >= -0.002, least)
        yield Figure(f"{name}: worst cell", "≥ −0.01", cell, cell >= -0.01)


def mix_figures(*, quick: bool, folder: Path = SHARED) -> Iterator[Figure]:
    """Several hosts on one budget: the share of the way from round robin to the clairvoyant."""
    if not folder.is_dir():
        progress(f"no reference data in {folder}: mixes left out")
        return
    whole = [*sites(folder)]
    for weights, targets in MIX_TARGETS.items():
        for budget, target in targets.items():
            shares, gains = [], []
            for draw in range(1 if quick else LIMITS.draws):
                site = mix(whole, draw, 20 if quick else 60)
                importance, slots = WEIGHTS[weights](site.pages), site.slots(budget)
                base = replay(site, RoundRobin(), slots, importance)
                gains.append(replay(site, Learnt(site, importance), slots, importance) - base)
                shares.append(gains[-1] / (replay(site, Clairvoyant(site, importance), slots, importance) - base))
            progress(f"mixes, {weights} weights, budget {budget}: {np.mean(shares):.3f} of the way")
            share, detail = float(np.mean(shares)), f"by draw {' '.join(f'{one:.3f}' for one in shares)}"
            detail += f"; freshness gained {np.mean(gains):+.4f}"
            name = f"mixes of hosts, {weights}, b = {budget:g}: share of the way"
            yield Figure(name, f"≥ {target:.2f}", share, share >= target, detail)
