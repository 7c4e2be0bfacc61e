"""Simulated sites for the learner (the papers', build-time and honest sitemaps), and one policy that knows them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.choose.greedy import GreedyNcis
from crawld.choose.valuation import Beliefs
from crawld.research.world import Population, World, draw_world, run_key
from tests.support.replay.site import Floats, Ints, Moments, Policy, RoundRobin, Site


@dataclass(frozen=True)
class Simulated(Site):
    """A site whose truth is known, so that copies need not be judged by luck.

    Given the signals since its crawl a copy is current with the chance e^−(ατ + κn), α and κ being the true ones. Time
    counts by that chance: on average the same as counting whether it happened to be current, with less noise.
    """

    population: Population

    def fresh_time(self, pages: Ints, last: Floats, until: Floats, start: float) -> Floats:
        """For how long after `start` copies made at `last` are expected to be current, up to `until`."""
        alpha = self.population.alpha[pages]
        kappa = np.where(self.population.gamma[pages] > 0, self.population.kappa[pages], 0.0)
        first, heard = self.signals.until(pages, last), self.signals.count(pages, last, until)
        since, total = last, np.zeros(len(pages))
        for signal in range(int(heard.max(initial=0)) + 1):  # from each signal to the next, the last until the end
            more = np.flatnonzero(signal < heard)
            upto = until.copy()
            upto[more] = self.signals.times[first[more] + signal]
            low = np.maximum(since, start)
            span = np.where(signal <= heard, np.maximum(upto - low, 0.0), 0.0)
            decay = np.maximum(alpha * span, 1e-12)
            total += np.exp(-alpha * (low - last) - kappa * signal) * span * -np.expm1(-decay) / decay
            since = upto
        return total


def site_of(world: World) -> Simulated:
    """A simulated world as a site whose pages live as long as it; one unit of time is a day."""
    pages, end = world.population.pages, world.horizon
    order = np.lexsort((world.signal_times, world.signal_pages))
    offsets = np.r_[0, np.cumsum(np.bincount(world.signal_pages, minlength=pages))]
    return Simulated(
        "simulated",
        np.zeros(pages),
        np.full(pages, end),
        Moments(world.change_offsets, world.changes, 0.0, end),
        Moments(offsets, world.signal_times[order], 0.0, end),
        world.population,
    )


def ncis_page(rng: np.random.Generator) -> tuple[float, float, float, float]:
    """(μ, Δ, λ, ν) as Busa-Fekete et al. 2025 draws them."""
    return rng.uniform(), rng.uniform(), rng.beta(0.25, 0.25), rng.uniform(0.1, 0.6)


def honest_page(rng: np.random.Generator) -> tuple[float, float, float, float]:
    """A page whose sitemap tells nearly every change and hardly anything else."""
    return rng.uniform(), rng.uniform(), 0.9, 0.02


def draw(recipe: str, pages: int, days: float, seed: int) -> tuple[Simulated, Population]:
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
    return Simulated("build", site.birth, site.death, site.changes, stamps, silent), silent


class Schooled:
    """Has every page crawled in turn until some day, and from then on picks by what a learner made of it."""

    def __init__(self, learner: Policy, until: float) -> None:
        self._learner, self._until = learner, until
        self.learn = learner.learn

    def choose(self, now: float, alive: Ints, last: Floats, signals: Ints, count: int) -> Ints:
        """The oldest copies at first; the learner is asked all the same, for it makes itself ready by choosing."""
        best = self._learner.choose(now, alive, last, signals, count)
        return RoundRobin().choose(now, alive, last, signals, count) if now < self._until else best


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
