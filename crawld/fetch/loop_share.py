"""LoopShare for connections whose bytes cost much to read: together they get a share of the event loop, and no more.

A connection that has used up what one answer may cost freely is read again only when its turn comes. Hosts take turns,
and the connections of a host take turns among themselves, so a host gains nothing by opening more of them.
"""

import asyncio
from collections import deque
from typing import Protocol

SHARE = 0.2
"""Share of the loop's time that all costly connections get together: most of a core stays for the others."""
SHORTEST_GAP = 0.002
"""Seconds between two turns at least: waking up costs more than the smallest reads."""
SHORTEST_WAIT = 0.02
"""Seconds between two turns of one connection at least: small segments gather in the kernel meanwhile."""
UNSEEN = 2.0
"""A turn costs this many times what parsing took: the waiting task reads what was parsed, and wakes up for it."""


class Waiting(Protocol):
    """A connection that waits for its turn."""

    host: str

    def take_turn(self) -> float:
        """Read on for one step; return the seconds it took."""


class LoopShare:
    """A queue of hosts, each with a queue of connections."""

    def __init__(self) -> None:
        self._hosts: dict[str, deque[tuple[float, Waiting]]] = {}
        self._order: deque[str] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many connections wait."""
        return sum(map(len, self._hosts.values()))

    def wait(self, connection: Waiting) -> None:
        """Give the connection a turn when those before it have had theirs."""
        loop = asyncio.get_running_loop()
        queue = self._hosts.get(connection.host)
        if queue is None:
            queue = self._hosts[connection.host] = deque()
            self._order.append(connection.host)
        queue.append((loop.time() + SHORTEST_WAIT, connection))
        if self._timer is None:
            self._timer = loop.call_later(SHORTEST_WAIT, self._serve)

    def close(self) -> None:
        """Serve nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._hosts.clear()
        self._order.clear()

    def _serve(self) -> None:
        """Serve the first host whose first connection has waited long enough, then rest for as long as that cost."""
        loop = asyncio.get_running_loop()
        self._timer = None
        gap = SHORTEST_GAP
        connection = self._next(loop.time())
        if connection is not None:
            gap = max(gap, connection.take_turn() * UNSEEN * (1 / SHARE - 1))
        if self._order and self._timer is None:
            self._timer = loop.call_later(gap, self._serve)

    def _next(self, now: float) -> Waiting | None:
        for _ in range(len(self._order)):
            host = self._order.popleft()
            queue = self._hosts[host]
            ready, connection = queue[0]
            if ready > now:
                self._order.append(host)
                continue
            queue.popleft()
            if queue:
                self._order.append(host)
            else:
                del self._hosts[host]
            return connection
        return None
