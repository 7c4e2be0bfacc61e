"""What the drivers need of signal sources, polled and pushed."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from crawld.model.signal import SOURCES, Claimed, Signal
from crawld.store.sources import Poll

T = TypeVar("T")
Slices = Generator[None, None, T]
"""Work in slices of a few milliseconds; its driver lets other tasks run in between."""


def at_once(slices: Slices[T]) -> T:
    """Do all slices in a row, where they are known to be few."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result


@dataclass(frozen=True, slots=True)
class Discoveries:
    """What a file lists within the scope of discovery, where that has changed."""

    urls: Sequence[str]  # not kept yet
    listed: Sequence[int]  # pages that are kept
    complete: bool  # what was found in this file before and is listed no more has left


@dataclass(frozen=True, slots=True)
class PollResult:
    """What a poll decided: for the store `polls` and `signals`, for the scheduler `counted`."""

    polls: Sequence[Poll]  # the file itself, then those it led to
    signals: Sequence[Signal] = ()
    removed: Sequence[str] = ()  # files no longer watched, to be forgotten
    discoveries: Discoveries | None = None  # None: discovery is off, or nothing came or went
    elsewhere: Sequence[Claimed] = ()  # changes of pages on other sites, where other workers hold those
    hubs: Sequence[str] = ()  # WebSub hubs that would push this feed
    topic: str | None = None
    summary: str = ""
    trouble: str | None = None  # why the file told nothing

    @property
    def news(self) -> bool:
        """Tells whether the poll brought anything but a file that says what it said before."""
        return bool(self.signals or self.removed or self.trouble) or self.discoveries is not None

    @property
    def counted(self) -> Sequence[tuple[int, int]]:
        """Page id and source index of every signal that counts."""
        return [(signal.page_id, SOURCES.index(signal.source)) for signal in self.signals if not signal.stale]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A feed that a hub delivered: `read(now)` reads it; it can run in a worker."""

    url: str
    host: str
    read: Callable[[float], Any]
