"""What the daemon is doing, in numbers that anyone may read."""

from collections import Counter
from dataclasses import dataclass, field

from crawld.model.crawl import Crawl
from crawld.model.fetched import IDLE, SKIPPED, Use


@dataclass(slots=True)
class Counters:
    """Counters since the start. Slots are used, idle (nothing could be asked) or skipped (the loop came late)."""

    started_at: float
    bandwidth: float = 0.0
    requests: int = 0
    by_use: Counter[tuple[str, str]] = field(default_factory=Counter)  # finished requests, by use and outcome
    verdicts: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    slots: int = 0  # that came: used or idle
    idle: Counter[str] = field(default_factory=Counter)  # slots, by reason
    idle_slots: int = 0
    skipped_slots: int = 0
    in_flight: int = 0
    waiting: int = 0  # requests that wait for a slot, a host or a robots.txt; they are not in flight
    bytes: int = 0
    last_slot_at: float = 0.0  # monotonic: for the watchdog
    faults: int = 0  # crawls that ended in an internal error
    list_held_back: str | None = None  # why pages that the URL list no longer names stay
    starting: str | None = None  # how far the start is, until slots are served
    reload_refused: str | None = None  # when and why the last reload was refused, until one is taken over

    def count_request(self, use: Use, outcome: str) -> None:
        """Count a finished request, by what its slot was spent on and one word of `model.fetched.OUTCOMES`."""
        self.by_use[use.value, outcome] += 1

    def spent(self) -> Counter[tuple[str, str]]:
        """What became of the slots so far: requests by use and outcome, idle slots by reason, and skipped ones."""
        spent = self.by_use.copy()
        spent.update({(IDLE, why): count for why, count in self.idle.items()})
        spent[SKIPPED, ""] = self.skipped_slots
        return spent

    def by_purpose(self) -> dict[str, int]:
        """Finished requests by use alone."""
        return self._summed(0)

    def by_outcome(self) -> dict[str, int]:
        """Finished requests by outcome alone."""
        return self._summed(1)

    def _summed(self, part: int) -> dict[str, int]:
        found: Counter[str] = Counter()
        for key, count in self.by_use.items():
            found[key[part]] += count
        return dict(found)

    def count(self, crawl: Crawl) -> None:
        """Count a finished attempt."""
        self.verdicts[crawl.verdict.value] += 1
        self.bytes += crawl.bytes
        if crawl.trouble:
            self.troubles[crawl.trouble] += 1
