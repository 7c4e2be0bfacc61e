"""`crawld fleet export`: a fleet's database written out for a single daemon."""

import asyncio
import json
from pathlib import Path

import click

from crawld.cli.remote import AS_JSON, CONFIG, DATABASE
from crawld.fleet.init import Told
from crawld.fleet.store.transfer import named_counts, write_out
from crawld.main.settings import load


@click.command()
@click.option(
    "--to", "target", metavar="URL", required=True, help="sqlite:///FILE that is not there yet, or an empty PostgreSQL."
)
@CONFIG
@DATABASE
@AS_JSON
def command(target: str, config_file: Path | None, database: str | None, as_json: bool) -> None:
    """Write pages, history, estimates, copies, hooks and settings of a fleet into a database for `crawld run`.

    Workers may go on meanwhile: what they write from now on is left out. Changes keep their numbers.
    """
    told = Told()
    copying = write_out(load(config_file, {"database": database}).database, target, told)
    counts = named_counts(asyncio.run(copying))
    if as_json:
        seconds = {"seconds": round(told.seconds, 3), "pages_per_second": round(counts["pages"] / told.seconds, 1)}
        click.echo(json.dumps({"copied": counts} | seconds))
        return
    click.echo(f"wrote the fleet to {target}:")
    told.show(counts)
    click.echo(f"`crawld run --database {target}` goes on with it")
