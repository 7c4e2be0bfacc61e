"""`crawld stats`: what is wrong, how fresh the copy is, and what was learnt."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from crawld.cli.remote import AS_JSON, Beside, CommandTarget, targeted
from crawld.cli.tables import Row, TableColumn, figure, name, number, print_lines, print_rows, weight, word
from crawld.cli.tables import moment as moment_column
from crawld.model.estimate import format_rate_of_change
from crawld.model.signal import bought_in_words
from crawld.model.units import format_age, format_duration, format_moment, format_rate, many
from crawld.show.report import DaemonState, Status, Summary, idle, troubles
from crawld.store.views import FollowedLine

if TYPE_CHECKING:
    from crawld.store.report import Reader


def _asked_again(row: Row) -> str:
    if row["blocked"]:
        return "blocked"
    return format_age(row["blocked_until"], time.time()) if row["blocked_until"] > time.time() else "–"


def _rate(row: Row) -> str:
    return format_rate_of_change(row["change_rate"], row.get("shape"), row.get("rate"), row.get("evidence"))


def _brief_rate(row: Row) -> str:
    return format_rate_of_change(row["change_rate"], evidence=row.get("evidence"), brief=True)


def _recall(row: Row) -> str:
    return figure(row["recall"]) if row["signals"] > row["stale"] else "–"  # nothing was announced, nothing is known


def _heard(row: Row) -> str:
    return "–" if row["heard"] is None else f"{100 * row['weight']:.0f} %" if row["heard"] else "no"


def _bought(row: Row) -> str:
    return bought_in_words(row["confirmed"] + row["in_vain"], row["saved"], row["freshness_gain"])


CHANGES_EVERY = TableColumn("changes every", _rate, 60, _brief_rate)
VIEWS: Mapping[str, Sequence[TableColumn]] = {
    "hosts": (
        name("host"),
        number("pages", 90),
        number("freshness", 80),
        TableColumn("asked again", _asked_again, 85),
        CHANGES_EVERY,
        number("failures", 50),
        number("crawls", 40),
        number("changes", 30),
    ),
    "pages": (
        name("url"),
        word("state", 90),
        number("freshness", 95),
        moment_column("last_crawl_at", 70),
        CHANGES_EVERY,
        TableColumn("importance", lambda row: weight(row["importance"]), 50),
        number("changes", 40),
        number("crawls", 30),
    ),
    "signals": (
        name("host"),
        word("source", 95),
        TableColumn("heard", _heard, 90, left=True),
        moment_column("heard_since", 55),
        number("precision", 80),
        TableColumn("recall", _recall, 70),
        TableColumn("bought", _bought, 85, left=True),
        number("signals", 60),
        number("polls", 50),
        number("stale", 40),
        number("site_events", 30),
        word("why", 20),
    ),
    "calibration": (
        TableColumn("tenth", lambda row: f"{row['predicted_low']:.1f}-{row['predicted_high']:.1f}", 100, left=True),
        number("predicted", 95),
        number("seen", 95),
        number("crawls", 90),
    ),
}


@click.command()
@click.option("--hosts", "views", flag_value="hosts", multiple=True, help="One row per host.")
@click.option("--pages", "views", flag_value="pages", multiple=True, help="One row per page, the stalest first.")
@click.option(
    "--signals",
    "views",
    flag_value="signals",
    multiple=True,
    help="What signals were worth, by host and source, and which are heard.",
)
@click.option(
    "--calibration", "views", flag_value="calibration", multiple=True, help="Predicted against seen freshness."
)
@click.option("--limit", default=30, show_default=True, type=click.IntRange(0), help="Most rows to show; 0: all.")
@targeted
@AS_JSON
def command(views: tuple[str, ...], limit: int, target: CommandTarget, as_json: bool) -> None:
    """Show what is wrong first, then how fresh the copy is: with the daemon running, stopped or hanging.

    Figures come from the database; a daemon that does not answer within half a second is reported and left alone.
    Several tables can be asked for at once; as JSON they are then the parts of one object. Tables leave columns out
    where the terminal is narrow; a pipe and --json get everything.
    """
    if not views:
        summary = _summary(target)
        if as_json:
            click.echo(json.dumps(summary.document(), indent=2))
        else:
            print_lines(summary_lines(summary))
        return
    tables = {view: target.read(partial(_rows, view=view, limit=limit)) for view in dict.fromkeys(views)}
    if as_json:
        shown = [rows for rows, _ in tables.values()]
        click.echo(json.dumps(dict(zip(tables, shown, strict=True)) if len(shown) > 1 else shown[0], indent=2))
        return
    for view, (rows, left_out) in tables.items():
        print_rows(view.capitalize(), rows, VIEWS[view], left_out)


async def _rows(reader: "Reader", view: str, limit: int) -> tuple[list[dict[str, Any]], int]:
    """The first rows of a view, and how many there are beyond."""
    questions: Mapping[str, Callable[[], Awaitable[Sequence[Any]]]] = {
        "hosts": reader.host_stats,
        "pages": reader.page_stats,
        "signals": reader.signal_stats,
        "calibration": reader.calibration,
    }
    found = await questions[view]()
    rows = [asdict(row) for row in found[: limit or None]]
    if view == "pages":
        known = await reader.posteriors([row["url"] for row in rows])
        rows = [row | (asdict(known[row["url"]]) if row["url"] in known else {}) for row in rows]
    elif view == "hosts":  # a host's rate rests on revisits: crawls beyond the first copies
        rows = [row | {"evidence": max(row["crawls"] - row["failures"] - row["copies"], 0)} for row in rows]
    elif view == "calibration":
        rows = [asdict(line) | {"gap": line.gap} for line in found[: limit or None]]
    return rows, len(found) - len(rows)


def _summary(target: CommandTarget) -> Summary:
    """Returns what the database says and, asked at the same time, the daemon."""
    asked = Beside(target, "/v1/status")
    longest = target.load().max_interval
    return target.read(lambda reader: _figures(reader, asked, longest))


async def _figures(reader: "Reader", asked: Beside, longest: float) -> Summary:
    overall = await reader.overall()
    answer, now = await asyncio.to_thread(asked.answer), time.time()
    daemon = None if answer.said is None else Status.of(answer.said)
    longest = longest if daemon is None else daemon.max_interval_seconds  # it may have other settings than we
    troubled = await reader.troubles(now, longest)
    stored = {field.name: getattr(part, field.name) for part in (overall, troubled) for field in fields(part)}
    summary = Summary(
        **stored,
        followed_sites=await reader.followed_sites(),
        daemon=daemon,
        daemon_state=DaemonState(answer.state, answer.pid),
        max_interval_seconds=longest,
    )
    return replace(summary, trouble=troubles(summary, now))


def _followed(site: FollowedLine) -> str:
    """Returns what following the links of a site has found so far."""
    text = f"{site.host}: {many(site.found, 'page')} found by links, {site.waiting} of them not yet visited"
    refused = f", {site.refused} refused" if site.refused else ""
    waits = f"; links of {many(site.deferred, 'page')} wait for room" if site.deferred else ""
    return f"{text}{refused}{waits}"


def summary_lines(summary: Summary) -> list[tuple[str, str]]:
    """Every line of the summary: trouble first."""
    daemon, now = summary.daemon, time.time()
    said = [one.sentence for one in summary.trouble] or ["none, all is well"]
    found = list(zip(["trouble", *[""] * len(said)], said, strict=False))
    if daemon is not None:
        paused = ", paused" if daemon.paused else ""
        rate, uptime = format_rate(daemon.bandwidth), format_duration(daemon.uptime_seconds)
        running = f"running at {rate}{paused} ({daemon.served_by})"
        found.append(("daemon", f"{running}, {many(daemon.requests, 'request')} in {uptime}"))
        if daemon.listener is not None and daemon.listener.address:
            found.append(("dashboard", f"http://{daemon.listener.address}/ (`crawld dashboard` opens it)"))
        if not any(one.kind == "idle_slots" for one in summary.trouble):
            found.append(("slots", idle(daemon)))
    else:
        found.append(("daemon", summary.daemon_state.state.replace("_", " ")))
    states = ", ".join(f"{count} {state}" for state, count in summary.states.items() if count)
    found += [("links", _followed(site)) for site in summary.followed_sites]
    found.append(("pages", f"{summary.pages} on {many(summary.hosts, 'host')} ({states})" if states else "none"))
    found += _freshness(summary, now)
    found.append(("crawls", f"{summary.crawls}, {summary.changes} found a change, {summary.failures} failed"))
    last = summary.last_crawl_at
    found.append(("last crawl", "never" if last is None else format_moment(last, now)))
    left = "" if summary.free_bytes is None else f", {summary.free_bytes / 1e9:,.1f} GB free on its disk"
    found.append(("database", f"{summary.database_bytes / 1e6:,.1f} MB{left}"))
    return found


def _freshness(summary: Summary, now: float) -> list[tuple[str, str]]:
    daemon, latest, audits = summary.daemon, summary.latest, summary.audits
    found = [
        (
            "freshness",
            f"{figure(summary.freshness)} predicted now, weighted by importance; a page never fetched counts 0",
        )
    ]
    measured = None if daemon is None else daemon.measured_freshness
    if measured is None and latest is not None:
        measured = latest.measured_freshness
    if measured is not None and audits.first_at is not None and audits.last_at is not None:
        interval = f"{measured.mean:.3f} measured (95 %: {measured.low:.3f} to {measured.high:.3f})"
        window = f"{many(audits.count, 'audit')} since {format_moment(audits.first_at, now)}"
        found.append(("", f"{interval} of the pages held, by {window}, the last {format_age(audits.last_at, now)}"))
    else:
        found.append(("", "not measured yet: no audit has been made"))
    return found
