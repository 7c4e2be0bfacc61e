"""What is wrong, as `crawld stats` says it too."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from crawld.dashboard.sources import Sources
from crawld.interfaces.read_model import Overview
from crawld.model.page import PageState
from crawld.model.troubles import Trouble, troubles

MORE = {
    "failing": "/pages?state=failing",
    "overdue": "/pages?sort=last_crawl",
    "host_backoff": "/hosts",
    "host_asked_to_wait": "/hosts",
    "host_blocked": "/hosts",
    "robots_unavailable": "/hosts",
    "no_bandwidth": "/forecast",
}
"""Where a trouble is seen closer."""


async def told(sources: Sources, status: Mapping[str, Any], overview: Overview, now: float) -> Sequence[Trouble]:
    """Every trouble of the running daemon in a sentence, the worst first."""
    longest = status["max_interval_seconds"]
    facts = {
        "daemon": status,
        "daemon_state": {"state": "running", "pid": status["pid"]},
        "pages": overview.pages,
        "states": {state.value: overview.states.get(state, 0) for state in PageState},
        "last_crawl_at": overview.last_crawl_at,
        "overdue": asdict(await sources.reading.overdue(now - longest)),
        "max_interval_seconds": longest,
    }
    return troubles(facts, now)
