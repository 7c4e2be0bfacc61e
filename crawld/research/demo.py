"""`crawld demo`: the newcomer's first minute, offline. A small use of the lab."""

import asyncio
import json
import os
import shlex
import signal
import tempfile
import webbrowser
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from crawld.choose.policies import DEFAULT, choose
from crawld.cli.dashboard import own_listener, token_of
from crawld.cli.options import rate
from crawld.cli.tables import console, fitted, name, number, word
from crawld.main.settings import Settings
from crawld.model.clock import SystemClock
from crawld.model.errors import CrawldError, InputError
from crawld.model.units import format_rate
from crawld.research.contest import LabDaemons, contest_progress
from crawld.show.api.access import login_code
from crawld.show.charts import Axis, Chart, ChartPoint, Form, Line, Look, draw

if TYPE_CHECKING:
    from crawld.research.contest import Finish
    from crawld.research.site import LabSite


@dataclass(frozen=True)
class DemoLimits:
    """Numbers that bound and tune this module."""

    min_seconds: int = 5
    """Seconds below which there is nothing to compare."""
    audit_share: float = 0.01
    open_seconds: float = 3600.0
    """For which the site goes on changing while the demo is looked at in a browser."""


LIMITS = DemoLimits()


async def serve_until_interrupted(daemons: LabDaemons, name: str) -> None:
    """Let the daemon of that name go on where it stopped, say where its dashboard is, and wait for ctrl-C."""
    daemon = replace(daemons, listen="127.0.0.1:0").enter(name, choose(DEFAULT)).daemon
    running, interrupted, loop = asyncio.create_task(daemon.run()), asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    waiting = asyncio.create_task(_wait(daemons.database(name), interrupted))
    try:
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        daemon.stop()
        waiting.cancel()
        await running


async def _wait(database: Path, interrupted: asyncio.Event) -> None:
    """Tell the link once it works, open it where there is a display, and wait."""
    settings = Settings(database=f"sqlite:///{database}")
    while True:
        try:
            address = await asyncio.to_thread(own_listener, settings)
            break
        except CrawldError:  # not yet; where the daemon ends, so does this
            await asyncio.sleep(0.05)
    link = f"http://{address}/login?code={login_code(token_of(settings), SystemClock().now())}"
    told = Console(stderr=True)
    told.print("\nIn the browser until ctrl-C, while the site and crawld go on:\n")
    told.print(f"  {link}", highlight=False, soft_wrap=True)
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        await asyncio.to_thread(webbrowser.open, link)
    await interrupted.wait()


QUERY = "SELECT url, importance, crawls, changes, freshness FROM page_stats ORDER BY freshness LIMIT 5;"


def print_report(report: dict[str, Any], console: Console) -> None:
    """Prints which crawler was fresher, the freshest and stalest pages, and where to look further."""
    true, uniform = report["freshness_true"], report["freshness_uniform"]
    console.print()
    rows = [
        {"crawler": "crawld", "true": true, "predicted": report["freshness_predicted"], "requests": report["requests"]},
        {"crawler": "round robin", "true": uniform, "predicted": "", "requests": report["requests_uniform"]},
    ]
    title = f"{report['pages']} pages, {report['bandwidth_text']} each, {report['seconds']:.0f} s"
    crawlers = (
        name("crawler"),
        number("true", 90, "true freshness"),
        number("predicted", 60),
        number("requests", 80),
    )
    console.print(fitted(rows, crawlers, console.width, title))
    console.print(
        f"True freshness is what the site itself knows: the share of importance held in its current version, over the "
        f"last {report['judged_seconds']:.0f} s.\n{_verdict(true, uniform)}\n"
    )
    pages = (
        name("url"),
        number("freshness_true", 90, "fresh"),
        number("changes", 80),
        number("crawls", 70),
        number("importance", 60),
        word("sitemap", 50),
    )
    for which in ("freshest", "stalest"):
        console.print(fitted([_short(row) for row in report[which]], pages, console.width, f"The {which} pages"))
    console.print(f"\nThe course of both is drawn in {report['chart']}", highlight=False, soft_wrap=True)
    run = f"crawld run --urls {shlex.quote(report['urls'])} --database {shlex.quote(report['database_url'])}"
    look = f"crawld dashboard --database {shlex.quote(report['database_url'])}"
    console.print("\nIn the browser: `crawld demo --open`; or serve this result, in two terminals:\n", highlight=False)
    for line in (f"{run} --bandwidth 0", look):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    console.print("\nEverything crawld knows is in SQLite; try:\n")
    console.print(f"  sqlite3 -box {shlex.quote(report['database'])} '{QUERY}'", highlight=False, soft_wrap=True)


def _verdict(true: float, uniform: float) -> str:
    if true >= uniform:
        stale, before = 1 - true, 1 - uniform
        less = f" ({1 - stale / before:.0%} less staleness)" if before > 0 else ""
        return f"With the same requests crawld held {true - uniform:+.3f} more of the site than round robin{less}."
    return f"This time round robin held {uniform - true:.3f} more: too little to learn from. Try --seconds 120."


def _short(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"url": row["url"].removeprefix("http://")}


class DemoCrawler(StrEnum):
    """The two daemons of the demo, by the name of their folder."""

    CRAWLD = "crawld-demo"
    ROUND_ROBIN = "roundrobin-demo"

    @property
    def shown(self) -> str:
        """The name that the report uses."""
        return "crawld" if self is DemoCrawler.CRAWLD else "round robin"


@click.command()
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    type=click.FloatRange(LIMITS.min_seconds, 3600),
    help="How long to watch.",
)
@click.option("--pages", default=60, show_default=True, type=click.IntRange(1, 5000), help="Pages of the living site.")
@click.option("--bandwidth", default="10/s", show_default=True, type=rate, help="Requests for each crawler.")
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
    daemons = LabDaemons(folder, bandwidth, LIMITS.audit_share)
    if not asyncio.run(_run(daemons, seconds, pages, opened=opened, as_json=as_json)):
        raise InputError(f"stopped too early to compare the two: let the demo run for {LIMITS.min_seconds} s or more")


async def _run(daemons: LabDaemons, seconds: float, pages: int, *, opened: bool, as_json: bool) -> bool:
    """Run it, to its end or to the first ctrl-C, and report; False where it was stopped too early for that."""
    from crawld.research.contest import Contest
    from crawld.research.scenario import living_scenario
    from crawld.research.site import LabSite

    async with LabSite(living_scenario(pages, max(seconds, LIMITS.open_seconds) if opened else seconds)) as site:
        daemons.url_list.write_text(site.url_list())
        entrants = [
            daemons.enter(DemoCrawler.CRAWLD, choose(DEFAULT)),
            daemons.enter(DemoCrawler.ROUND_ROBIN, choose("uniform")),
        ]
        with contest_progress(seconds, {one: one.shown for one in DemoCrawler}, quiet=as_json) as show:
            finish = await Contest(site, entrants, seconds).run(show)
        if finish is None:
            return False
        report = _report(daemons, site, finish)
        if as_json:
            click.echo(json.dumps(report, indent=2))
        else:
            print_report(report, console())
        if opened:
            await serve_until_interrupted(daemons, DemoCrawler.CRAWLD)
        return True


def _report(daemons: LabDaemons, site: "LabSite", finish: "Finish") -> dict[str, Any]:
    pages = _page_rows(site, finish)
    picture = daemons.folder / "freshness.svg"
    picture.write_text(draw(_chart(finish), standalone=True), encoding="utf-8")
    crawld, uniform = finish.scores[DemoCrawler.CRAWLD], finish.scores[DemoCrawler.ROUND_ROBIN]
    return {
        "freshness_true": crawld.freshness,
        "freshness_predicted": finish.samples.mean_predicted(DemoCrawler.CRAWLD, finish.judged_from),
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
        "database_url": f"sqlite:///{daemons.database(DemoCrawler.CRAWLD)}",
        "database": str(daemons.database(DemoCrawler.CRAWLD)),
        "database_uniform": str(daemons.database(DemoCrawler.ROUND_ROBIN)),
    }


def _page_rows(site: "LabSite", finish: "Finish") -> list[dict[str, Any]]:
    """Every page with what crawld made of it, the freshest first."""
    world, hosts = site.scenario.world, site.scenario.hosts
    fresh, crawls, changes = site.board.by_page(DemoCrawler.CRAWLD, finish.judged_from, finish.ended)
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
    """Draws the freshness of both over time, and crawld's prediction."""
    samples = finish.samples
    seconds = [at - finish.started for at in samples.at]
    held = {one.shown: (samples.true[one], Look.SOLID) for one in DemoCrawler}
    lines = held | {"predicted by crawld": (samples.predicted[DemoCrawler.CRAWLD], Look.DASHED)}
    drawn = [
        Line(name, [ChartPoint(x, y) for x, y in zip(seconds, values, strict=True)], look)
        for name, (values, look) in lines.items()
    ]
    y_axis = Axis("share of importance held in its current version", Form.SHARE, 0.0, 1.0)
    return Chart("True freshness while the demo ran", Axis("time", Form.DURATION), y_axis, drawn)
