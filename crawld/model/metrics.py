"""Figures that the daemon, the store and reports hand each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HookStanding:
    """State of a hook."""

    name: str
    waiting: int
    waiting_since: float | None
    delivered: int
    dropped: int
    failed: int  # sendings, since the start
    trouble: str | None = None  # why the last sending failed, None where it did not
    trouble_since: float | None = None


@dataclass(frozen=True, slots=True)
class MeasuredFreshness:
    """Freshness found by audits, with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """Figures of one minute in the freshness history."""

    at: float
    bandwidth: float
    request_rate: float
    predicted: float | None
    measured: float | None
    measured_low: float | None
    measured_high: float | None
    level: float | None
    pages: int
    changed_share: float | None
    skipped_slots: int

    @property
    def measured_freshness(self) -> MeasuredFreshness | None:
        """Freshness by the audits of that time; None where there were none."""
        if self.measured is None or self.measured_low is None or self.measured_high is None:
            return None
        return MeasuredFreshness(self.measured, self.measured_low, self.measured_high)


@dataclass(frozen=True, slots=True)
class RecentSlots:
    """The slots of the last minutes: how many came, were skipped, and were idle, and what allows no more."""

    seconds: float = 0.0
    slots: int = 0
    skipped: int = 0
    skipped_spans: int = 0
    idle: int = 0
    idle_because: Mapping[str, int] = field(default_factory=dict)
    bottleneck: str | None = None
