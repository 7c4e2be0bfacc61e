"""How often copies were asked for: kept for importance that follows it."""

import numpy as np
from sqlalchemy import BigInteger, Double, bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.interfaces import StoredDemand
from crawld.store import tables
from crawld.store.id_ranges import Ranges, fetch_within, within
from crawld.store.records.numbering import WriteScope
from crawld.store.writing.bulk import fetch, run
from crawld.store.writing.upserts import replacing

_page = tables.pages.c
_WEIGH = update(tables.pages).where(_page.id == bindparam("b_id", type_=BigInteger)).values(
    weight=bindparam("b_weight", type_=Double)
)  # fmt: skip


_demand = tables.demand.c
_ALL = select(_demand.page_id, _demand.requests, _demand.days, _demand.at).order_by(_demand.page_id)
_WITHIN = _ALL.where(within(_demand.page_id))


async def read_demand(connection: AsyncConnection, ranges: Ranges | None = None) -> StoredDemand:
    """What is kept of every page, or of those with these ids."""
    rows = await fetch(connection, _ALL) if ranges is None else await fetch_within(connection, _WITHIN, ranges)
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), 4).T
    return StoredDemand(columns[0].astype(np.int64), columns[1], columns[2], columns[3])


async def write_demand(connection: AsyncConnection, scope: WriteScope | None, demand: StoredDemand) -> None:
    """Write over what was kept of these pages, and what they weigh by it."""
    if scope is not None:
        demand = await _ours(connection, scope, demand)
    columns = (demand.page_ids, demand.requests, demand.days, demand.at)
    names = ("page_id", "requests", "days", "at")
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]
    await run(connection, replacing(connection.dialect.name, tables.demand), rows)
    if demand.weight is not None:
        weights = zip(demand.page_ids.tolist(), demand.weight.tolist(), strict=True)
        await run(connection, _WEIGH, [{"b_id": page, "b_weight": weight} for page, weight in weights])


async def _ours(connection: AsyncConnection, scope: WriteScope, demand: StoredDemand) -> StoredDemand:
    rows = await scope.ours(connection, range(len(demand.page_ids)), lambda row: scope.of_page(demand.page_ids[row]))
    weight = None if demand.weight is None else demand.weight[rows]
    return StoredDemand(demand.page_ids[rows], demand.requests[rows], demand.days[rows], demand.at[rows], weight)


async def forget_weights(connection: AsyncConnection, scope: WriteScope | None) -> None:
    """Let every page weigh what the list says; a worker speaks for its own pages alone."""
    statement = update(tables.pages).where(_page.weight.is_not(None)).values(weight=None)
    if scope is None:
        await connection.execute(statement)
        return
    for first, end in await scope.ranges_held(connection):
        await connection.execute(statement.where(_page.id >= first, _page.id < end))
