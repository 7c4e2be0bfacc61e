"""`crawld fleet status`: workers, shards, grants, and what is wrong."""

import asyncio
import json
import math
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from crawld.cli.options import ALLOW_PRIVATE, LazyGroup, settings_file
from crawld.cli.remote import AS_JSON, CommandTarget, targeted
from crawld.cli.run import crawl, fail_as_service, settings_reader
from crawld.cli.tables import Row, TableColumn, duration, figure, name, number, print_lines, print_rows, word
from crawld.fleet.store.standing import FleetStanding
from crawld.fleet.view import FleetView, WorkerView, fleet_troubles
from crawld.main.settings import Settings, load
from crawld.model.errors import CrawldError, InputError
from crawld.model.logs import logged_worker
from crawld.model.units import format_duration, format_rate, many

# `crawld fleet`: several workers on one PostgreSQL that are one crawler; one verb a file.

COMMANDS = {
    "init": "Make a PostgreSQL database a fleet's, from a single daemon's or empty.",
    "apply": "Put settings and a URL list in force for every worker.",
    "run": "Run one worker.",
    "status": "Workers, shards, grants, and what is wrong.",
    "drain": "Move a worker's shards to the others.",
    "export": "Write a fleet's database out for a single daemon.",
    "ray": "Place workers on a Ray cluster, and keep them running.",
}


@click.group(
    name="fleet",
    cls=LazyGroup,
    sentences=COMMANDS,
    modules={
        **{name: f"{__name__}:{name}" for name in ("run", "status", "drain")},
        **{name: f"crawld.fleet.setup_commands:{name}" for name in ("init", "apply", "export")},
        "ray": "crawld.fleet.ray",
    },
)
def command() -> None:
    """Run several workers, on as many machines as you like, as one crawler: one rate, one list, one control.

    `crawld fleet init` prepares the database once. Commands that steer and read (`crawld bandwidth`, `pause`, `host`,
    `urls`, `stats`, `explain`, `changes`, `forecast`) work from every machine that reaches it. See docs/fleet.md.
    """


# `crawld fleet run`: one worker.

NAME = r"[\w.-]{1,63}"  # it is part of the control socket's path, which is short


@click.command()
@settings_file("Settings (YAML).")
@click.option("--name", metavar="NAME", envvar="CRAWLD_WORKER", help="What to call this worker; default: HOST-PID.")
@click.option("--urls", metavar="FILE", envvar="CRAWLD_URLS", help="The pages to keep fresh, one URL a line.")
@click.option("--database", metavar="URL", envvar="CRAWLD_DATABASE", help="The fleet's: postgresql://USER@HOST/NAME.")
@ALLOW_PRIVATE
@click.option("--process", type=int, hidden=True, help="Its number among the processes of one `crawld run`.")
@click.option("--bandwidth", hidden=True, help="As that of `crawld run`, which hands it on.")
@click.option("--yes", is_flag=True, hidden=True, help="As that of `crawld run`, which hands it on.")
def run(
    config_file: Path | None,
    name: str | None,
    urls: str | None,
    database: str | None,
    allow_private: tuple[str, ...],
    process: int | None,
    bandwidth: str | None,
    yes: bool,
) -> None:
    """Run one worker of a fleet: join it, take a fair share of the shards, and crawl what is granted.

    The database is one that `crawld fleet init` has made. SIGTERM and ctrl-C give the shards back at once. The rate is
    the whole fleet's: `crawld bandwidth` changes it. Exit statuses are those of `crawld run`.
    """
    given = {"urls": urls, "database": database, "allow_private": list(allow_private) or None, "bandwidth": bandwidth}
    try:
        settings = _of_process(process, load(config_file, given))
        if not settings.database.startswith("postgres"):
            raise InputError("a fleet lives in PostgreSQL: set `database: postgresql://USER@HOST/NAME`")
        if name is not None and not re.fullmatch(NAME, name):
            raise InputError(f"--name {name}: a name has letters, digits, dots, underscores and hyphens, 63 at most")
        from crawld.fleet.assembly import build_worker

        name = name or _own_name()
        logged_worker.name = name if process is not None else None
        read = settings_reader(settings, config_file, given)
        built = partial(build_worker, settings, name, process=process, retire=yes)
        crawl(settings, partial(built, lambda: _of_process(process, read())))
    except CrawldError as error:
        if "NOTIFY_SOCKET" not in os.environ:
            raise
        fail_as_service(error)


def _of_process(process: int | None, settings: Settings) -> Settings:
    """The settings of one process of `crawld run`: the first answers at `api.listen` for all."""
    if process in {None, 1}:
        return settings
    return settings.model_copy(update={"api": settings.api.model_copy(update={"listen": None})})


def _own_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _shards(row: Row) -> str:
    return f"{row['shards']} ({row['loading']} loading)" if row["loading"] else str(row["shards"])


def _brief_shards(row: Row) -> str:
    return str(row["shards"])


def _rates(row: Row) -> str:
    return f"{format_rate(row['request_rate'])} of {format_rate(row['granted'])}"


def _sent(row: Row) -> str:
    return format_rate(row["request_rate"])


COLUMNS = (
    name("worker"),
    word("state", 95),
    TableColumn("shards", _shards, 90, _brief_shards),
    number("pages", 70),
    TableColumn("sent of granted", _rates, 85, _sent),
    number("freshness", 60),
    number("level", 40),
    duration("lag", 50),
    duration("silent_seconds", 30, "last beat"),
    number("stale", 20),
    word("duties", 10),
)


@click.command()
@click.option("--all", "everyone", is_flag=True, help="Workers that left or were lost within a day, too.")
@targeted
@AS_JSON
def status(everyone: bool, target: CommandTarget, as_json: bool) -> None:
    """Show what is wrong first, then the fleet as a whole, then a row for each worker.

    `level` is the crawl value of the last request that the fleet's rate allows; a worker's is that of its last pick.
    `lag` is how long records wait to be written. `stale` counts records that a worker crawled for a shard which
    had another owner by then; they are dropped.
    """
    view = asyncio.run(_read(target.settings_in_use().database))
    document = fleet_document(view, everyone=everyone)
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    print_lines(_lines(view, document))
    if document["workers"]:
        rows = [row | {"duties": ", ".join(row["duties"])} for row in document["workers"]]
        print_rows("Workers", rows, COLUMNS)


async def _read(database: str) -> FleetView:
    async with FleetStanding(database) as standing:
        return await standing.read()


def fleet_document(view: FleetView, *, everyone: bool = False) -> dict[str, Any]:
    """The fleet for programs: figures as JSON can say them."""
    latest = view.latest
    shown = view.workers if everyone else [one for one in view.workers if one.live or latest[one.name] == one.id]
    rows = [_row(worker, view.now) for worker in shown if everyone or worker.state != "left"]
    found = {
        "trouble": [asdict(one) for one in fleet_troubles(view)],
        "at": view.now,
        "shards": view.shards,
        "shards_free": view.free,
        "bandwidth": view.bandwidth,
        "paused": view.paused,
        "granted": sum(worker.granted for worker in view.live),
        "request_rate": sum(worker.request_rate for worker in view.live),
        "pages": sum(worker.pages for worker in view.live),
        "freshness": view.freshness,
        "level": view.level,
        "lag": max((worker.lag for worker in view.live), default=None),
        "round_at": view.round_at,
        "mail": view.mail,
        "settings_revision": view.revision or None,
        "workers": rows,
    }
    return {key: _finite(value) for key, value in found.items()}


def _row(worker: WorkerView, now: float) -> dict[str, Any]:
    left_out = {"name", "status"}
    figures = {key: _finite(getattr(worker, key)) for key in WorkerView.__dataclass_fields__ if key not in left_out}
    silent = max(now - worker.seen_at, 0.0)
    return {"worker": worker.name, **figures, "freshness": worker.freshness, "silent_seconds": silent}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lines(view: FleetView, document: Mapping[str, Any]) -> list[tuple[str, str]]:
    said = [one["sentence"] for one in document["trouble"]] or ["none, all is well"]
    live, loading = view.live, sum(worker.loading for worker in view.live)
    held = f"{view.shards - view.free} of {many(view.shards, 'shard')}" + (f", {loading} loading" if loading else "")
    rate = format_rate(view.bandwidth) + (", paused" if view.paused else "")
    lag = document["lag"]
    return [
        *zip(["trouble", *[""] * len(said)], said, strict=False),
        ("fleet", f"{many(len(live), 'worker')} with {held}, {many(document['pages'], 'page')}"),
        ("rate", f"{rate}; {format_rate(document['granted'])} granted, {format_rate(document['request_rate'])} sent"),
        ("level", "–" if view.paused or view.bandwidth == 0 else _level(view.level)),
        ("settings", f"revision {view.revision}" if view.revision else "those of the first worker to join"),
        ("lag", "–" if lag is None else format_duration(lag)),
        ("freshness", f"{figure(view.freshness)} predicted now, weighted by importance"),
    ]


def _level(level: float | None) -> str:
    if level is None:
        return "–"
    if level == 0:
        return "0: every request that was asked for is granted"
    return f"{level:.3g}" if math.isfinite(level) else "none: pages that come before all others take every request"


# `crawld fleet drain`: move a worker's shards to the others.


@click.command()
@click.argument("worker")
@click.option("--undo", is_flag=True, help="Let it hold shards again.")
@targeted
@AS_JSON
def drain(worker: str, undo: bool, target: CommandTarget, as_json: bool) -> None:
    """Have WORKER, by its name or id, give its shards to the others; then it can be stopped without a pause.

    It commits what it crawled, gives shard after shard back and takes no new ones, until it is stopped or --undo.
    `crawld fleet status` shows how many it still holds.
    """
    asyncio.run(_drain(target.settings_in_use().database, worker, undo=undo, as_json=as_json))


async def _drain(database: str, worker: str, *, undo: bool, as_json: bool) -> None:
    async with FleetStanding(database) as standing:
        held = await standing.drain(worker, draining=not undo)
    if as_json:
        click.echo(json.dumps({"worker": worker, "draining": not undo, "shards": held}))
    elif undo:
        click.echo(f"{worker} takes shards again")
    else:
        click.echo(
            f"{worker} gives its {many(held, 'shard')} away; `crawld fleet status` shows how many it still holds"
        )
