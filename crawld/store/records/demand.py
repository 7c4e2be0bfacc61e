"""How often copies were asked for: kept for importance that follows it."""

import numpy as np
from sqlalchemy import BigInteger, Double, bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.interfaces import StoredDemand
from crawld.store import tables
from crawld.store.writing.bulk import fetch, run
from crawld.store.writing.upserts import replacing

_page = tables.pages.c
_WEIGH = update(tables.pages).where(_page.id == bindparam("b_id", type_=BigInteger)).values(
    weight=bindparam("b_weight", type_=Double)
)  # fmt: skip


async def read_demand(connection: AsyncConnection) -> StoredDemand:
    """What is kept of every page."""
    row = tables.demand.c
    rows = await fetch(connection, select(row.page_id, row.requests, row.days, row.at).order_by(row.page_id))
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), 4).T
    return StoredDemand(columns[0].astype(np.int64), columns[1], columns[2], columns[3])


async def write_demand(connection: AsyncConnection, demand: StoredDemand) -> None:
    """Write over what was kept of these pages, and what they weigh by it."""
    columns = (demand.page_ids, demand.requests, demand.days, demand.at)
    names = ("page_id", "requests", "days", "at")
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]
    await run(connection, replacing(connection.dialect.name, tables.demand), rows)
    if demand.weight is not None:
        weights = zip(demand.page_ids.tolist(), demand.weight.tolist(), strict=True)
        await run(connection, _WEIGH, [{"b_id": page, "b_weight": weight} for page, weight in weights])


async def forget_weights(connection: AsyncConnection) -> None:
    """Let every page weigh what the list says."""
    await connection.execute(update(tables.pages).where(_page.weight.is_not(None)).values(weight=None))
