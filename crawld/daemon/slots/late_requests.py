"""Requests that wait much longer than their host usually needs give their place to the next one.

With one request at a time to a host, a page that never answers would stop its host until the timeout. All requests are
first looked at after the same time, so they stand in the order of their looks, and a look costs nothing but the oldest.
"""

from collections import deque
from dataclasses import dataclass

from crawld.frontier.politeness import HostGate

LOOK_EVERY = 1.0


@dataclass(slots=True, eq=False)
class SentRequest:
    """One request under way; times are monotonic."""

    host: int
    began: float
    look_at: float
    over: bool = False
    late: bool = False  # it has given up its place


class LateRequests:
    """The requests under way that hold a place at their host's gate."""

    def __init__(self, gate: HostGate) -> None:
        self._gate = gate
        self._waiting: deque[SentRequest] = deque()

    def take(self, host: int, monotonic: float) -> SentRequest:
        """Watch a request whose gate is acquired; set `over` when it has ended."""
        place = SentRequest(host, monotonic, monotonic + LOOK_EVERY)
        self._waiting.append(place)
        return place

    def look(self, monotonic: float) -> None:
        """Let requests that are late give up their place."""
        waiting = self._waiting
        while waiting and waiting[0].look_at <= monotonic:
            place = waiting.popleft()
            if place.over:
                continue
            place.late = self._gate.give_up_place(place.host, monotonic - place.began)
            if not place.late:
                place.look_at = monotonic + LOOK_EVERY
                waiting.append(place)
