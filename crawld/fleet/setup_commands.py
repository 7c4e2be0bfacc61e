"""`crawld fleet apply`: put settings and a URL list in force for every worker."""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from crawld.cli.options import rate, settings_file
from crawld.cli.remote import AS_JSON, CONFIG, DATABASE, CommandTarget, targeted
from crawld.fleet.asking import database_clock
from crawld.fleet.assembly import OWN, shared_document, with_shared
from crawld.fleet.mailbox import FLEET_LIST, list_digest
from crawld.fleet.store.fleet_store import Revision, SharedSettings, SqlFleetStore
from crawld.fleet.store.making import make_fleet
from crawld.fleet.store.transfer import named_counts, take_over, write_out
from crawld.main.checks import check
from crawld.main.settings import DURATIONS, Settings, changes, load
from crawld.model.clock import SystemClock
from crawld.model.errors import ConfigError
from crawld.model.page import FROM_LIST
from crawld.model.shards import MAX_SHARDS
from crawld.model.units import format_rate, many, spell_duration
from crawld.pages.list_file import LIMITS as LIST_FILE_LIMITS
from crawld.pages.list_file import TAKEN_OVER, list_body, list_mark, no_usable_line
from crawld.read.url_list import UrlList, read_url_list


@dataclass(frozen=True)
class SetupCommandsLimits:
    """Numbers that bound and tune this module."""

    shards: int = 256
    tell_seconds: float = 1.0


LIMITS = SetupCommandsLimits()


# `crawld fleet init`: make an empty PostgreSQL database a fleet's, with a single daemon's pages where there is one.


class Told:
    """Shows how far a transfer is, once a second."""

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._clock, self._say = SystemClock(), say or partial(click.echo, err=True)
        self._started = self._clock.monotonic()
        self._last = 0.0

    @property
    def seconds(self) -> float:
        """For which the transfer runs."""
        return self._clock.monotonic() - self._started

    def __call__(self, table: str, done: int, of: int) -> None:
        """So many rows of a table are copied."""
        now = self._clock.monotonic()
        if now - self._last >= LIMITS.tell_seconds:
            self._last = now
            self._say(f"{table}: {done:,} of {of:,}")

    def show(self, counts: dict[str, int]) -> None:
        """Say what was copied."""
        for name, count in counts.items():
            click.echo(f"  {name:12} {count:>12,}")
        click.echo(f"in {self.seconds:.0f} s; changes keep their numbers, so cursors of followers and hooks go on")


@click.command()
@CONFIG
@click.option("--database", metavar="URL", envvar="CRAWLD_DATABASE", help="An empty PostgreSQL database.")
@click.option(
    "--from",
    "source",
    metavar="URL",
    help="A single daemon's database, sqlite:///FILE or postgresql://…, to take everything over from.",
)
@click.option(
    "--shards",
    default=LIMITS.shards,
    show_default=True,
    type=click.IntRange(1, MAX_SHARDS),
    help="Parts that hosts are spread over; cannot be changed later.",
)
@click.option("--bandwidth", type=rate, help="Requests of the whole fleet, as 100/s; default: the settings'.")
@AS_JSON
def init(
    config_file: Path | None, database: str | None, source: str | None, shards: int, bandwidth: float | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Make an empty PostgreSQL database a fleet's, once.

    Hosts are spread over the shards; a worker holds several. A few dozen for each worker that you will ever run is a
    good number, and it cannot be changed. Running it again with as many shards changes nothing.

    With --from, pages, history, estimates, copies, hooks and settings of a single daemon, which must be stopped, are
    taken over; its database is left as it is. Where that was interrupted nothing is left behind: run it again.
    """
    settings = load(config_file, {"database": database, "bandwidth": bandwidth})
    if source is not None:
        told = Told()
        copying = take_over(source, settings.database, shards, settings.bandwidth, told, insist=bandwidth is not None)
        counts = named_counts(asyncio.run(copying))
        if as_json:
            seconds = {"seconds": round(told.seconds, 3), "pages_per_second": round(counts["pages"] / told.seconds, 1)}
            click.echo(json.dumps({"made": True, "shards": shards, "copied": counts} | seconds))
            return
        click.echo(f"made a fleet of {shards} shards from {source}:")
        told.show(counts)
        click.echo("`crawld fleet run` joins it")
        return
    made = asyncio.run(make_fleet(settings.database, shards, settings.bandwidth))
    if as_json:
        click.echo(json.dumps({"made": made, "shards": shards}))
    elif made:
        click.echo(f"made a fleet of {shards} shards at {format_rate(settings.bandwidth)}; `crawld fleet run` joins it")
    else:
        click.echo(f"it is a fleet of {shards} shards already: nothing changed")


# `crawld fleet export`: a fleet's database written out for a single daemon.


@click.command()
@click.option(
    "--to", "place", metavar="URL", required=True, help="sqlite:///FILE that is not there yet, or an empty PostgreSQL."
)
@targeted
@AS_JSON
def export(place: str, target: CommandTarget, as_json: bool) -> None:
    """Write pages, history, estimates, copies, hooks and settings of a fleet into a database for `crawld run`.

    Workers may go on meanwhile: what they write from now on is left out. Changes keep their numbers.
    """
    told = Told()
    copying = write_out(target.settings_in_use().database, place, told)
    counts = named_counts(asyncio.run(copying))
    if as_json:
        seconds = {"seconds": round(told.seconds, 3), "pages_per_second": round(counts["pages"] / told.seconds, 1)}
        click.echo(json.dumps({"copied": counts} | seconds))
        return
    click.echo(f"wrote the fleet to {place}:")
    told.show(counts)
    click.echo(f"`crawld run --database {place}` goes on with it")


@dataclass(frozen=True, slots=True)
class ListChange:
    """A URL list that is not the one in force."""

    source: str
    body: bytes
    listed: UrlList
    before: int | None  # lines of the one in force, where it is known


@dataclass(slots=True)
class Asking:
    """Asks the operator, or takes --yes for every answer."""

    yes: bool
    silent: bool

    def agrees(self, question: str) -> bool:
        """Tells whether to go on."""
        return self.yes or (not self.silent and click.confirm(question))


@click.command()
@settings_file("The settings (YAML) to put in force, with their URL list.", required=True)
@DATABASE
@click.option("--yes", is_flag=True, help="Apply without asking, also where the list lets many pages go.")
@AS_JSON
def apply(config_file: Path, database: str | None, yes: bool, as_json: bool) -> None:
    """Show how settings and URL list differ from those of the fleet, ask, and put them in force for every worker.

    Workers take them over within two seconds; `crawld fleet status` names those that need a restart for it. What is a
    machine's own stays its file's: api, log, reading, user_agent, allow_private, database and the place of the list.
    The rate is changed by `crawld bandwidth`. With --json nothing is asked: without --yes nothing is changed.
    """
    settings = CommandTarget(config_file, database).settings_in_use()
    if bad := check(settings):
        raise ConfigError("\n".join(str(error) for error in bad))
    document = asyncio.run(_apply(settings, Asking(yes, as_json)))
    if as_json:
        click.echo(json.dumps(document, indent=2))


async def _apply(settings: Settings, asking: Asking) -> dict[str, Any]:
    async with SharedSettings(settings.database) as shared, database_clock(settings) as (store, clock):
        found = await shared.read()
        differing = _difference(settings, found)
        changed = await _changed_list(settings, store)
        document: dict[str, Any] = {
            "applied": False,
            "revision": 0 if found is None else found.number,
            "changes": differing,
            "list": None if changed is None else {"lines": len(changed.listed.wanted), "before": changed.before},
        }
        if not asking.silent:
            _show(differing, changed, found)
        if _in_force(differing, changed, found):
            return document
        if not asking.agrees("Apply this to the whole fleet?"):
            if not asking.silent:
                click.echo("nothing was applied")
            return document
        if differing or found is None:
            applied = await shared.apply(shared_document(settings), socket.gethostname(), after=document["revision"])
            document["revision"] = applied.number
        if changed is not None:
            document["list"] |= await _take_list(settings, changed, store, clock.now(), asking)
        if not asking.silent:
            click.echo(f"applied: revision {document['revision']} of the settings is in force")
        return document | {"applied": True}


def _in_force(differing: Mapping[str, Any], changed: ListChange | None, found: Revision | None) -> bool:
    return not differing and changed is None and found is not None


def _difference(settings: Settings, found: Revision | None) -> dict[str, dict[str, Any]]:
    """Values in force and values to come, by the name of the setting; hooks by name, for they hold secrets."""
    before = Settings() if found is None else with_shared(settings, found.document)
    names = [name for name in changes(before, settings) if name.partition(".")[0] not in OWN]
    return {name: {"before": _told(before, name), "after": _told(settings, name)} for name in names}


def _told(settings: Settings, name: str) -> Any:
    document: Any = shared_document(settings)
    for part in name.split("."):
        document = document[part]
    if name == "hooks":
        return [hook["name"] for hook in document]
    return spell_duration(document) if name in DURATIONS else document


async def _changed_list(settings: Settings, store: SqlFleetStore) -> ListChange | None:
    """The list of the settings where it is not the one in force."""
    if settings.urls is None:
        return None
    body = list_body(settings.urls)
    if await store.setting(FLEET_LIST) == list_digest(body):
        return None
    listed = read_url_list(body)
    if not listed.wanted:
        raise no_usable_line(settings.urls, listed)
    taken = await store.setting(TAKEN_OVER)
    return ListChange(settings.urls, body, listed, None if taken is None else int(taken.split()[1]))


def _show(differing: Mapping[str, Mapping[str, Any]], changed: ListChange | None, found: Revision | None) -> None:
    if found is not None:
        click.echo(f"in force: revision {found.number}, applied by {found.by}")
    else:
        click.echo("no settings are in force yet; these differ from the defaults in:")
    for name, values in differing.items():
        before, after = (", ".join(map(str, one)) if isinstance(one, list) else one for one in values.values())
        change = f"{before or 'none'} -> {after or 'none'}" if before != after else f"{after}, otherwise than before"
        click.echo(f"  {name}: {change}")
    if changed is not None:
        before = "" if changed.before is None else f", {changed.before} before"
        click.echo(f"  URL list {changed.source}: {many(len(changed.listed.wanted), 'page')}{before}")
    if _in_force(differing, changed, found):
        click.echo("the fleet goes by these settings and this list already: nothing to apply")


async def _take_list(
    settings: Settings, changed: ListChange, store: SqlFleetStore, now: float, asking: Asking
) -> dict[str, int]:
    """Take the list over; what it did. Many pages go only where the operator agrees once more."""
    share = 1.0 if asking.yes else settings.max_removed

    def may_retire(retired: int, of: int) -> bool:
        if retired <= max(LIST_FILE_LIMITS.always_removed, share * of):
            return True
        return asking.agrees(f"The list no longer names {retired} of {many(of, 'page')}. Let them go?")

    await store.change_setting(FLEET_LIST, list_digest(changed.body), now=now)
    wanted = changed.listed.wanted
    taken = await store.adopt(wanted, origin=FROM_LIST, now=now, complete=True, may_retire=may_retire)
    if not taken.held_back:
        mark = f"{list_mark(changed.body)} {len(changed.listed.wanted)} {len(changed.listed.bad)}"
        await store.change_setting(TAKEN_OVER, mark, now=now)
    if not asking.silent:
        added = len(taken.added) + len(taken.returned)
        click.echo(f"list: {added} added, {len(taken.retired)} retired, {taken.held_back} kept though not named")
    return {
        "added": len(taken.added) + len(taken.returned),
        "retired": len(taken.retired),
        "held_back": taken.held_back,
    }
