"""The worlds of `benchmarks.freshness`: drawn as in Busa-Fekete et al. 2025, drawn as real sites live, and recorded."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from crawld.research.experiments.ncis import NOISY
from crawld.research.recorded import history_files, last_days, recorded_world, together
from crawld.research.weblike import Sitemap, weblike
from crawld.research.world import Floats, Population, World, draw_world, run_key, zipf

SHARED = Path(__file__).parents[4] / "shared" / "data"
NCIS, WEBLIKE, HONEST, HISTORY, MIX = "Busa-Fekete et al. 2025", "weblike", "honest", "history", "mix"
YEAR = 365.0
DRAWN, EQUAL, ZIPF = "as drawn", "equal", "Zipf"
WEIGHTS = {NCIS: (DRAWN,), WEBLIKE: (EQUAL, ZIPF), HONEST: (EQUAL,), HISTORY: (EQUAL, ZIPF), MIX: (EQUAL, ZIPF)}
"""How pages weigh in each kind of world."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a run of the benchmark is."""

    worlds: int  # of each drawn kind
    ncis_pages: int
    ncis_days: float
    weblike_pages: int
    weblike_days: float
    history_pages: int  # at most, every k-th of more
    mix_pages: int  # of each host at most
    mixes: int
    most_slots: int  # of a history at a budget: of longer ones fewer pages, and their last days, are taken


@dataclass(frozen=True, slots=True)
class Spec:
    """One world by its kind and name: everything needed to make it again in another process."""

    kind: str
    name: str
    number: int
    pages: int
    days: float = 0.0
    most_slots: int = 0
    folder: Path = SHARED  # of the histories

    def make(self, budget: float) -> World:
        """The world at that budget, every page of a history equally important."""
        return _make(self, budget if self.kind == HISTORY else 0.0)

    @property
    def judged_from(self) -> float:
        """From when on freshness counts: in drawn worlds the first third is for learning, in histories none is."""
        return self.days / 3.0 if self.kind in {NCIS, WEBLIKE, HONEST} else 0.0

    def weighted(self, world: World, weights: str) -> World:
        """The same world with pages that weigh so."""
        pages = world.population.pages
        if weights == EQUAL:
            mu: Floats = np.ones(pages)
        else:
            mu = world.population.mu if weights == DRAWN or self.kind == WEBLIKE else zipf(pages)
        return replace(world, population=replace(world.population, mu=mu))


@lru_cache(maxsize=2)
def _make(spec: Spec, budget: float) -> World:
    if spec.kind == NCIS:
        key = run_key(spec.number, 0)
        return draw_world(Population.draw(NOISY.draw, spec.pages, key), spec.days, key)
    if spec.kind == WEBLIKE:
        return weblike(run_key(spec.number, 1), hosts=8, pages=spec.pages, days=spec.days)
    if spec.kind == HONEST:
        key = run_key(spec.number, 1)
        return weblike(key, hosts=8, pages=spec.pages, days=spec.days, sitemap=Sitemap.HONEST)
    if spec.kind == HISTORY:
        return _history(spec, budget)
    hosts = [recorded_world(path, spec.pages, spec.number) for path in history_files(spec.folder)]
    return together([host for host in hosts if host.horizon >= YEAR], YEAR)


def _history(spec: Spec, budget: float) -> World:
    """Where it would take too many slots, part of the pages for part of the time: the square root of what is left."""
    path = spec.folder / f"{spec.name}.npz"
    world = recorded_world(path, spec.pages)
    share = math.sqrt(min(1.0, spec.most_slots / (budget * len(world.changes))))
    if share == 1.0:
        return world
    fewer = recorded_world(path, max(1, round(share * world.population.pages)))
    return last_days(fewer, share * fewer.horizon)


def specs(size: Size, folder: Path | None = SHARED) -> Iterator[Spec]:
    """Every world of that size; recorded ones out of the folder, if there is one."""
    for number in range(size.worlds):
        yield Spec(NCIS, f"{NCIS} {number}", number, size.ncis_pages, size.ncis_days)
        for kind in (WEBLIKE, HONEST):
            yield Spec(kind, f"{kind} {number}", number, size.weblike_pages, size.weblike_days)
    if folder is None:
        return
    files = history_files(folder)
    for path in files:
        yield Spec(HISTORY, path.stem, 0, size.history_pages, most_slots=size.most_slots, folder=folder)
    if any(recorded_world(path, 1).horizon >= YEAR for path in files):
        for number in range(size.mixes):
            yield Spec(MIX, f"{MIX} {number}", number, size.mix_pages, YEAR, folder=folder)
