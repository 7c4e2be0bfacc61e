"""The order of polls: files that are due come up in rotation over the sites that planted them, and over their hosts.

So a site with thousands of due files delays another's by one poll, and a host that may not be asked delays nobody.
"""

import heapq
from collections.abc import Callable, Iterator
from itertools import islice

from crawld.signals.files import File

MOST_OFFERED = 16
"""Sites whose files are offered for one slot; those that cannot be asked make room for others at the next one."""
MOST_LOOKED_AT = 200
"""Sites that are looked at for one slot, those included that turn out to have nothing due."""
SPARE_ENTRIES = 16
"""Entries that a lane may have beside two for each of its files."""


class _Lane:
    """The files that one site planted on one host, by the time of their next poll."""

    __slots__ = ("entries", "files", "rests_until")

    def __init__(self) -> None:
        self.entries: list[tuple[float, str]] = []  # a heap; those of files planned anew since are out of date
        self.files = 0
        self.rests_until = float("-inf")


class PollRotation:
    """Files by the time of their next poll; `planned` gives a file where that entry is up to date."""

    def __init__(self, planned: Callable[[float, str], File | None]) -> None:
        self._planned = planned
        self._lanes: dict[str, dict[str, _Lane]] = {}  # planter -> host -> lane, each in the order of turns
        self._awake: dict[str, None] = {}  # planters with files that may be due, in the order of turns
        self._asleep: list[tuple[float, str]] = []  # a heap of the others, by when to look again
        self._wakes_at: dict[str, float] = {}

    def join(self, file: File) -> None:
        """A file takes part."""
        self._lanes.setdefault(file.planter, {}).setdefault(file.host, _Lane()).files += 1

    def leave(self, file: File) -> None:
        """A file takes part no more."""
        lanes = self._lanes[file.planter]
        lanes[file.host].files -= 1
        if not lanes[file.host].files:
            del lanes[file.host]
        if not lanes:
            del self._lanes[file.planter]
            self._awake.pop(file.planter, None)
            self._wakes_at.pop(file.planter, None)

    def plan(self, file: File) -> None:
        """Take over the time of a file's next poll."""
        lane = self._lanes[file.planter][file.host]
        heapq.heappush(lane.entries, (file.next_poll, file.url))
        if len(lane.entries) > 2 * lane.files + SPARE_ENTRIES:
            lane.entries = sorted({entry for entry in lane.entries if self._planned(*entry) is not None})
        self._wake(file.planter, max(file.next_poll, lane.rests_until))

    def rest(self, planter: str, host: str, until: float) -> None:
        """Offer nothing of a host until then: it may not be asked."""
        lane = self._lanes.get(planter, {}).get(host)
        if lane is not None:
            lane.rests_until = until

    def _wake(self, planter: str, at: float) -> None:
        if planter not in self._awake and at < self._wakes_at.get(planter, float("inf")):
            self._wakes_at[planter] = at
            heapq.heappush(self._asleep, (at, planter))

    def due(self, now: float) -> Iterator[File]:
        """Files to poll now, one of each site, least recently offered first; whoever stops leaves the rest its turn."""
        while self._asleep and self._asleep[0][0] <= now:
            at, planter = heapq.heappop(self._asleep)
            if self._wakes_at.get(planter) == at:
                del self._wakes_at[planter]
                self._awake[planter] = None
        offered = 0
        for planter in list(islice(self._awake, MOST_LOOKED_AT)):
            if offered == MOST_OFFERED:
                break
            if planter not in self._awake:  # its last file left while another was offered
                continue
            del self._awake[planter]
            file = self._first_due(planter, now)
            if file is None:
                times = [
                    max(lane.entries[0][0], lane.rests_until) for lane in self._lanes[planter].values() if lane.entries
                ]
                if times:
                    self._wake(planter, min(times))
                continue
            self._awake[planter] = None
            offered += 1
            yield file

    def _first_due(self, planter: str, now: float) -> File | None:
        """The longest waiting file of the host whose turn it is, of those that may be asked."""
        lanes = self._lanes[planter]
        for host in list(lanes):
            lane = lanes[host]
            while lane.entries and self._planned(*lane.entries[0]) is None:
                heapq.heappop(lane.entries)
            if (
                lane.entries
                and max(lane.entries[0][0], lane.rests_until) <= now
                and (file := self._planned(*lane.entries[0]))
            ):
                lanes[host] = lanes.pop(host)
                return file
        return None
