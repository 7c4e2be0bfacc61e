"""`crawld lab`: a living site on loopback that knows the truth, to try crawlers against."""

import asyncio
import json
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console

from crawld.choose.policies import ON_DEMAND, Policy, choose
from crawld.cli.options import Commands, rate
from crawld.cli.tables import console, duration, fitted, name, number
from crawld.model.errors import InputError
from crawld.model.units import format_rate
from crawld.research.contest import LabDaemons, contest_progress
from crawld.show.charts import Axis, Chart, ChartPoint, Form, Line, draw

if TYPE_CHECKING:
    from crawld.research.contest import Finish
    from crawld.research.reads import Floats, ReadFinish
    from crawld.research.replayed import Simulated
    from crawld.research.scenario import Scenario
    from crawld.research.score import Score


def score_row(crawler: str, score: "Score") -> dict[str, Any]:
    """A crawler's score as a row."""
    row = asdict(score) | {"crawler": crawler, "errors": score.answers.get("error", 0)}
    row["series"] = [{"at": at, "freshness": value} for at, value in score.series]
    return row


def finish_report(
    finish: "Finish", settings: Mapping[str, Any], simulated: "Mapping[str, Simulated]"
) -> dict[str, Any]:
    """Everything a comparison found, ready for JSON."""
    rows = []
    for crawler, score in finish.scores.items():
        row = score_row(crawler, score)
        row["predicted"] = finish.samples.mean_predicted(crawler, finish.judged_from)
        expected = simulated.get(crawler)
        row["simulated"] = expected and expected.freshness
        row["simulated_spread"] = expected and expected.spread
        rows.append(row)
    return {
        **settings,
        "seconds": round(finish.ended - finish.started, 2),
        "judged_seconds": round(finish.ended - finish.judged_from, 2),
        "crawlers": rows,
    }


def print_scores(rows: list[dict[str, Any]], title: str, console: Console) -> None:
    """The table; a column that is empty in every row is left out."""
    known = (
        name("crawler"),
        number("freshness", 100, "true freshness"),
        number("simulated", 90),
        number("simulated_spread", 85, "±"),
        number("predicted", 70),
        number("requests", 80),
        number("caught", 60, "changes caught"),
        number("changes", 50, "of"),
        duration("delay_mean", 65, "after"),
        number("errors", 30),
    )
    columns = [column for column in known if any(column.full(row) != "–" for row in rows)]
    console.print(fitted(rows, columns, console.width, title))


def print_finish(report: Mapping[str, Any], console: Console) -> None:
    """The table of a comparison, and what its figures mean."""
    title = f"{report['pages']} pages, {format_rate(report['bandwidth'])} each, {report['seconds']:.0f} s"
    print_scores(report["crawlers"], title, console)
    console.print(
        "True freshness is the share of importance held in its current version, over the last "
        f"{report['judged_seconds']:.0f} s, as the site itself knows it."
    )


def chart(rows: list[dict[str, Any]]) -> str:
    """Freshness over time as SVG, a line for each crawler."""
    lines = [Line(row["crawler"], [ChartPoint(at["at"], at["freshness"]) for at in row["series"]]) for row in rows]
    y_axis = Axis("share of importance held in its current version", Form.SHARE, 0.0, 1.0)
    return draw(Chart("True freshness in the lab", Axis("time", Form.DURATION), y_axis, lines), standalone=True)


AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """The world that was asked for."""

    world: str
    pages: int
    hosts: int
    sitemap: str | None
    changes: float
    errors: float
    seed: int

    def scenario(self, seconds: float) -> "Scenario":
        """The world for a run of so many seconds."""
        from crawld.research import scenario
        from crawld.research.weblike import Sitemap

        if self.changes <= 0:
            raise InputError("--changes: nothing would ever change; give a rate such as 5/s")
        size = scenario.Size(self.pages, min(self.hosts, self.pages), seconds, self.changes, self.seed)
        if self.world == "weblike":
            return scenario.weblike_scenario(size, Sitemap(self.sitemap) if self.sitemap else None)
        if self.sitemap:
            raise InputError("--sitemap: only weblike worlds have sitemaps of a chosen kind")
        if self.world == "noisy":
            return scenario.noisy_scenario(size)
        files = [Path(name) for name in self.world.split(",")]
        missing = [str(file) for file in files if not file.is_file()]
        if missing:
            raise InputError(f"--world: {missing[0]!r} is neither noisy nor weblike nor a file")
        return scenario.recorded_scenario(files, size)


def world_options(command: AnyCommand) -> AnyCommand:
    """Give a command the options of a world; it gets them as one `wanted`."""

    @wraps(command)
    def wrapped(**given: Any) -> Any:
        names = ("world", "pages", "hosts", "sitemap", "changes", "errors", "seed")
        wanted = WorldOptions(**{name: given.pop(name) for name in names})
        return command(wanted=wanted, **given)

    decorated: Any = wrapped
    options = (
        click.option(
            "--world",
            default="weblike",
            show_default=True,
            help="What is served: weblike (drawn after real sites), noisy (that of Busa-Fekete et al. 2025), "
            "or recorded histories: "
            "one or more .npz files with commas between, a host each.",
        ),
        click.option("--pages", default=200, show_default=True, type=click.IntRange(1, 20_000), help="Pages in all."),
        click.option(
            "--hosts", default=6, show_default=True, type=click.IntRange(1, 100), help="Hosts of a drawn world."
        ),
        click.option(
            "--sitemap",
            type=click.Choice(("none", "honest", "build-time", "static", "date-only", "late")),
            help="The sitemaps of a weblike world [default: each kind].",
        ),
        click.option(
            "--changes",
            default="5/s",
            show_default=True,
            type=rate,
            help="Changes of all pages: sets the pace of time.",
        ),
        click.option(
            "--errors",
            default=0.0,
            show_default=True,
            type=click.FloatRange(0, 1),
            help="Share of answers that are 503.",
        ),
        click.option(
            "--seed", default=1, show_default=True, type=click.IntRange(0), help="The same seed, the same world."
        ),
    )
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]  # click's decorators keep what they decorate


@dataclass(frozen=True, slots=True)
class ReadRun:
    """The options of `crawld lab read`."""

    seconds: float
    pages: int
    changes: float
    reads_per_change: float
    zipf: float
    wait: float
    share: float
    seed: int


@click.command()
@click.option("--seconds", default=180.0, show_default=True, type=click.FloatRange(10, 86_400), help="For each budget.")
@click.option("--pages", default=60, show_default=True, type=click.IntRange(1, 20_000), help="Pages in all.")
@click.option("--changes", default="6/s", show_default=True, type=rate, help="Changes of all pages.")
@click.option("--requests-per-change", "budgets", default="0.5", show_default=True, help="Budgets, with commas.")
@click.option("--reads-per-change", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True))
@click.option("--zipf", default=0.0, show_default=True, type=click.FloatRange(0, 5), help="Exponent; 0: equal reads.")
@click.option("--wait", default=3.0, show_default=True, type=click.FloatRange(0, 60), help="Slots that readers wait.")
@click.option(
    "--share", default=1.0, show_default=True, type=click.FloatRange(0, 1), help="Of the slots, for reads at most."
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="The same seed, the same world.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def read(budgets: str, as_json: bool, **given: Any) -> None:
    """Let readers read copies of three real daemons that crawl one site at the same rate, and count the fresh reads.

    One daemon keeps its copies fresh and its readers do not wait (proactive), one fetches pages only when they are
    read, in the order of reads (through), one weighs both (both). Reads come at random (Poisson), by Zipf's law with
    --zipf; they are the same for all three, and importance is in proportion to them. The first third of the time is
    not judged.
    """
    run = ReadRun(**given)
    if run.changes <= 0:
        raise InputError("--changes: nothing would ever change; give a rate such as 6/s")
    rows: list[dict[str, Any]] = []
    for budget in _numbers(budgets):
        finish = asyncio.run(_run(run, budget))
        if finish is None:
            raise InputError("stopped too early to compare anything: let it run for 10 s or more")
        rows += _rows(finish, budget)
    if as_json:
        click.echo(json.dumps({**asdict(run), "modes": rows}, indent=2))
        return
    shown = console()
    title = f"{run.pages} pages, {run.reads_per_change:g} reads per change, {run.seconds:g} s"
    columns = (
        name("mode"),
        number("requests_per_change", 90, "requests per change"),
        number("fresh_reads", 100, "fresh reads"),
        number("error", 60, "±"),
        number("reads", 70),
        number("freshness", 50, "copies fresh"),
        duration("wait_mean_seconds", 80, "mean wait"),
        duration("wait_p95_seconds", 75, "95 %"),
        number("requests", 85),
    )
    shown.print(fitted(rows, columns, shown.width, title))
    shown.print("A read is fresh if the reader got what the page said at that moment, as the site itself knows it.")


async def _run(run: ReadRun, budget: float) -> "ReadFinish | None":
    from crawld.research.reads import ReaderDemand, ReadTrial, read_scenario
    from crawld.research.site import LabSite

    demand = ReaderDemand(run.reads_per_change, run.zipf, run.wait, run.seed)
    lives = run.seconds + 60.0  # a daemon needs a moment to start, and one to end
    scenario = read_scenario(run.pages, lives, run.changes, demand)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crawld-lab-")))
        rate = budget * _changes_per_second(scenario.world.changes, run.seconds)
        daemons = LabDaemons(folder, rate, read_share=run.share, mode="raw")
        async with LabSite(scenario, seed=demand.seed) as site:
            daemons.url_list.write_text(site.url_list())
            chosen = {"proactive": choose("greedy"), "through": ON_DEMAND, "both": choose("greedy")}
            entrants = [daemons.enter(one, policy) for one, policy in chosen.items()]
            sockets = {one: daemons.socket(one) for one in chosen}
            with contest_progress(run.seconds) as show:
                trial = ReadTrial(site, entrants, sockets, demand, rate=daemons.bandwidth, seconds=run.seconds)
                return await trial.run(show)


def _changes_per_second(changes: "Floats", seconds: float) -> float:
    """Changes as they were drawn, in the time that is judged: their number differs from the rate by luck."""
    judged = (changes >= seconds / 3) & (changes < seconds)
    return max(float(judged.sum()), 1.0) / (seconds * 2 / 3)


def _rows(found: "ReadFinish", budget: float) -> list[dict[str, Any]]:
    rows = []
    for mode, log in found.logs.items():
        asked = sum(at >= found.finish.judged_from for at in found.finish.visits[mode].times)
        rows.append(
            {
                "mode": mode,
                "budget": budget,
                **log.report(found.finish.judged_from),
                "freshness": found.finish.scores[mode].freshness,
                "requests": asked,
                "requests_per_change": asked / max(found.changes, 1),
            }
        )
    return rows


def _numbers(given: str) -> list[float]:
    try:
        found = [float(part) for part in given.split(",")]
    except ValueError:
        raise InputError(f"--requests-per-change {given}: give numbers, as 0.2,0.5,1") from None
    if any(number <= 0 for number in found):
        raise InputError("--requests-per-change: each must be above 0")
    return found


def or_replay(command: AnyCommand) -> AnyCommand:
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
        "--importance", type=click.Choice(("equal", "zipf")), help="Of the pages of a --history [its own, or equal]."
    )
    @wraps(command)
    def wrapped(history: Path | None, budget: float | None, importance: str | None, **given: Any) -> Any:
        if history is None:
            if budget is not None or importance is not None:
                raise InputError("--budget and --importance need a --history")
            return command(**given)
        context = click.get_current_context()
        for option in (
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
        ):
            if context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE:
                raise InputError(f"--{'database' if option == 'directory' else option} does not go with --history")
        crawlers = [*dict.fromkeys(part.strip() for part in given["policies"].split(","))]
        return _replay(given["wanted"], history, crawlers, (budget or 1.0, importance), as_json=given["as_json"])

    return wrapped  # type: ignore[return-value]  # click's decorators keep what they decorate


def _replay(
    wanted: WorldOptions, history: Path, crawlers: list[str], how: tuple[float, str | None], *, as_json: bool
) -> None:
    from crawld.research.contestants import names
    from crawld.research.replayed import compare_replayed, open_history, weighted
    from crawld.research.world import zipf

    unknown = [crawler for crawler in crawlers if crawler not in names()]
    if unknown:
        raise InputError(f"--policies: there is no {unknown[0]!r}; with --history choose from {', '.join(names())}")
    budget, importance = how
    world = open_history(history, wanted.pages, wanted.seed)
    if importance is not None:
        pages = world.population.pages
        world = weighted(world, zipf(pages, wanted.seed) if importance == "zipf" else [1.0] * pages)
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
    figures = (
        name("crawler"),
        number("freshness", 100),
        number("lead", 90, "over round robin"),
        number("age_days", 60, "age, days"),
        number("delay_days", 65, "delay, days"),
        number("missed", 50),
        number("used", 70, "slots used"),
    )
    columns = [column for column in figures if any(column.full(row) != "–" for row in rows)]
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

    from crawld.research.git import LIMITS, GitHistory, GitRepository

    target = output or Path(f"{folder.absolute().name}.npz")
    if not target.absolute().parent.is_dir():
        raise InputError(f"--output: there is no directory {target.absolute().parent}")
    begin = None if since is None else since.replace(tzinfo=UTC).timestamp()
    columns = (TextColumn("commits"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    with GitRepository(folder, branch) as repository, bar:
        task = bar.add_task("", total=None)
        history = GitHistory(repository, under, suffixes or LIMITS.suffixes)
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


@click.group(cls=Commands)
def command() -> None:
    """Try crawlers against a living site on loopback that knows how fresh their copies are.

    The site lives a world in accelerated time: drawn after real sites, that of Busa-Fekete et al. 2025, or replayed
    from recorded histories, on several host names, with sitemaps of every kind, robots.txt, validators and errors.
    """


command.add_command(import_git)
command.add_command(read)


@command.command()
@click.option("--port", default=0, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any that is free.")
@click.option(
    "--seconds", default=600.0, show_default=True, type=click.FloatRange(5, 86_400), help="How long the world lives."
)
@click.option("--urls", type=click.Path(path_type=Path, dir_okay=False), help="Write the URL list of its pages here.")
@click.option(
    "--turn-away", default=0.0, show_default=True, type=click.FloatRange(0, 1), help="Pages that let no bot in."
)
@click.option("--json", "as_json", is_flag=True, help="The scores at the end as JSON.")
@world_options
def serve(wanted: WorldOptions, port: int, seconds: float, urls: Path | None, turn_away: float, as_json: bool) -> None:
    """Serve a world for crawlers of any kind; crawlers are told apart by their user agents.

    Scores are shown every ten seconds, at the end, and as JSON under /lab/score. Ctrl-C ends it with the scores.
    """
    list_pages = urls.write_text if urls is not None else len  # no list was asked for
    rows = asyncio.run(_serve(wanted, wanted.scenario(seconds), port, seconds, turn_away, list_pages))
    if as_json:
        click.echo(json.dumps({"pages": wanted.pages, "crawlers": rows}, indent=2))
    elif rows:
        print_scores(rows, "Since each crawler's first request", console())
    else:
        click.echo("no crawler came")


@command.command()
@click.option("--policies", default="greedy-ncis,greedy,uniform", show_default=True, help="Policies, with commas.")
@click.option("--bandwidth", default="5/s", show_default=True, type=rate, help="Requests for each daemon.")
@click.option(
    "--seconds", default=180.0, show_default=True, type=click.FloatRange(5, 86_400), help="How long to compare."
)
@click.option("--simulate", is_flag=True, help="Also simulate the same world, requests and polls.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw freshness over time here.")
@click.option(
    "--database", "directory", type=click.Path(path_type=Path, file_okay=False), help="Where to leave the databases."
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
@world_options
@or_replay
def compare(
    wanted: WorldOptions,
    policies: str,
    bandwidth: float,
    seconds: float,
    simulate: bool,
    svg: Path | None,
    directory: Path | None,
    as_json: bool,
) -> None:
    """Let one real daemon per policy crawl the same site at the same time, and report what each held of it.

    The first third of the time is not judged: everything has to be crawled once, and learnt from. Ctrl-C ends it early,
    with the report of what was seen so far. With --history no daemon runs: the simulator replays recorded histories.
    """
    if bandwidth <= 0:
        raise InputError("--bandwidth: the daemons need a bandwidth above 0")
    chosen = {one.name: one for one in (choose(part.strip()) for part in policies.split(","))}
    if svg is not None and not svg.absolute().parent.is_dir():
        raise InputError(f"--svg: there is no directory {svg.absolute().parent}")
    scenario = wanted.scenario(seconds + 60.0)  # a daemon needs a moment to start, and one to end
    with ExitStack() as stack:
        folder = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crawld-lab-")))
        folder.mkdir(parents=True, exist_ok=True)
        daemons = LabDaemons(folder, bandwidth)
        finish = asyncio.run(_compare(wanted, scenario, daemons, chosen, seconds))
    if finish is None:
        raise InputError("stopped too early to compare anything: let it run for 5 s or more")
    simulated = _simulated(scenario, finish) if simulate else {}
    settings = {"world": wanted.world, "pages": scenario.pages, "bandwidth": bandwidth, "seed": wanted.seed}
    report = finish_report(finish, settings, simulated)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        print_finish(report, console())
    if svg is not None:
        svg.write_text(chart(report["crawlers"]), encoding="utf-8")
        click.echo(f"The chart is in {svg}.", err=True)


async def _compare(
    wanted: WorldOptions, scenario: "Scenario", daemons: LabDaemons, chosen: dict[str, Policy], seconds: float
) -> "Finish | None":
    from crawld.research.contest import Contest
    from crawld.research.site import LabSite

    async with LabSite(scenario, errors=wanted.errors, seed=wanted.seed) as site:
        daemons.url_list.write_text(site.url_list())
        entrants = [daemons.enter(name, policy) for name, policy in chosen.items()]
        with contest_progress(seconds) as show:
            return await Contest(site, entrants, seconds).run(show)


def _simulated(scenario: "Scenario", finish: "Finish") -> "dict[str, Simulated]":
    from crawld.research.replayed import simulated_freshness

    click.echo("simulating the same world …", err=True)
    span = (finish.judged_from, finish.ended)
    crawled = {name: visits for name, visits in finish.visits.items() if visits.times}  # a short run may end before
    return {name: simulated_freshness(scenario, name, visits, span) for name, visits in crawled.items()}


async def _serve(
    wanted: WorldOptions,
    scenario: "Scenario",
    port: int,
    seconds: float,
    turn_away: float,
    list_pages: Callable[[str], object],
) -> list[dict[str, Any]]:
    from crawld.research.site import LabSite, until

    given = {"errors": wanted.errors, "turn_away": turn_away}
    async with LabSite(scenario, **given, port=port, seed=wanted.seed) as site:
        list_pages(site.url_list())
        hosts = ", ".join(site.origin(number) for number in range(len(scenario.hosts)))
        click.echo(f"{scenario.pages} pages on {hosts}", err=True)

        def look() -> None:
            now = site.elapsed
            held = [f"{name} {site.board.freshness_now(name, now):.3f}" for name in site.board.visits]
            click.echo(f"{now:.0f} s: {', '.join(held) or 'no crawler has come yet'}", err=True)

        living = asyncio.create_task(until(site, seconds, look, 10.0))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, living.cancel)
        await asyncio.wait([living])
        return [score_row(name, score) for name, score in site.board.scores(site.elapsed).items()]
