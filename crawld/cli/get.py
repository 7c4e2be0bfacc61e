"""`crawld get`: the copy of a page."""

import sys
import time
from pathlib import Path

import click

from crawld.cli.reading import read
from crawld.cli.remote import CONFIG, DATABASE
from crawld.errors import CrawldError
from crawld.model.slot import format_duration
from crawld.model.url import normalise


@click.command()
@click.argument("url")
@click.option("--quiet", is_flag=True, help="Only the copy, not its age and freshness (which go to standard error).")
@CONFIG
@DATABASE
def command(url: str, quiet: bool, config_file: Path | None, database: str | None) -> None:
    """Print the latest copy of a page to standard output, and its age and freshness to standard error."""
    wanted = normalise(url)
    copy = read(config_file, database, lambda reader: reader.body(wanted))
    if copy is None:
        raise CrawldError(f"there is no copy of {wanted}: not on the list, not crawled yet, or keep_bodies is none")
    if not quiet:
        checked = copy.fetched_at if copy.checked_at is None else copy.checked_at
        fresh = "" if copy.freshness is None else f", fresh with probability {copy.freshness:.3f}"
        age, seen = (format_duration(time.time() - moment) for moment in (copy.fetched_at, checked))
        click.echo(f"{copy.url}: fetched {age} ago, last seen unchanged {seen} ago{fresh}", err=True)
    sys.stdout.buffer.write(copy.body)
