"""One frame of `crawld top`: what the daemon does, drawn for any width from 60 columns on."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from crawld.cli.tables import figure, fitted, name, number, shorten, word
from crawld.model.troubles import troubles, who_runs
from crawld.model.units import format_age, format_duration, format_rate, many

NARROW = 110
"""Columns below which tables stand one below the other."""
BAR = 20
STYLES = {"new": "cyan", "changed": "green", "gone": "red", "back": "yellow", "usage": "yellow", "removed": "red"}
STATES = {
    "not_running": "is not running, or is still starting: `crawld run` starts it, its log says how far it is",
    "not_answering": "does not answer",
}

Facts = Mapping[str, Any]


def frame(document: Facts, width: int) -> RenderableType:
    """The screen for what was found out."""
    status = document["status"]
    if status is None:
        process = f" (pid {document['pid']})" if document["pid"] else ""
        return Text.assemble(("crawld", "bold"), f"{process} {STATES.get(document['state'], document['state'])}")
    parts: list[RenderableType] = [*_head(document, status, width), Text("")]
    parts += [*_troubles(status), Text("")]
    slots, changes = _slots(document, width), _changes(document["changes"], width)
    if width < NARROW:
        return Group(*parts, slots, Text(""), changes)
    beside = Table.grid(padding=(0, 4, 0, 0))
    beside.add_row(slots, changes)
    return Group(*parts, beside)


def _head(document: Facts, status: Facts, width: int) -> list[Text]:
    state = "paused" if status["paused"] else "running"
    up = format_duration(status["uptime_seconds"])
    first = Text.assemble(("crawld ", "bold"), (state, "bold yellow" if status["paused"] else "bold green"))
    first.append(f" · {many(status['pages'], 'page')} · up {up} · {who_runs(status)}")
    fresh, measured = status["predicted_freshness"], status["measured_freshness"]
    line = Text.assemble(("fresh ", "bold"), bar(fresh or 0.0), f" {figure(fresh)} predicted")
    if measured:
        line.append(f", {figure(measured['mean'])} measured ({figure(measured['low'])} to {figure(measured['high'])})")
    rate, reached = status["bandwidth"], document["reached"]
    used = bar(reached / rate if rate and not status["paused"] else 0.0)
    speed = Text.assemble(("rate  ", "bold"), used, f" {figure(reached)}/s of {format_rate(rate)}")
    more = f"in flight {status['in_flight']} · waiting {status['waiting']} · active {status['active_pages']}"
    last = Text(f"      {more} · level {status['level']:.3g} · store backlog {status['store']['backlog']}")
    for text in (first, line, speed, last):
        text.no_wrap, text.overflow = True, "ellipsis"
        text.truncate(width, overflow="ellipsis")
    return [first, line, speed, last]


def bar(share: float) -> Text:
    """A share as a bar."""
    full = round(BAR * min(max(share, 0.0), 1.0))
    return Text.assemble(("█" * full, "green"), ("░" * (BAR - full), "dim"))


def _troubles(status: Facts) -> list[Text]:
    """What is wrong, as `crawld stats` says it, as far as the daemon alone knows."""
    now = time.time()
    facts = {
        "daemon": status,
        "daemon_state": {"state": "running", "pid": status["pid"]},
        "pages": status["pages"],
        "last_crawl_at": now,
        "overdue": {"count": 0},
        "states": {"failing": 0},
    }
    found = [Text.assemble(("! ", "bold red"), one.sentence) for one in troubles(facts, now)]
    return found or [Text("all is well", style="green")]


def _slots(document: Facts, width: int) -> RenderableType:
    """What slots are spent on, per second since the frame before and in all."""
    columns = [name("spent_on"), number("a_second", 90), word("share", 50), number("since_the_start", 60)]
    return fitted(document["slots"], columns, min(width, NARROW // 2))


def _changes(changes: Sequence[Facts], width: int) -> RenderableType:
    if not changes:
        return Text("no change since this screen was opened", style="dim")
    room = (width if width < NARROW else width - NARROW // 2 - 4) - 22
    now = time.time()
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("change", "seen", "page"):
        shown.add_column(heading, no_wrap=True)
    for one in changes:
        verdict = Text(one["verdict"], style=STYLES.get(one["verdict"], ""))
        shown.add_row(
            verdict, format_age(one["at"], now), Text(shorten(one["url"], max(room, 16)), overflow="ellipsis")
        )
    return shown


def spending(before: Facts | None, now: Facts, seconds: float) -> list[dict[str, Any]]:
    """What slots went to between two looks at the status, the most first; idle and skipped ones at the end."""
    counts = dict(now["requests_by_purpose"])
    earlier = dict(before["requests_by_purpose"]) if before else {}
    news = {use: count - earlier.get(use, 0) for use, count in counts.items()}
    order = sorted(counts, key=lambda use: -counts[use])
    for use, key in (("idle", "idle_slots"), ("skipped", "skipped_slots")):
        counts[use] = now[key]
        news[use] = now[key] - (before[key] if before else 0)
        order.append(use)
    total = sum(news.values())
    return [
        {
            "spent_on": use,
            "a_second": news[use] / seconds if seconds > 0 else 0.0,
            "share": f"{news[use] / total:.0%}" if total else "–",
            "since_the_start": counts[use],
        }
        for use in order
    ]
