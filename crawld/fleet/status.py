"""The status of a fleet: what its workers said of themselves, as one status of the same form as a daemon's."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from crawld.choose.page_table import Intervals
from crawld.fleet.store.fleet_store import SqlFleetStore
from crawld.fleet.view import FleetView, WorkerView, fleet_troubles
from crawld.model.crawl import AUDITS_KEPT
from crawld.model.fetched import TURNED_AWAY
from crawld.model.host import MAX_NAMED, HostsInTrouble, SitesTurningAway, TroubledHosts
from crawld.model.metrics import MeasuredFreshness, RecentSlots
from crawld.pages.status import Audits
from crawld.show.report import RobotsUnavailable, Status, StoreStatus
from crawld.store.batch import FreshnessPoint


def merged_status(view: FleetView, measured: tuple[float, float, float] | None, intervals: Intervals) -> Status:
    """Adds up what the workers said; `measured` is by the fleet's audits, the intervals are those of the settings.

    What was done counts also for workers that have ended; how things stand is told by those that live.
    """
    ever = of_processes(view.workers)
    live = [worker.status for worker in view.live if worker.status is not None]
    level = view.level or 0.0
    return Status(
        pages=sum(worker.pages for worker in view.live),
        bandwidth=view.bandwidth,
        paused=view.paused,
        requests=sum(one.requests for one in ever),
        requests_by_purpose=_added(one.requests_by_purpose for one in ever),
        requests_by_outcome=_added(one.requests_by_outcome for one in ever),
        slots_served=sum(one.slots_served for one in ever),
        slots_by_use=slots_by_use(ever),
        verdicts=_added(one.verdicts for one in ever),
        troubles=_added(one.troubles for one in ever),
        in_flight=sum(one.in_flight for one in live),
        waiting=sum(one.waiting for one in live),
        idle_slots=sum(one.idle_slots for one in ever),
        idle_because=_added(one.idle_because for one in ever),
        skipped_slots=sum(one.skipped_slots for one in ever),
        bytes=sum(one.bytes for one in ever),
        uptime_seconds=max((one.uptime_seconds for one in live), default=0.0),
        predicted_freshness=view.freshness,
        measured_freshness=None if measured is None else MeasuredFreshness(*measured),
        level=level if math.isfinite(level) else 0.0,
        active_pages=sum(one.active_pages for one in live),
        evaluations=sum(one.evaluations for one in ever),
        picks=sum(one.picks for one in ever),
        faults=sum(one.faults for one in ever),
        reload_refused=next((one.reload_refused for one in live if one.reload_refused), None),
        list_held_back=next((one.list_held_back for one in live if one.list_held_back), None),
        min_interval_seconds=intervals.shortest,
        max_interval_seconds=intervals.longest,
        hooks=next((one.hooks for one in live if one.hooks), ()),
        store=_store([one.store for one in live]),
        hosts=HostsInTrouble(
            _worst_hosts(one.hosts.blocked for one in live),
            _worst_hosts(one.hosts.asked_to_wait for one in live),
            _worst_hosts(one.hosts.backoff for one in live),
        ),
        robots_unavailable=_robots(live),
        turned_away=_turned_away(live),
        slots=_slots([one.slots for one in live]),
        request_rate=sum(worker.request_rate for worker in view.live),
        workers=len(view.live),
        fleet_troubles=[(one.kind, one.sentence) for one in fleet_troubles(view)],
    )


def slots_by_use(statuses: Iterable[Status]) -> dict[str, dict[str, int]]:
    """Returns what became of all slots so far: counts by outcome, by use."""
    found: dict[str, Counter[str]] = {}
    for one in statuses:
        for use, counts in one.slots_by_use.items():
            found.setdefault(use, Counter()).update(counts)
    return {use: dict(counts) for use, counts in found.items()}


def of_processes(workers: Sequence[WorkerView]) -> list[Status]:
    """Returns the latest status of each process, also of those that ended: one that rejoined goes on counting."""
    latest: dict[tuple[str, object], Status] = {}
    for worker in sorted(workers, key=lambda one: one.joined_at):
        if worker.status is not None:
            latest[worker.name, worker.status.pid] = worker.status
    return list(latest.values())


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return dict(found.most_common())  # the most frequent first, as readers expect it


def _store(stores: Sequence[StoreStatus]) -> StoreStatus:
    unwell = [store for store in stores if not store.healthy]
    return StoreStatus(
        healthy=not unwell,
        trouble=next((store.trouble for store in unwell if store.trouble), None),
        since=min((store.since for store in unwell if store.since is not None), default=None),
        backlog=sum(store.backlog for store in stores),
        lost=sum(store.lost for store in stores),
    )


def _worst_hosts(parts: Iterable[TroubledHosts]) -> TroubledHosts:
    found = list(parts)
    worst = sorted((one for part in found for one in part.worst), key=lambda one: -one.pages)
    return TroubledHosts(sum(part.count for part in found), sum(part.pages for part in found), worst[:MAX_NAMED])


def _robots(live: Sequence[Status]) -> RobotsUnavailable:
    found = [one.robots_unavailable for one in live]
    worst = sorted((one for part in found for one in part.worst), key=lambda one: -one.failures)
    return RobotsUnavailable(sum(part.count for part in found), worst[:MAX_NAMED])


def _turned_away(live: Sequence[Status]) -> dict[str, SitesTurningAway]:
    """Sums up the origins that turn the fleet away, by trouble."""
    found: dict[str, SitesTurningAway] = {}
    for trouble in TURNED_AWAY:
        parts = [one.turned_away[trouble.value] for one in live if trouble.value in one.turned_away]
        worst = sorted((one for part in parts for one in part.worst), key=lambda one: -one.pages)
        if parts:
            count, pages = sum(part.count for part in parts), sum(part.pages for part in parts)
            found[trouble.value] = SitesTurningAway(count, pages, worst[:MAX_NAMED])
    return found


def _slots(parts: Sequence[RecentSlots]) -> RecentSlots:
    """Adds up the slots of the last minutes; the worker that has most of them idle says what limits them."""
    idlest = max(parts, key=lambda part: part.idle, default=None)
    return RecentSlots(
        seconds=max((part.seconds for part in parts), default=0.0),
        slots=sum(part.slots for part in parts),
        skipped=sum(part.skipped for part in parts),
        skipped_spans=max((part.skipped_spans for part in parts), default=0),
        idle=sum(part.idle for part in parts),
        idle_because=_added(part.idle_because for part in parts),
        bottleneck=None if idlest is None else idlest.bottleneck,
    )


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
    """Counts all slots so far by use and outcome."""
    by_use = slots_by_use(of_processes(view.workers))
    return Counter({(use, outcome): count for use, counts in by_use.items() for outcome, count in counts.items()})


def point_of(view: FleetView, audits: Audits, slots: Spent) -> FreshnessPoint:
    """The fleet at this moment, as a daemon records itself."""
    verdicts: Counter[str] = Counter()
    skipped = 0
    for status in of_processes(view.workers):
        verdicts.update(status.verdicts)
        skipped += status.skipped_slots
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
