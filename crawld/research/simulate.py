"""`crawld simulate`: the experiments of the papers, run with the daemon's own scheduler."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawld.model.errors import InputError

if TYPE_CHECKING:
    from crawld.research.trial import Experiment, Outcome

INTERRUPTED = 130


@click.command("simulate")
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="List the experiments and what each shows.")
@click.option(
    "--pages", "--workers", help="Numbers of pages (fleet: workers), e.g. 100,500,1000 [default: the experiment's own]."
)
@click.option("--repeat", "--seeds", type=int, help="Worlds to draw for each of them [default: the experiment's own].")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same worlds.")
@click.option("--jobs", type=int, help="Processes to run at once [default: one for each core].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Also draw the figure, as SVG.")
def command(
    name: str | None,
    listing: bool,
    pages: str | None,
    repeat: int | None,
    seed: int,
    jobs: int | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Run the experiment NAME and print what was found."""
    from crawld.cli.tables import console
    from crawld.research.experiments import EXPERIMENTS
    from crawld.research.trial import print_list

    if listing or name is None:
        print_list(EXPERIMENTS.values(), console())
        if listing:
            return
        raise InputError("name one of these experiments: crawld simulate NAME")
    experiment = _chosen(name, EXPERIMENTS)
    sizes = _sizes(pages, experiment)
    repeats = _at_least("--repeat", experiment.repeats if repeat is None else repeat, 1)
    jobs = os.cpu_count() or 1 if jobs is None else jobs
    _at_least("--jobs", jobs, 1)
    _at_least("--seed", seed, 0)
    if plot is not None and not plot.absolute().parent.is_dir():
        raise InputError(f"--plot: there is no directory {plot.absolute().parent}")
    try:
        outcome = _run(experiment, sizes, repeats, seed, jobs)
    except KeyboardInterrupt:
        click.echo("Interrupted; nothing was written.", err=True)
        raise SystemExit(INTERRUPTED) from None
    _show(outcome, as_json, plot)


def _chosen(name: str, experiments: "dict[str, Experiment]") -> "Experiment":
    if name not in experiments:
        raise InputError(f"there is no experiment {name!r}: choose one of {', '.join(experiments)}")
    return experiments[name]


def _sizes(pages: str | None, experiment: "Experiment") -> list[int]:
    if pages is None:
        return list(experiment.pages)
    sizes = [part.strip() for part in pages.split(",")]
    if not all(part.isascii() and part.isdigit() for part in sizes):
        raise InputError(f"--pages: {pages!r} is not a list of whole numbers such as 100,500,1000")
    return sorted({_at_least("--pages", int(part), 2) for part in sizes})


def _at_least(option: str, value: int, least: int) -> int:
    if value < least:
        raise InputError(f"{option}: {value} is too small, give at least {least}")
    return value


def _run(experiment: "Experiment", sizes: list[int], repeats: int, seed: int, jobs: int) -> "Outcome":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from crawld.research.trial import conclude, run_trials

    trials = experiment.trials(sizes, repeats, seed)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    results = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(experiment.name, total=len(trials))
        for trial, measures in run_trials(experiment, trials, jobs):
            results[trial] = measures
            progress.advance(task)
    return conclude(experiment, results, seed)


def _show(outcome: "Outcome", as_json: bool, plot: Path | None) -> None:
    from crawld.cli.tables import console
    from crawld.research import trial as report

    if as_json:
        click.echo(report.as_json(outcome))
    else:
        report.print_tables(outcome, console())
    if plot is not None:
        plot.write_text(report.as_chart(outcome), encoding="utf-8")
        click.echo(f"The figure is in {plot}.", err=True)
