"""What is wrong, as `crawld stats` says it too."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from crawld.model.fetched import TURNED_AWAY
from crawld.model.page import PageState
from crawld.model.troubles import Trouble, troubles
from crawld.store.views import Overdue, Overview

MORE = {
    "failing": "/pages?state=failing",
    "overdue": "/pages?sort=last_crawl",
    "host_backoff": "/hosts",
    "host_asked_to_wait": "/hosts",
    "host_blocked": "/hosts",
    "robots_unavailable": "/hosts",
    **{trouble.value: f"/pages?trouble={trouble.value}" for trouble in TURNED_AWAY},
    "no_bandwidth": "/forecast",
}
"""Where a trouble is seen closer."""


def told(status: Mapping[str, Any], overview: Overview, overdue: Overdue, now: float) -> Sequence[Trouble]:
    """Every trouble of the running daemon in a sentence, the worst first."""
    facts = {
        "daemon": status,
        "daemon_state": {"state": "running", "pid": status["pid"]},
        "pages": overview.pages,
        "states": {state.value: overview.states.get(state, 0) for state in PageState},
        "last_crawl_at": overview.last_crawl_at,
        "overdue": asdict(overdue),
        "max_interval_seconds": status["max_interval_seconds"],
    }
    return troubles(facts, now)
