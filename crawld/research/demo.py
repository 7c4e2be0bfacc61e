"""`crawld demo`: the newcomer's first minute, offline. A small use of the lab."""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawld.choose.policies import DEFAULT, choose
from crawld.cli.options import RATE
from crawld.cli.tables import console
from crawld.model.errors import InputError
from crawld.model.units import format_rate
from crawld.research.contest_progress import contest_progress
from crawld.research.demo_open import serve_until_interrupted
from crawld.research.demo_report import print_report
from crawld.research.lab_daemons import LabDaemons
from crawld.show.axis import Axis, Form
from crawld.show.chart import Chart, Line, Look, Point
from crawld.show.charts import draw

if TYPE_CHECKING:
    from crawld.research.contest import Finish
    from crawld.research.site import LabSite

CRAWLD, ROUND_ROBIN = "crawld-demo", "roundrobin-demo"
NAMES = {CRAWLD: "crawld", ROUND_ROBIN: "round robin"}
SHORTEST = 5
"""Seconds below which there is nothing to compare."""
AUDIT_SHARE = 0.01
OPEN_SECONDS = 3600.0
"""For which the site goes on changing while the demo is looked at in a browser."""


@click.command()
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(SHORTEST, 3600), help="How long to watch."
)
@click.option("--pages", default=60, show_default=True, type=click.IntRange(1, 5000), help="Pages of the living site.")
@click.option("--bandwidth", default="10/s", show_default=True, type=RATE, help="Requests for each crawler.")
@click.option(
    "--database", "directory", type=click.Path(path_type=Path, file_okay=False), help="Where to leave the databases."
)
@click.option("--open", "opened", is_flag=True, help="Then keep it served in the browser until ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def command(seconds: float, pages: int, bandwidth: float, directory: Path | None, opened: bool, as_json: bool) -> None:
    """Watch crawld keep a living site fresh, beside plain round robin with the same bandwidth.

    A site on loopback changes by itself; two real daemons crawl it over real HTTP, one choosing by crawl value, one
    round robin. The site knows the truth, and the report says who held more of it. Nothing leaves this machine.
    Ctrl-C ends it early, with the report of what was seen so far. With --open the site and crawld then go on, and the
    dashboard is served until the next ctrl-C.
    """
    if bandwidth <= 0:
        raise InputError("the demo needs a bandwidth above 0")
    folder = directory or Path(tempfile.mkdtemp(prefix="crawld-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    daemons = LabDaemons(folder, bandwidth, AUDIT_SHARE)
    if not asyncio.run(_run(daemons, seconds, pages, opened=opened, as_json=as_json)):
        raise InputError(f"stopped too early to compare the two: let the demo run for {SHORTEST} s or more")


async def _run(daemons: LabDaemons, seconds: float, pages: int, *, opened: bool, as_json: bool) -> bool:
    """Run it, to its end or to the first ctrl-C, and report; False where it was stopped too early for that."""
    from crawld.research.contest import Contest
    from crawld.research.living import living_scenario
    from crawld.research.site import LabSite

    async with LabSite(living_scenario(pages, max(seconds, OPEN_SECONDS) if opened else seconds)) as site:
        daemons.url_list.write_text(site.url_list())
        entrants = [daemons.enter(CRAWLD, choose(DEFAULT)), daemons.enter(ROUND_ROBIN, choose("uniform"))]
        with contest_progress(seconds, NAMES, quiet=as_json) as show:
            finish = await Contest(site, entrants, seconds).run(show)
        if finish is None:
            return False
        report = _report(daemons, site, finish)
        if as_json:
            click.echo(json.dumps(report, indent=2))
        else:
            print_report(report, console())
        if opened:
            await serve_until_interrupted(daemons, CRAWLD)
        return True


def _report(daemons: LabDaemons, site: "LabSite", finish: "Finish") -> dict[str, Any]:
    pages = _page_rows(site, finish)
    picture = daemons.folder / "freshness.svg"
    picture.write_text(draw(_chart(finish), standalone=True), encoding="utf-8")
    crawld, uniform = finish.scores[CRAWLD], finish.scores[ROUND_ROBIN]
    return {
        "freshness_true": crawld.freshness,
        "freshness_predicted": finish.samples.mean_predicted(CRAWLD, finish.judged_from),
        "freshness_uniform": uniform.freshness,
        "requests": crawld.requests,
        "requests_uniform": uniform.requests,
        "bandwidth": daemons.bandwidth,
        "bandwidth_text": format_rate(daemons.bandwidth),
        "seconds": round(finish.ended - finish.started, 2),
        "judged_seconds": round(finish.ended - finish.judged_from, 2),
        "pages": len(pages),
        "freshest": pages[:5],
        "stalest": pages[-5:],
        "chart": str(picture),
        "urls": str(daemons.url_list),
        "database_url": f"sqlite:///{daemons.database(CRAWLD)}",
        "database": str(daemons.database(CRAWLD)),
        "database_uniform": str(daemons.database(ROUND_ROBIN)),
    }


def _page_rows(site: "LabSite", finish: "Finish") -> list[dict[str, Any]]:
    """Every page with what crawld made of it, the freshest first."""
    world, hosts = site.scenario.world, site.scenario.hosts
    fresh, crawls, changes = site.board.by_page(CRAWLD, finish.judged_from, finish.ended)
    rows = [
        {
            "url": site.url(page),
            "sitemap": hosts[world.host_of[page]],
            "importance": float(world.population.mu[page]),
            "changes": int(changes[page]),
            "crawls": int(crawls[page]),
            "freshness_true": round(float(fresh[page]), 4),
        }
        for page in range(site.scenario.pages)
    ]
    return sorted(rows, key=lambda row: -float(row["freshness_true"]))


def _chart(finish: "Finish") -> Chart:
    """What both held over the time, and what crawld thought it held."""
    samples = finish.samples
    seconds = [at - finish.started for at in samples.at]
    held = {NAMES[name]: (samples.true[name], Look.SOLID) for name in (CRAWLD, ROUND_ROBIN)}
    lines = held | {"predicted by crawld": (samples.predicted[CRAWLD], Look.DASHED)}
    drawn = [
        Line(name, [Point(x, y) for x, y in zip(seconds, values, strict=True)], look)
        for name, (values, look) in lines.items()
    ]
    y_axis = Axis("share of importance held in its current version", Form.SHARE, 0.0, 1.0)
    return Chart("True freshness while the demo ran", Axis("time", Form.DURATION), y_axis, drawn)
