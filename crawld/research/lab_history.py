"""`crawld lab import-git`, and `crawld lab compare --history`: recorded histories made and replayed."""

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from crawld.cli.tables import console, fitted, name, number
from crawld.model.errors import InputError
from crawld.research.lab_world import Wanted

EQUAL, ZIPF = "equal", "zipf"
F = TypeVar("F", bound=Callable[..., Any])
COLUMNS = (
    name("crawler"),
    number("freshness", 100),
    number("lead", 90, "over round robin"),
    number("age_days", 60, "age, days"),
    number("delay_days", 65, "delay, days"),
    number("missed", 50),
    number("used", 70, "slots used"),
)
_ONLY_DAEMONS = (
    "bandwidth",
    "seconds",
    "simulate",
    "svg",
    "directory",
    "world",
    "hosts",
    "sitemap",
    "changes",
    "errors",
)


def or_replay(command: F) -> F:
    """Give `compare` the options of a replay; with --history it replays that in place of running daemons."""

    @click.option(
        "--history",
        type=click.Path(path_type=Path),
        help="Replay this in the simulator, without daemons: a history file (.npz), a folder of them, or a folder with "
        "the PoliteCrawling set. --policies may then also name other crawlers' rules, papers' learners and known.",
    )
    @click.option(
        "--budget", type=click.FloatRange(0, 1000, min_open=True), help="Crawls per change, with --history [1]."
    )
    @click.option(
        "--importance", type=click.Choice((EQUAL, ZIPF)), help="Of the pages of a --history [its own, or equal]."
    )
    @wraps(command)
    def wrapped(history: Path | None, budget: float | None, importance: str | None, **given: Any) -> Any:
        if history is None:
            if budget is not None or importance is not None:
                raise InputError("--budget and --importance need a --history")
            return command(**given)
        context = click.get_current_context()
        for option in _ONLY_DAEMONS:
            if context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE:
                raise InputError(f"--{'database' if option == 'directory' else option} does not go with --history")
        crawlers = [*dict.fromkeys(part.strip() for part in given["policies"].split(","))]
        return _replay(given["wanted"], history, crawlers, (budget or 1.0, importance), as_json=given["as_json"])

    return wrapped  # type: ignore[return-value]  # click's decorators keep what they decorate


def _replay(
    wanted: Wanted, history: Path, crawlers: list[str], how: tuple[float, str | None], *, as_json: bool
) -> None:
    from crawld.research.contestants import names
    from crawld.research.population import zipf
    from crawld.research.replayed import compare_replayed, open_history, weighted

    unknown = [crawler for crawler in crawlers if crawler not in names()]
    if unknown:
        raise InputError(f"--policies: there is no {unknown[0]!r}; with --history choose from {', '.join(names())}")
    budget, importance = how
    world = open_history(history, wanted.pages, wanted.seed)
    if importance is not None:
        pages = world.population.pages
        world = weighted(world, zipf(pages, wanted.seed) if importance == ZIPF else [1.0] * pages)
    done = iter(range(1, len(crawlers) + 1))
    rows = [
        row.as_dict()
        for row in compare_replayed(
            world, crawlers, budget, lambda crawler: click.echo(f"{next(done)}/{len(crawlers)} {crawler} …", err=True)
        )
    ]
    report = {
        "history": str(history),
        "pages": world.population.pages,
        "hosts": len(set(world.host_of.tolist())),
        "days": round(world.horizon, 2),
        "changes": len(world.changes),
        "signals": len(world.signal_times),
        "budget": budget,
        "crawls": int(budget * len(world.changes)),
        "importance": importance,
        "seed": wanted.seed,
        "crawlers": rows,
    }
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    title = (
        f"{report['pages']} pages of {report['hosts']} hosts, {world.horizon:.0f} days, {report['changes']} changes, "
        f"{report['signals']} signals, {report['crawls']} crawls"
    )
    columns = [column for column in COLUMNS if any(column.full(row) != "–" for row in rows)]
    console().print(fitted(rows, columns, console().width, title))


@click.command("import-git")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="The history file [DIR's name.npz here]."
)
@click.option("--branch", default="HEAD", show_default=True, help="The branch that is published.")
@click.option("--under", default="", help="The folder of the repository that is published [all of it].")
@click.option("--suffix", "suffixes", multiple=True, help="Files that are pages; may be repeated [.html and .htm].")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Only what was published from this day on (UTC).")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
def import_git(
    folder: Path,
    output: Path | None,
    branch: str,
    under: str,
    suffixes: tuple[str, ...],
    since: Any,
    as_json: bool,
) -> None:
    """Make a history out of DIR, a git repository of a published site: its pages, changes and sitemap signals.

    Every commit of the branch, in the order of first parents, is one publication. A page changes where crawld's own
    digest of its main text does; a signal is a lastmod that moved in a sitemap of the repository. Replay the file with
    `crawld lab compare --history FILE`.
    """
    from datetime import UTC

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from crawld.research.git import SUFFIXES, GitHistory
    from crawld.research.git_repository import GitRepository

    target = output or Path(f"{folder.absolute().name}.npz")
    if not target.absolute().parent.is_dir():
        raise InputError(f"--output: there is no directory {target.absolute().parent}")
    begin = None if since is None else since.replace(tzinfo=UTC).timestamp()
    columns = (TextColumn("commits"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    with GitRepository(folder, branch) as repository, bar:
        task = bar.add_task("", total=None)
        history = GitHistory(repository, under, suffixes or SUFFIXES)
        found = history.walk(begin, lambda done, total: bar.update(task, completed=done, total=total))
    history.save(target)
    summary = {"repository": str(folder), "branch": branch, "output": str(target)} | found.as_dict()
    if as_json:
        click.echo(json.dumps(summary, indent=2))
        return
    click.echo(
        f"{target}: {found.pages} pages ({found.alive} alive), {found.changes} changes and {found.signals} sitemap "
        f"signals in {found.commits} commits over {found.days:.0f} days"
    )
    for count, what in (
        (found.unreadable_sitemaps, "sitemap versions could not be read"),
        (found.large_files, "file versions are too large to be read and count by their bytes"),
        (found.left_out_pages, "pages are left out: there are too many"),
    ):
        if count:
            click.echo(f"{count} {what}", err=True)
