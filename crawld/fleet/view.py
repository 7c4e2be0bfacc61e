"""The state of a fleet: its workers, what they hold and may send, and what is wrong in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from crawld.model.units import format_age, format_duration, many
from crawld.show.report import Status, TroubleReport


@dataclass(frozen=True)
class ViewLimits:
    """Numbers that bound and tune this module."""

    lag_seconds: float = 5.0
    """Records that wait longer than this to be committed are told of."""
    round_late_seconds: float = 10.0
    """Without a round for so long no worker has a grant."""
    clock_seconds: float = 1.0
    """A machine's clock that differs more than this from the database's is told of."""
    lost_seconds: float = 600.0
    """For which a worker that was lost and has not come back is told of."""


LIMITS = ViewLimits()


WorkerState = Literal["live", "draining", "drained", "lost", "left"]


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker: what it said last, what it holds, and what it may send in the round under way."""

    id: str
    name: str
    state: WorkerState
    joined_at: float
    seen_at: float  # when it beat last
    shards: int = 0
    granted: float = 0.0
    duties: Sequence[str] = ()
    pages: int = 0
    request_rate: float = 0.0
    level: float | None = None
    lag: float = 0.0
    fresh: float = 0.0
    weight: float = 0.0
    loading: int = 0
    stale: int = 0
    revision: int = 0  # of the fleet's settings that it goes by wholly
    clock_ahead: float = 0.0
    status: Status | None = field(default=None, repr=False)

    @property
    def live(self) -> bool:
        """Tells whether its lease lasts."""
        return self.state in {"live", "draining", "drained"}

    @property
    def freshness(self) -> float | None:
        """Predicted, of its pages, weighted by importance."""
        return self.fresh / self.weight if self.weight > 0 else None


@dataclass(frozen=True, slots=True)
class FleetView:
    """The fleet at one moment, by the database's clock."""

    now: float
    shards: int
    bandwidth: float  # what was set; it is not sent while paused
    paused: bool
    workers: Sequence[WorkerView] = ()  # those that ended within the last day too
    round_at: float | None = None  # when a round was last cleared
    level: float | None = None  # as crawld.fleet.auction.Clearing has it; None before the first round
    mail: int = 0
    revision: int = 0  # of the settings in force; 0: none were applied yet

    @property
    def live(self) -> Sequence[WorkerView]:
        """Workers whose lease lasts."""
        return [worker for worker in self.workers if worker.live]

    @property
    def latest(self) -> Mapping[str, str]:
        """By name, the id of the worker that joined last, a live one before all others."""
        return {worker.name: worker.id for worker in sorted(self.workers, key=lambda one: (one.live, one.joined_at))}

    @property
    def freshness(self) -> float | None:
        """Predicted, of all pages that a live worker holds, weighted by importance."""
        weight = sum(worker.weight for worker in self.live)
        return sum(worker.fresh for worker in self.live) / weight if weight > 0 else None

    @property
    def free(self) -> int:
        """Shards that no live worker holds."""
        return self.shards - sum(worker.shards for worker in self.live)


def fleet_troubles(view: FleetView) -> list[TroubleReport]:
    """Everything that is wrong with a fleet as such, the worst first."""
    return [*_of_all(view), *_of_workers(view)]


def _of_all(view: FleetView) -> Iterator[TroubleReport]:
    if not view.live:
        yield TroubleReport("no_worker", "no worker runs and nothing is crawled: `crawld fleet run` starts one")
        return
    if view.free:
        held = (
            "is held by no worker, and its pages are"
            if view.free == 1
            else "are held by no worker, and their pages are"
        )
        yield TroubleReport("free_shards", f"{view.free} of {many(view.shards, 'shard')} {held} not crawled")
    if view.round_at is None or view.now - view.round_at > LIMITS.round_late_seconds:
        since = "yet" if view.round_at is None else f"since {format_age(view.round_at, view.now)}"
        yield TroubleReport("no_round", f"no round was cleared {since}: no worker has a grant, and nothing is sent")


def _of_workers(view: FleetView) -> Iterator[TroubleReport]:
    latest = view.latest
    for worker in view.workers:
        if (
            worker.state == "lost"
            and worker.id == latest[worker.name]
            and view.now - worker.seen_at < LIMITS.lost_seconds
        ):
            seen = format_age(worker.seen_at, view.now)
            yield TroubleReport("worker_lost", f"worker {worker.name} is lost: its last beat was {seen}")
        if worker.live and worker.lag > LIMITS.lag_seconds:
            lag = format_duration(worker.lag)
            yield TroubleReport(
                "lag", f"worker {worker.name} has waited for {lag} to write to the database: it is too slow"
            )
        if worker.live and 0 < worker.revision < view.revision:
            said = f"worker {worker.name} goes by revision {worker.revision} of the settings, and {view.revision}"
            yield TroubleReport("settings", f"{said} is in force: restart it")
        if worker.live and abs(worker.clock_ahead) > LIMITS.clock_seconds:
            far = f"{format_duration(abs(worker.clock_ahead))} {'ahead of' if worker.clock_ahead > 0 else 'behind'}"
            said = f"the clock of worker {worker.name}'s machine is {far} the database's: set it (timedatectl, chrony)"
            yield TroubleReport("clock", f"{said}; records go by the database's")
