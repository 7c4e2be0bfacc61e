"""`crawld fleet init`: make an empty PostgreSQL database a fleet's, with a single daemon's pages where there is one."""

import asyncio
import json
from pathlib import Path

import click

from crawld.cli.options import RATE
from crawld.cli.remote import AS_JSON, CONFIG
from crawld.fleet.store.making import make_fleet
from crawld.fleet.store.transfer import named_counts, take_over
from crawld.main.settings import load
from crawld.model.clock import SystemClock
from crawld.model.shards import MOST_SHARDS
from crawld.model.units import format_rate

SHARDS = 256
TELL_SECONDS = 1.0


class Told:
    """Shows how far a transfer is, once a second."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._started = self._clock.monotonic()
        self._last = 0.0

    @property
    def seconds(self) -> float:
        """For which the transfer runs."""
        return self._clock.monotonic() - self._started

    def __call__(self, table: str, done: int, of: int) -> None:
        """So many rows of a table are copied."""
        now = self._clock.monotonic()
        if now - self._last >= TELL_SECONDS:
            self._last = now
            click.echo(f"{table}: {done:,} of {of:,}", err=True)

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
    default=SHARDS,
    show_default=True,
    type=click.IntRange(1, MOST_SHARDS),
    help="Parts that hosts are spread over; cannot be changed later.",
)
@click.option("--bandwidth", type=RATE, help="Requests of the whole fleet, as 100/s; default: the settings'.")
@AS_JSON
def command(
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
