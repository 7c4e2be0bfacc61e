"""`crawld forecast`: how fresh the copy would be at other bandwidths."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlencode

import click

from crawld.cli.options import rate
from crawld.cli.remote import AS_JSON, CommandTarget, NotRunningError, targeted
from crawld.cli.tables import TableColumn, number, print_rows
from crawld.main.checks import terms_of
from crawld.main.settings import Settings
from crawld.model.fetched import IDLE, SKIPPED
from crawld.model.host import HostState
from crawld.model.units import format_rate, many
from crawld.show.actions import BANDWIDTH
from crawld.show.forecasts import StoredScheduler
from crawld.show.report import ForecastPoint, ForecastReport, SlowHost
from crawld.store.report import Reader

MEASURED_SECONDS = 7 * 86400.0
"""Seconds back over which the share of pages in all requests is counted."""


async def stopped_forecast(reader: Reader, settings: Settings, rates: Sequence[float]) -> ForecastReport:
    """Forecasts for a daemon that does not run, from its pages, hosts and settings as the database has them."""
    now = time.time()
    stored, curves = await reader.stored_pages()
    hosts = [
        HostState(
            line.host,
            blocked=line.blocked,
            failures=line.successive_failures,
            delay=line.delay_seconds,
            crawl_delay=line.crawl_delay_seconds,
        )
        for line in await reader.hosts()
    ]
    pages = StoredScheduler(terms_of(settings), stored, hosts, curves)
    spent: Counter[str] = Counter()
    for line in await reader.slot_history(since=now - MEASURED_SECONDS, bucket=MEASURED_SECONDS):
        spent[line.use] += 0 if line.use in (IDLE, SKIPPED) else line.slots
    kept = await reader.setting(BANDWIDTH)
    bandwidth = settings.bandwidth if kept is None else float(kept)
    return await asyncio.to_thread(pages.forecast, bandwidth, rates, spent, now)


def _limited(point: ForecastPoint) -> str:
    hosts = point.limited_hosts
    return "–" if not hosts else f"{many(hosts, 'host')}: −{point.lost_to_politeness:.3f}"


def _signed(difference: float) -> str:
    return "–" if difference == 0 else f"{difference:+.3f}"


def _columns(here: ForecastPoint) -> tuple[TableColumn, ...]:
    return (
        TableColumn("bandwidth", lambda point: format_rate(point.bandwidth), 100, left=True),
        number("freshness", 100),
        TableColumn("against now", lambda point: _signed(point.freshness - here.freshness), 80),
        number("round_robin", 90),
        number("given_up", 60),
        TableColumn("used by pages", lambda point: format_rate(point.used), 40),
        TableColumn("politeness costs", _limited, 50),
    )


@click.command()
@click.option("--bandwidth", "rates", type=rate, multiple=True, help="A rate to forecast; may be given several times.")
@targeted
@AS_JSON
def command(rates: tuple[float, ...], target: CommandTarget, as_json: bool) -> None:
    """Show how fresh the copy would be at other bandwidths, in the long run, by what was learnt of the pages.

    Without --bandwidth it shows a quarter, half, twice and four times the rate set. The daemon may be running or
    stopped; then a large database takes some seconds to read. `given up` counts pages that are crawled only because
    max_interval forces it; `round robin` is what the same rate would hold if all pages were crawled equally often.
    """
    try:
        query = f"?{urlencode([('bandwidth', rate) for rate in rates])}" if rates else ""
        found = ForecastReport.of(target.ask("GET", f"/forecast{query}"))
    except NotRunningError:
        found = target.read(lambda reader: _from_database(reader, target, rates))
    if as_json:
        click.echo(json.dumps(found.document(), indent=2))
        return
    if found.expected is not None:
        print_rows(f"Forecast for {many(found.pages, 'page')}", found.points, _columns(found.expected))
    click.echo(found.headline)
    for host in found.expected.hosts if found.expected is not None else ():
        click.echo(_slow_host(host))


def _slow_host(host: SlowHost) -> str:
    if host.allowed == 0:
        return f"{host.host}: blocked or down; its {many(host.pages, 'page')} are not crawled."
    rates = f"{format_rate(host.allowed)} of the {format_rate(host.wanted)} its {many(host.pages, 'page')}"
    return f"{host.host}: politeness allows {rates} are worth, which costs {host.costs:.3f} of the freshness."


async def _from_database(reader: Reader, target: CommandTarget, rates: Sequence[float]) -> ForecastReport:
    return await stopped_forecast(reader, target.load(), rates)
