"""A queue that is fair by what tasks cost: start-time fair queueing, with costs that are known only afterwards.

Each payer has a clock of its own that goes on by what its tasks cost. The task whose payer's clock is the earliest is
next; a payer that was idle begins at the common clock, so that it neither gains nor loses by having been away. One that
was never seen begins a little later: those that are known to be cheap do not wait for strangers.
"""

import heapq
from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")

STRANGER = 0.05
"""Seconds of cost that a payer is assumed to have caused before its first task."""
MOST_KNOWN = 10_000
"""Payers whose clocks are remembered."""


class FairQueue(Generic[T]):
    """Tasks by payer."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[T, int]]] = {}
        self._heap: list[tuple[float, int, str]] = []  # the payers that wait, by their clocks
        self._clocks: OrderedDict[str, float] = OrderedDict()
        self._clock = 0.0
        self._turn = 0
        self._bytes: dict[str, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, payer: str, task: T, size: int) -> None:
        """Let a task of `size` bytes wait."""
        if payer not in self._waiting:
            self._waiting[payer] = deque()
            self._push(payer)
        self._waiting[payer].append((task, size))
        self._bytes[payer] = self._bytes.get(payer, 0) + size
        self.bytes += size

    def pop(self) -> T:
        """The next task."""
        clock, _, payer = heapq.heappop(self._heap)
        self._clock = max(self._clock, clock)
        task, size = self._waiting[payer].popleft()
        self._left(payer, size)
        if payer in self._waiting:
            self._push(payer)
        return task

    def paid(self, payer: str, seconds: float) -> None:
        """A task of the payer took that long: its next ones wait accordingly."""
        self._clocks[payer] = max(self._clocks.get(payer, 0.0), self._clock) + seconds
        self._clocks.move_to_end(payer)
        if len(self._clocks) > MOST_KNOWN:
            self._clocks.popitem(last=False)

    def drop_heaviest(self) -> T:
        """Take the newest task of the payer that has most bytes waiting out of the queue."""
        payer = max(self._bytes, key=self._bytes.__getitem__)
        task, size = self._waiting[payer].pop()
        self._left(payer, size)
        if payer not in self._waiting:
            self._heap = [entry for entry in self._heap if entry[2] != payer]
            heapq.heapify(self._heap)
        return task

    def _push(self, payer: str) -> None:
        clock = self._clocks.get(payer)
        begins = self._clock + STRANGER if clock is None else max(clock, self._clock)
        self._turn += 1
        heapq.heappush(self._heap, (begins, self._turn, payer))

    def _left(self, payer: str, size: int) -> None:
        self.bytes -= size
        self._bytes[payer] -= size
        if not self._waiting[payer]:
            del self._waiting[payer], self._bytes[payer]
