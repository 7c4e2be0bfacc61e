"""`crawld fleet run`: one worker."""

import os
import re
import socket
from functools import partial
from pathlib import Path

import click

from crawld.cli.run import crawl, fail_as_service, settings_reader
from crawld.config import load
from crawld.errors import CrawldError, InputError

NAME = r"[\w.-]{1,63}"  # it is part of the control socket's path, which is short


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, readable=False),
    envvar="CRAWLD_CONFIG",
    help="Settings (YAML).",
)
@click.option("--name", metavar="NAME", envvar="CRAWLD_WORKER", help="What to call this worker; default: HOST-PID.")
@click.option("--urls", metavar="FILE", envvar="CRAWLD_URLS", help="The pages to keep fresh, one URL a line.")
@click.option("--database", metavar="URL", envvar="CRAWLD_DATABASE", help="The fleet's: postgresql://USER@HOST/NAME.")
@click.option(
    "--allow-private",
    metavar="NETWORK",
    multiple=True,
    help="A private network that may be asked; repeatable.",
)
def command(
    config_file: Path | None, name: str | None, urls: str | None, database: str | None, allow_private: tuple[str, ...]
) -> None:
    """Run one worker of a fleet: join it, take a fair share of the shards, and crawl what is granted.

    The database is one that `crawld fleet init` has made. SIGTERM and ctrl-C give the shards back at once. The rate is
    the whole fleet's: `crawld bandwidth` changes it. Exit statuses are those of `crawld run`.
    """
    given = {"urls": urls, "database": database, "allow_private": list(allow_private) or None}
    try:
        settings = load(config_file, given)
        if not settings.database.startswith("postgresql"):
            raise InputError("a fleet lives in PostgreSQL: set `database: postgresql://USER@HOST/NAME`")
        if name is not None and not re.fullmatch(NAME, name):
            raise InputError(f"--name {name}: a name has letters, digits, dots, underscores and hyphens, 63 at most")
        from crawld.wiring.fleet import build_worker

        read_again = settings_reader(settings, config_file, given)
        crawl(settings, partial(build_worker, settings, name or _own_name(), read_again))
    except CrawldError as error:
        if "NOTIFY_SOCKET" not in os.environ:
            raise
        fail_as_service(error)


def _own_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
