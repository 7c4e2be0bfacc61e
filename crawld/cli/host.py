"""`crawld host`: steer how one host is asked."""

import json
from pathlib import Path

import click

from crawld.cli.remote import AS_JSON, CONFIG, DATABASE, ask, quoted
from crawld.errors import InputError
from crawld.model.slot import parse_duration


@click.command()
@click.argument("name", metavar="HOST")
@click.argument("action", type=click.Choice(["block", "unblock", "delay"]))
@click.argument("value", required=False)
@CONFIG
@DATABASE
@AS_JSON
def command(
    name: str, action: str, value: str | None, config_file: Path | None, database: str | None, as_json: bool
) -> None:
    """Block a HOST, unblock it (which also ends its back-off), or give it a delay of its own between requests.

    HOST is its name as in the statistics, with the port where it is not the usual one. All of it is kept over restarts.
    """
    if (action == "delay") != (value is not None):
        raise InputError("write `crawld host HOST delay 5s`, `crawld host HOST block` or `crawld host HOST unblock`")
    body: dict[str, object] = {"delay": parse_duration(value)} if value is not None else {"blocked": action == "block"}
    state = ask(config_file, database, "PUT", f"/hosts/{quoted(name)}", body)
    if as_json:
        click.echo(json.dumps(state))
        return
    delay = "" if state["delay"] is None else f", {state['delay']:g} s between requests"
    click.echo(f"{state['host']}: {'blocked' if state['blocked'] else 'not blocked'}{delay}")
