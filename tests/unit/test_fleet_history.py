"""What workers report, as one status and one point of the history."""

import json
import math
from dataclasses import replace
from typing import Any

from crawld.choose.page_table import Intervals
from crawld.fleet.status import merged_status, point_of, slots_spent
from crawld.fleet.view import FleetView, WorkerView
from crawld.model.host import HostsInTrouble, HostTrouble, TroubledHosts
from crawld.model.metrics import MeasuredFreshness, RecentSlots
from crawld.pages.status import Audits
from crawld.show.report import Status, StoreStatus


def status(pid: int, **more: Any) -> Status:
    """A worker's own status."""
    told: dict[str, Any] = {
        "requests": 10, "slots_served": 9, "idle_slots": 1, "skipped_slots": 3, "bytes": 1000, "evaluations": 5,
        "picks": 9, "requests_by_purpose": {"page": 10}, "requests_by_outcome": {"new": 10},
        "verdicts": {"changed": 3, "unchanged": 7}, "idle_because": {"host_busy": 1}, "pid": pid,
        "slots_by_use": {"page": {"changed": 10}, "idle": {"host_busy": 1}}, "in_flight": 1, "waiting": 2,
        "active_pages": 4, "uptime_seconds": 60.0, "store": StoreStatus(backlog=2),
        "slots": RecentSlots(60.0, 10, 1, 1, 2, {"host_busy": 2}, "b"),
    }  # fmt: skip
    return Status(**(told | more))


def worker(name: str, joined_at: float = 0.0, **more: Any) -> WorkerView:
    """A live worker that holds four shards."""
    given: dict[str, Any] = {
        "state": "live",
        "shards": 4,
        "pages": 50,
        "request_rate": 4.0,
        "fresh": 8.0,
        "weight": 10.0,
    }
    return WorkerView(id=f"{name}.{joined_at}", name=name, joined_at=joined_at, seen_at=99.0, **(given | more))


def view(*workers: WorkerView, **more: Any) -> FleetView:
    """A fleet of eight shards."""
    given: dict[str, Any] = {"now": 100.0, "shards": 8, "bandwidth": 10.0, "paused": False, "round_at": 99.0}
    return FleetView(workers=workers, **(given | {"level": 0.5} | more))


def test_a_point_is_of_the_whole_fleet() -> None:
    """Sums, freshness weighted by importance, and what became of the slots since the point before."""
    both = view(worker("a", status=status(1)), worker("b", status=status(2), fresh=10.0, weight=30.0))
    audits = Audits()
    audits.record(fresh=True)
    point = point_of(both, audits, slots_spent(both) - slots_spent(view(worker("a", status=status(1)))))
    assert (point.at, point.bandwidth, point.request_rate, point.pages, point.predicted) == (
        100.0,
        10.0,
        8.0,
        100,
        0.45,
    )
    assert (point.level, point.changed_share, point.skipped_slots, point.measured) == (0.5, 0.3, 6, 1.0)
    assert point.slots == {("page", "changed"): 10, ("idle", "host_busy"): 1}
    paused = point_of(replace(both, paused=True), Audits(), slots_spent(view()))
    assert (paused.bandwidth, paused.measured, paused.slots) == (0.0, None, {})


def test_a_process_that_joined_anew_counts_once() -> None:
    """One that ended goes on counting for what it did."""
    lost = worker("a", 1.0, state="lost", shards=0, status=status(7, requests=10))
    back = worker("a", 2.0, status=status(7, requests=12))
    left = worker("b", 1.0, state="left", shards=0, status=status(8, requests=5))
    merged = merged_status(view(lost, back, left), None, Intervals())
    assert (merged.requests, merged.in_flight, merged.workers) == (17, 1, 1)


def test_trouble_of_any_worker_is_the_fleets() -> None:
    """The worst hosts of all, a store that cannot write, and the word of the worker that idles most."""
    down = TroubledHosts(3, 9, [HostTrouble(f"h{pages}", pages, 0.0, 1) for pages in (5, 3, 1)])
    hosts = HostsInTrouble(backoff=down)
    unwell = StoreStatus(healthy=False, trouble="full", since=5.0, backlog=4, lost=1)
    idle = RecentSlots(90.0, 9, 0, 0, 9, {"min_interval": 9}, "c")
    one, two = status(1, hosts=hosts, slots=idle), status(2, hosts=hosts, store=unwell)
    merged = merged_status(view(worker("a", status=one), worker("b", status=two)), (0.5, 0.4, 0.6), Intervals())
    assert (merged.hosts.backoff.count, merged.hosts.backoff.pages) == (6, 18)
    assert [host.pages for host in merged.hosts.backoff.worst] == [5, 5, 3, 3, 1]
    assert merged.store == StoreStatus(healthy=False, trouble="full", since=5.0, backlog=6, lost=1)
    assert merged.slots.bottleneck == "c"
    assert list(merged.slots.idle_because) == ["min_interval", "host_busy"]
    assert merged.measured_freshness == MeasuredFreshness(0.5, 0.4, 0.6)
    assert merged.fleet_troubles == []


def test_a_fleet_without_workers_has_a_status() -> None:
    """Nothing is counted, and what is wrong is said."""
    merged = merged_status(view(level=math.inf), None, Intervals())
    assert (merged.requests, merged.workers, merged.level) == (0, 0, 0.0)
    assert [kind for kind, _ in merged.fleet_troubles or ()] == ["no_worker"]


def test_a_status_is_the_same_after_it_was_stored() -> None:
    """Workers' statuses go through the database as JSON; one of an earlier release lacks keys, a later one has more."""
    merged = merged_status(view(worker("a", status=status(1))), (0.5, 0.4, 0.6), Intervals())
    assert Status.of(json.loads(json.dumps(merged.document()))).document() == merged.document()
    assert Status.of({"requests": 3, "unheard_of": 1}) == Status(requests=3)
    assert {"workers", "request_rate", "fleet_troubles"} <= set(merged.document())
    assert not {"workers", "request_rate", "fleet_troubles", "listener"} & set(Status().document())
