"""Scenarios of the lab: a world of the simulator in real seconds, spread over host names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crawld.model.errors import InputError
from crawld.model.units import format_duration
from crawld.research.experiments.ncis import NOISY
from crawld.research.recorded import of_pages, recorded_world, together
from crawld.research.weblike import Announced, Sitemap, draw_styles, draw_weblike
from crawld.research.world import Floats, Population, World, draw_world, run_key


@dataclass(frozen=True)
class ScenarioLimits:
    """Numbers that bound and tune this module."""

    instant: float = 1e-6
    """Days by which rounding may move the beginning and the end of recorded time."""
    drawn_days: float = 180.0
    """Days of a weblike world that are drawn to see how often its pages change."""
    build_seconds: float = 5.0
    typical: int = 3
    """A seed of ten whose lead over round robin is near their mean (docs/decisions/learning.md)."""


LIMITS = ScenarioLimits()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world whose unit of time is the second; by host its name, and whether it has a sitemap."""

    world: World
    hosts: tuple[str, ...]
    has_sitemap: tuple[bool, ...]

    @property
    def pages(self) -> int:
        """Number of pages."""
        return self.world.population.pages


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a world: pages, hosts, how long it lives, and how often something in it changes."""

    pages: int = 200
    hosts: int = 4
    seconds: float = 180.0
    changes_per_second: float = 5.0
    seed: int = 1


def noisy_scenario(size: Size) -> Scenario:
    """Busa-Fekete et al.'s noisy signals: uniform importance and change rates, sitemaps tell the signals."""
    key = run_key(size.seed, 0)
    population = Population.draw(NOISY.draw, size.pages, key)
    unit = float(population.delta.sum()) / size.changes_per_second
    world = in_seconds(draw_world(population, size.seconds / unit, key), unit)
    hosts = np.arange(size.pages) % size.hosts
    names = tuple(f"site-{number}" for number in range(1, size.hosts + 1))
    return Scenario(replace(world, hosts=hosts), names, (True,) * size.hosts)


def weblike_scenario(size: Size, sitemap: Sitemap | None = None) -> Scenario:
    """A world that lives as real sites do; hosts have sitemaps of every kind in turn unless one is given."""
    key = run_key(size.seed, 0)
    styles = draw_styles(size.hosts, size.pages, key, sitemap)
    drawn = draw_weblike(styles, LIMITS.drawn_days, key)
    unit = len(drawn.changes) / LIMITS.drawn_days / size.changes_per_second
    if size.seconds / unit > LIMITS.drawn_days:
        drawn = draw_weblike(styles, size.seconds / unit, key)
    names = tuple(f"{style.sitemap.value}-{number}" for number, style in enumerate(styles, 1))
    return Scenario(in_seconds(drawn, unit), names, tuple(style.sitemap is not Sitemap.NONE for style in styles))


def recorded_scenario(files: Sequence[Path], size: Size) -> Scenario:
    """Recorded histories, each a host: their last days, of the pages that lived through them, at most `size.pages`."""
    each = max(1, size.pages // len(files))
    worlds = [recorded_world(file, each) for file in files]
    daily = sum(len(world.changes) / world.horizon for world in worlds)
    if not daily:
        raise InputError("no page of these histories ever changed: there is nothing to crawl")
    unit = daily / size.changes_per_second
    days, longest = size.seconds / unit, min(world.horizon for world in worlds)
    if days > longest:
        raise InputError(
            f"these histories last {format_duration(longest * unit)} at {size.changes_per_second:g} changes a second: "
            "ask for fewer --changes or --seconds"
        )
    world = _lasting(together(worlds, days))
    signals = np.bincount(world.host_of[world.signal_pages], minlength=len(files))
    names = tuple(f"{file.stem.replace('_', '-').lower()}-{number}" for number, file in enumerate(files, 1))
    return Scenario(in_seconds(world, unit), names, tuple(bool(count) for count in signals))


def _lasting(world: World) -> World:
    """The world without pages that are born or die in it: a crawler with a fixed list cannot know of them."""
    kept = np.flatnonzero((world.born <= LIMITS.instant) & (world.died >= world.horizon - LIMITS.instant))
    if not len(kept):
        raise InputError("no page of these histories lived through the time that is replayed")
    return of_pages(replace(world, births=None, deaths=None), kept)


def in_seconds(world: World, unit: float) -> World:
    """Stretches a world so that a unit of its time takes so many seconds."""
    p = world.population
    return replace(
        world,
        population=Population(p.mu, p.delta / unit, p.lam, p.nu / unit),
        horizon=world.horizon * unit,
        changes=world.changes * unit,
        signal_times=world.signal_times * unit,
        signal_claims=_times(world.signal_claims, unit),
        signal_spans=_times(world.signal_spans, unit),
        births=_times(world.births, unit),
        deaths=_times(world.deaths, unit),
    )


def _times(column: Floats | None, unit: float) -> Floats | None:
    return None if column is None else column * unit


def living_scenario(pages: int, seconds: float, seed: int = LIMITS.typical) -> Scenario:
    """The demo's scenario: so many pages that live for that time and somewhat longer.

    Of its three hosts one has two thirds of the pages and an honest sitemap, one stamps every page, and one stands
    still.
    """
    hosts = ("honest", "stamped", "frozen")
    intervals = ((1.5, 5.0), (8.0, 40.0), (150.0, 3000.0))  # mean seconds between changes, of a third of the pages each
    rng = np.random.default_rng(seed)
    horizon = 2.0 * seconds + 60.0
    changes, importance = [], []
    for page in range(pages):
        low, high = intervals[page // len(hosts) % len(intervals)]
        interval = np.exp(rng.uniform(np.log(low), np.log(high)))
        at = np.cumsum(rng.exponential(interval, size=int(2.0 * horizon / interval) + 20))
        changes.append(at[at < horizon])
        importance.append(round(float(10.0 / (1.0 + rng.integers(0, 20))), 2))
    host = np.resize([0, 0, 1, 0, 0, 2], pages)
    told = Announced.merged([*(_honest(page, changes[page]) for page in np.flatnonzero(host == 0).tolist()),
                             _stamped(np.flatnonzero(host == 1), horizon)])  # fmt: skip
    rates, nothing = np.array([len(one) for one in changes]) / horizon, np.zeros(pages)
    world = World(
        population=Population(np.array(importance), rates, nothing, nothing),
        horizon=horizon,
        changes=np.concatenate(changes),
        change_offsets=np.cumsum([0] + [len(one) for one in changes]),
        signal_times=told.seen,
        signal_pages=told.pages,
        signal_claims=told.claims,
        signal_spans=told.spans,
        hosts=host,
        listed=np.ones(pages, bool),
    )
    return Scenario(world, hosts, (True,) * len(hosts))


def _honest(page: int, changes: np.ndarray) -> Announced:
    return Announced(changes, np.full(len(changes), page), changes, np.zeros(len(changes)))


def _stamped(pages: np.ndarray, horizon: float) -> Announced:
    builds = np.repeat(np.arange(LIMITS.build_seconds, horizon, LIMITS.build_seconds), len(pages))
    return Announced(builds, np.tile(pages, len(builds) // max(len(pages), 1)), builds, np.zeros(len(builds)))
