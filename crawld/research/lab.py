"""`crawld lab`: a living site on loopback that knows the truth, to try crawlers against."""

import asyncio
import json
import signal
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawld.choose.policies import Policy, choose
from crawld.cli.lazy_group import Commands
from crawld.cli.options import RATE
from crawld.cli.tables import console
from crawld.model.errors import InputError
from crawld.research.contest_progress import contest_progress
from crawld.research.lab_daemons import LabDaemons
from crawld.research.lab_history import import_git, or_replay
from crawld.research.lab_read import read
from crawld.research.lab_report import chart, finish_report, print_finish, print_scores, score_row
from crawld.research.lab_world import Wanted, world_options

if TYPE_CHECKING:
    from crawld.research.contest import Finish
    from crawld.research.scenario import Scenario
    from crawld.research.simulated import Simulated

SECONDS = click.FloatRange(5, 86_400)
LOOK_SECONDS = 10.0


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
@click.option("--seconds", default=600.0, show_default=True, type=SECONDS, help="How long the world lives.")
@click.option("--urls", type=click.Path(path_type=Path, dir_okay=False), help="Write the URL list of its pages here.")
@click.option(
    "--turn-away", default=0.0, show_default=True, type=click.FloatRange(0, 1), help="Pages that let no bot in."
)
@click.option("--json", "as_json", is_flag=True, help="The scores at the end as JSON.")
@world_options
def serve(wanted: Wanted, port: int, seconds: float, urls: Path | None, turn_away: float, as_json: bool) -> None:
    """Serve a world for crawlers of any kind; crawlers are told apart by their user agents.

    Scores are shown every ten seconds, at the end, and as JSON under /lab/score. Ctrl-C ends it with the scores.
    """
    list_pages = urls.write_text if urls is not None else len  # a list that nobody asked for goes nowhere
    rows = asyncio.run(_serve(wanted, wanted.scenario(seconds), port, seconds, turn_away, list_pages))
    if as_json:
        click.echo(json.dumps({"pages": wanted.pages, "crawlers": rows}, indent=2))
    elif rows:
        print_scores(rows, "Since each crawler's first request", console())
    else:
        click.echo("nobody came")


@command.command()
@click.option("--policies", default="greedy-ncis,greedy,uniform", show_default=True, help="Policies, with commas.")
@click.option("--bandwidth", default="5/s", show_default=True, type=RATE, help="Requests for each daemon.")
@click.option("--seconds", default=180.0, show_default=True, type=SECONDS, help="How long to compare.")
@click.option("--simulate", is_flag=True, help="Also simulate the same world, requests and polls.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw freshness over time here.")
@click.option(
    "--database", "directory", type=click.Path(path_type=Path, file_okay=False), help="Where to leave the databases."
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
@world_options
@or_replay
def compare(
    wanted: Wanted,
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
    wanted: Wanted, scenario: "Scenario", daemons: LabDaemons, chosen: dict[str, Policy], seconds: float
) -> "Finish | None":
    from crawld.research.contest import Contest
    from crawld.research.site import LabSite

    async with LabSite(scenario, errors=wanted.errors, seed=wanted.seed) as site:
        daemons.url_list.write_text(site.url_list())
        entrants = [daemons.enter(name, policy) for name, policy in chosen.items()]
        with contest_progress(seconds) as show:
            return await Contest(site, entrants, seconds).run(show)


def _simulated(scenario: "Scenario", finish: "Finish") -> "dict[str, Simulated]":
    from crawld.research.simulated import simulated_freshness

    click.echo("simulating the same world …", err=True)
    span = (finish.judged_from, finish.ended)
    return {name: simulated_freshness(scenario, name, visits, span) for name, visits in finish.visits.items()}


async def _serve(
    wanted: Wanted,
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
            click.echo(f"{now:.0f} s: {', '.join(held) or 'nobody has come yet'}", err=True)

        living = asyncio.create_task(until(site, seconds, look, LOOK_SECONDS))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, living.cancel)
        await asyncio.wait([living])
        return [score_row(name, score) for name, score in site.board.scores(site.elapsed).items()]
