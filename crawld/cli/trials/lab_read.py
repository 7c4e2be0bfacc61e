"""`crawld lab read`: real daemons and readers, with and without reading through."""

import asyncio
import json
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawld.cli.options import RATE
from crawld.cli.tables import console, duration, fitted, name, number
from crawld.cli.trials.contest_progress import contest_progress
from crawld.cli.trials.lab_daemons import LabDaemons
from crawld.errors import InputError
from crawld.policies.policies import ON_DEMAND, choose

if TYPE_CHECKING:
    from crawld.lab.reads import Floats, ReadFinish

COLUMNS = (
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


@dataclass(frozen=True, slots=True)
class ReadRun:
    """What is asked of the lab, as the options say it."""

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
@click.option("--changes", default="6/s", show_default=True, type=RATE, help="Changes of all pages.")
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
    shown.print(fitted(rows, COLUMNS, shown.width, title))
    shown.print("A read is fresh if the reader got what the page said at that moment, as the site itself knows it.")


async def _run(run: ReadRun, budget: float) -> "ReadFinish | None":
    from crawld.lab.reads import BOTH, PROACTIVE, THROUGH, Demand, ReadTrial, read_scenario
    from crawld.lab.site import LabSite

    demand = Demand(run.reads_per_change, run.zipf, run.wait, run.seed)
    lives = run.seconds + 60.0  # a daemon needs a moment to start, and one to end
    scenario = read_scenario(run.pages, lives, run.changes, demand)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crawld-lab-")))
        rate = budget * _changes_per_second(scenario.world.changes, run.seconds)
        daemons = LabDaemons(folder, rate, read_share=run.share, mode="raw")
        async with LabSite(scenario, seed=demand.seed) as site:
            daemons.url_list.write_text(site.url_list())
            chosen = {PROACTIVE: choose("greedy"), THROUGH: ON_DEMAND, BOTH: choose("greedy")}
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
