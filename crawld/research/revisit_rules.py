"""When other crawlers ask a page again: each peer's own rule with the constants it ships; time is in days."""

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol

MINUTE, HOUR, WEEK = 1 / 1440, 1 / 24, 7.0


class RevisitRule(Protocol):
    """One page's timer."""

    def next_visit(self, now: float, changed: bool | None) -> float:
        """When to ask again, after a visit that found this; None at the first visit, which compares with nothing."""


@dataclass(slots=True)
class Fixed:
    """The same interval whatever was found; inf: never again."""

    interval: float

    def next_visit(self, now: float, changed: bool | None) -> float:  # noqa: ARG002 — it takes no notice
        """One interval on."""
        return now + self.interval


class NutchAdaptive:
    """Apache Nutch's AdaptiveFetchSchedule, with the values of nutch-default.xml unless others are given."""

    SHORTEST, LONGEST, LIMIT = MINUTE, 365.0, 90.0

    def __init__(self, increase: float = 0.4, decrease: float = 0.2, sync_rate: float = 0.3) -> None:
        self._increase, self._decrease, self._sync_rate = increase, decrease, sync_rate
        self._interval = 30.0
        self._modified = 0.0
        self._known = False  # whether there is a signature to compare with

    def next_visit(self, now: float, changed: bool | None) -> float:
        """Shrink or grow by a share, then lean toward the time of the last change seen."""
        if changed is None or not self._known:
            self._modified, self._known = now, True
        elif changed:
            self._interval *= 1.0 - self._decrease
            self._modified = now
        else:
            self._interval *= 1.0 + self._increase
        unchanged_for = now - self._modified
        self._interval = max(self._interval, unchanged_for)
        self._interval = min(max(self._interval, self.SHORTEST), self.LONGEST)
        due = now - self._sync_rate * unchanged_for + self._interval
        if due - now <= self.LIMIT:
            return due
        # Too far ahead: the next round takes it at once, and an interval beyond the limit starts afresh.
        if self._interval > self.LIMIT:
            self._interval = 0.9 * self.LIMIT
            self._known = False
        return now


class StormCrawlerAdaptive:
    """Apache StormCrawler's AdaptiveScheduler, in whole minutes, with its defaults unless others are given."""

    FIRST = 1440

    def __init__(self, increase: float = 0.5, decrease: float = 0.5, shortest: int = 60, longest: int = 20160) -> None:
        self._increase, self._decrease, self._shortest, self._longest = increase, decrease, shortest, longest
        self._minutes = self.FIRST

    def next_visit(self, now: float, changed: bool | None) -> float:
        """Part of the way to the shortest interval after a change, a share longer without."""
        if changed:
            self._minutes = int((1.0 - self._decrease) * self._minutes + self._decrease * self._shortest)
        elif changed is not None:
            self._minutes = min(int(self._minutes * (1.0 + self._increase)), self._longest)
        return now + self._minutes * MINUTE


class MinifluxFrequency:
    """miniflux's entry_frequency, a change found standing for an entry published."""

    SHORTEST, LONGEST = 5 * MINUTE, 1.0

    def __init__(self) -> None:
        self._entries: deque[float] = deque()

    def next_visit(self, now: float, changed: bool | None) -> float:
        """A week divided by the entries a week that the mean gap of the past week stands for."""
        if changed:
            self._entries.append(now)
        while self._entries and self._entries[0] < now - WEEK:
            self._entries.popleft()
        return now + self._interval()

    def _interval(self) -> float:
        gaps = len(self._entries) - 1
        if gaps < 1:
            return self.LONGEST
        weekly = math.ceil(WEEK / ((self._entries[-1] - self._entries[0]) / gaps))
        return min(max(WEEK / weekly, self.SHORTEST), self.LONGEST)


class FreshRssAutoTtl:
    """FreshRSS with AutoTTL: the time since the oldest entry of the past 30 days, divided by their number."""

    SAMPLED, DEFAULT, LONGEST = 30.0, HOUR, 1.0

    def __init__(self) -> None:
        self._entries: deque[float] = deque()

    def next_visit(self, now: float, changed: bool | None) -> float:
        """Within an hour and a day; a day where nothing was published, or a moment ago only."""
        if changed:
            self._entries.append(now)
        while self._entries and self._entries[0] < now - self.SAMPLED:
            self._entries.popleft()
        mean = (now - self._entries[0]) / len(self._entries) if self._entries else 0.0
        return now + (min(max(mean, self.DEFAULT), self.LONGEST) if mean > 0 else self.LONGEST)
