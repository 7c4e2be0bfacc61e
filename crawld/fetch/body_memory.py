"""Memory for the bodies being received: small ones always fit, large ones wait until others are done.

A body takes room as its bytes arrive, never ahead of them. The body that began first may always go on, so those that
wait cannot block each other for ever; and while any of them waits, a large body that hardly arrives is given up.
"""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field

from crawld.fetch.deadlines import Deadlines, Wait

SMALL_BODY = 65_536
"""Bytes that every body may have without asking for room: most pages, as they are packed, have less."""
MOST_BYTES = 32_000_000
"""Bytes of all bodies being received beyond that: three of the longest at once, or hundreds of ordinary ones."""
MOST_OF_ONE_HOST = MOST_BYTES // 2
"""Bytes of the bodies of one host, unless it is a single body."""
GRACE_SECONDS = 5.0
"""Seconds a large body may take, however slowly it arrives, while others wait for room."""
SLOWEST = 50_000
"""Bytes a second at which a large body must arrive after that while others wait for room."""


@dataclass(slots=True, eq=False)
class Share:
    """The room that one body has."""

    host: str
    deadline: Wait  # of the whole answer: it passes early where others need the room
    began: float
    held: int = 0


@dataclass(slots=True, eq=False)
class _Wanted:
    share: Share
    more: int
    granted: "asyncio.Future[None]"


@dataclass(slots=True)
class BodyMemory:
    """Who holds how much, and who waits for more."""

    deadlines: Deadlines
    most: int = MOST_BYTES
    most_of_one_host: int = MOST_OF_ONE_HOST
    held: int = 0
    _shares: dict[Share, None] = field(default_factory=dict)  # by age
    _hosts: Counter[str] = field(default_factory=Counter)
    _queue: deque[_Wanted] = field(default_factory=deque)
    _timer: asyncio.TimerHandle | None = None

    def begin(self, host: str, deadline: Wait) -> Share:
        """A body begins; it holds nothing yet."""
        return Share(host, deadline, asyncio.get_running_loop().time())

    async def grow(self, share: Share, size: int) -> None:
        """Wait until the body may have so many bytes; room is given in steps that double."""
        if size <= max(SMALL_BODY, share.held):
            return
        more = max(size, 2 * share.held) - share.held
        self._shares.setdefault(share)
        if self._fits(share, more):
            self._give(share, more)
            return
        loop = asyncio.get_running_loop()
        wanted = _Wanted(share, size - share.held, loop.create_future())
        self._queue.append(wanted)
        if self._timer is None:
            self._timer = loop.call_later(GRACE_SECONDS / 5, self._look)
        try:
            await wanted.granted
        finally:
            if not wanted.granted.done() or wanted.granted.cancelled():
                self._queue.remove(wanted)

    def end(self, share: Share) -> None:
        """The body has been passed on or given up: others may have its room."""
        if share in self._shares:
            del self._shares[share]
            self._give(share, -share.held)
            if not self._hosts[share.host]:
                del self._hosts[share.host]
            self._grant()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give(self, share: Share, more: int) -> None:
        self.held += more
        share.held += more
        self._hosts[share.host] += more

    def _fits(self, share: Share, more: int) -> bool:
        if share is next(iter(self._shares)):
            return True
        of_host = self._hosts[share.host]
        alone = of_host == share.held
        return self.held + more <= self.most and (alone or of_host + more <= self.most_of_one_host)

    def _grant(self) -> None:
        """Give room to those who have waited longest and fit."""
        still: deque[_Wanted] = deque()
        for wanted in self._queue:
            if not wanted.granted.done() and self._fits(wanted.share, wanted.more):
                self._give(wanted.share, wanted.more)
                wanted.granted.set_result(None)
            else:
                still.append(wanted)
        self._queue = still

    def _look(self) -> None:
        """While somebody waits, let the deadline pass of the body that arrives most slowly."""
        self._timer = None
        if not self._queue:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        waiting = {wanted.share for wanted in self._queue}
        slow = [
            (share.held / (now - share.began), number, share)
            for number, share in enumerate(self._shares)
            if share not in waiting and now - share.began > GRACE_SECONDS
        ]
        rate, _, slowest = min(slow, default=(SLOWEST, 0, None))
        if slowest is not None and rate < SLOWEST:
            self.deadlines.expire(slowest.deadline)
        self._timer = loop.call_later(GRACE_SECONDS / 5, self._look)
