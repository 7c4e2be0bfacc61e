"""`crawld forecast`: with the daemon running, with it stopped, and what it refuses."""

import asyncio
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from crawld.cli import main
from tests.support.daemon import running, until
from tests.support.process import settings
from tests.support.site import Site


async def forecast(folder: Path, *arguments: str) -> Result:
    """Run the command for the daemon of the folder."""
    given = ["--config", str(settings(folder, [])), "--database", f"sqlite:///{folder}/x.db"]
    return await asyncio.to_thread(CliRunner().invoke, main, ["forecast", *arguments, *given])


async def document(folder: Path, *arguments: str) -> dict[str, Any]:
    """The same as JSON."""
    done = await forecast(folder, "--json", *arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def test_running_or_stopped_the_forecast_is_about_the_same(tmp_path: Path) -> None:
    """The daemon answers over its socket; without one the database does, with the rate that was set last."""
    async with Site() as site:
        urls = [site.url(f"/cue/{number}") for number in range(6)]
        async with running(tmp_path, urls, min_interval=0.5, max_interval=3600) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 6)
            live = await document(tmp_path, "--bandwidth", "30/min", "--bandwidth", "2/s")
            steered = await asyncio.to_thread(
                CliRunner().invoke, main, ["bandwidth", "20/s", "--database", f"sqlite:///{tmp_path}/x.db"]
            )
            assert steered.exit_code == 0, steered.output
    assert live["pages"] == 6
    assert [point["bandwidth"] for point in live["points"]] == [0.5, 2.0, 50.0, 55.00000000000001]
    freshness = [point["freshness"] for point in live["points"]]
    assert freshness == sorted(freshness)
    assert 0 < live["freshness_now"] <= 1
    stopped = await document(tmp_path, "--bandwidth", "30/min")
    assert (stopped["pages"], stopped["bandwidth"]) == (6, 20.0)
    assert [point["bandwidth"] for point in stopped["points"]][:2] == [0.5, 20.0]
    shown = await forecast(tmp_path)
    assert "round robin" in shown.stdout
    assert " of what you care about is current. At 20/s " in shown.stdout


async def test_a_policy_of_rates_has_no_forecast(tmp_path: Path) -> None:
    """The refusal says which policies have one; a rate that is none is refused too."""
    async with Site() as site, running(tmp_path, [site.url("/cue/1")], policy="lds") as daemon:
        await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
        refused = await forecast(tmp_path)
        assert (refused.exit_code, "policy of crawl values, such as greedy-ncis" in refused.stderr) == (2, True)
    assert (await forecast(tmp_path, "--bandwidth", "much")).exit_code == 2
