"""Short pauses of hosts whose pages robots.txt forbids one after the other: other hosts come first meanwhile."""

from heapq import heappop, heappush

from crawld.frontier.politeness import HostGate

FORBIDDEN_IN_A_ROW = 10
"""Forbidden pages of one host that one slot looks at: the next ones wait for the host's pause to end."""
SHORTEST_PAUSE = 0.2
"""Seconds of a pause: at most some fifty forbidden pages of a host are looked at in a second."""
PAUSE_SLOTS = 4
"""Slots that a pause lasts at least: most of them are free of the host's forbidden pages, however rare slots are."""
FORBIDDEN_SPACING = 0.5
"""Seconds between looks at a host's forbidden pages in the long run: each waits this long times the host's pages."""


class HostPauses:
    """Hosts set aside at the gate until a time."""

    def __init__(self, gate: HostGate) -> None:
        self._gate = gate
        self._until: list[tuple[float, int]] = []

    def pause(self, host: int, until: float) -> None:
        """Let no page of the host be picked before that time."""
        self._gate.set_aside(host)
        heappush(self._until, (until, host))

    def resume(self, now: float) -> None:
        """Let hosts whose pause is over be picked again."""
        while self._until and self._until[0][0] <= now:
            self._gate.take_back(heappop(self._until)[1])
