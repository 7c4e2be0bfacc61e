"""What the daemon is doing, in numbers that anyone may read."""

from collections import Counter
from dataclasses import dataclass, field

from crawld.model.crawl import Crawl


@dataclass(slots=True)
class Status:
    """Counters since the start. Slots are used, idle (nothing could be asked) or skipped (the loop came late)."""

    started_at: float
    bandwidth: float = 0.0
    requests: int = 0
    by_purpose: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    idle_slots: int = 0
    skipped_slots: int = 0
    in_flight: int = 0
    waiting: int = 0  # requests that wait for a slot, a host or a robots.txt; they are not in flight
    bytes: int = 0
    last_slot_at: float = 0.0  # monotonic: for the watchdog
    faults: int = 0  # crawls ended by a bug of ours
    reload_refused: str | None = None  # when and why the last reload was refused, until one is taken over

    def count(self, crawl: Crawl) -> None:
        """Count a finished attempt."""
        self.verdicts[crawl.verdict.value] += 1
        self.bytes += crawl.bytes
        if crawl.trouble:
            self.troubles[crawl.trouble] += 1
