"""`crawld top`: a live screen of what the daemon does, over its control socket."""

import contextlib
import json
import os
import select
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from crawld.cli.remote import CommandTarget, targeted
from crawld.cli.tables import console, figure, fitted, name, number, shorten, word
from crawld.model.units import format_age, format_duration, format_rate, many, parse_duration
from crawld.show.report import JsonReport, Status, Summary, troubles


@dataclass(frozen=True)
class TopLimits:
    """Numbers that bound and tune this module."""

    narrow: int = 110
    """Columns below which tables stand one below the other."""
    bar: int = 20
    max_changes: int = 15
    reported_seconds: float = 10.0
    """Workers of a fleet count for themselves and report now and then: what is shown is over at least so long."""
    sample_seconds: float = 1.0
    """Between the two looks that one frame is made of."""


LIMITS = TopLimits()


STYLES = {"new": "cyan", "changed": "green", "gone": "red", "back": "yellow", "usage": "yellow", "removed": "red"}
STATES = {
    "not_running": "is not running, or is still starting: `crawld run` starts it, its log says how far it is",
    "not_answering": "does not answer",
}

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Frame(JsonReport):
    """One look at the daemon; `status` is None where it does not answer."""

    at: float
    state: str
    pid: int | None
    status: Status | None
    slots: Sequence[Row] = ()
    reached: float = 0.0
    changes: Sequence[Row] = ()


def drawn(frame: Frame, width: int) -> RenderableType:
    """Draws a frame for any width from 60 columns on."""
    status = frame.status
    if status is None:
        process = f" (pid {frame.pid})" if frame.pid else ""
        return Text.assemble(("crawld", "bold"), f"{process} {STATES.get(frame.state, frame.state)}")
    parts: list[RenderableType] = [*_head(status, frame.reached, width), Text("")]
    parts += [*_troubles(status), Text("")]
    slots, changes = _slots(frame.slots, width), _changes(frame.changes, width)
    if width < LIMITS.narrow:
        return Group(*parts, slots, Text(""), changes)
    beside = Table.grid(padding=(0, 4, 0, 0))
    beside.add_row(slots, changes)
    return Group(*parts, beside)


def _head(status: Status, reached: float, width: int) -> list[Text]:
    state = "paused" if status.paused else "running"
    up = format_duration(status.uptime_seconds)
    first = Text.assemble(("crawld ", "bold"), (state, "bold yellow" if status.paused else "bold green"))
    first.append(f" · {many(status.pages, 'page')} · up {up} · {status.served_by}")
    fresh, measured = status.predicted_freshness, status.measured_freshness
    line = Text.assemble(("fresh ", "bold"), bar(fresh or 0.0), f" {figure(fresh)} predicted")
    if measured:
        line.append(f", {figure(measured.mean)} measured ({figure(measured.low)} to {figure(measured.high)})")
    rate = status.bandwidth
    used = bar(reached / rate if rate and not status.paused else 0.0)
    speed = Text.assemble(("rate  ", "bold"), used, f" {figure(reached)}/s of {format_rate(rate)}")
    more = f"in flight {status.in_flight} · waiting {status.waiting} · active {status.active_pages}"
    last = Text(f"      {more} · level {status.level:.3g} · store backlog {status.store.backlog}")
    for text in (first, line, speed, last):
        text.no_wrap, text.overflow = True, "ellipsis"
        text.truncate(width, overflow="ellipsis")
    return [first, line, speed, last]


def bar(share: float) -> Text:
    """A share as a bar."""
    full = round(LIMITS.bar * min(max(share, 0.0), 1.0))
    return Text.assemble(("█" * full, "green"), ("░" * (LIMITS.bar - full), "dim"))


def _troubles(status: Status) -> list[Text]:
    """Returns what is wrong, as `crawld stats` says it, as far as the daemon alone knows."""
    now = time.time()
    summary = Summary(daemon=status, pages=status.pages, last_crawl_at=now)
    found = [Text.assemble(("! ", "bold red"), one.sentence) for one in troubles(summary, now)]
    return found or [Text("all is well", style="green")]


def _slots(slots: Sequence[Row], width: int) -> RenderableType:
    """Returns what slots are spent on, per second since the frame before and in all."""
    columns = [name("spent_on"), number("a_second", 90), word("share", 50), number("since_the_start", 60)]
    return fitted(slots, columns, min(width, LIMITS.narrow // 2))


def _changes(changes: Sequence[Row], width: int) -> RenderableType:
    if not changes:
        return Text("no change since this screen was opened", style="dim")
    room = (width if width < LIMITS.narrow else width - LIMITS.narrow // 2 - 4) - 22
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


def spending(before: Status | None, now: Status, seconds: float) -> list[dict[str, Any]]:
    """Returns what slots went to between two looks at the status, the most first; idle and skipped ones at the end."""
    counts = dict(now.requests_by_purpose)
    earlier = before.requests_by_purpose if before else {}
    news = {use: count - earlier.get(use, 0) for use, count in counts.items()}
    order = sorted(counts, key=lambda use: -counts[use])
    idle, skipped = (before.idle_slots, before.skipped_slots) if before else (0, 0)
    counts |= {"idle": now.idle_slots, "skipped": now.skipped_slots}
    news |= {"idle": now.idle_slots - idle, "skipped": now.skipped_slots - skipped}
    order += ["idle", "skipped"]
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


@click.command()
@click.option("--once", is_flag=True, help="Print one frame and end.")
@click.option("--json", "as_json", is_flag=True, help="Print one frame as JSON and end.")
@click.option("--every", metavar="DURATION", default="2s", show_default=True, help="Time between two frames.")
@targeted
def command(once: bool, as_json: bool, every: str, target: CommandTarget) -> None:
    """Watch the running daemon: freshness, rate, what slots are spent on, trouble and the latest changes.

    q or ctrl-C ends it. It goes on where the daemon is stopped, and shows it again when it is back.
    """
    watch = Watch(target)
    if once or as_json:
        found = watch.look()
        if found.status is not None:
            time.sleep(LIMITS.sample_seconds)
            found = watch.look()
        if as_json:
            click.echo(json.dumps(found.document(), indent=2))
        else:
            where = console()
            where.print(drawn(found, min(where.width, 200)))
        sys.exit(0 if found.status is not None else 1)
    seconds = max(parse_duration(every), 0.2)
    where = console()
    with (
        contextlib.suppress(KeyboardInterrupt),
        _keys() as pressed,
        Live(console=where, screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(drawn(watch.look(), where.width), refresh=True)
            if pressed(seconds):
                return


@dataclass(slots=True)
class Watch:
    """Asks the daemon again and again, and remembers what is needed to tell what is new."""

    target: CommandTarget
    _before: Status | None = None
    _at: float = 0.0
    _cursor: int | None = None
    _changes: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LIMITS.max_changes))

    def look(self) -> Frame:
        """Returns what the daemon does now."""
        answer = self.target.look("/v1/status")
        now, state = time.monotonic(), answer.state if answer.refusal is None else answer.refusal
        if answer.said is None:
            self._before = None
            return Frame(time.time(), state, answer.pid, None, changes=list(self._changes))
        status, before = Status.of(answer.said), self._before
        if before is not None and before.pid != status.pid:
            before = None  # it was started again
        fleet = status.workers is not None
        if fleet and now - self._at < LIMITS.reported_seconds:
            before = None
        seconds = now - self._at if before is not None else status.uptime_seconds
        requests = status.requests - (before.requests if before is not None else 0)
        slots = spending(before, status, seconds)
        reached = status.request_rate if fleet else requests / seconds if seconds > 0 else 0.0
        if self._before is None or not fleet or now - self._at >= 2 * LIMITS.reported_seconds:
            self._before, self._at = status, now
        self._follow()
        return Frame(time.time(), state, answer.pid, status, slots, reached or 0.0, list(self._changes))

    def _follow(self) -> None:
        """Take in the changes since the last look; at the first look the latest ones."""
        if self._cursor is None:
            begun = self.target.look("/v1/changes?after=now").said
            if begun is None:
                return
            self._cursor = max(0, int(begun["cursor"]) - LIMITS.max_changes)
        path = f"/v1/changes?after={self._cursor}&limit=200"
        found = self.target.look(path).said
        if found is not None:
            self._changes.extendleft(found["changes"])
            self._cursor = int(found["cursor"])


@contextlib.contextmanager
def _keys() -> Iterator[Any]:
    """Something that waits so many seconds for a key, and says whether it was q."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    import termios
    import tty

    place = sys.stdin.fileno()
    before = termios.tcgetattr(place)
    try:
        tty.setcbreak(place)
        yield lambda seconds: _pressed(place, seconds)
    finally:
        termios.tcsetattr(place, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _pressed(place: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([place], [], [], left)[0] and os.read(place, 64).lower().startswith(b"q"):
            return True
    return False
