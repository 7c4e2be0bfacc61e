"""Hosts and signals: who may be asked, who is in trouble, and what each host's hints are worth."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crawld.model.units import in_a_row
from crawld.show.dashboard.rendering import Sources, View
from crawld.show.report import Status, age, duration
from crawld.store.views import HostLine, SourceFileLine, SourceLine

PATH = "/hosts"
ROWS = 100


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host as it is shown."""

    line: HostLine
    gate: str
    kind: str  # good, warn or bad
    robots: str  # what it asks for
    robots_trouble: str  # why it is unavailable
    spacing: str

    @property
    def well(self) -> bool:
        """Tells whether nothing keeps the host from being asked."""
        return self.kind == "good" and not self.robots_trouble and not self.line.turned_away


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """The hosts with most pages and those in trouble, or those that `?q=` finds."""
    now, status = sources.now(), await sources.control.status()
    wanted = query.get("q", "").strip().lower()
    hosts, signals, files, followed = await asyncio.gather(
        sources.reading.hosts(limit=ROWS + 1, search=wanted or None),
        sources.reading.sources(limit=ROWS + 1, search=wanted or None),
        sources.reading.source_files(limit=ROWS + 1, search=wanted or None),
        sources.reading.followed(),
    )
    robots = robots_failures(status, now)
    rows = sorted((host_row(line, robots, now) for line in hosts[:ROWS]), key=lambda row: row.well)
    context = {
        "hosts": rows,
        "signals": [(line, *worth(line, now)) for line in signals[:ROWS]],
        "files": [(file, *worth_polling(file, signals)) for file in files[:ROWS]],
        "followed": [line for line in followed if wanted in line.host][:ROWS],
        "more": [len(found) > ROWS for found in (hosts, signals, files)],
        "most": ROWS,
        "wanted": wanted,
    }
    return View("hosts.html", "Hosts and signals", PATH, now, context)


def robots_failures(status: Status, now: float) -> dict[str, str]:
    """Returns by host why its robots.txt is unavailable."""
    return {
        worst.origin.partition("://")[2]: f"unavailable: {worst.reason}, tried again {age(worst.until, now)}"
        for worst in status.robots_unavailable.worst
    }


def host_row(line: HostLine, robots: Mapping[str, str], now: float) -> HostRow:
    """A host with its gate, its robots.txt and its spacing in words."""
    gate, kind = _gate(line, now)
    told = "" if line.crawl_delay_seconds is None else f"asks for {duration(line.crawl_delay_seconds)}"
    by = "set by the operator" if line.delay_seconds is not None else ""
    spacing = duration(line.delay_seconds) if line.delay_seconds is not None else ""
    return HostRow(line, gate, kind, told, robots.get(line.host, ""), f"{spacing} {by}".strip())


def _gate(line: HostLine, now: float) -> tuple[str, str]:
    if line.blocked:
        return "paused by the operator", "warn"
    if line.asked_until > now:
        return f"asked us to wait, asked again {age(line.blocked_until, now)}", "warn"
    if line.blocked_until > now:
        failed = in_a_row(line.successive_failures)
        return f"backing off: failed {failed}, asked again {age(line.blocked_until, now)}", "bad"
    return "open", "good"


def worth(line: SourceLine, now: float) -> tuple[str, str]:
    """Tells whether a source is heard, since when and why, and how to show that."""
    if line.heard is None:
        return (f"not judged yet{_because(line)}" if line.signals else "it has announced nothing yet"), ""
    since = "" if line.heard_since is None else f" for {duration(now - line.heard_since)}"
    return f"{'heard' if line.heard else 'not heard'}{since}{_because(line)}", "good" if line.heard else "warn"


def worth_polling(file: SourceFileLine, lines: Sequence[SourceLine]) -> tuple[str, str]:
    """Tells whether a sitemap or feed earns its polls: some kind of its signals is heard on its host."""
    heard = [line.heard for line in lines if line.host == file.host and line.source.kind is file.source.kind]
    if any(heard):
        return "yes: its signals are heard", "good"
    if heard and all(one is False for one in heard):
        return "hardly: its signals foretell nothing; it is polled now and then", "warn"
    return "not known yet", ""


def _because(line: SourceLine) -> str:
    return f": {line.why}" if line.why else ""
