"""Replays of real page histories: a policy crawls within a budget and sees only whether a page had changed.

`python -m benchmarks.replay [--json] [--data FOLDER] [--only NAME] [--full]` prints how fresh crawld keeps each history
of a folder beside round robin and known rates, with equal and with Zipf importance; a history of many hosts is run with
and without pages of more than .3 changes a day, and also with every host learning alone. Progress goes to stderr.
"""

import copy
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks import argument_parser
from crawld.choose.policies import DEFAULT
from crawld.learn.online_learner import OnlineLearner
from crawld.model.errors import InputError
from crawld.research.contestants import contestant
from crawld.research.engine import SimulatedCrawler, simulate
from crawld.research.online_crawler import OnlineCrawler, OnlineLearning
from crawld.research.recorded import draw_window, history_files, load_history, measured_rates, of_pages, recorded_world
from crawld.research.trial import standard_error
from crawld.research.world import World, zipf
from tests.support.replay.site import SHARED


@dataclass(frozen=True)
class ReplayLimits:
    """Numbers of this benchmark."""

    restless: float = 0.3
    """Changes a day above which a page of many hosts is taken for noise of its extraction."""
    pages: int = 200
    slots: int = 1000
    draws: int = 5


LIMITS = ReplayLimits()
BUDGETS = (0.1, 0.3, 1.0, 3.0)
WEIGHTS = ("equal", "Zipf")
ALONE = "hosts_alone"


class AloneCrawler(OnlineCrawler):
    """crawld whose hosts learn nothing from each other: each has a learner of its own."""

    def learn(self, now: float) -> None:
        """One round of every host with something new."""
        if "_learners" not in self.__dict__:  # the first round comes before there is anything to learn from
            self._fresh, self._learners = copy.deepcopy(self.learner), dict[int, OnlineLearner]()
        hosts = self._world.host_of
        dirty, again = self._dirty, self._again
        left_dirty: dict[int, None] = {}
        left_again: dict[int, None] = {}
        for number in {int(hosts[page]) for page in [*dirty, *again]}:
            self._dirty = dict.fromkeys(page for page in dirty if hosts[page] == number)
            self._again = dict.fromkeys(page for page in again if hosts[page] == number)
            if number not in self._learners:
                self._learners[number] = copy.deepcopy(self._fresh)
            self.learner = self._learners[number]
            super().learn(now)
            left_dirty |= self._dirty
            left_again |= self._again
        self._dirty, self._again = left_dirty, left_again


@dataclass(frozen=True, slots=True)
class Cell:
    """One history, or its calmer pages, at one budget and weighting."""

    path: Path
    budget: float
    weights: str
    calm: bool = False  # without restless pages
    draws: int = LIMITS.draws

    @property
    def name(self) -> str:
        """The history, and what was left out of it."""
        return f"{self.path.stem}, at most {LIMITS.restless:g} changes a day" if self.calm else self.path.stem


def measure(cell: Cell) -> dict[str, object]:
    """Mean freshness of every contestant over the draws."""
    reached: dict[str, list[float]] = {}
    slots = []
    whole = recorded_world(cell.path)
    many = len(np.unique(whole.host_of)) > 1
    if cell.calm:
        whole = of_pages(whole, np.flatnonzero(measured_rates(whole).population.delta <= LIMITS.restless))
    for draw in range(cell.draws):
        stream = np.random.default_rng([draw, 11])
        cut = draw_window(whole, 447 if many else LIMITS.pages, int(LIMITS.slots / cell.budget), stream)
        world = measured_rates(cut)
        if cell.weights == "Zipf":
            mu = zipf(world.population.pages, draw)
            world = replace(world, population=replace(world.population, mu=mu))
        rate = cell.budget * len(world.changes) / world.horizon
        for name, crawler in _contestants(world, rate, many=many):
            run = simulate(world, crawler, rate)
            reached.setdefault(name, []).append(run.ledger().accuracy(0.0, world.horizon))
        slots.append(int(rate * world.horizon))
    gains = [a - b for a, b in zip(reached["crawld"], reached["round_robin"], strict=True)]
    means = {name: round(float(np.mean(values)), 4) for name, values in reached.items()}
    about = {"world": cell.name, "weights": cell.weights, "budget": cell.budget}
    error = standard_error(gains)
    return about | means | {"lead": round(float(np.mean(gains)), 4), "error": error, "slots": int(np.mean(slots))}


def _contestants(world: World, rate: float, *, many: bool) -> Iterator[tuple[str, SimulatedCrawler]]:
    learning = OnlineLearning(round_share=0.05)
    yield "round_robin", contestant("uniform", world, rate)
    yield "crawld", contestant(DEFAULT, world, rate, learning)
    yield "known", contestant("known", world, rate)
    if many:
        yield ALONE, AloneCrawler(DEFAULT, world, rate, learning)


def cells(folder: Path, only: str | None, *, full: bool) -> Iterator[Cell]:
    """Everything that is run."""
    for path in history_files(folder):
        if only is not None and only not in path.stem:
            continue
        many = "page_host" in load_history(path)
        for weights in WEIGHTS:
            for budget in BUDGETS if full or many else BUDGETS[1:3]:
                for calm in (False, True) if many else (False,):
                    yield Cell(path, budget, weights, calm, 2 * LIMITS.draws if full else LIMITS.draws)


def main() -> None:
    """Run, and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", type=Path, default=SHARED, metavar="FOLDER", help="where the histories (.npz) are")
    parser.add_argument("--only", metavar="NAME", help="histories whose name contains this")
    parser.add_argument("--full", action="store_true", help="more draws and budgets")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    try:
        work = [*cells(options.data, options.only, full=options.full)]
    except InputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    rows = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for number, row in enumerate(pool.map(measure, work), start=1):
            rows.append(row)
            print(f"  {number} of {len(work)}: {row}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({"benchmark": "replay", "rows": rows}, indent=1))
        return
    names = ("world", "weights", "budget", "round_robin", "crawld", "known", ALONE, "lead", "slots")
    print("".join(f"{name:>{44 if name == 'world' else 12}}" for name in names))
    for row in rows:
        print("".join(f"{row.get(name, '')!s:>{44 if name == 'world' else 12}}" for name in names))


if __name__ == "__main__":
    main()
