"""The freshness of pages that the daemon which asks does not hold: in a fleet, those of other workers."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.errors import InputError
from crawld.model.page import NOT_LISTED
from crawld.store import tables
from crawld.store.in_values import among
from crawld.store.report import page_stats

MOST_SORTED = 200_000
"""Pages whose freshness is computed by the database for one list: some seconds."""
MOST_KEPT = 4
"""Lists that are gone through at once without one being sorted anew."""
Order = tuple[NDArray[np.int64], NDArray[np.float64]]
_page = tables.pages.c
_QUERY = select(_page.id, page_stats.c.freshness).join_from(
    tables.pages, page_stats, page_stats.c.url == _page.url
)  # fmt: skip


async def freshness_of(connection: AsyncConnection, pages: Sequence[int]) -> dict[int, float]:
    """By page, as the database computes it."""
    if not pages:
        return {}
    chosen, parameters = among(connection.dialect.name, _page.id, pages)
    return {page: float(fresh) for page, fresh in await connection.execute(_QUERY.where(chosen), parameters)}


class StoredOrders:
    """Pages with their freshness as of some moments: the parts of one list belong to one moment."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[float, tuple[int, ...] | None], Order] = OrderedDict()

    async def order(self, connection: AsyncConnection, few: Sequence[int] | None, at: float) -> Order:
        """Ids and freshness of these pages, or of all that are not retired; InputError where they are too many."""
        key = at, None if few is None else tuple(few)
        if key not in self._kept:
            self._kept[key] = await _order(connection, few)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return self._kept[key]


async def _order(connection: AsyncConnection, few: Sequence[int] | None) -> Order:
    if few is not None:
        found = list((await freshness_of(connection, few)).items())
    else:
        query = _QUERY.where(_page.state.not_in(NOT_LISTED)).limit(MOST_SORTED + 1)
        found = [(page, float(fresh)) for page, fresh in await connection.execute(query)]
    if len(found) > MOST_SORTED:
        raise InputError("too many pages to sort by freshness in a fleet: choose a host, a state or a search")
    ids, values = zip(*found, strict=True) if found else ((), ())
    return np.array(ids, dtype=np.int64), np.array(values, dtype=np.float64)
