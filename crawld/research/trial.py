"""An experiment is many trials; this runs them, on several processors if asked, and draws the statistics.

In one repeat every contestant meets the same world, so differences are taken repeat by repeat: the scatter between
worlds, often larger than what is to be shown, cancels.
"""

import json
import math
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from multiprocessing.pool import Pool

import numpy as np
from rich.console import Console
from rich.table import Column, Table

from crawld.show.charts import ChartPoint, draw_lines

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
    """Result of a contestant at one size: mean and standard error over the repeats, of each measure."""

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


SERIES = "@"
"""A measure called `accuracy@40` is the accuracy in the span of time that ends at 40: a point of a curve."""
PERCENT = "_percent"
"""A measure called so tells a loss: its standard error is told too."""


def as_json(outcome: Outcome) -> str:
    """The outcome as one JSON object; a standard error that one repeat cannot give is null."""
    document = {
        "experiment": outcome.experiment.name,
        "settings": outcome.settings,
        "rows": [_row_document(row, outcome.experiment) for row in outcome.rows],
        "paired": [
            {
                "a": pair.a,
                "b": pair.b,
                outcome.experiment.x_axis: pair.pages,
                "difference": pair.difference,
                "stderr": _finite(pair.stderr),
            }
            for pair in outcome.paired
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def _row_document(row: Row, experiment: Experiment) -> dict[str, object]:
    document: dict[str, object] = {
        "policy": row.policy,
        experiment.x_axis: row.pages,
        experiment.measured: row.means["accuracy"],
        "stderr": _finite(row.errors["accuracy"]),
        "repeats": row.repeats,
    }
    for name in _plain(row.means):
        if name != "accuracy":
            document[name] = _finite(row.means[name])
        if name.endswith(PERCENT):
            document[f"{name.removesuffix(PERCENT)}_stderr"] = _finite(row.errors[name])
    series = sorted((float(name.split(SERIES)[1]), row.means[name]) for name in row.means if SERIES in name)
    if series:
        document["series"] = [[at, _finite(value)] for at, value in series]
    return document


def _plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if SERIES not in name]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def print_tables(outcome: Outcome, console: Console) -> None:
    """A table of what was reached, one of the paired differences, and under which settings."""
    console.print(f"[bold]{outcome.experiment.name}[/bold]: {outcome.experiment.shows}")
    for names, rows in groupby(outcome.rows, key=lambda row: tuple(_plain(row.means))):
        for table in _tables([name for name in names if name != "accuracy"], list(rows), outcome, console.width):
            console.print(table)
    if outcome.paired:
        console.print(_differences(outcome))
    console.print("; ".join(f"{name}: {value}" for name, value in outcome.settings.items()), style="dim")


def _tables(extra: Sequence[str], rows: Sequence[Row], outcome: Outcome, width: int) -> Iterator[Table]:
    """Tables of the results; measures that do not fit the first one stand in tables of their own."""
    sizes = outcome.experiment.x_axis
    columns = [(outcome.experiment.measured, [f"{row.means['accuracy']:.4f}" for row in rows])]
    columns.append(("± stderr", [_error(row.errors["accuracy"]) for row in rows]))
    columns += [_column(name, rows) for name in extra]
    names = max([len("policy"), *(len(row.policy) for row in rows)])
    gap = 3
    begin = names + max([len(sizes), *(len(str(row.pages)) for row in rows)]) + 2 * gap + 1
    while columns:
        taken, used = 0, begin
        while taken < len(columns):
            used += max(len(columns[taken][0]), *map(len, columns[taken][1])) + gap
            if used > width and taken:
                break
            taken += 1
        yield _table(rows, sizes, columns[:taken])
        columns = columns[taken:]


def _column(name: str, rows: Sequence[Row]) -> tuple[str, list[str]]:
    """The heading and the cells of a measure; a loss has its standard error in the same cell."""
    if name.endswith(PERCENT):
        errors = [row.errors[name] for row in rows]
        means = [row.means[name] for row in rows]
        shown = [
            f"{mean:.2f} ± {error:.2f}" if math.isfinite(error) else f"{mean:.2f}" for mean, error in zip(means, errors)
        ]
        return f"{name.removesuffix(PERCENT).replace('_', ' ')} %", shown
    return name, [_figure(row.means[name]) for row in rows]


def _table(rows: Sequence[Row], sizes: str, columns: Sequence[tuple[str, Sequence[str]]]) -> Table:
    headings = (Column(name, overflow="fold", justify="right") for name in (sizes, *(name for name, _ in columns)))
    table = Table(Column("policy", overflow="fold"), *headings)
    for at, row in enumerate(rows):
        table.add_row(row.policy, str(row.pages), *(cells[at] for _, cells in columns))
    return table


def _differences(outcome: Outcome) -> Table:
    names = (Column(name, overflow="fold") for name in ("a", "b"))
    figures = (Column(name, justify="right") for name in (outcome.experiment.x_axis, "a − b", "± stderr"))
    table = Table(*names, *figures, title="Differences in the same worlds")
    for pair in outcome.paired:
        table.add_row(pair.a, pair.b, str(pair.pages), f"{pair.difference:+.4f}", _error(pair.stderr))
    return table


def _figure(value: float) -> str:
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def _error(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"


def print_list(experiments: Iterable[Experiment], console: Console) -> None:
    """Every experiment with what it shows and its usual size."""
    further = (Column(name, overflow="fold") for name in ("shows", "pages", "repeats"))
    table = Table(Column("experiment", no_wrap=True), *further)
    for one in experiments:
        table.add_row(one.name, one.shows, ", ".join(map(str, one.pages)), str(one.repeats))
    console.print(table)


def as_chart(outcome: Outcome) -> str:
    """The figure as SVG: accuracy over time where that was measured, else over the number of pages."""
    curves = {name.split(SERIES)[0] for row in outcome.rows for name in row.means if SERIES in name}
    timed = bool(curves)
    several = len({row.pages for row in outcome.rows}) > 1
    lines: dict[str, list[ChartPoint]] = {}
    for row in outcome.rows:
        if timed:
            line = lines.setdefault(f"{row.policy} ({row.pages})" if several else row.policy, [])
            line += [
                ChartPoint.measured(float(name.split(SERIES)[1]), row.means[name], row.errors[name])
                for name in row.means
                if SERIES in name
            ]
        else:
            point = ChartPoint.measured(row.pages, row.means["accuracy"], row.errors["accuracy"])
            lines.setdefault(row.policy, []).append(point)
    title = f"{outcome.experiment.name}: {outcome.settings['repeats']} repeats, seed {outcome.settings['seed']}"
    return draw_lines(
        title,
        "time" if timed else outcome.experiment.x_axis,
        curves.pop() if curves else outcome.experiment.measured,
        lines,
    )
