"""`crawld token`: the token that opens the listener."""

import os
from pathlib import Path

import click

from crawld.cli.remote import CONFIG, DATABASE
from crawld.main.settings import Settings, load
from crawld.model.access import access_refused
from crawld.model.errors import CrawldError
from crawld.show.api.token import read_token


@click.command()
@CONFIG
@DATABASE
def command(config_file: Path | None, database: str | None) -> None:
    """Print the token that programs send to `api.listen`, as `Authorization: Bearer TOKEN`.

    The daemon makes it when it first starts, and keeps it in a file beside the database that only
    its own user can read (`api.token_file`). To change it, remove the file and restart the daemon.
    """
    click.echo(token_of(load(config_file, {"database": database})))


def token_of(settings: Settings) -> str:
    """The token of the daemon of these settings; CrawldError where there is none yet."""
    file = settings.token_file()
    if not file.exists():
        what = "start the daemon" if settings.api.listen else "set `api.listen` in the settings and start the daemon"
        raise CrawldError(f"there is no token at {file}: {what}, which makes it")
    if not os.access(file, os.R_OK):
        raise access_refused(file)
    return read_token(file)
