"""What the lab serves: a world of the simulator in real seconds, spread over host names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crawld.model.errors import InputError
from crawld.model.units import format_duration
from crawld.research.experiments.ncis import NOISY
from crawld.research.population import Floats, Population, run_key
from crawld.research.recorded import of_pages, recorded_world, together
from crawld.research.sitemaps import Sitemap
from crawld.research.weblike import draw_styles, draw_weblike
from crawld.research.world import World, draw_world

INSTANT = 1e-6
"""Days by which rounding may move the beginning and the end of recorded time."""
DRAWN_DAYS = 180.0
"""Days of a weblike world that are drawn to see how often its pages change."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world whose unit of time is the second; by host its name, and whether it has a sitemap."""

    world: World
    hosts: tuple[str, ...]
    has_sitemap: tuple[bool, ...]

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return self.world.population.pages


@dataclass(frozen=True, slots=True)
class Size:
    """How large a world is wanted: pages, hosts, how long it lives, and how often something in it changes."""

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
    drawn = draw_weblike(styles, DRAWN_DAYS, key)
    unit = len(drawn.changes) / DRAWN_DAYS / size.changes_per_second
    if size.seconds / unit > DRAWN_DAYS:
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
    kept = np.flatnonzero((world.born <= INSTANT) & (world.died >= world.horizon - INSTANT))
    if not len(kept):
        raise InputError("no page of these histories lived through the time that is replayed")
    return of_pages(replace(world, births=None, deaths=None), kept)


def in_seconds(world: World, unit: float) -> World:
    """The same world where a unit of its time takes so many seconds."""
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
