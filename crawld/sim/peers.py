"""How other crawlers decide when to ask again: a timer per page, at our budget the most overdue page first.

Each rule is the peer's own with the constants it ships; time is in days. None of them has a budget that it
allocates, so a slot at which no timer has run out is left idle.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Protocol

SECOND, MINUTE, HOUR, WEEK = 1 / 86400, 1 / 1440, 1 / 24, 7.0


class RevisitRule(Protocol):
    """One page's timer."""

    def next_visit(self, now: float, changed: bool | None) -> float:
        """When to ask again, after a visit that found this; None at the first visit, which compares with nothing."""


class NutchAdaptive:
    """Apache Nutch's AdaptiveFetchSchedule with the values of nutch-default.xml."""

    INCREASE, DECREASE, SYNC_RATE = 0.4, 0.2, 0.3
    SHORTEST, LONGEST, LIMIT = MINUTE, 365.0, 90.0

    def __init__(self) -> None:
        self._interval = 30.0
        self._modified = 0.0
        self._known = False  # whether there is a signature to compare with

    def next_visit(self, now: float, changed: bool | None) -> float:
        """Shrink by a fifth or grow by two fifths, then lean toward the time of the last change seen."""
        if changed is None or not self._known:
            self._modified, self._known = now, True
        elif changed:
            self._interval *= 1.0 - self.DECREASE
            self._modified = now
        else:
            self._interval *= 1.0 + self.INCREASE
        unchanged_for = now - self._modified
        self._interval = max(self._interval, unchanged_for)
        self._interval = min(max(self._interval, self.SHORTEST), self.LONGEST)
        due = now - self.SYNC_RATE * unchanged_for + self._interval
        if due - now <= self.LIMIT:
            return due
        # Too far ahead: the next round takes it at once, and an interval beyond the limit starts afresh.
        if self._interval > self.LIMIT:
            self._interval = 0.9 * self.LIMIT
            self._known = False
        return now


class StormCrawlerAdaptive:
    """Apache StormCrawler's AdaptiveScheduler, in whole minutes."""

    INCREASE, DECREASE, SHORTEST, LONGEST, FIRST = 0.5, 0.5, 60, 20160, 1440

    def __init__(self) -> None:
        self._minutes = self.FIRST

    def next_visit(self, now: float, changed: bool | None) -> float:
        """Half way to the shortest interval after a change, half as much again without."""
        if changed:
            self._minutes = int((1.0 - self.DECREASE) * self._minutes + self.DECREASE * self.SHORTEST)
        elif changed is not None:
            self._minutes = min(int(self._minutes * (1.0 + self.INCREASE)), self.LONGEST)
        return now + self._minutes * MINUTE


class ChangeDetection:
    """changedetection.io: every three hours, whatever was found."""

    def next_visit(self, now: float, changed: bool | None) -> float:  # noqa: ARG002 — it takes no notice
        """Three hours on."""
        return now + 3 * HOUR


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


PEERS: dict[str, Callable[[], RevisitRule]] = {
    "nutch-adaptive": NutchAdaptive,
    "stormcrawler-adaptive": StormCrawlerAdaptive,
    "changedetection.io": ChangeDetection,
    "miniflux": MinifluxFrequency,
}


class TimerCrawler:
    """A crawler with a timer per page. At the start every page is due, in order."""

    def __init__(self, rule: Callable[[], RevisitRule], pages: int) -> None:
        self._rules = [rule() for _ in range(pages)]
        self._due = [(0.0, page) for page in range(pages)]
        self._visited = [False] * pages

    def pick(self, now: float) -> int | None:
        """The most overdue page, or None while no timer has run out."""
        if not self._due or self._due[0][0] > now:
            return None
        return heapq.heappop(self._due)[1]

    def settle(self, page: int, now: float, changed: bool) -> None:
        """Set the page's timer anew."""
        due = self._rules[page].next_visit(now, changed if self._visited[page] else None)
        self._visited[page] = True
        heapq.heappush(self._due, (due, page))

    def notice(self, page: int, now: float) -> None:
        """None of these rules looks at signals."""

    def change_bandwidth(self, rate: float, now: float) -> None:
        """Nor at the budget."""
