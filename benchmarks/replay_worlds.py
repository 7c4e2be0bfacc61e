"""Simulated sites for the learner (S-NCIS, build-time and honest sitemaps), and a policy that knows their truth."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay import Floats, Ints, Moments, Site
from crawld.scheduler.greedy import GreedyNcis
from crawld.scheduler.valuation import Beliefs
from crawld.sim.population import Population, run_key
from crawld.sim.world import World, draw_world


def site_of(world: World) -> Site:
    """A simulated world as a site whose pages live as long as it; one unit of time is a day."""
    pages, end = world.population.pages, world.horizon
    order = np.lexsort((world.signal_times, world.signal_pages))
    offsets = np.r_[0, np.cumsum(np.bincount(world.signal_pages, minlength=pages))]
    return Site(
        "simulated",
        np.zeros(pages),
        np.full(pages, end),
        Moments(world.change_offsets, world.changes, 0.0, end),
        Moments(offsets, world.signal_times[order], 0.0, end),
    )


def ncis_page(rng: np.random.Generator) -> tuple[float, float, float, float]:
    """(μ, Δ, λ, ν) as S-NCIS draws them."""
    return rng.uniform(), rng.uniform(), rng.beta(0.25, 0.25), rng.uniform(0.1, 0.6)


def honest_page(rng: np.random.Generator) -> tuple[float, float, float, float]:
    """A page whose sitemap tells nearly every change and hardly anything else."""
    return rng.uniform(), rng.uniform(), 0.9, 0.02


def draw(recipe: str, pages: int, days: float, seed: int) -> tuple[Site, Population]:
    """A site by the name of its kind: `ncis`, `poisson` (the same without signals), `honest` or `build`.

    In the last, every page is stamped at each build, once a day.
    """
    key = run_key(seed, 0)
    population = Population.draw(honest_page if recipe == "honest" else ncis_page, pages, key)
    if recipe in {"ncis", "honest"}:
        return site_of(draw_world(population, days, key)), population
    silent = population.without_signals()
    site = site_of(draw_world(silent, days, key))
    if recipe == "poisson":
        return site, silent
    rng = np.random.default_rng(key)
    builds = np.sort(rng.uniform(0.0, days, rng.poisson(days)))
    stamps = Moments(np.arange(pages + 1) * len(builds), np.tile(builds, pages), 0.0, days)
    return Site("build", site.birth, site.death, site.changes, stamps), silent


class Knowing:
    """Knows every page's true parameters; with `signals`, hears them too."""

    def __init__(self, population: Population, *, signals: bool) -> None:
        truth = population if signals else population.without_signals()
        known = np.full(population.pages, np.inf)
        self._beliefs = Beliefs(truth.mu, truth.alpha, known, truth.kappa, truth.gamma)

    def choose(self, now: float, alive: Ints, last: Floats, signals: Ints, count: int) -> Ints:
        """The pages most worth crawling; all live for ever here."""
        boost: Floats = np.where(signals > 0, self._beliefs.kappa, 0.0) * signals
        value = GreedyNcis().value(now - last, boost, self._beliefs)
        return alive[np.argpartition(-value, count)[:count]]

    def learn(self, now: float, pages: Ints, tau: Floats, signals: Ints, changed: NDArray[np.bool_]) -> None:
        """Nothing is left to learn."""
