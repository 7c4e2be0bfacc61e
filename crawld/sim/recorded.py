"""Recorded histories of real pages as worlds: what changed when, and what sitemaps said of it.

A file holds numpy arrays in Unix seconds: birth and death (0: alive) by page, change_off and change_t, and where there
was a sitemap signal_off, signal_t, signal_lastmod, and by page lastmod0, the first one (-1: no usable value). Pages are
one host's, unless page_host names the host of each. A world counts days from the first birth.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from crawld.errors import InputError
from crawld.sim.population import Floats, Population
from crawld.sim.world import Ints, World

DAY = 86400.0
BYTES_A_WORD = 6.0


def history_files(folder: Path) -> list[Path]:
    """Every history in a folder; at least one, or an error that names the folder."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: name one that holds histories (.npz)")
    files = sorted(folder.glob("*.npz"))
    if not files:
        raise InputError(f"no histories (.npz) in {folder}")
    return files


def load_history(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a history file, or an error that says what is wrong with it."""
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
    except (OSError, ValueError, EOFError, BadZipFile, TypeError) as error:
        raise InputError(f"{path} is no recorded history: {error}") from error
    missing = {"birth", "death", "change_off", "change_t"} - set(arrays)
    if missing:
        raise InputError(f"{path} is no recorded history: it has no {', '.join(sorted(missing))}")
    if not len(arrays["birth"]):
        raise InputError(f"{path} is no recorded history: it has no pages")
    return arrays


def recorded_world(path: Path, most_pages: int | None = None, offset: int = 0) -> World:
    """The history in a file, all pages equally important; of more than `most_pages` every k-th from `offset` on."""
    return world_of(load_history(path), most_pages, offset)


def world_of(arrays: dict[str, NDArray[Any]], most_pages: int | None = None, offset: int = 0) -> World:
    """The same of arrays that have been read."""
    first = float(arrays["birth"].min())
    seen_last = [float(arrays[name].max(initial=0)) for name in ("commit_t", "end", "change_t") if name in arrays]
    end = (max(seen_last) - first) / DAY
    step = -(-len(arrays["birth"]) // (most_pages or len(arrays["birth"])))
    chosen = np.arange(offset % step, len(arrays["birth"]), step)
    births = ((arrays["birth"] - first) / DAY)[chosen]
    deaths = np.where(arrays["death"] > 0, (arrays["death"] - first) / DAY, end)[chosen]
    offsets, rows = _rows(arrays["change_off"], chosen)
    changes = (arrays["change_t"][rows] - first) / DAY
    magnitudes = None
    if "change_words" in arrays:
        words = np.maximum(arrays["change_bytes"][rows], 1) / BYTES_A_WORD
        magnitudes = np.minimum(arrays["change_words"][rows] / words, 1.0)
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
    hosts = np.unique(arrays["page_host"][chosen], return_inverse=True)[1] if "page_host" in arrays else None
    return World(
        population=Population(np.ones(len(chosen)), np.diff(offsets) / lived, nothing, nothing),
        horizon=end,
        changes=changes,
        change_offsets=offsets,
        signal_times=seen[order],
        signal_pages=pages[order],
        signal_claims=claims[order],
        signal_spans=np.where(whole_day, 1.0, 0.0)[order],
        hosts=hosts,
        births=births,
        deaths=np.maximum(deaths, births),
        listed=listed,
        magnitudes=magnitudes,
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
    return window(world, world.horizon - days, days)


def window(world: World, start: float, days: float) -> World:
    """What happened in the days from `start` on, counted from there, to the pages that lived to see them."""
    end = start + days
    alive = np.flatnonzero((world.died > start) & (world.born < end))
    seen = of_pages(world, alive)
    kept = (seen.changes > start) & (seen.changes < end if end < world.horizon else True)
    heard = (seen.signal_times > start) & (seen.signal_times < end if end < world.horizon else True)
    return replace(
        seen,
        horizon=days,
        changes=seen.changes[kept] - start,
        change_offsets=np.concatenate([[0], np.cumsum(kept)])[seen.change_offsets],
        magnitudes=None if seen.magnitudes is None else seen.magnitudes[kept],
        signal_times=seen.signal_times[heard] - start,
        signal_pages=seen.signal_pages[heard],
        signal_claims=_or(seen.signal_claims, seen, np.nan)[heard] - start,
        signal_spans=_or(seen.signal_spans, seen, 0.0)[heard],
        listed=_listed(seen),
        births=np.maximum(seen.born - start, 0.0),
        deaths=np.minimum(seen.died, end) - start,
    )


def of_pages(world: World, pages: Ints) -> World:
    """The world of these pages alone."""
    place = np.full(world.population.pages, -1)
    place[pages] = np.arange(len(pages))
    told = place[world.signal_pages] >= 0
    offsets, rows = _rows(world.change_offsets, pages)
    p = world.population
    return replace(
        world,
        population=Population(p.mu[pages], p.delta[pages], p.lam[pages], p.nu[pages]),
        changes=world.changes[rows],
        change_offsets=offsets,
        magnitudes=None if world.magnitudes is None else world.magnitudes[rows],
        signal_times=world.signal_times[told],
        signal_pages=place[world.signal_pages[told]],
        signal_claims=None if world.signal_claims is None else world.signal_claims[told],
        signal_spans=None if world.signal_spans is None else world.signal_spans[told],
        hosts=world.host_of[pages],
        births=None if world.births is None else world.births[pages],
        deaths=None if world.deaths is None else world.deaths[pages],
        listed=None if world.listed is None else world.listed[pages],
    )


def measured_rates(world: World) -> World:
    """The same world whose population has each page's mean rate of change while it lived in it."""
    lived = np.maximum(world.died - world.born, 1.0 / 24.0)
    return replace(world, population=replace(world.population, delta=np.diff(world.change_offsets) / lived))


TRIES = 30
"""Windows that are drawn before the nearest to what was wanted is taken."""


def draw_window(world: World, pages: int, changes: int, stream: np.random.Generator) -> World:
    """Some pages of a world for some time, drawn at random, in which about so many changes happen, or somewhat more.

    Of a small world all of it is taken.
    """
    best, distance = world, np.inf
    living = float((world.died - world.born).sum()) / world.horizon
    share = min(1.0, pages / living)
    days = min(world.horizon, 1.15 * changes / (share * max(len(world.changes), 1) / world.horizon))
    for _ in range(TRIES):
        cut = window(world, stream.uniform(0.0, world.horizon - days), days)
        some = np.sort(stream.permutation(cut.population.pages)[: max(1, round(share * cut.population.pages))])
        cut = of_pages(cut, some)
        if 1.0 <= len(cut.changes) / changes <= 1.4:
            return cut
        off = abs(np.log(max(len(cut.changes), 0.1) / (1.15 * changes)))
        if off < distance:
            best, distance = cut, off
    return best
