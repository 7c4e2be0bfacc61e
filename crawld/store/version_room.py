"""The room that earlier versions of pages take: bounded in bytes, the oldest go first, and no page loses its latest."""

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store import tables
from crawld.store.in_values import among

WALKED_AT_ONCE = 5_000
"""Copies looked at in one step."""
COUNT_AGAIN = 0.05
"""Of the bound: what may be added before the bytes are counted again, which takes a scan."""
_body, _newer = tables.bodies.c, tables.bodies.alias("newer")
_EARLIER = select(_newer.c.id).where(_newer.c.page_id == _body.page_id, _newer.c.id > _body.id).exists()


class VersionRoom:
    """Knows about how many bytes earlier versions take, and makes room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counted: int | None = None
        self._added = 0  # since then; a page's first copy counts here although it is no earlier version
        self._walked = 0

    def added(self, size: int) -> None:
        """Versions of so many bytes, compressed, were written."""
        self._added += size

    async def count(self, connection: AsyncConnection) -> None:
        """Count the bytes, where enough was added for it to matter."""
        if self._counted is None or (self._full and self._added > COUNT_AGAIN * self._most):
            earlier = select(func.coalesce(func.sum(func.length(_body.zstd)), 0)).where(_EARLIER)
            self._counted, self._added = int(await connection.scalar(earlier) or 0), 0

    def forget(self) -> None:
        """Count again: others have added."""
        self._counted = None

    @property
    def _full(self) -> bool:
        return (self._counted or 0) + self._added > self._most

    async def step(self, connection: AsyncConnection) -> int:
        """Delete some of the oldest earlier versions while there are too many; 1 where the walk only went on."""
        if self._counted is None or self._counted <= self._most:
            return 0
        window = (_body.id > self._walked) & (_body.id <= self._walked + WALKED_AT_ONCE)
        query = select(_body.id, func.length(_body.zstd)).where(window, _EARLIER).order_by(_body.id)
        chosen: list[int] = []
        for number, size in (await connection.execute(query)).all():
            if self._counted <= self._most:
                break
            chosen.append(number)
            self._counted -= size
        if chosen:
            condition, parameters = among(connection.dialect.name, _body.id, chosen)
            await connection.execute(delete(tables.bodies).where(condition), parameters)
            return len(chosen)
        last = int(await connection.scalar(select(func.max(_body.id))) or 0)
        self._walked += WALKED_AT_ONCE
        if self._walked < last:
            return 1
        self._walked, self._counted = 0, None  # nothing earlier is left: what was counted has gone otherwise
        return 0
