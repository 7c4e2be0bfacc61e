"""What a drill of the fleet left behind, as plain values: requests, crawls, owners of shards, faults.

All times are seconds of the monotonic clock, which the processes of a machine share.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

LOST_PROCESSES = ("kill", "stop", "drop", "stall")
"""Faults of one worker: killed, stopped, its wire to PostgreSQL cut, its wire held up."""
CRASH = "crash"
"""The fault of PostgreSQL: it is ended at once and started again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for a page, as the site noted it."""

    at: float
    url: str
    shard: int
    worker: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """One crawl in the database: when it was begun and when it was committed."""

    at: float
    url: str
    committed: float


@dataclass(frozen=True, slots=True)
class Owned:
    """From `at` on a worker held the shard; None: nobody did."""

    at: float
    shard: int
    epoch: int
    worker: str | None


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done to whom, and when it was undone. For a kill that is the start of the next process."""

    kind: str
    worker: str
    began: float
    ended: float


@dataclass(slots=True)
class Owners:
    """Who held which shard when."""

    _by_shard: dict[int, list[Owned]] = field(default_factory=dict)

    @classmethod
    def of(cls, history: Iterable[Owned]) -> "Owners":
        """Built from the history in any order."""
        by_shard: defaultdict[int, list[Owned]] = defaultdict(list)
        for one in sorted(history, key=lambda one: (one.at, one.epoch)):
            by_shard[one.shard].append(one)
        return cls(by_shard)

    def shards(self) -> Sequence[int]:
        """Every shard that was ever held."""
        return sorted(self._by_shard)

    def at(self, shard: int, moment: float) -> Owned | None:
        """Who held the shard then."""
        history = self._by_shard.get(shard, [])
        place = bisect_right(history, moment, key=lambda one: one.at)
        return history[place - 1] if place else None

    def epoch_of(self, shard: int, worker: str, moment: float) -> int | None:
        """The newest epoch under which a worker had held the shard by then; None if it never had."""
        history = self._by_shard.get(shard, [])
        place = bisect_right(history, moment, key=lambda one: one.at)
        return next((one.epoch for one in reversed(history[:place]) if one.worker == worker), None)

    def next_after(self, shard: int, moment: float) -> Owned | None:
        """The next change of the shard's owner: it was given back, claimed, or claimed again by the same worker."""
        history = self._by_shard.get(shard, [])
        place = bisect_right(history, moment, key=lambda one: one.at)
        return history[place] if place < len(history) else None

    def claims(self, start: float, end: float) -> int:
        """How often a shard came to a new epoch between two moments: each costs loading it."""
        found = 0
        for history in self._by_shard.values():
            epochs = {one.epoch for one in history if start <= one.at <= end}
            before = {one.epoch for one in history if one.at < start}
            found += len(epochs - before)
        return found
