"""`crawld host`: see and steer how hosts are asked, with or without a running daemon."""

import difflib
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from crawld.cli.remote import AS_JSON, CommandTarget, NotRunningError, targeted
from crawld.main.settings import Politeness
from crawld.model.errors import InputError
from crawld.model.host import HostState, host_name
from crawld.model.units import format_duration, in_a_row, many, parse_duration
from crawld.store.views import HostLine, SourceLine

if TYPE_CHECKING:
    from crawld.store.store import SqlStore

LIST = "list"
USAGE = """write one of

  crawld host list                  every host, those blocked, slowed down or in trouble first
  crawld host HOST                  one host
  crawld host HOST delay 10s        at least 10 s between two requests
  crawld host HOST delay default    as the settings and its robots.txt say (also `none` and `off`)
  crawld host HOST block            ask it nothing
  crawld host HOST unblock          ask it again, and end its back-off"""
PORT = re.compile(r":[0-9]+$")


@click.command()
@click.argument("name", metavar="HOST|list")
@click.argument("action", type=click.Choice(["block", "unblock", "delay"]), required=False)
@click.argument("value", required=False)
@click.option("--limit", default=30, show_default=True, type=click.IntRange(0), help="Most rows to show; 0: all.")
@targeted
@AS_JSON
def command(
    name: str,
    action: str | None,
    value: str | None,
    limit: int,
    target: CommandTarget,
    as_json: bool,
) -> None:
    """List hosts, show one, block or unblock it (which also ends its back-off), or give it a delay of its own.

    HOST is a name, with the port where it is not the usual one, or a URL. `delay default`, `none` or `off` drops the
    delay. All of it is kept over restarts. A running daemon applies it at once; otherwise the database is changed.
    """
    if (action == "delay") != (value is not None) or (name == LIST and action is not None):
        raise InputError(USAGE)
    hosts = [_with_backoff(row) for row in target.read(lambda reader: reader.hosts())]
    if name == LIST:
        ordered = sorted(hosts, key=_trouble_first)
        _list(ordered[: limit or None], len(ordered), as_json=as_json)
        return
    host = host_name(name)
    found = next((row for row in hosts if row["host"] == host), None)
    if found is None:
        _refuse(host, [str(row["host"]) for row in hosts])
    elif action is None:
        _show(found, target.read(lambda reader: reader.signal_stats(host=host)), as_json=as_json)
    else:
        state = _steer(host, _wanted(action, value), target)
        _tell(state, as_json=as_json, spacing=action == "delay")


def _with_backoff(line: HostLine) -> dict[str, Any]:
    """The row with the rest of its back-off, None where there is none."""
    rest = line.blocked_until - time.time()
    return {**asdict(line), "backoff_seconds": rest if rest > 0 else None}


def _list(rows: Sequence[Mapping[str, Any]], of: int, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    width = min(max((len(row["host"]) for row in rows), default=0), 50)
    for row in rows:
        click.echo(host_line(row, width))
    if not rows:
        click.echo("no hosts yet")
    if of > len(rows):
        click.echo(f"… and {of - len(rows)} more: --limit 0 shows all")


def _show(row: Mapping[str, Any], signals: Sequence[SourceLine], *, as_json: bool) -> None:
    """One host with the sources of its signals: which are heard, and why."""
    if as_json:
        click.echo(json.dumps({**row, "signals": [asdict(one) for one in signals]}, indent=2))
        return
    click.echo(host_line(row))
    for one in signals:
        heard = "not judged yet" if one.heard is None else f"{'heard' if one.heard else 'not heard'}: {one.why}"
        bought = f"; {one.bought}" if one.confirmed + one.in_vain else ""
        click.echo(f"  {one.source}, {many(one.signals, 'signal')}, {heard}{bought}")


def host_line(row: Mapping[str, Any], width: int = 0) -> str:
    """One host: its pages, and everything that keeps it from being asked at the usual pace."""
    notes = ["blocked"] if row["blocked"] else []
    if row["backoff_seconds"] is not None:
        what = "asked us to wait" if row["asked_until"] > time.time() else "back-off"
        notes.append(f"{what} for {format_duration(row['backoff_seconds'])}")
    if row["successive_failures"]:
        notes.append(f"failed {in_a_row(row['successive_failures'])}")
    notes += [f"{name.replace('_', ' ')} ({many(pages, 'page')})" for name, pages in row["turned_away"].items()]
    if row["delay_seconds"] is not None:
        notes.append(f"delay {format_duration(row['delay_seconds'])}")
    if row["crawl_delay_seconds"] is not None:
        notes.append(f"Crawl-delay {format_duration(row['crawl_delay_seconds'])}")
    pages = f"{row['pages']:>7} {'page ' if row['pages'] == 1 else 'pages'}"
    return f"{row['host']:<{width}}  {pages}  {', '.join(notes)}".rstrip()


def _trouble_first(row: Mapping[str, Any]) -> tuple[bool, ...]:
    """Blocked, backing off, turning us away, slowed down, failing; the order of the statistics among equals."""
    return (
        not row["blocked"],
        row["backoff_seconds"] is None,
        not row["turned_away"],
        row["delay_seconds"] is None,
        not row["successive_failures"],
    )


def _refuse(host: str, known: Sequence[str]) -> None:
    """Say that the host is unknown and which one may be meant; status 1."""
    close = difflib.get_close_matches(host, list(islice(known, 5_000)), n=3)
    twin = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
    elsewhere = [name for name in known if PORT.sub("", name) == PORT.sub("", host)]
    meant = elsewhere[:3] or ([twin] if twin in known else close)
    hint = f" Did you mean {' or '.join(meant)}?" if meant else " `crawld host list` shows those there are."
    click.echo(f"crawld: {host}: no page is on this host.{hint}", err=True)
    sys.exit(1)


def _wanted(action: str, value: str | None) -> dict[str, Any]:
    """Returns what is to be changed, as the control interface takes it."""
    if value is None:
        return {"blocked": action == "block"}
    return {"delay": None if value.lower() in {"default", "none", "off"} else parse_duration(value)}


def _steer(host: str, wanted: dict[str, Any], target: CommandTarget) -> dict[str, Any]:
    try:
        return target.ask("PUT", f"/hosts/{quote(host, safe='')}", wanted)
    except NotRunningError:
        state, spacing = target.change(partial(_steer_in_store, target.load().politeness, host, wanted))
        return {
            "host": state.name,
            "blocked": state.blocked,
            "delay": state.delay,
            "blocked_until": state.blocked_until,
            "spacing_seconds": spacing,
            "kept": True,
        }


async def _steer_in_store(
    limits: Politeness, host: str, wanted: Mapping[str, Any], store: "SqlStore"
) -> tuple[HostState, float]:
    from crawld.choose.host_gate import HostGate, HostLimits
    from crawld.show.control import steer

    gate = HostGate(HostLimits(limits.delay, limits.max_delay, limits.per_host))
    for state in await store.hosts():
        if state.name == host:
            gate.restore(state)
    drop = "delay" in wanted and wanted["delay"] is None
    new = steer(gate, host, blocked=wanted.get("blocked"), delay=wanted.get("delay"), drop_delay=drop)
    store.record_host(new)
    return new, float(gate.delay[gate.host(host)])


def _tell(state: Mapping[str, Any], *, as_json: bool, spacing: bool) -> None:
    if as_json:
        click.echo(json.dumps(state))
        return
    shown = spacing or state["delay"] is not None
    delay = f", {state['spacing_seconds']:g} s between requests" if shown else ""
    click.echo(f"{state['host']}: {'blocked' if state['blocked'] else 'not blocked'}{delay}")
    if not state["kept"]:
        click.echo("crawld: the store cannot write now: a restart before it can undoes this change", err=True)
