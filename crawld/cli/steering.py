"""`crawld pause`, `resume`, `bandwidth`, `refresh` and `reload`: commands that steer a running daemon."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from crawld.cli.options import rate
from crawld.cli.remote import (
    AS_JSON,
    LIMITS,
    CommandTarget,
    NotRunningError,
    OutOfReachError,
    ask_at,
    is_fleet,
    socket_of,
    targeted,
    wait_seconds,
)
from crawld.main.settings import load, read_yaml
from crawld.model.errors import ConfigError, CrawldError
from crawld.model.units import format_rate
from crawld.model.url import normalise_given
from crawld.show.report import Status


@click.command()
@targeted
def pause(target: CommandTarget) -> None:
    """Pause the running daemon, also over restarts, until `crawld resume`."""
    target.ask("POST", "/v1/pause")
    click.echo("paused; `crawld resume` resumes crawling")


@click.command()
@targeted
def resume(target: CommandTarget) -> None:
    """Resume a paused daemon at its bandwidth."""
    status = Status.of(target.ask("POST", "/v1/resume"))
    click.echo(f"crawling at {format_rate(status.bandwidth)}")


@click.command()
@click.argument("rate", type=rate, required=False)
@targeted
@AS_JSON
def bandwidth(rate: float | None, target: CommandTarget, as_json: bool) -> None:
    """Show the running daemon's bandwidth, or change it to RATE (2/s, 90/min, 5000/day, 0).

    A change takes effect from the next slot, is kept over restarts, and wins over config.yaml until that changes.
    """
    if rate is None:
        said = target.ask("GET", "/v1/status", seconds=LIMITS.read_seconds)
    else:
        said = target.ask("POST", "/v1/bandwidth", {"rate": rate})
    status = Status.of(said)
    if as_json:
        click.echo(json.dumps({"bandwidth": status.bandwidth, "paused": status.paused}))
        return
    click.echo(format_rate(status.bandwidth) + (" (paused)" if status.paused else ""))


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--wait", default="10s", show_default=True, help="How long to wait for the answers, up to 60s; 0: not.")
@targeted
@AS_JSON
def refresh(urls: tuple[str, ...], wait: str, target: CommandTarget, as_json: bool) -> None:
    """Crawl these pages at the next slots that their hosts and robots.txt allow, before all others.

    The rate is not exceeded, and a page that several ask for is asked once. Status 1 where a page could not be asked.
    """
    seconds = wait_seconds(wait, "request")
    body: dict[str, object] = {"urls": [normalise_given(url) for url in urls], "wait": seconds}
    if seconds and sys.stderr.isatty():
        click.echo(f"asked; waiting up to {seconds:g} s", err=True)
    answer = target.ask("POST", "/v1/refresh", body, seconds=seconds + LIMITS.margin_seconds)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        for page in answer["pages"]:
            click.echo(f"{page['state']}: {page['url']}: {page['sentence']}")
    if any(page["state"] in {"unknown", "refused"} for page in answer["pages"]):
        sys.exit(1)


@click.command()
@targeted
@AS_JSON
@click.option("--yes", is_flag=True, help="Let go however many pages the list no longer names.")
def reload(target: CommandTarget, as_json: bool, yes: bool) -> None:
    """Have the running daemon read its settings and URL list again.

    Shows what took effect, what waits for a restart, and how many pages the list added and removed since the last
    reload. A list that would take off more of its pages than `max_removed` allows takes off none without --yes.

    The daemon reads the files it was started with; --config and --database only say where it listens. Settings that it
    refuses change nothing: the reason is shown, with status 1.
    """
    try:
        done = _reload(target, yes)
    except NotRunningError as error:
        hint = " (A daemon goes on listening where its settings said at its start.)" if target.config_file else ""
        raise NotRunningError(f"{error}{hint}") from None
    except CrawldError as error:
        click.echo(json.dumps({"refused": str(error)}) if as_json else f"crawld: {error}", err=not as_json)
        sys.exit(1)
    if as_json:
        news = done["list"] if any((done["list"] or {}).values()) else None  # what the list did, where it did anything
        told = {"applied": done["applied"], "waiting": done["waiting"]}
        click.echo(json.dumps(told if news is None else told | {"list": news}))
    else:
        click.echo(done["reloaded"])


def _reload(target: CommandTarget, yes: bool) -> dict[str, Any]:
    place = _socket(target)
    if not os.path.lexists(place) and _of_fleet(target):
        raise CrawldError("each worker of a fleet reads its own settings again: `systemctl reload` it, or SIGHUP")
    # The answer comes when the list is taken over, also one of millions of lines.
    return ask_at(place, "POST", "/reload", {"retire": yes}, seconds=3_600.0)


def _of_fleet(target: CommandTarget) -> bool:
    """Tells whether the settings are those of a fleet; False where they cannot be read."""
    try:
        return is_fleet(target.load().database)
    except (ConfigError, OutOfReachError):
        return False


def _socket(target: CommandTarget) -> Path:
    """Socket of the daemon, even where its settings have an error by now: the daemon says so itself."""
    try:
        return socket_of(target.load())
    except ConfigError:
        pass
    overrides = {"database": target.database} if target.database else _place(target.config_file)
    try:
        return socket_of(load(None, overrides))
    except ConfigError:
        return socket_of(load(None))


def _place(config_file: Path | None) -> dict[str, Any]:
    """As much of the settings as says where the daemon listens."""
    try:
        given = {} if config_file is None else read_yaml(config_file)
    except ConfigError:
        return {}
    api = given.get("api")
    socket = api.get("socket") if isinstance(api, dict) else None
    return {"database": given.get("database"), "api": {"socket": socket}}
