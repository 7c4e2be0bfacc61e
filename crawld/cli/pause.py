"""`crawld pause`: pause the running daemon."""

from pathlib import Path

import click

from crawld.cli.remote import CONFIG, DATABASE, ask


@click.command()
@CONFIG
@DATABASE
def command(config_file: Path | None, database: str | None) -> None:
    """Pause the running daemon, also over restarts, until `crawld resume`."""
    ask(config_file, database, "POST", "/pause")
    click.echo("paused; `crawld resume` resumes crawling")
