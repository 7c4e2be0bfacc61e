"""`crawld get`: the copy of a page."""

import sys
import time
from pathlib import Path

import click

from crawld.cli.compared import compared
from crawld.cli.reading import read
from crawld.cli.remote import CONFIG, DATABASE
from crawld.errors import CrawldError
from crawld.model.slot import format_duration
from crawld.model.url import normalise
from crawld.store.reports import StoredBody


@click.command()
@click.argument("url")
@click.option("--quiet", is_flag=True, help="Only the copy, not its age and freshness (which go to standard error).")
@click.option("--text", is_flag=True, help="The text that is compared, block by block, in place of the copy.")
@CONFIG
@DATABASE
def command(url: str, quiet: bool, text: bool, config_file: Path | None, database: str | None) -> None:
    """Print the latest copy of a page to standard output, and its age and freshness to standard error."""
    wanted = normalise(url)
    copy = read(config_file, database, lambda reader: reader.body(wanted))
    if copy is None:
        raise CrawldError(f"there is no copy of {wanted}: not on the list, not crawled yet, or keep_bodies is none")
    if not quiet:
        checked = copy.fetched_at if copy.checked_at is None else copy.checked_at
        fresh = "" if copy.freshness is None else f", fresh with probability {copy.freshness:.3f}"
        age, seen = (format_duration(time.time() - moment) for moment in (copy.fetched_at, checked))
        click.echo(f"{wanted}: fetched {age} ago, last seen unchanged {seen} ago{fresh}", err=True)
    sys.stdout.buffer.write(_text(copy, config_file) if text else copy.body)


def _text(copy: StoredBody, config_file: Path | None) -> bytes:
    """The text that is compared: one block a line, but where the page itself breaks lines."""
    _, found = compared(copy, config_file)
    if found is None:
        raise CrawldError(f"{copy.url} is compared by its bytes: without --text they are printed")
    return "".join(f"{block}\n" for block in found.blocks).encode("utf-8", "replace")
