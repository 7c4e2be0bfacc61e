"""`crawld reload`: the running daemon reads its settings and URL list again."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from crawld.cli.remote import AS_JSON, CONFIG, DATABASE, NotRunningError, OutOfReachError, ask_at, is_fleet, socket_of
from crawld.main.settings import load
from crawld.main.yaml_file import read_yaml
from crawld.model.errors import ConfigError, CrawldError

RELOAD_SECONDS = 3600.0  # the answer comes when the list is taken over, also one of millions of lines


@click.command()
@CONFIG
@DATABASE
@AS_JSON
@click.option("--yes", is_flag=True, help="Let go however many pages the list no longer names.")
def command(config_file: Path | None, database: str | None, as_json: bool, yes: bool) -> None:
    """Have the running daemon read its settings and URL list again.

    Shows what took effect, what waits for a restart, and how many pages the list added and removed since the last
    reload. A list that would take off more of its pages than `max_removed` allows takes off none without --yes.

    The daemon reads the files it was started with; --config and --database only say where it listens. Settings that it
    refuses change nothing: the reason is shown, with status 1.
    """
    try:
        done = _reload(config_file, database, yes)
    except NotRunningError as error:
        hint = " (A daemon goes on listening where its settings said at its start.)" if config_file else ""
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


def _reload(config_file: Path | None, database: str | None, yes: bool) -> dict[str, Any]:
    if _of_fleet(config_file, database):
        raise CrawldError("each worker of a fleet reads its own settings again: `systemctl reload` it, or SIGHUP")
    return ask_at(_socket(config_file, database), "POST", "/reload", {"retire": yes}, seconds=RELOAD_SECONDS)


def _of_fleet(config_file: Path | None, database: str | None) -> bool:
    """Whether the settings are those of a fleet, as far as anybody can tell."""
    try:
        return is_fleet(load(config_file, {"database": database}).database)
    except (ConfigError, OutOfReachError):
        return False


def _socket(config_file: Path | None, database: str | None) -> Path:
    """Where the daemon listens, also where its settings have an error by now: the daemon is to say so itself."""
    try:
        return socket_of(load(config_file, {"database": database}))
    except ConfigError:
        pass
    overrides = {"database": database} if database else _place(config_file)
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
