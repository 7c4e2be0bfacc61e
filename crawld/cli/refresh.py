"""`crawld refresh`: crawl pages now, before all others."""

import json
import sys
from pathlib import Path

import click

from crawld.cli.remote import AS_JSON, CONFIG, DATABASE, ask
from crawld.model.errors import InputError
from crawld.model.units import parse_duration
from crawld.model.url import normalise_given

MAX_WAIT = 60.0
"""Seconds that the daemon lets a request wait."""
MARGIN_SECONDS = 10.0
"""Beyond which it does not answer any more."""


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--wait", default="10s", show_default=True, help="How long to wait for the answers, up to 60s; 0: not.")
@CONFIG
@DATABASE
@AS_JSON
def command(urls: tuple[str, ...], wait: str, config_file: Path | None, database: str | None, as_json: bool) -> None:
    """Crawl these pages at the next slots that their hosts and robots.txt allow, before all others.

    The rate is not exceeded, and a page that several ask for is asked once. Status 1 where a page could not be asked.
    """
    seconds = parse_duration(wait)
    if seconds > MAX_WAIT:
        raise InputError(f"--wait {wait} is longer than the {MAX_WAIT:g} s that a request may wait")
    body: dict[str, object] = {"urls": [normalise_given(url) for url in urls], "wait": seconds}
    if seconds and sys.stderr.isatty():
        click.echo(f"asked; waiting up to {seconds:g} s", err=True)
    answer = ask(config_file, database, "POST", "/v1/refresh", body, seconds=seconds + MARGIN_SECONDS)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        for page in answer["pages"]:
            click.echo(f"{page['state']}: {page['url']}: {page['sentence']}")
    if any(page["state"] in {"unknown", "refused"} for page in answer["pages"]):
        sys.exit(1)
