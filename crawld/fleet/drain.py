"""`crawld fleet drain`: move a worker's shards to the others."""

import asyncio
import json
from pathlib import Path

import click

from crawld.cli.remote import AS_JSON, CONFIG, DATABASE
from crawld.fleet.store.standing import Standing
from crawld.main.settings import load
from crawld.model.units import many


@click.command()
@click.argument("worker")
@click.option("--undo", is_flag=True, help="Let it hold shards again.")
@CONFIG
@DATABASE
@AS_JSON
def command(worker: str, undo: bool, config_file: Path | None, database: str | None, as_json: bool) -> None:
    """Have WORKER, by its name or id, give its shards to the others; then it can be stopped without a pause.

    It commits what it crawled, gives shard after shard back and takes no new ones, until it is stopped or --undo.
    `crawld fleet status` shows how many it still holds.
    """
    asyncio.run(_drain(load(config_file, {"database": database}).database, worker, undo=undo, as_json=as_json))


async def _drain(database: str, worker: str, *, undo: bool, as_json: bool) -> None:
    async with Standing(database) as standing:
        held = await standing.drain(worker, draining=not undo)
    if as_json:
        click.echo(json.dumps({"worker": worker, "draining": not undo, "shards": held}))
    elif undo:
        click.echo(f"{worker} takes shards again")
    else:
        click.echo(
            f"{worker} gives its {many(held, 'shard')} away; `crawld fleet status` shows how many it still holds"
        )
