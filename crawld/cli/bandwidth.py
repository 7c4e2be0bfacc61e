"""`crawld bandwidth`: read or change the running daemon's rate."""

import json
from pathlib import Path

import click

from crawld.cli.options import RATE
from crawld.cli.remote import AS_JSON, CONFIG, DATABASE, READ_SECONDS, ask
from crawld.model.units import format_rate


@click.command()
@click.argument("rate", type=RATE, required=False)
@CONFIG
@DATABASE
@AS_JSON
def command(rate: float | None, config_file: Path | None, database: str | None, as_json: bool) -> None:
    """Show the running daemon's bandwidth, or change it to RATE (2/s, 90/min, 5000/day, 0).

    A change takes effect from the next slot, is kept over restarts, and wins over config.yaml until that changes.
    """
    if rate is None:
        status = ask(config_file, database, "GET", "/status", seconds=READ_SECONDS)
    else:
        status = ask(config_file, database, "PUT", "/bandwidth", {"rate": rate})
    if as_json:
        click.echo(json.dumps({"bandwidth": status["bandwidth"], "paused": status["paused"]}))
        return
    click.echo(format_rate(status["bandwidth"]) + (" (paused)" if status["paused"] else ""))
