"""What waits to be committed: crawls and the like first, signals as there is room.

One poll may bring as many signals as a site has pages. They must not delay the commit of finished crawls, so they wait
in a lane of their own, of which each batch takes a few. Of one page everything is committed in the order in which it
came: a crawl takes the signals along that wait for its page, because it may have answered them.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from crawld.model.fetched import RobotsState
from crawld.model.signal import Signal
from crawld.store.batch import Item, Record


@dataclass(frozen=True)
class CommitQueueLimits:
    """Numbers that bound and tune this module."""

    max_batch: int = 1_000
    max_batch_bytes: int = 8 << 20
    """Of bodies: compressing and writing them stays within the commit interval."""
    signals_at_once: int = 250
    """Signals in one batch beside other items: they make its commit longer by a few hundredths of a second."""


LIMITS = CommitQueueLimits()


class QueuedItem(NamedTuple):
    """An item, its number in the order in which items came, and the shard and epoch under which it may be written."""

    number: int
    item: Item
    lease: tuple[int, int] | None = None


class CommitQueue:
    """Items that were put and are not settled yet; those that were taken count until they are settled or put back."""

    def __init__(self) -> None:
        self._first: deque[QueuedItem] = deque()
        self._signals: dict[int, list[QueuedItem]] = {}  # by page
        self._unsettled: dict[int, float] = {}  # when items were put, by number, in order
        self._last = 0
        self.signals = 0  # that wait in their own lane
        self.bytes = 0  # of bodies, until settled

    def __len__(self) -> int:
        """Items that are not settled."""
        return len(self._unsettled)

    def __bool__(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._first or self._signals)

    @property
    def last(self) -> int:
        """The number of the item put last."""
        return self._last

    @property
    def oldest(self) -> float | None:
        """When the first item that is not settled was put, None where all are."""
        return next(iter(self._unsettled.values()), None)

    def holds(self, number: int) -> bool:
        """Whether an item with this number or a smaller one is not settled yet."""
        return bool(self._unsettled) and next(iter(self._unsettled)) <= number

    def put(self, item: Item, lease: tuple[int, int] | None = None, now: float = 0.0) -> None:
        """Add an item."""
        self._last += 1
        queued = QueuedItem(self._last, item, lease)
        self._unsettled[queued.number] = now
        self.bytes += weight(item)
        if isinstance(item, Signal):
            self._signals.setdefault(item.page_id, []).append(queued)
            self.signals += 1
            return
        if self._signals and isinstance(item, Record):
            self._first.extend(self._signals_of(item.crawl.page_id))
        self._first.append(queued)

    def take(self) -> list[QueuedItem]:
        """The items of the next transaction."""
        taken: list[QueuedItem] = []
        heavy = 0
        while self._first and len(taken) < LIMITS.max_batch and heavy < LIMITS.max_batch_bytes:
            taken.append(self._first.popleft())
            heavy += weight(taken[-1].item)
        room = len(taken) + LIMITS.signals_at_once if taken else LIMITS.max_batch // 2
        while self._signals and len(taken) < room:
            taken.extend(self._signals_of(next(iter(self._signals))))
        return taken

    def put_back(self, taken: Iterable[QueuedItem]) -> None:
        """Return items that were taken and not committed; they come first."""
        self._first.extendleft(reversed(list(taken)))

    def settle(self, taken: Iterable[QueuedItem]) -> None:
        """Forget items that were committed or given up."""
        for queued in taken:
            del self._unsettled[queued.number]
            self.bytes -= weight(queued.item)

    def _signals_of(self, page_id: int) -> list[QueuedItem]:
        found = self._signals.pop(page_id, [])
        self.signals -= len(found)
        return found


def weight(item: Item) -> int:
    """The bytes of an item's body or rules."""
    if isinstance(item, RobotsState):
        return len(item.rules or b"")
    return len(item.body) if isinstance(item, Record) and item.body is not None else 0
