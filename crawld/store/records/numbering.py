"""Ids for new pages and hosts, and who is told of pages that came or went: one writer, or several."""

from collections.abc import Collection, Sequence
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store import tables


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
