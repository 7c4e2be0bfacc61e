"""What hooks need of the store and of whoever carries a change to its receiver."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Waiting:
    """A change that waits for a hook. Its number is its place in the order of commits."""

    change: int
    page_id: int
    added_at: float


@dataclass(frozen=True, slots=True)
class HookDelivery:
    """A change as it is sent: its number, and what receivers are told of it, as JSON."""

    change: int
    document: str


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """Why a sending failed, in a sentence, and the seconds after which the receiver wants to be asked again."""

    detail: str
    retry_after: float | None = None


class Transport(Protocol):
    """Carries changes to a receiver. What goes wrong there is a value, never an exception."""

    @property
    def at_once(self) -> int:
        """How many changes one sending may carry."""

    async def send(self, deliveries: Sequence[HookDelivery]) -> NotDelivered | None:
        """Send the changes together; None where they were taken."""

    async def close(self) -> None:
        """Let go of every connection."""


@dataclass(frozen=True, slots=True)
class NewChange:
    """A change that no hook was asked about yet."""

    change: int
    page_id: int
    url: str
    verdict: str
    document: str
    denies: frozenset[str] = frozenset()  # uses of the page that its site denies


@dataclass(frozen=True, slots=True)
class News:
    """Changes after a number, the number to go on from, and how many changes are no longer kept."""

    changes: Sequence[NewChange]
    cursor: int
    missed: int = 0


@dataclass(frozen=True, slots=True)
class HookFigures:
    """What became of a hook's changes so far, as kept over restarts."""

    cursor: int = 0  # the last change that it was asked about
    delivered: int = 0
    dropped: int = 0
    delivered_at: float | None = None  # the last one
    trouble: str | None = None  # why the last sending failed, None where it did not
    trouble_since: float | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    """A new change for a hook, as it is written to the queue."""

    hook: str
    change: NewChange
    added_at: float


@dataclass(frozen=True, slots=True)
class QueueWrites:
    """What one transaction does to the queue: what comes, what was delivered, and up to which number the oldest go."""

    added: Sequence[Queued] = ()
    delivered: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by hook
    dropped_to: Mapping[str, int] = field(default_factory=dict)  # by hook


class HookStore(Protocol):
    """The queue of the hooks, in the store. Reads see what is committed; a write is one transaction."""

    async def open_hooks(self, names: Sequence[str]) -> Mapping[str, HookFigures]:
        """Keep these hooks and forget others with all that waits for them; a new one begins with the next change."""

    async def waiting(self, hook: str) -> Sequence[Waiting]:
        """Everything that waits for a hook, oldest first."""

    async def news(self, after: int, limit: int) -> News:
        """The changes after a number, oldest first."""

    async def documents(self, hook: str, changes: Sequence[int]) -> Sequence[HookDelivery]:
        """What is to be sent of these changes; those that were dropped meanwhile are left out."""

    async def write(self, writes: QueueWrites, figures: Mapping[str, HookFigures]) -> None:
        """Write to the queue and the hooks' figures, all or nothing."""

    def committed(self) -> asyncio.Event:
        """An event that is set when changes are committed: take it before looking for news."""
