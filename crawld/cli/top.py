"""`crawld top`: a live screen of what the daemon does, over its control socket."""

import contextlib
import json
import os
import select
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.live import Live

from crawld.cli.remote import CONFIG, DATABASE, READ_SECONDS, look
from crawld.cli.tables import console
from crawld.cli.top_frame import frame, spending
from crawld.model.units import parse_duration

MOST_CHANGES = 15
REPORTED_SECONDS = 10.0
"""Workers of a fleet count for themselves and report now and then: what is shown is over at least so long."""
SAMPLE_SECONDS = 1.0
"""Between the two looks that one frame is made of."""


@click.command()
@click.option("--once", is_flag=True, help="Print one frame and end.")
@click.option("--json", "as_json", is_flag=True, help="Print one frame as JSON and end.")
@click.option("--every", metavar="DURATION", default="2s", show_default=True, help="Time between two frames.")
@CONFIG
@DATABASE
def command(once: bool, as_json: bool, every: str, config_file: Path | None, database: str | None) -> None:
    """Watch the running daemon: freshness, rate, what slots are spent on, trouble and the latest changes.

    q or ctrl-C ends it. It goes on where the daemon is stopped, and shows it again when it is back.
    """
    watch = Watch(config_file, database)
    if once or as_json:
        document = watch.look()
        if document["status"] is not None:
            time.sleep(SAMPLE_SECONDS)
            document = watch.look()
        if as_json:
            click.echo(json.dumps(document, indent=2))
        else:
            where = console()
            where.print(frame(document, min(where.width, 200)))
        sys.exit(0 if document["status"] is not None else 1)
    seconds = max(parse_duration(every), 0.2)
    where = console()
    with (
        contextlib.suppress(KeyboardInterrupt),
        _keys() as pressed,
        Live(console=where, screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(frame(watch.look(), where.width), refresh=True)
            if pressed(seconds):
                return


@dataclass(slots=True)
class Watch:
    """Asks the daemon again and again, and remembers what is needed to tell what is new."""

    config_file: Path | None
    database: str | None
    _before: dict[str, Any] | None = None
    _at: float = 0.0
    _cursor: int | None = None
    _changes: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_CHANGES))

    def look(self) -> dict[str, Any]:
        """What the daemon does now, as one document."""
        answer = look(self.config_file, self.database, "/status", READ_SECONDS)
        status, now = answer.said, time.monotonic()
        state = answer.state if answer.refusal is None else answer.refusal
        document: dict[str, Any] = {"at": time.time(), "state": state, "pid": answer.pid, "status": status}
        if status is None:
            self._before = None
            return document | {"slots": [], "reached": 0.0, "changes": list(self._changes)}
        before = self._before
        if before is not None and before["pid"] != status["pid"]:
            before = None  # it was started again
        fleet = "workers" in status
        if fleet and now - self._at < REPORTED_SECONDS:
            before = None
        seconds = now - self._at if before is not None else float(status["uptime_seconds"])
        requests = status["requests"] - (before["requests"] if before is not None else 0)
        document["slots"] = spending(before, status, seconds)
        document["reached"] = status["request_rate"] if fleet else requests / seconds if seconds > 0 else 0.0
        if self._before is None or not fleet or now - self._at >= 2 * REPORTED_SECONDS:
            self._before, self._at = status, now
        self._follow()
        return document | {"changes": list(self._changes)}

    def _follow(self) -> None:
        """Take in the changes since the last look; at the first look the latest ones."""
        if self._cursor is None:
            begun = look(self.config_file, self.database, "/v1/changes?after=now", READ_SECONDS).said
            if begun is None:
                return
            self._cursor = max(0, int(begun["cursor"]) - MOST_CHANGES)
        path = f"/v1/changes?after={self._cursor}&limit=200"
        found = look(self.config_file, self.database, path, READ_SECONDS).said
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
