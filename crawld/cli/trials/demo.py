"""`crawld demo`: the newcomer's first minute, offline."""

import asyncio
import contextlib
import json
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from crawld.charts import Axis, Chart, Form, Line, Look, Point, draw
from crawld.cli.options import RATE
from crawld.cli.tables import console
from crawld.cli.trials.demo_report import print_report
from crawld.cli.trials.demo_site import LivingPage, LivingSite
from crawld.config import Settings
from crawld.errors import InputError
from crawld.model.units import format_rate

CRAWLD, ROUND_ROBIN = "crawld-demo", "roundrobin-demo"
SHORTEST = 5
"""Seconds below which there is nothing to compare."""
WARM_UP = 1 / 3
"""Share of the time at the beginning that is not judged: everything has to be crawled once."""


@dataclass(slots=True)
class Samples:
    """Freshness while the demo runs, a sample a tick."""

    at: list[float] = field(default_factory=list)
    true: list[float] = field(default_factory=list)
    predicted: list[float] = field(default_factory=list)
    uniform: list[float] = field(default_factory=list)

    def chart(self, began: float) -> Chart:
        """What both held over the time, and what crawld thought it held."""
        lines = {"crawld": self.true, "round robin": self.uniform, "predicted by crawld": self.predicted}
        seconds = [at - began for at in self.at]
        drawn = [
            Line(
                name, [Point(x, y) for x, y in zip(seconds, values, strict=True)], Look.SOLID if solid else Look.DASHED
            )
            for (name, values), solid in zip(lines.items(), (True, True, False), strict=True)
        ]
        y_axis = Axis("share of importance held in its current version", Form.SHARE, 0.0, 1.0)
        return Chart("True freshness while the demo ran", Axis("time", Form.DURATION), y_axis, drawn)

    def mean(self, values: list[float], since: float) -> float:
        """The mean of the samples taken since then."""
        judged = [value for at, value in zip(self.at, values, strict=True) if at >= since]
        return sum(judged) / len(judged) if judged else float("nan")


@click.command()
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(SHORTEST, 3600), help="How long to watch."
)
@click.option("--pages", default=60, show_default=True, type=click.IntRange(1, 5000), help="Pages of the living site.")
@click.option("--bandwidth", default="10/s", show_default=True, type=RATE, help="Requests for each crawler.")
@click.option(
    "--database", "directory", type=click.Path(path_type=Path, file_okay=False), help="Where to leave the databases."
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def command(seconds: float, pages: int, bandwidth: float, directory: Path | None, as_json: bool) -> None:
    """Watch crawld keep a living site fresh, beside plain round robin with the same bandwidth.

    A site on loopback changes by itself; two real daemons crawl it over real HTTP, one choosing by crawl value, one
    round robin. The site knows the truth, and the report says who held more of it. Nothing leaves this machine.
    Ctrl-C ends it early, with the report of what was seen so far.
    """
    if bandwidth <= 0:
        raise InputError("the demo needs a bandwidth above 0")
    folder = directory or Path(tempfile.mkdtemp(prefix="crawld-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    report = asyncio.run(_Demo(folder, seconds, pages, bandwidth, quiet=as_json).run())
    if report is None:
        raise InputError(f"stopped too early to compare the two: let the demo run for {SHORTEST} s or more")
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        print_report(report, console())


class _Demo:
    """One run: the site, two daemons, and someone who watches."""

    def __init__(self, folder: Path, seconds: float, pages: int, bandwidth: float, *, quiet: bool) -> None:
        self._folder, self._seconds, self._bandwidth, self._quiet = folder, seconds, bandwidth, quiet
        self._site = LivingSite(pages, seconds)
        self._samples = Samples()

    async def run(self) -> dict[str, Any] | None:
        """Run it, to its end or to the first ctrl-C, and report; None where it was stopped too early for that."""
        from crawld import wiring

        async with self._site as site:
            urls = self._folder / "urls.txt"
            urls.write_text("".join(f"{page.url} {page.importance}\n" for page in site.pages))
            tempo = wiring.Tempo(learn=0.5, tick=5.0, poll=1.0)
            greedy = wiring.build(self._settings(CRAWLD, "greedy-ncis"), tempo=tempo)
            uniform = wiring.build(self._settings(ROUND_ROBIN, "uniform"), tempo=tempo)
            uniform.catch_signals = greedy.catch_signals = False
            daemons = [asyncio.create_task(daemon.run()) for daemon in (greedy, uniform)]
            watcher = asyncio.create_task(self._watch(greedy))
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, watcher.cancel)
            started = site.elapsed
            await asyncio.wait([watcher, *daemons], return_when=asyncio.FIRST_COMPLETED)
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)  # a second ctrl-C does not wait
            ended = site.elapsed
            for daemon in (greedy, uniform):
                daemon.stop()
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
            await asyncio.gather(*daemons)
            if ended - started < SHORTEST:
                return None
            return self._report(started, ended, greedy.crawler.status.requests)

    def _settings(self, name: str, policy: str) -> Settings:
        return Settings.model_validate(
            {
                "bandwidth": self._bandwidth,
                "urls": str(self._folder / "urls.txt"),
                "database": f"sqlite:///{self._folder / name}.db",
                "user_agent": f"{name}/1.0 (+mailto:demo@localhost)",
                "policy": policy,
                "allow_private": ["127.0.0.0/8"],
                "politeness": {"delay": 0, "per_host": 100},
                "min_interval": 0.2,
                "signals": {"share": 0.05} if policy != "uniform" else {"sitemaps": "off", "feeds": "off"},
                "audit": {"share": 0.01 if policy != "uniform" else 0},
                "log": {"level": "warning"},
                "api": {"listen": None},
            }
        )

    async def _watch(self, greedy: Any) -> None:
        """Sample the truth and the prediction until the time is over, and show both."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[line]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), disable=self._quiet) as progress:
            task = progress.add_task("crawling", total=self._seconds, line="")
            began = self._site.elapsed
            while (elapsed := self._site.elapsed - began) < self._seconds:
                await asyncio.sleep(min(0.25, self._seconds - elapsed + 0.001))
                self._sample(greedy)
                line = (
                    f"fresh now: crawld {self._samples.true[-1]:.2f} (predicted {self._samples.predicted[-1]:.2f}), "
                    f"round robin {self._samples.uniform[-1]:.2f}"
                )
                progress.update(task, completed=elapsed, line=line)

    def _sample(self, greedy: Any) -> None:
        site, samples = self._site, self._samples
        samples.at.append(site.elapsed)
        samples.true.append(site.freshness_now(CRAWLD))
        samples.predicted.append(greedy.scheduler.predicted_freshness(greedy.clock.now()) or 0.0)
        samples.uniform.append(site.freshness_now(ROUND_ROBIN))

    def _report(self, started: float, ended: float, requests: int) -> dict[str, Any]:
        site = self._site
        judged_from = started + WARM_UP * (ended - started)
        pages = [self._page_row(page, judged_from, ended) for page in site.pages]
        pages.sort(key=lambda row: -row["freshness_true"])
        chart = self._folder / "freshness.svg"
        chart.write_text(draw(self._samples.chart(started), standalone=True), encoding="utf-8")
        return {
            "freshness_true": site.freshness(CRAWLD, judged_from, ended),
            "freshness_predicted": self._samples.mean(self._samples.predicted, judged_from),
            "freshness_uniform": site.freshness(ROUND_ROBIN, judged_from, ended),
            "requests": requests,
            "requests_uniform": site.requests.get(ROUND_ROBIN, 0),
            "bandwidth": self._bandwidth,
            "bandwidth_text": format_rate(self._bandwidth),
            "seconds": round(ended - started, 2),
            "judged_seconds": round(ended - judged_from, 2),
            "pages": len(site.pages),
            "freshest": pages[:5],
            "stalest": pages[-5:],
            "chart": str(chart),
            "database": str(self._folder / f"{CRAWLD}.db"),
            "database_uniform": str(self._folder / f"{ROUND_ROBIN}.db"),
        }

    def _page_row(self, page: LivingPage, start: float, end: float) -> dict[str, Any]:
        changes = int(((page.changes > start) & (page.changes <= end)).sum())
        return {
            "url": page.url,
            "sitemap": page.host,
            "importance": page.importance,
            "changes": changes,
            "crawls": sum(start < at <= end for at, _ in page.served.get(CRAWLD, [])),
            "freshness_true": round(self._site.freshness_of(page, CRAWLD, start, end), 4),
        }
