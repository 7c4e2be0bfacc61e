"""Turns at hosts that could not be asked when a redirect led there.

A visit that would have to wait long ends, and is planned for a turn. The payers that wait for a host share its
requests evenly, and the pages of an payer come one by one: a thousand pages that redirect to a slow host hold nothing
up.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

MOST_TURNS = 100_000
"""Turns that are remembered; the oldest is forgotten, and its visit then waits like any other."""
MOST_TARGETS, MOST_PAYERS = 2000, 2000
"""Hosts whose turns are kept in order, and payers at each; those longest unused are forgotten."""
LEAD_SECONDS = 2.0
"""A visit begins this long before its turn: its first request must be answered by then."""
LONGEST_TURN = 86400.0
"""Seconds that a visit waits for its turn at most, however many are before it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """When a visit is to begin again, and the host that it then has a turn at."""

    at: float
    target: str


@dataclass(slots=True)
class Reservations:
    """The last turn of each payer at each host, and turns by the URL that has one."""

    _last: OrderedDict[str, OrderedDict[str, float]] = field(default_factory=OrderedDict)
    _turns: OrderedDict[str, Turn] = field(default_factory=OrderedDict)

    def reserve(self, target: str, payer: str, ready: float, spacing: float, now: float) -> float:
        """When a visit of the payer should begin that leads to a host which is ready no sooner than that."""
        last = self._last.setdefault(target, OrderedDict())
        self._last.move_to_end(target)
        while last and next(iter(last.values())) < now:
            last.popitem(last=False)
        own = last.pop(payer, None)
        turn = ready + len(last) * spacing if own is None else max(ready, own + (len(last) + 1) * spacing)
        last[payer] = turn = min(turn, now + LONGEST_TURN)
        if len(last) > MOST_PAYERS:
            last.popitem(last=False)
        if len(self._last) > MOST_TARGETS:
            self._last.popitem(last=False)
        return max(turn - LEAD_SECONDS, now)

    def note(self, url: str, turn: Turn) -> None:
        """Remember that a URL is asked again for this turn."""
        self._turns[url] = turn
        self._turns.move_to_end(url)
        if len(self._turns) > MOST_TURNS:
            self._turns.popitem(last=False)

    def of(self, url: str) -> Turn | None:
        """The turn a URL waits for."""
        return self._turns.get(url)

    def take(self, url: str) -> Turn | None:
        """The turn of a URL that is being asked now; it is used up."""
        return self._turns.pop(url, None)
