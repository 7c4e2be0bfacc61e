"""The status of a fleet: what its workers said of themselves, as one document of the same form as a daemon's."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from crawld.choose.page_table import Intervals
from crawld.crawl.audits import Audits
from crawld.fleet.store.fleet_store import SqlFleetStore
from crawld.fleet.view import FleetView, WorkerView, fleet_troubles
from crawld.model.crawl import AUDITS_KEPT
from crawld.model.fetched import TURNED_AWAY
from crawld.model.host import MAX_NAMED
from crawld.store.batch import FreshnessPoint

Document = Mapping[str, Any]
COUNTS = ("requests", "slots_served", "idle_slots", "skipped_slots", "bytes", "faults", "evaluations", "picks")
"""Counted since the start: what workers did that have ended counts as well."""


def merged_status(view: FleetView, measured: tuple[float, float, float] | None, intervals: Intervals) -> dict[str, Any]:
    """The document; `measured` freshness is that of the fleet's audits, the intervals are those of the settings."""
    ever = of_processes(view.workers)
    live = [worker.status for worker in view.live if worker.status is not None]
    level = view.level or 0.0
    by_word = ("requests_by_purpose", "requests_by_outcome", "verdicts", "troubles", "idle_because")
    return {
        "pages": sum(worker.pages for worker in view.live),
        "bandwidth": view.bandwidth,
        "paused": view.paused,
        **{name: sum(one[name] for one in ever) for name in COUNTS},
        **{name: dict(_added(one[name] for one in ever)) for name in by_word},
        "slots_by_use": slots_by_use(ever),
        **{name: sum(one[name] for one in live) for name in ("in_flight", "waiting", "active_pages")},
        "request_rate": sum(worker.request_rate for worker in view.live),
        "uptime_seconds": max((one["uptime_seconds"] for one in live), default=0.0),
        "predicted_freshness": view.freshness,
        "measured_freshness": None if measured is None else dict(zip(("mean", "low", "high"), measured, strict=True)),
        "level": level if math.isfinite(level) else 0.0,
        "list_held_back": next((one["list_held_back"] for one in live if one.get("list_held_back")), None),
        "reload_refused": next((one["reload_refused"] for one in live if one["reload_refused"]), None),
        "pid": None,
        "workers": len(view.live),
        "fleet_troubles": [(one.kind, one.sentence) for one in fleet_troubles(view)],
        "min_interval_seconds": intervals.shortest,
        "max_interval_seconds": intervals.longest,
        "hooks": next((one["hooks"] for one in live if one["hooks"]), []),
        "store": _store(live),
        "hosts": {
            kind: _worst((one["hosts"][kind] for one in live), "pages")
            for kind in ("blocked", "asked_to_wait", "backoff")
        },
        "robots_unavailable": _worst((one["robots_unavailable"] for one in live), "failures"),
        "turned_away": _turned_away(live),
        "slots": _slots(live),
    }


def slots_by_use(statuses: Iterable[Document]) -> dict[str, dict[str, int]]:
    """What became of all slots so far: counts by outcome, by use."""
    found: dict[str, Counter[str]] = {}
    for one in statuses:
        for use, counts in one["slots_by_use"].items():
            found.setdefault(use, Counter()).update(counts)
    return {use: dict(counts) for use, counts in found.items()}


def of_processes(workers: Sequence[WorkerView]) -> list[Document]:
    """The latest word of each process, also of those that ended: one that joined anew goes on counting."""
    latest: dict[tuple[str, object], Document] = {}
    for worker in sorted(workers, key=lambda one: one.joined_at):
        if worker.status is not None:
            latest[worker.name, worker.status["pid"]] = worker.status
    return list(latest.values())


def _added(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return Counter(dict(found.most_common()))  # the most frequent first, as readers expect it


def _store(live: Sequence[Document]) -> dict[str, Any]:
    stores = [one["store"] for one in live]
    unwell = [store for store in stores if not store["healthy"]]
    since = [store["since"] for store in unwell if store["since"] is not None]
    return {
        "healthy": not unwell,
        "trouble": next((store["trouble"] for store in unwell if store["trouble"]), None),
        "since": min(since, default=None),
        "backlog": sum(store["backlog"] for store in stores),
        "lost": sum(store["lost"] for store in stores),
    }


def _worst(parts: Iterable[Document], key: str) -> dict[str, Any]:
    """Things in trouble, how many and the worst of them by that figure."""
    found = list(parts)
    worst = sorted((one for part in found for one in part["worst"]), key=lambda one: -one[key])
    total: dict[str, Any] = {"count": sum(part["count"] for part in found), "worst": worst[:MAX_NAMED]}
    return total | ({"pages": sum(part["pages"] for part in found)} if key == "pages" else {})


def _turned_away(live: Sequence[Document]) -> dict[str, Any]:
    """Origins that turn the fleet away, by trouble; an earlier release does not say."""
    said = [one.get("turned_away", {}) for one in live]
    return {
        trouble.value: _worst((part[trouble.value] for part in said if trouble.value in part), "pages")
        for trouble in TURNED_AWAY
        if any(trouble.value in part for part in said)
    }


def _slots(live: Sequence[Document]) -> dict[str, Any]:
    """The slots of the last minutes; what limits them is the word of the worker that has most of them idle."""
    parts = [one["slots"] for one in live]
    idlest = max(parts, key=lambda part: part["idle"], default=None)
    return {
        "seconds": max((part["seconds"] for part in parts), default=0.0),
        **{name: sum(part[name] for part in parts) for name in ("slots", "skipped", "idle")},
        "skipped_spans": max((part.get("skipped_spans", part["skipped"]) for part in parts), default=0),
        "idle_because": dict(_added(part["idle_because"] for part in parts)),
        "bottleneck": None if idlest is None else idlest["bottleneck"],
    }


# The fleet's history of freshness: one point a tick for all workers, written by the one that has the duty.

Spent = Counter[tuple[str, str]]


class FleetHistory:
    """Adds up what the workers reported; `record` is how the worker that does it writes a point."""

    def __init__(self, store: SqlFleetStore, record: Callable[[FreshnessPoint], None], tick_seconds: float) -> None:
        self._store, self._record, self._tick = store, record, tick_seconds

    async def run(self) -> None:
        """Write a point every tick until cancelled; slots are counted from now on."""
        spent = slots_spent(await self._store.view())
        while True:
            await asyncio.sleep(self._tick)
            view = await self._store.view()
            audits = Audits()
            for fresh in await self._store.audits(AUDITS_KEPT):
                audits.record(fresh=fresh)
            now = slots_spent(view)
            self._record(point_of(view, audits, now - spent))
            spent = now


def slots_spent(view: FleetView) -> Spent:
    """What became of all slots so far, by use and outcome."""
    by_use = slots_by_use(of_processes(view.workers))
    return Counter({(use, outcome): count for use, counts in by_use.items() for outcome, count in counts.items()})


def point_of(view: FleetView, audits: Audits, slots: Spent) -> FreshnessPoint:
    """The fleet at this moment, as a daemon records itself."""
    verdicts: Counter[str] = Counter()
    skipped = 0
    for status in of_processes(view.workers):
        verdicts.update(status["verdicts"])
        skipped += status["skipped_slots"]
    judged = verdicts["changed"] + verdicts["unchanged"]
    mean, low, high = audits.measured() or (None, None, None)
    return FreshnessPoint(
        at=view.now,
        bandwidth=0.0 if view.paused else view.bandwidth,
        request_rate=sum(worker.request_rate for worker in view.live),
        predicted=view.freshness,
        measured=mean,
        measured_low=low,
        measured_high=high,
        level=view.level if view.level is not None and math.isfinite(view.level) else None,
        pages=sum(worker.pages for worker in view.live),
        changed_share=verdicts["changed"] / judged if judged else None,
        skipped_slots=skipped,
        slots=dict(slots),
    )
