"""Worth of signals to crawld from the first crawl on, honest ones and lying ones, against ignoring them.

`python -m benchmarks.signals [--json] [--data FOLDER] [--full] [--only GROUP]` runs the daemon's scheduler and learner
in simulated time over recorded histories with drawn or recorded signals, over drawn worlds that live as real sites do,
and over worlds drawn as in Busa-Fekete et al. 2025. Each row has the mean freshness over several draws of crawld
without signals (`deaf`), with them (`crawld`), with known rates, recall and precision (`known`) and of round robin;
`figures` sets what follows from them beside its targets. Progress goes to stderr.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks import argument_parser
from crawld.choose.policies import DEFAULT, POLICIES
from crawld.model.errors import InputError
from crawld.research.crawler import KnowingCrawler
from crawld.research.engine import Run, SimulatedCrawler, simulate
from crawld.research.experiments.ncis import NOISY
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning
from crawld.research.recorded import draw_window, history_files, measured_rates, recorded_world
from crawld.research.weblike import LIMITS as WEBLIKE_LIMITS
from crawld.research.weblike import Honesty, Sitemap, WeblikeWorld, evenly_important, name_at_random, tell, weblike
from crawld.research.world import Population, World, draw_world, run_key
from tests.support.signal_figures import (
    DOCS,
    EQUAL,
    EVERY_WEB,
    EXACT_NAME,
    HALVES,
    HONEST_NAME,
    HONEST_WEB,
    NAMED,
    PAPER,
    RECORDED,
    ROUND_SHARE,
    SHARED,
    SITES,
    STAGES,
    ZIPF,
    Cell,
    Figure,
    Reached,
    Row,
    figures_of,
    rows_of,
)

PAGES, SLOTS = 200, 1000
"""Pages and crawls of a cell, about; a history that is too small has fewer."""
PAPER_PAGES, PAPER_ROUND = 80, 0.1
"""Every policy runs in the paper's worlds, so they are smaller, and learning comes in larger rounds."""
DRAWS, FULL_DRAWS = 3, 10
"""Draws of each cell: in the short form, which must end within ten minutes, and in the full one."""
HONEST, EXACT = Honesty(0.7, 0.7, late=1.0), Honesty(1.0, 1.0)
NAMED_DAILY = 1.0
NCIS_NAME = "as drawn"


def measure(cell: Cell) -> list[Reached]:
    """Run every contestant; those that hear nothing run once for all kinds of signals."""
    worlds = {signals: _world(cell, signals) for signals in cell.signals}
    first = next(iter(worlds.values()))
    rate = cell.budget * len(first.changes) / first.horizon
    learning = OnlineLearning(round_share=PAPER_ROUND if cell.group == PAPER else cell.round_share)
    deaf = OnlineCrawler(DEFAULT, first, rate, replace(learning, signals=False))
    alike = {
        "deaf": _Judged(simulate(first, deaf, rate), cell),
        "round_robin": _Judged(
            simulate(first, OnlineCrawler("uniform", first, rate, OnlineLearning(max_updates=0)), rate), cell
        ),
    }
    found = []
    for signals, world in worlds.items():
        contestants: dict[str, SimulatedCrawler] = {
            "crawld": OnlineCrawler(DEFAULT, world, rate, learning),
            "known": KnowingCrawler(DEFAULT, world, rate),
        }
        if cell.group == PAPER:
            others = [name for name in POLICIES if name not in {DEFAULT, "uniform"}]
            contestants |= {name: OnlineCrawler(name, world, rate, learning) for name in others}
        judged = alike | {name: _Judged(simulate(world, one, rate), cell) for name, one in contestants.items()}
        freshness = {name: one.overall for name, one in judged.items()}
        stages = {name: one.stages for name, one in judged.items()} if signals == HONEST_NAME else {}
        found.append(Reached(cell, signals, judged["crawld"].slots, freshness, stages))
    return found


class _Judged:
    """Result of a run; in drawn worlds the first third is for learning, in histories nothing is."""

    def __init__(self, run: Run, cell: Cell) -> None:
        ledger, end = run.ledger(), run.world.horizon
        self.slots = run.slots
        self.overall = ledger.accuracy(end / 3.0 if cell.group in {HONEST_WEB, EVERY_WEB, PAPER} else 0.0, end)
        turn = float((run.world.died - run.world.born).sum()) / run.slots  # time in which every page is crawled once
        self.stages = {
            f"{low:g}-{high:g}": ledger.accuracy(low * turn, min(high * turn, end))
            for low, high in STAGES
            if low * turn < end
        }


def _world(cell: Cell, signals: str) -> World:
    """The cell's world with that kind of signals."""
    stream = np.random.default_rng([cell.draw, 7])
    if cell.group == DOCS:
        plain = _weighted(_history(cell.folder / f"{cell.world}.npz", cell.budget, cell.draw), cell)
        if signals == NAMED:
            return name_at_random(measured_rates(plain), NAMED_DAILY, stream)
        told = tell(plain, EXACT if signals == EXACT_NAME else HONEST, stream)
        return name_at_random(told, NAMED_DAILY, stream, half=True) if signals == HALVES else told
    if cell.group == SITES:
        return _weighted(measured_rates(_history(cell.folder / f"{cell.world}.npz", cell.budget, cell.draw)), cell)
    key = run_key(cell.draw, 2)
    if cell.group == PAPER:
        population = Population.draw(NOISY.draw, PAPER_PAGES, key)
        return draw_world(population, SLOTS / (cell.budget * float(population.delta.sum())), key)
    kind = Sitemap.HONEST if cell.group == HONEST_WEB else None
    drawn = weblike(key, hosts=8, pages=PAGES, sitemap=kind)
    daily = len(drawn.changes) / drawn.horizon
    drawn = _quality(weblike(key, hosts=8, pages=PAGES, days=SLOTS / (cell.budget * daily), sitemap=kind))
    return evenly_important(drawn) if cell.weights == EQUAL else drawn


def _quality(world: WeblikeWorld) -> WeblikeWorld:
    """The world whose population has what is true of its hosts' sitemaps."""
    truthful = [style.sitemap in {Sitemap.HONEST, Sitemap.DATE_ONLY, Sitemap.LATE} for style in world.styles]
    lam = np.where(np.array(truthful)[world.host_of], WEBLIKE_LIMITS.told, 0.0)
    return replace(
        world, population=replace(world.population, lam=lam, nu=WEBLIKE_LIMITS.false * lam * world.population.delta)
    )


@lru_cache(maxsize=4)
def _whole(path: Path) -> World:
    return recorded_world(path)


@lru_cache(maxsize=4)
def _history(path: Path, budget: float, draw: int) -> World:
    return draw_window(_whole(path), PAGES, int(SLOTS / budget), np.random.default_rng([draw, 5]))


def _weighted(world: World, cell: Cell) -> World:
    if cell.weights == EQUAL:
        return world
    ranks = np.random.default_rng([cell.draw, 3]).permutation(world.population.pages)
    mu = 1.0 / (1.0 + ranks)
    return replace(world, population=replace(world.population, mu=np.asarray(mu / mu.mean())))


def cells(groups: Sequence[str], folder: Path, *, full: bool) -> Iterator[Cell]:
    """Everything that is run: all worlds of one draw, then those of the next."""
    files = history_files(folder)
    docs = [path.stem for path in files if path.stem.startswith("docs")]
    sites = [path.stem for path in files if path.stem.startswith("site") and len(_whole(path).signal_times)]
    every = (0.1, 0.3, 1.0, 3.0)
    both = EQUAL, ZIPF
    plan: dict[str, list[tuple[str, float, tuple[str, ...], str]]] = {
        DOCS: [
            *((world, 1.0, (HONEST_NAME, EXACT_NAME, NAMED, HALVES), EQUAL) for world in docs),
            *((world, 3.0, (HONEST_NAME,), EQUAL) for world in docs),
        ],
        SITES: [
            (world, budget, (RECORDED,), weights)
            for world in sites
            for weights in both
            for budget in (every if full else (1.0,))
        ],
        HONEST_WEB: [("weblike, honest", budget, ("honest",), EQUAL) for budget in every[1:]],
        PAPER: [
            ("Busa-Fekete et al. 2025", budget, (NCIS_NAME,), ZIPF) for budget in (every[1:] if full else every[1:3])
        ],
        EVERY_WEB: [("weblike, every kind", budget, ("every kind",), weights) for weights in both for budget in every],
    }
    for draw in range(FULL_DRAWS if full else DRAWS):
        for group in groups:
            for world, budget, signals, weights in plan[group]:
                yield Cell(group, world, budget, draw, signals, weights, folder, 0.01 if full else ROUND_SHARE)


GROUPS = (DOCS, SITES, HONEST_WEB, PAPER, EVERY_WEB)


def run(work: Sequence[Cell], processes: int) -> list[Reached]:
    """Run every cell in several processes, and tell of the progress."""
    began, told = time.monotonic(), 0.0
    found: dict[Cell, list[Reached]] = {}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(measure, cell): cell for cell in work}
        for number, future in enumerate(as_completed(running), start=1):
            found[running[future]] = future.result()
            spent = time.monotonic() - began
            if spent >= told + 15.0 or number == len(work):
                told = spent
                print(f"  {number} of {len(work)} cells, {spent:.0f} s", file=sys.stderr, flush=True)
    return [one for cell in work for one in found[cell]]


def print_tables(rows: Sequence[Row], figures: Sequence[Figure]) -> None:
    """Both tables for people."""
    from rich.console import Console
    from rich.table import Table

    headings = "world", "signals", "weights", "budget", "round robin", "deaf", "crawld", "known", "gain", "±", "slots"
    table = Table(*headings)
    for row in rows:
        freshness = [f"{one:.4f}" for one in (row.round_robin, row.deaf, row.crawld, row.known)]
        gain = [f"{row.gain:+.4f}", f"{row.error:.4f}"]
        table.add_row(row.world, row.signals, row.weights, f"{row.budget:g}", *freshness, *gain, str(row.slots))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    reached = Table("figure", "measured", "target", "")
    for one in figures:
        reached.add_row(one.figure, f"{one.value:+.4f}", f"≥ {one.target:g}", "reached" if one.reached else "MISSED")
    console.print(reached)


def main() -> None:
    """Run, and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", type=Path, default=SHARED, metavar="FOLDER", help="where the histories (.npz) are")
    parser.add_argument("--full", action="store_true", help="more draws and budgets, learning after each hundredth")
    parser.add_argument("--only", choices=GROUPS, action="append", help="one group of rows; may be repeated")
    parser.add_argument("--draws", type=int, help="draws of each cell")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    try:
        work = [*cells(options.only or GROUPS, options.data, full=options.full)]
        if options.draws:
            work = [cell for cell in work if cell.draw < options.draws]
        rows = rows_of(run(work, options.processes))
    except InputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    figures = [*figures_of(rows)]
    if options.json:
        told = {"rows": [asdict(row) for row in rows], "figures": [asdict(one) for one in figures]}
        print(json.dumps({"benchmark": "signals", **told}, indent=1))
    else:
        print_tables(rows, figures)


if __name__ == "__main__":
    main()
