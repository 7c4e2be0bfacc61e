"""`crawld fleet init`: make an empty PostgreSQL database a fleet's."""

import asyncio
import json
from pathlib import Path

import click

from crawld.cli.options import RATE
from crawld.cli.remote import AS_JSON, CONFIG
from crawld.config import load
from crawld.model.fleet import MOST_SHARDS
from crawld.model.units import format_rate
from crawld.store.fleet.making import make_fleet

SHARDS = 256


@click.command()
@CONFIG
@click.option("--database", metavar="URL", envvar="CRAWLD_DATABASE", help="An empty PostgreSQL database.")
@click.option(
    "--shards",
    default=SHARDS,
    show_default=True,
    type=click.IntRange(1, MOST_SHARDS),
    help="Parts that hosts are spread over; cannot be changed later.",
)
@click.option("--bandwidth", type=RATE, help="Requests of the whole fleet, as 100/s; default: the settings'.")
@AS_JSON
def command(
    config_file: Path | None, database: str | None, shards: int, bandwidth: float | None, as_json: bool
) -> None:
    """Make an empty PostgreSQL database a fleet's, once.

    Hosts are spread over the shards; a worker holds several. A few dozen for each worker that you will ever run is a
    good number, and it cannot be changed. Running it again with as many shards changes nothing.
    """
    settings = load(config_file, {"database": database, "bandwidth": bandwidth})
    made = asyncio.run(make_fleet(settings.database, shards, settings.bandwidth))
    if as_json:
        click.echo(json.dumps({"made": made, "shards": shards}))
    elif made:
        click.echo(f"made a fleet of {shards} shards at {format_rate(settings.bandwidth)}; `crawld fleet run` joins it")
    else:
        click.echo(f"it is a fleet of {shards} shards already: nothing changed")
