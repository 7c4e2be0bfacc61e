"""`crawld keys`: the keys that requests are signed with, and the directory that sites verify them by."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import click

from crawld.cli.remote import AS_JSON, CommandTarget, targeted
from crawld.fetch.signing import (
    DIRECTORY_PATH,
    SigningKey,
    directory,
    new_key,
    read_keys,
    rotated,
    signing_key,
    write_keys,
)
from crawld.main.settings import Settings
from crawld.model.errors import InputError
from crawld.model.units import format_moment, parse_duration


@click.group(name="keys")
def command() -> None:
    """Make, list and rotate the keys that requests are signed with (Web Bot Auth, docs/identity.md).

    Private keys are in `signing.key_file`, by default FILE.keys beside the SQLite database, for its owner alone. Set
    `signing.agent` to have requests signed; `crawld reload` has a running daemon take over new keys.
    """


@command.command("create")
@targeted
@AS_JSON
def create(target: CommandTarget, as_json: bool) -> None:
    """Make the first key."""
    settings = target.load()
    place, now = settings.key_file(), time.time()
    if place.exists():
        raise InputError(f"{place}: there are keys already: `crawld keys rotate` makes another and lets them end")
    keys = [new_key(now)]
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_keys(place, keys)
    _tell(keys, settings, now, as_json=as_json, made=keys[0])


@command.command("list")
@targeted
@AS_JSON
def show(target: CommandTarget, as_json: bool) -> None:
    """List the keys: which one signs, and until when the others are valid."""
    settings = target.load()
    _tell(read_keys(settings.key_file()), settings, time.time(), as_json=as_json)


@command.command("rotate")
@click.option(
    "--after", default="1h", show_default=True, help="When the new key begins to sign: caches expire meanwhile."
)
@click.option(
    "--overlap", default="7d", show_default=True, help="For how long the keys before stay valid from then on."
)
@targeted
@AS_JSON
def rotate(after: str, overlap: str, target: CommandTarget, as_json: bool) -> None:
    """Make a new key and let those before end; both are in the directory meanwhile."""
    settings = target.load()
    place, now = settings.key_file(), time.time()
    keys = rotated(read_keys(place), now, parse_duration(after), parse_duration(overlap))
    write_keys(place, keys)
    _tell(keys, settings, now, as_json=as_json, made=keys[-1])


@command.command("directory")
@click.option("--output", type=click.Path(path_type=Path), help="A file; standard output without it.")
@targeted
@click.option("--json", "as_json", is_flag=True, help="No difference: the directory is JSON.")
def show_directory(output: Path | None, target: CommandTarget, as_json: bool) -> None:  # noqa: ARG001 - as beside every other command
    """Write the public keys, as sites look for them at /.well-known/http-message-signatures-directory."""
    text = directory(read_keys(target.load().key_file()), time.time())
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def _tell(
    keys: Sequence[SigningKey], settings: Settings, now: float, *, as_json: bool, made: SigningKey | None = None
) -> None:
    signing = signing_key(keys, now)
    agent, place = settings.signing.agent, settings.key_file()
    if as_json:
        rows = [
            {"keyid": key.key_id, "state": key.state(now, signing), "created": key.created}
            | {"signs_from": key.signs_from, "ends": key.ends, "public": key.public_jwk()}
            for key in keys
        ]
        made_id = None if made is None else made.key_id
        click.echo(json.dumps({"file": str(place), "agent": agent, "made": made_id, "keys": rows}, indent=2))
        return
    for key in keys:
        begins = f", signs {format_moment(key.signs_from, now)}" if key.signs_from > now else ""
        ends = "" if key.ends is None else f", ends {format_moment(key.ends, now)}"
        created = format_moment(key.created, now)
        click.echo(f"{key.key_id}  {key.state(now, signing):<7}  made {created}{begins}{ends}")
    if made is not None:
        where = f"{agent or 'your site'}{DIRECTORY_PATH}"
        click.echo(f"kept in {place}; sites find the public keys at {where} (`crawld keys directory`)", err=True)
        need = "`crawld reload` takes them over" if agent else "set `signing.agent` to have requests signed"
        click.echo(need, err=True)
