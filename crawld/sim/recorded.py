"""Recorded histories of real pages as worlds: what changed when, and what sitemaps said of it.

A file holds numpy arrays in Unix seconds: birth and death (0: alive) by page, change_off and change_t, and where there
was a sitemap signal_off, signal_t, signal_lastmod, and by page lastmod0, the first one (-1: no usable value). A world
counts days from the first birth.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crawld.sim.population import Floats, Population
from crawld.sim.world import Ints, World

DAY = 86400.0


def recorded_world(path: Path, most_pages: int | None = None, offset: int = 0) -> World:
    """The history in a file, all pages equally important; of more than `most_pages` every k-th from `offset` on."""
    with np.load(path, allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files if name != "page_path"}
    first = float(arrays["birth"].min())
    end = (float(max(arrays["commit_t"].max(), arrays["change_t"].max())) - first) / DAY
    step = -(-len(arrays["birth"]) // (most_pages or len(arrays["birth"])))
    chosen = np.arange(offset % step, len(arrays["birth"]), step)
    births = ((arrays["birth"] - first) / DAY)[chosen]
    deaths = np.where(arrays["death"] > 0, (arrays["death"] - first) / DAY, end)[chosen]
    offsets, rows = _rows(arrays["change_off"], chosen)
    changes = (arrays["change_t"][rows] - first) / DAY
    seen, pages, claims, listed = np.empty(0), np.empty(0, np.int64), np.empty(0), None
    if "signal_off" in arrays:
        signal_offsets, rows = _rows(arrays["signal_off"], chosen)
        seen = (arrays["signal_t"][rows] - first) / DAY
        pages = np.repeat(np.arange(len(chosen)), np.diff(signal_offsets))
        listed = (arrays["lastmod0"] >= 0)[chosen]
        stated = arrays["signal_lastmod"][rows].astype(float)
        claims = np.where(stated >= 0, (stated - first) / DAY, np.nan)
    order = np.lexsort((pages, seen))
    # A lastmod that names no hour claims its whole day.
    whole_day = np.isclose(((claims + first / DAY) % 1.0), 0.0, atol=1e-9)
    nothing = np.zeros(len(chosen))
    lived = np.maximum(deaths - births, 1.0 / 24.0)
    return World(
        population=Population(np.ones(len(chosen)), np.diff(offsets) / lived, nothing, nothing),
        horizon=end,
        changes=changes,
        change_offsets=offsets,
        signal_times=seen[order],
        signal_pages=pages[order],
        signal_claims=claims[order],
        signal_spans=np.where(whole_day, 1.0, 0.0)[order],
        births=births,
        deaths=np.maximum(deaths, births),
        listed=listed,
    )


def _rows(offsets: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """New offsets, and the rows of the chosen pages one after another."""
    starts = offsets[:-1][chosen].astype(np.int64)
    counts = np.diff(offsets)[chosen].astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])
    return ends, np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])


def together(worlds: Sequence[World], days: float) -> World:
    """Several hosts in one world: the last `days` days of each, which end at the same moment."""
    parts = [last_days(world, days) for world in worlds]
    firsts = np.cumsum([0] + [part.population.pages for part in parts])
    first_hosts = np.cumsum([0] + [int(part.host_of.max()) + 1 for part in parts])
    times = np.concatenate([part.signal_times for part in parts])
    pages = np.concatenate([part.signal_pages + first for part, first in zip(parts, firsts, strict=False)])
    order = np.lexsort((pages, times))
    columns = [part.population for part in parts]
    return World(
        population=Population(*(np.concatenate([getattr(one, name) for one in columns])
                                for name in ("mu", "delta", "lam", "nu"))),
        horizon=days,
        changes=np.concatenate([part.changes for part in parts]),
        change_offsets=np.concatenate([[0], np.cumsum(np.concatenate([np.diff(p.change_offsets) for p in parts]))]),
        signal_times=times[order],
        signal_pages=pages[order],
        signal_claims=np.concatenate([_or(part.signal_claims, part, np.nan) for part in parts])[order],
        signal_spans=np.concatenate([_or(part.signal_spans, part, 0.0) for part in parts])[order],
        listed=np.concatenate([_listed(part) for part in parts]),
        hosts=np.concatenate([part.host_of + first for part, first in zip(parts, first_hosts, strict=False)]),
        births=np.concatenate([part.born for part in parts]),
        deaths=np.concatenate([part.died for part in parts]),
    )  # fmt: skip


def _or(column: Floats | None, world: World, otherwise: float) -> Floats:
    return np.full(len(world.signal_times), otherwise) if column is None else column


def _listed(world: World) -> NDArray[np.bool_]:
    return np.zeros(world.population.pages, bool) if world.listed is None else world.listed


def last_days(world: World, days: float) -> World:
    """What happened in the last days, counted from their beginning, to the pages that lived to see them."""
    start = world.horizon - days
    alive = np.flatnonzero((world.died > start) & (world.born < world.horizon))
    place = np.full(world.population.pages, -1)
    place[alive] = np.arange(len(alive))
    changes = [world.changes_by_page[page] - start for page in alive]
    changes = [one[one > 0] for one in changes]
    heard = np.flatnonzero((world.signal_times > start) & (place[world.signal_pages] >= 0))
    p = world.population
    return World(
        population=Population(p.mu[alive], p.delta[alive], p.lam[alive], p.nu[alive]),
        horizon=days,
        changes=np.concatenate(changes),
        change_offsets=np.cumsum([0] + [len(one) for one in changes]),
        signal_times=world.signal_times[heard] - start,
        signal_pages=place[world.signal_pages[heard]],
        signal_claims=_or(world.signal_claims, world, np.nan)[heard] - start,
        signal_spans=_or(world.signal_spans, world, 0.0)[heard],
        hosts=world.host_of[alive],
        listed=_listed(world)[alive],
        births=np.maximum(world.born[alive] - start, 0.0),
        deaths=world.died[alive] - start,
    )
