"""Several writers of one database: ids for new pages and hosts, the rows that each may write, and who is told."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store import tables
from crawld.store.id_ranges import Ranges
from crawld.store.in_values import among
from crawld.store.writing.bulk import run
from crawld.store.writing.upserts import named_once

T = TypeVar("T")
Sums = dict[tuple[int, int], list[float]]
"""Counts of calibration, by day and bin."""


class Numbering(Protocol):
    """What taking over a list needs to know of other writers; each is asked within its transaction."""

    async def begin(self, connection: AsyncConnection) -> None:
        """Before anything is read."""

    async def host_ids(self, connection: AsyncConnection, names: Sequence[str]) -> Sequence[int]:
        """Ids for new hosts, by their names."""

    async def page_ids(self, connection: AsyncConnection, hosts: Sequence[str]) -> Sequence[int]:
        """Ids for new pages, by the names of the hosts that they are on."""

    async def tell(self, connection: AsyncConnection, pages: Collection[int]) -> None:
        """These pages came, went, or weigh otherwise."""

    async def first_change(self, connection: AsyncConnection, count: int) -> int:
        """The first of so many numbers of changes, at the end of the transaction."""


class WriteScope(Protocol):
    """The part of a database that this process may write, where other processes write the rest."""

    @property
    def numbering(self) -> Numbering:
        """Numbers of new rows."""

    def of_page(self, page_id: int) -> int:
        """The shard of a page."""

    def of_host(self, name: str) -> int:
        """The shard of a host."""

    def holds(self, page_id: int) -> bool:
        """Whether a page is ours."""

    def ranges(self) -> Ranges:
        """The ids of our pages and hosts."""

    async def ranges_held(self, connection: AsyncConnection) -> Ranges:
        """Those of them that stay ours for the rest of the transaction."""

    async def ours(self, connection: AsyncConnection, rows: Sequence[T], shard: Callable[[T], int]) -> list[T]:
        """Those of the rows whose shards stay ours for the rest of the transaction."""

    async def fence(self, connection: AsyncConnection, epochs: Mapping[int, int]) -> None:
        """Refuse the transaction where one of these shards has another owner."""

    def due_calibration(self, news: Sums, now: float) -> Sums:
        """Counts to write with a batch that brings these."""

    def settle_calibration(self) -> None:
        """The batch was committed."""


class OneWriter:
    """Nobody else writes: ids go on from the largest, and nobody has to be told."""

    async def begin(self, connection: AsyncConnection) -> None:
        """Nothing to wait for."""

    async def host_ids(self, connection: AsyncConnection, names: Sequence[str]) -> Sequence[int]:
        """The ids after the largest."""
        host = tables.hosts.c.id
        first = 1 + (await connection.scalar(select(host).order_by(host.desc()).limit(1)) or 0)
        return range(first, first + len(names))

    async def page_ids(self, connection: AsyncConnection, hosts: Sequence[str]) -> Sequence[int]:
        """The ids after the largest."""
        page = tables.pages.c.id
        first = 1 + (await connection.scalar(select(page).order_by(page.desc()).limit(1)) or 0)
        return range(first, first + len(hosts))

    async def tell(self, connection: AsyncConnection, pages: Collection[int]) -> None:
        """Nobody to tell."""

    async def first_change(self, connection: AsyncConnection, count: int) -> int:  # noqa: ARG002 - for others
        """The number after the largest."""
        return 1 + int(await connection.scalar(select(func.coalesce(func.max(tables.changes.c.id), 0))) or 0)


async def know_hosts(connection: AsyncConnection, numbering: Numbering, names: Iterable[str]) -> dict[str, int]:
    """The ids of hosts by name; those that are unknown get one."""
    wanted = list(dict.fromkeys(names))
    known = await _read_hosts(connection, wanted)
    if new := [name for name in wanted if name not in known]:
        ids = await numbering.host_ids(connection, new)
        rows = [{"id": number, "name": name} for name, number in zip(new, ids, strict=True)]
        await run(connection, named_once(connection.dialect.name, tables.hosts), rows)
        known |= await _read_hosts(connection, new)  # another writer may have given one an id meanwhile
    return known


async def _read_hosts(connection: AsyncConnection, names: list[str]) -> dict[str, int]:
    if not names:
        return {}
    host = tables.hosts.c
    chosen, parameters = among(connection.dialect.name, host.name, names)
    found = await connection.execute(select(host.name, host.id).where(chosen), parameters)
    return {row.name: row.id for row in found}
