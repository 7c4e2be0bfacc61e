"""`crawld dashboard`: the link that opens the dashboard in a browser."""

import hmac
import http.client
import json
import os
import secrets
import time
import webbrowser

import click

from crawld.cli.remote import LIMITS, CommandTarget, NotRunningError, ask_at, is_fleet, targeted
from crawld.main.settings import Settings
from crawld.model.access import access_refused
from crawld.model.errors import CrawldError
from crawld.show.api.access import login_code, read_token

PROOF_SECONDS = 5.0
"""Within which a listener proves that it is the daemon's."""

# `crawld token`: the token that opens the listener.


@click.command()
@targeted
def token(target: CommandTarget) -> None:
    """Print the token that programs send to `api.listen`, as `Authorization: Bearer TOKEN`.

    The daemon makes it when it first starts, and keeps it in a file beside the database that only
    its own user can read (`api.token_file`). To change it, remove the file and restart the daemon.
    """
    click.echo(token_of(target.load()))


def token_of(settings: Settings) -> str:
    """The token of the daemon of these settings; CrawldError where there is none yet."""
    file = settings.token_file()
    if not file.exists():
        what = "start the daemon" if settings.api.listen else "set `api.listen` in the settings and start the daemon"
        raise CrawldError(f"there is no token at {file}: {what}, which makes it")
    if not os.access(file, os.R_OK):
        raise access_refused(file)
    return read_token(file)


EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - what a browser asks where these are listened to
"""Addresses that stand for all of this machine's, and which of those a browser here is sent to."""


@click.command()
@click.option("--no-open", is_flag=True, help="Only print the link.")
@targeted
def command(no_open: bool, target: CommandTarget) -> None:
    """Print the link to the running daemon's dashboard, and open it where there is a browser.

    The link holds a code that lets one browser in, once and within ten minutes. From elsewhere, forward the port first:
    ssh -L 8642:127.0.0.1:8642 HOST.
    """
    settings = target.load()
    if settings.api.listen is None:
        raise CrawldError("there is no dashboard: set `api.listen` in the settings and restart the daemon")
    if target.look("/v1/status", LIMITS.look_seconds).state == "not_running":
        raise CrawldError("no daemon runs with this database: start it with `crawld run`, or go to where it runs")
    link = f"http://{own_listener(settings)}/login?code={login_code(token_of(settings), time.time())}"
    click.echo(link)
    if not no_open and _has_display():
        webbrowser.open(link)


def own_listener(settings: Settings) -> str:
    """Address at which the daemon answers HTTP, proven by a nonce; CrawldError where another program would."""
    place, nonce = settings.control_socket(), secrets.token_hex(16)
    fleet = is_fleet(settings.database) and not place.is_socket()  # else of one daemon, or of `crawld run --processes`
    workers = sorted(place.parent.glob(f"{place.stem}-*{place.suffix}")) if fleet else [place]
    refusal = "no worker of the fleet runs on this machine: ask where one does"
    for socket in workers:
        try:
            said = ask_at(socket, "GET", f"/listener?nonce={nonce}", seconds=PROOF_SECONDS)
        except NotRunningError as error:
            refusal = str(error)
            continue
        if said["address"] is None:
            refusal = said["trouble"] or "this daemon has no listener: set `api.listen` in its settings and restart it"
            continue
        host, _, port = said["address"].rpartition(":")
        address = f"{EVERYWHERE.get(host, host)}:{port}"
        if hmac.compare_digest(_answer(address, nonce), said["proof"]):
            return address
        refusal = f"what answers at {address} is not this daemon: another program is in between, and gets no token"
    raise CrawldError(refusal)


def _answer(address: str, nonce: str) -> str:
    """Returns what a listener says to the nonce; empty where it says nothing of use."""
    connection = http.client.HTTPConnection(address, timeout=PROOF_SECONDS)
    try:
        connection.request("GET", f"/listener?nonce={nonce}")
        said = json.loads(connection.getresponse().read(1_000))
        return str(said["proof"]) if isinstance(said, dict) and str(said.get("proof", "")).isascii() else ""
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return ""
    finally:
        connection.close()


def _has_display() -> bool:
    """Tells whether a browser of this user could show anything: a text browser would take the terminal."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
