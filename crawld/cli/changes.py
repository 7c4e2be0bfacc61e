"""`crawld changes`: what was found changed, by cursor, and as it comes."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
from pydantic import TypeAdapter

from crawld.cli.remote import CommandTarget, NotAnsweringError, NotRunningError, targeted
from crawld.model.errors import StoreError
from crawld.model.units import format_date
from crawld.store.views import Change, Changes


@dataclass(frozen=True)
class CliChangesLimits:
    """Numbers that bound and tune this module."""

    at_once: int = 1_000
    latest: int = 20
    """Changes that are shown where no cursor is given."""
    wait_seconds: int = 25
    """For which the daemon is asked to wait for the next change."""
    look_seconds: float = 2.0
    """Between two looks at the database while no daemon runs."""


LIMITS = CliChangesLimits()


_CHANGES = TypeAdapter(Changes)
_CHANGE = TypeAdapter(Change)


@click.command()
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="CURSOR",
    help="Begin after this change; 0 begins with the oldest that is kept. Without it: the latest ones.",
)
@click.option("--follow", is_flag=True, help="Go on with changes as they are found, until ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
@targeted
def command(after: int | None, follow: bool, as_json: bool, target: CommandTarget) -> None:
    """Print changes in the order in which they were committed: new, changed, gone, back, and removed (taken off).

    Each begins with its number, which is a cursor: a reader that goes on with --after and the last number it has seen
    misses nothing that is kept (`retention` in the settings) and sees nothing twice.
    """
    cursor = _latest(target) if after is None else after
    try:
        cursor = _catch_up(cursor, target, as_json)
        away = False
        while follow:
            try:
                cursor = _follow(cursor, target, as_json)
                away = False
            except StoreError as error:  # a PostgreSQL that restarts is back in a moment, and the cursor holds
                if not target.load().database.startswith("postgres"):
                    raise
                if not away:
                    click.echo(f"{error}; waiting for it", err=True)
                away = True
                time.sleep(LIMITS.look_seconds)
    except KeyboardInterrupt:
        follow = True
    if not as_json:
        click.echo(f"go on with --after {cursor}", err=True)


def _latest(target: CommandTarget) -> int:
    """The cursor before the latest changes."""
    found = target.query(lambda model: model.latest_changes(limit=LIMITS.latest))
    return found.changes[-1].id - 1 if found.changes else found.cursor


def _catch_up(cursor: int, target: CommandTarget, as_json: bool) -> int:
    """Print everything that the database has after the cursor; the cursor behind it."""
    while True:
        found = target.query(lambda model, after=cursor: model.changes(after, LIMITS.at_once))  # type: ignore[misc]  # a default binds the loop's value
        _show(found, as_json)
        cursor = found.cursor
        if len(found.changes) < LIMITS.at_once:
            return cursor


def _follow(cursor: int, target: CommandTarget, as_json: bool) -> int:
    """Wait for changes: the daemon wakes us, or where none runs the database is looked at now and then."""
    path = f"/v1/changes?after={cursor}&wait={LIMITS.wait_seconds}&limit={LIMITS.at_once}"
    try:
        said = target.ask("GET", path, seconds=2.0 * LIMITS.wait_seconds)
    except (NotRunningError, NotAnsweringError):
        time.sleep(LIMITS.look_seconds)
        return _catch_up(cursor, target, as_json)
    found = _CHANGES.validate_python(said)
    _show(found, as_json)
    return found.cursor


def _show(found: Changes, as_json: bool) -> None:
    if found.missed:
        click.echo(f"changes before number {found.first} are no longer kept: some were missed", err=True)
    lines = map(_as_json if as_json else _as_text, found.changes)
    for line in lines:
        click.echo(line)


def _as_json(change: Change) -> str:
    told: dict[str, Any] = _CHANGE.dump_python(change, mode="json")
    return json.dumps(told, ensure_ascii=False)


def _as_text(change: Change) -> str:
    much = "     " if change.magnitude is None else f"{change.magnitude:5.0%}"
    parts: Sequence[str] = (f"{change.id:>8}", format_date(change.at), f"{change.verdict.value:<7}", much, change.url)
    return "  ".join(parts) + ("" if change.moved_to is None else f" -> {change.moved_to}")
