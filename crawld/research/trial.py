"""An experiment is many trials; this runs them, on several processors if asked, and draws the statistics.

In one repeat every contestant meets the same world, so differences are taken repeat by repeat: the scatter between
worlds, often larger than what is to be shown, cancels.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.pool import Pool

import numpy as np

Measures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Trial:
    """One contestant in one world."""

    contestant: str
    pages: int
    seed: int
    repeat: int


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or table to show: who takes part, in which worlds, and which differences matter."""

    name: str
    shows: str
    pages: tuple[int, ...]
    repeats: int
    contestants: tuple[str, ...]
    measure: Callable[[Trial], Measures]
    pairs: tuple[tuple[str, str], ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    x_axis: str = "pages"  # what the sizes are numbers of: a chart has it along its foot
    measured: str = "accuracy"  # what the first measure is called
    best: str | None = None  # the contestant whose measures others fall short of: how far, in percent, is told
    summarise: Callable[[Measures], Measures] | None = None  # further measures, from the means over all repeats

    def trials(self, pages: Sequence[int], repeats: int, seed: int) -> list[Trial]:
        """Everything to be run, the largest first so that processors finish together."""
        return [
            Trial(contestant, size, seed, repeat)
            for size in sorted(pages, reverse=True)
            for repeat in range(repeats)
            for contestant in self.contestants
        ]


@dataclass(frozen=True, slots=True)
class Row:
    """What a contestant reached at one size: mean and standard error over the repeats, of each measure."""

    policy: str
    pages: int
    repeats: int
    means: Mapping[str, float]
    errors: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Accuracy of `a` minus accuracy of `b` in the same worlds."""

    a: str
    b: str
    pages: int
    difference: float
    stderr: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished experiment."""

    experiment: Experiment
    settings: Mapping[str, object]
    rows: tuple[Row, ...]
    paired: tuple[PairedDifference, ...]


Results = dict[Trial, Measures]


def run_trials(experiment: Experiment, trials: Sequence[Trial], jobs: int) -> Iterator[tuple[Trial, Measures]]:
    """Each trial with its measures, as they come; leaving the loop early stops the other processes."""
    if jobs == 1:
        for trial in trials:
            yield trial, experiment.measure(trial)
        return
    with _processes(jobs) as pool:
        work = [(experiment.measure, trial) for trial in trials]
        yield from pool.imap_unordered(_measure, work)


def _processes(jobs: int) -> Pool:
    """Processes that leave an interrupt from the keyboard, which reaches all of them, to the one that started them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # Spawned rather than forked: the progress bar draws from a thread, and a fork would copy its locks.
        return multiprocessing.get_context("spawn").Pool(jobs)
    finally:
        signal.signal(signal.SIGINT, before)


def _measure(work: tuple[Callable[[Trial], Measures], Trial]) -> tuple[Trial, Measures]:
    measure, trial = work
    return trial, measure(trial)


def conclude(experiment: Experiment, results: Results, seed: int) -> Outcome:
    """Means, standard errors and paired differences of everything that was run."""
    sizes = sorted({trial.pages for trial in results})
    repeats = 1 + max(trial.repeat for trial in results)
    if experiment.best is not None:
        results = {trial: _with_losses(results, trial, experiment.best) for trial in results}
    rows = tuple(
        _row(
            experiment, contestant, size, [results[Trial(contestant, size, seed, repeat)] for repeat in range(repeats)]
        )
        for size in sizes
        for contestant in experiment.contestants
    )
    paired = tuple(
        _difference(pair, size, [_gap(results, pair, size, (seed, repeat)) for repeat in range(repeats)])
        for size in sizes
        for pair in experiment.pairs
    )
    settings = {**experiment.settings, experiment.x_axis: sizes, "repeats": repeats, "seed": seed}
    return Outcome(experiment, settings, rows, paired)


def _with_losses(results: Results, trial: Trial, best: str) -> Measures:
    """The measures of a trial, and by how much each falls short of the best contestant's in the same world."""
    found, reached = results[trial], results[replace(trial, contestant=best)]
    return {**found, **{f"{_loss(name)}_percent": 100.0 * (1.0 - found[name] / reached[name]) for name in found}}


def _loss(measure: str) -> str:
    return "loss" if measure == "accuracy" else f"loss_{measure}"


def _gap(results: Results, pair: tuple[str, str], size: int, world: tuple[int, int]) -> float:
    a, b = (results[Trial(contestant, size, *world)]["accuracy"] for contestant in pair)
    return a - b


def _difference(pair: tuple[str, str], size: int, gaps: Sequence[float]) -> PairedDifference:
    return PairedDifference(*pair, size, float(np.mean(gaps)), standard_error(gaps))


def _row(experiment: Experiment, contestant: str, size: int, measured: Sequence[Measures]) -> Row:
    columns = {name: [one[name] for one in measured] for name in measured[0]}
    means = {name: float(np.mean(values)) for name, values in columns.items()}
    errors = {name: standard_error(values) for name, values in columns.items()}
    if experiment.summarise is not None:
        means |= experiment.summarise(means)
    return Row(contestant, size, len(measured), means, errors)


def standard_error(values: Sequence[float]) -> float:
    """Standard error of the mean; nan where the values cannot tell: from a single one, or beside an infinity."""
    if len(values) < 2 or not np.isfinite(values).all():
        return float("nan")
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
