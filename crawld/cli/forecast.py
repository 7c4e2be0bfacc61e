"""`crawld forecast`: how fresh the copy would be at other bandwidths."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from crawld.cli.options import RATE
from crawld.cli.remote import AS_JSON, CONFIG, DATABASE, NotRunningError, ask, read
from crawld.cli.tables import Row, TableColumn, figure, print_rows
from crawld.main.checks import terms_of
from crawld.main.settings import Settings
from crawld.model.fetched import IDLE, SKIPPED
from crawld.model.host import HostState
from crawld.model.units import format_rate, many
from crawld.show.control import BANDWIDTH
from crawld.show.forecasts import StoredScheduler
from crawld.store.report import Reader

if TYPE_CHECKING:
    from crawld.store.report import Reader


# The forecast of a daemon that does not run: its pages, hosts and settings as the database has them.

MEASURED_SECONDS = 7 * 86400.0
"""How far back the share of pages in all requests is looked for."""


async def stopped_forecast(reader: Reader, settings: Settings, rates: Sequence[float]) -> dict[str, Any]:
    """Returns what the bandwidth that was set last and these rates would buy."""
    now = time.time()
    stored, curves = await reader.stored_pages()
    hosts = [
        HostState(
            row["host"],
            blocked=row["blocked"],
            failures=row["successive_failures"],
            delay=row["delay_seconds"],
            crawl_delay=row["crawl_delay_seconds"],
        )
        for row in await reader.hosts()
    ]
    pages = StoredScheduler(terms_of(settings), stored, hosts, curves)
    spent: Counter[str] = Counter()
    for row in await reader.slot_history(since=now - MEASURED_SECONDS, bucket=MEASURED_SECONDS):
        spent[row["use"]] += 0 if row["use"] in (IDLE, SKIPPED) else row["slots"]
    kept = await reader.setting(BANDWIDTH)
    bandwidth = settings.bandwidth if kept is None else float(kept)
    return await asyncio.to_thread(pages.forecast, bandwidth, rates, spent, now)


def _rate(row: Row) -> str:
    return format_rate(row["bandwidth"])


def _used(row: Row) -> str:
    return format_rate(row["used"])


def _given_up(row: Row) -> str:
    return str(row["given_up"])


def _limited(row: Row) -> str:
    hosts = row["limited_hosts"]
    return "–" if not hosts else f"{many(hosts, 'host')}: −{row['lost_to_politeness']:.3f}"


def _plain(key: str, heading: str, stays: int) -> TableColumn:
    def show(row: Row) -> str:
        return figure(row[key])

    return TableColumn(heading, show, show, stays)


COLUMNS = (
    TableColumn("bandwidth", _rate, _rate, stays=100, left=True),
    _plain("freshness", "freshness", 100),
    _plain("gain", "against now", 80),
    _plain("round_robin", "round robin", 90),
    TableColumn("given up", _given_up, _given_up, stays=60),
    TableColumn("used by pages", _used, _used, stays=40),
    TableColumn("politeness costs", _limited, _limited, stays=50),
)


@click.command()
@click.option("--bandwidth", "rates", type=RATE, multiple=True, help="A rate to forecast; may be given several times.")
@CONFIG
@DATABASE
@AS_JSON
def command(rates: tuple[float, ...], config_file: Path | None, database: str | None, as_json: bool) -> None:
    """Show how fresh the copy would be at other bandwidths, in the long run, by what was learnt of the pages.

    Without --bandwidth it shows a quarter, half, twice and four times the rate set. The daemon may be running or
    stopped; then a large database takes some seconds to read. `given up` counts pages that are crawled only because
    max_interval forces it; `round robin` is what the same rate would hold if all pages were crawled equally often.
    """
    try:
        query = f"?{urlencode([('bandwidth', rate) for rate in rates])}" if rates else ""
        found = ask(config_file, database, "GET", f"/forecast{query}")
    except NotRunningError:
        found = read(config_file, database, lambda reader: _from_database(reader, config_file, database, rates))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if found["expected"] is None:
        click.echo(found["headline"])
        return
    here = found["expected"]["freshness"]
    rows = [point | {"gain": _signed(point["freshness"] - here)} for point in found["points"]]
    print_rows(f"Forecast for {many(found['pages'], 'page')}", rows, COLUMNS)
    click.echo(found["headline"])
    for host in found["expected"]["hosts"]:
        click.echo(_slow_host(host))


def _signed(difference: float) -> str:
    return "–" if difference == 0 else f"{difference:+.3f}"


def _slow_host(host: Row) -> str:
    if host["allowed"] == 0:
        return f"{host['host']}: blocked or down; its {many(host['pages'], 'page')} are not crawled."
    rates = f"{format_rate(host['allowed'])} of the {format_rate(host['wanted'])} its {many(host['pages'], 'page')}"
    return f"{host['host']}: politeness allows {rates} are worth, which costs {host['costs']:.3f} of the freshness."


async def _from_database(
    reader: "Reader", config_file: Path | None, database: str | None, rates: Sequence[float]
) -> dict[str, Any]:
    from crawld.main.settings import load

    return await stopped_forecast(reader, load(config_file, {"database": database}), rates)
