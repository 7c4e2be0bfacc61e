"""`crawld stats`: how fresh the copy is, and what was learnt."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from crawld.cli.reading import print_rows, read, show
from crawld.cli.remote import AS_JSON, CONFIG, DATABASE, NotRunningError, ask
from crawld.model.slot import format_rate
from crawld.store.reports import Reader

VIEWS = {
    "hosts": ("host", "pages", "crawls", "changes", "failures", "change_rate", "freshness", "blocked_until"),
    "pages": ("url", "importance", "state", "crawls", "changes", "last_crawl_at", "change_rate", "freshness"),
    "signals": ("host", "source", "polls", "signals", "stale", "site_events", "precision", "recall"),
    "calibration": ("bin", "crawls", "predicted", "seen"),
}  # fmt: skip


@click.command()
@click.option("--hosts", "views", flag_value="hosts", multiple=True, help="A row a host.")
@click.option("--pages", "views", flag_value="pages", multiple=True, help="A row a page, the stalest first.")
@click.option(
    "--signals", "views", flag_value="signals", multiple=True, help="What each host's signals were worth, by source."
)
@click.option(
    "--calibration", "views", flag_value="calibration", multiple=True, help="Predicted against seen freshness."
)
@click.option("--limit", default=30, show_default=True, type=click.IntRange(0), help="Rows at the most; 0 shows all.")
@CONFIG
@DATABASE
@AS_JSON
def command(views: tuple[str, ...], limit: int, config_file: Path | None, database: str | None, as_json: bool) -> None:
    """Show how fresh the copy is, from the database: with the daemon running or stopped.

    Several tables can be asked for at once; as JSON they are then the parts of one object.
    """
    if not views:
        overall = read(config_file, database, lambda reader: reader.overall())
        overall["daemon"] = _daemon(config_file, database)
        if as_json:
            click.echo(json.dumps(overall, indent=2))
        else:
            _print_overall(overall)
        return
    tables = {view: read(config_file, database, partial(_rows, view=view)) for view in dict.fromkeys(views)}
    if as_json:
        shown = {view: rows[: limit or None] for view, rows in tables.items()}
        click.echo(json.dumps(shown if len(shown) > 1 else next(iter(shown.values())), indent=2))
        return
    for view, rows in tables.items():
        columns = [name for name in VIEWS[view] if not rows or name in rows[0]]
        few = rows[: limit or None]
        print_rows(view.capitalize(), few, columns, len(rows) - len(few))


async def _rows(reader: Reader, view: str) -> list[dict[str, Any]]:
    questions = {
        "hosts": reader.host_stats,
        "pages": reader.page_stats,
        "signals": reader.signal_stats,
        "calibration": reader.calibration,
    }
    return [dict(row) for row in await questions[view]()]


def _daemon(config_file: Path | None, database: str | None) -> dict[str, Any] | None:
    try:
        return ask(config_file, database, "GET", "/status")
    except NotRunningError:
        return None


def _print_overall(overall: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    daemon, latest = overall["daemon"], overall["latest"]
    if daemon is None:
        table.add_row("daemon", "not running")
    else:
        paused = ", paused" if daemon["paused"] else ""
        table.add_row("daemon", f"running at {format_rate(daemon['bandwidth'])}{paused}, {daemon['requests']} requests")
    states = ", ".join(f"{count} {state}" for state, count in overall["states"].items() if count)
    table.add_row("pages", f"{overall['pages']} on {overall['hosts']} hosts ({states})" if states else "none")
    table.add_row("freshness", f"{show(overall['freshness'])} predicted now, weighted by importance")
    measured = (daemon or {}).get("measured_freshness")
    if measured:
        table.add_row(
            "", f"{measured['mean']:.3f} measured by audits (95 %: {measured['low']:.3f} to {measured['high']:.3f})"
        )
    elif latest and latest["measured"] is not None:
        low, high = latest["measured_low"], latest["measured_high"]
        table.add_row("", f"{latest['measured']:.3f} measured by audits (95 %: {low:.3f} to {high:.3f})")
    table.add_row("crawls", f"{overall['crawls']}, {overall['changes']} found a change, {overall['failures']} failed")
    table.add_row("last crawl", show(overall["last_crawl_at"], "last_crawl_at"))
    table.add_row("database", f"{overall['database_bytes'] / 1e6:,.1f} MB")
    Console().print(table)
