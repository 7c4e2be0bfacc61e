"""`crawld dashboard`: the link that opens the dashboard in a browser."""

import os
import webbrowser
from pathlib import Path
from urllib.parse import quote

import click

from crawld.cli.remote import CONFIG, DATABASE, LOOK_SECONDS, look
from crawld.cli.token import token_of
from crawld.config import load
from crawld.errors import CrawldError

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - what a browser asks where these are listened to
"""Addresses that stand for all of this machine's, and which of those a browser here is sent to."""


@click.command()
@click.option("--no-open", is_flag=True, help="Only print the link.")
@CONFIG
@DATABASE
def command(no_open: bool, config_file: Path | None, database: str | None) -> None:
    """Print the link to the running daemon's dashboard, and open it where there is a browser.

    The link holds the token, which the browser exchanges for a cookie: keep the link to yourself. `crawld token --help`
    says how to change the token. From elsewhere, forward the port first: ssh -L 8642:127.0.0.1:8642 HOST.
    """
    settings = load(config_file, {"database": database})
    if settings.api.listen is None:
        raise CrawldError("there is no dashboard: set `api.listen` in the settings and restart the daemon")
    if look(config_file, database, "/status", LOOK_SECONDS).state == "not_running":
        raise CrawldError("no daemon runs with this database: start it with `crawld run`")
    host, _, port = settings.api.listen.rpartition(":")
    link = f"http://{EVERYWHERE.get(host, host)}:{port}/login?token={quote(token_of(settings), safe='')}"
    click.echo(link)
    if not no_open and _has_display():
        webbrowser.open(link)


def _has_display() -> bool:
    """Whether a browser of this user could show anything: a text browser would take the terminal."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
