"""Hooks: the changes that wait for each, and figures of what became of the rest."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol, TypeVar

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store import tables
from crawld.store.bulk import ForRows, added_once, replacing
from crawld.store.changes import bounds, changes_after
from crawld.store.database import ChangeSignal, Database
from crawld.store.views import Change


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
        """Close every connection."""


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


_row, _hook = tables.deliveries.c, tables.hooks.c


async def read_figures(connection: AsyncConnection) -> dict[str, HookFigures]:
    """What became of each hook's changes so far, by name."""
    columns = (
        _hook.name, _hook.cursor, _hook.delivered, _hook.dropped, _hook.delivered_at, _hook.trouble, _hook.trouble_since
    )  # fmt: skip
    return {row.name: HookFigures(*row[1:]) for row in await connection.execute(select(*columns))}


async def read_queues(connection: AsyncConnection) -> dict[str, tuple[int, float]]:
    """How many changes wait for each hook, and since when the oldest does."""
    query = select(_row.hook, func.count(), func.min(_row.added_at)).group_by(_row.hook)
    return {hook: (int(count), float(oldest)) for hook, count, oldest in await connection.execute(query)}


T = TypeVar("T")
_OF_HOOK = "DELETE FROM deliveries {USING given} WHERE deliveries.hook = :hook AND deliveries.change"
FORGET = ForRows("hook text, change bigint", f"{_OF_HOOK} = :change")
FORGET_TO = ForRows("hook text, change bigint", f"{_OF_HOOK} <= :change")
ADD, KEEP = added_once(tables.deliveries), replacing(tables.hooks)


class StoredHooks:
    """The queue of the hooks: what waits for each, and what became of the rest.

    Writes go through the store's one writing connection, each in one transaction; reads see what is committed.
    """

    def __init__(self, database: Database, signal: ChangeSignal, *, shared: bool = False) -> None:
        self._database, self._signal, self._shared = database, signal, shared

    async def open_hooks(self, names: Sequence[str]) -> Mapping[str, HookFigures]:
        """Keep these hooks and forget others with all that waits for them; a new one begins with the next change.

        In a fleet nothing is forgotten: settings of workers may differ, and another may know the hook.
        """

        async def opened(connection: AsyncConnection) -> Mapping[str, HookFigures]:
            if not self._shared:
                await connection.execute(delete(tables.deliveries).where(_row.hook.not_in(names)))
                await connection.execute(delete(tables.hooks).where(_hook.name.not_in(names)))
            found = await read_figures(connection)
            _, last = await bounds(connection)
            return {name: found.get(name) or HookFigures(cursor=last) for name in names}

        found = await self._database.write(opened)
        await self.write(QueueWrites(), found)  # a new hook's place is kept from its first moment on
        return found

    async def waiting(self, hook: str) -> Sequence[Waiting]:
        """Everything that waits for a hook, oldest first."""
        query = select(_row.change, _row.page_id, _row.added_at).where(_row.hook == hook).order_by(_row.change)
        rows = await self._database.read(lambda connection: connection.execute(query))
        return [Waiting(*row) for row in rows]

    async def news(self, after: int, limit: int) -> News:
        """The changes after a number, oldest first."""
        changes = await self._database.read(lambda connection: changes_after(connection, after, limit))
        missed = changes.first - 1 - after if changes.missed else 0
        return News([_new(change) for change in changes.changes], changes.cursor, max(missed, 0))

    async def documents(self, hook: str, changes: Sequence[int]) -> Sequence[HookDelivery]:
        """What is to be sent of these changes; those that were dropped meanwhile are left out."""
        chosen = (_row.hook == hook) & _row.change.in_(changes)
        query = select(_row.change, _row.document).where(chosen).order_by(_row.change)
        rows = await self._database.read(lambda connection: connection.execute(query))
        return [HookDelivery(*row) for row in rows]

    async def write(self, writes: QueueWrites, figures: Mapping[str, HookFigures]) -> None:
        """Write to the queue and the hooks' figures, all or nothing."""

        async def written(connection: AsyncConnection) -> None:
            await FORGET_TO.run(connection, list(writes.dropped_to.items()))
            delivered = [(hook, change) for hook, changes in writes.delivered.items() for change in changes]
            await FORGET.run(connection, delivered)
            added = [
                (queued.hook, queued.change.change, queued.change.page_id, queued.change.document, queued.added_at)
                for queued in writes.added
            ]
            await ADD.run(connection, added)
            await KEEP.run(connection, KEEP.rows({"name": name} | asdict(one) for name, one in figures.items()))

        await self._database.write(written)

    def committed(self) -> asyncio.Event:
        """An event that is set when changes are committed: take it before looking for news."""
        return self._signal.next()


def _new(change: Change) -> NewChange:
    """A change with what receivers are told of it: the same as `GET /v1/changes` tells."""
    denies = frozenset(use for use, said in (change.usage or {}).items() if said == "no")
    document = json.dumps(change.document())
    return NewChange(change.id, change.page_id, change.url, change.verdict.value, document, denies)
