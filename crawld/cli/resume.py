"""`crawld resume`: resume a paused daemon."""

from pathlib import Path

import click

from crawld.cli.remote import CONFIG, DATABASE, ask
from crawld.model.units import format_rate


@click.command()
@CONFIG
@DATABASE
def command(config_file: Path | None, database: str | None) -> None:
    """Resume a paused daemon at its bandwidth."""
    status = ask(config_file, database, "POST", "/resume")
    click.echo(f"crawling at {format_rate(status['bandwidth'])}")
