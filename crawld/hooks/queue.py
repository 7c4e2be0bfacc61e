"""The queue of one hook: in order for each page, with back-off, within the hook's rate. Pure: nothing awaits.

A page's next change is not taken before the one before was settled, that is delivered and gone from the store. So after
a crash only the latest change of a page can come twice, never an older one after a newer one.
"""

import math
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice

from crawld.store.hooks import Waiting

DOWN_AFTER = 5
"""Failures in a row from which on the receiver counts as down: then one sending at a time is tried."""


@dataclass(frozen=True, slots=True)
class HookPace:
    """Pace of a hook: how fast it is told, and how it is tried again."""

    rate: float  # sendings per second
    concurrency: int = 1  # sendings at once
    first_retry: float = 1.0  # seconds; doubled with each failure of the same change, up to 15 of them
    longest_retry: float = 3600.0  # and a tenth of the time since it failed first, up to this
    longest_pause: float = 300.0  # seconds between two tries while the receiver is down


class HookQueue:
    """Everything that waits for one hook; times are monotonic seconds, except when a change was added."""

    def __init__(self, pace: HookPace, at_once: int, rng: random.Random) -> None:
        self._pace, self._at_once, self._rng = pace, at_once, rng
        self._waiting: dict[int, Waiting] = {}  # by change, oldest first
        self._pages: dict[int, deque[int]] = {}  # by page: its changes, oldest first
        self._under_way: dict[int, int] = {}  # the pages of changes that are being sent or settled
        self._held: set[int] = set()  # the same pages
        self._ready: list[tuple[float, int]] = []  # when a page's first change may be sent, with outdated entries
        self._tries: dict[int, tuple[int, float]] = {}  # by change: failures, and when the first was
        self._sending = 0
        self._failures = 0  # in a row
        self._not_before = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def sending(self) -> int:
        """Sendings that are under way."""
        return self._sending

    @property
    def oldest(self) -> Waiting | None:
        """The change that waits longest."""
        return next(iter(self._waiting.values()), None)

    def add(self, waiting: Waiting) -> None:
        """Let a change wait; changes come in their order."""
        self._waiting[waiting.change] = waiting
        line = self._pages.setdefault(waiting.page_id, deque())
        line.append(waiting.change)
        if len(line) == 1:
            heappush(self._ready, (-math.inf, waiting.change))

    def take(self, now: float) -> list[int]:
        """The changes to send together now; none where nothing is due or enough is under way."""
        taken: list[int] = []
        if not self._may_send() or now < self._not_before:
            return taken
        while self._ready and self._ready[0][0] <= now and len(taken) < self._at_once:
            _, change = heappop(self._ready)
            if self._is_next(change):
                self._under_way[change] = self._waiting[change].page_id
                self._held.add(self._under_way[change])
                taken.append(change)
        if taken:
            self._sending += 1
            self._not_before = max(self._not_before, now + 1.0 / self._pace.rate)
        return taken

    def next_at(self) -> float:
        """Returns when `take` may give something, if nothing else happens before."""
        while self._ready and not self._is_next(self._ready[0][1]):
            heappop(self._ready)
        return max(self._ready[0][0], self._not_before) if self._ready and self._may_send() else math.inf

    def sent(self) -> None:
        """A sending was taken by its receiver; its changes are held until they are settled."""
        self._sending -= 1
        self._failures = 0

    def settle(self, changes: Iterable[int]) -> None:
        """Forget changes that were delivered and are gone from the store."""
        for change in changes:
            self._waiting.pop(change, None)
            self._release(change, -math.inf)

    def failed(self, changes: Sequence[int], now: float, retry_after: float | None = None) -> None:
        """A sending failed: its changes come again later, and the hook pauses where its receiver seems down."""
        self._sending -= 1
        self._failures += 1
        for change in changes:
            if change in self._waiting:
                before, since = self._tries.get(change, (0, now))
                self._tries[change] = (before + 1, since)
                # At first it waits no longer than so many first retries: a receiver may well fail now and then.
                patience = 15 * self._pace.first_retry + (now - since) / 10
                self._release(change, now + self._wait(before + 1, min(patience, self._pace.longest_retry)))
            else:  # dropped meanwhile
                self._release(change, -math.inf)
        pause = self._wait(self._failures - DOWN_AFTER + 1, self._pace.longest_pause) if self._down else 0.0
        asked = min(retry_after or 0.0, self._pace.longest_retry)
        self._not_before = max(self._not_before, now + max(pause, asked))

    def drop(self, count: int) -> list[int]:
        """Drop so many of the oldest, also such as are being sent: their pages wait for the end of that. Which."""
        dropped = list(islice(self._waiting, count))
        for change in dropped:
            self._let_next(self._waiting.pop(change).page_id, -math.inf)
        return dropped

    def expire(self, before: float) -> list[int]:
        """Drop what was added before that time; which."""
        old = 0
        for waiting in self._waiting.values():
            if waiting.added_at >= before:
                break
            old += 1
        return self.drop(old)

    @property
    def _down(self) -> bool:
        return self._failures >= DOWN_AFTER

    def _may_send(self) -> bool:
        return self._sending < (1 if self._down else self._pace.concurrency)

    def _is_next(self, change: int) -> bool:
        waiting = self._waiting.get(change)
        return waiting is not None and waiting.page_id not in self._held and self._pages[waiting.page_id][0] == change

    def _wait(self, failures: int, longest: float) -> float:
        """Seconds until the next try, doubled with each failure, with a jitter so that hooks do not come together."""
        wait = self._pace.first_retry * 2.0 ** min(failures - 1, 40)
        return min(wait, longest) * (0.75 + self._rng.random() / 2)

    def _release(self, change: int, ready_at: float) -> None:
        """Send the change no longer; the first of its page that is left may be sent from that time on."""
        page = self._under_way.pop(change)
        self._held.discard(page)
        self._let_next(page, ready_at)

    def _let_next(self, page: int, ready_at: float) -> None:
        if page in self._held:
            return
        line = self._pages[page]
        while line and line[0] not in self._waiting:
            self._tries.pop(line.popleft(), None)
        if line:
            heappush(self._ready, (ready_at, line[0]))
        else:
            del self._pages[page]
