"""What operators and readers leave in the database: settings changed while running, actions, and demand for copies."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.estimate import Floats, Ints
from crawld.store import tables
from crawld.store.bulk import ForRows, fetch, replacing
from crawld.store.engine import Ranges, fetch_within, within
from crawld.store.pages import WriteScope


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody did: who, the verb, the sentence that tells it, and the action that undoes it, if one does."""

    id: int
    at: float
    who: str
    verb: str
    sentence: str
    undo: Mapping[str, Any] | None = None  # {"verb": …, "what": {…}}
    undone_at: float | None = None
    result: Any = field(default=None, compare=False)  # what came of it, told to the caller and not kept

    @property
    def undoable(self) -> bool:
        """Whether it can still be undone."""
        return self.undo is not None and self.undone_at is None


@dataclass(frozen=True, slots=True)
class StoredDemand:
    """Requests for copies of pages and the days they were watched for, both faded as of `at`, as columns."""

    page_ids: Ints
    requests: Floats
    days: Floats
    at: Floats
    weight: Floats | None = None  # what the pages weigh because of that; None where it was read


_setting = tables.settings.c
PUT_SETTING = replacing(tables.settings)


async def read_setting(connection: AsyncConnection, name: str) -> str | None:
    """The value kept for a setting."""
    value: str | None = await connection.scalar(select(_setting.value).where(_setting.name == name))
    return value


async def write_setting(connection: AsyncConnection, name: str, value: str | None, now: float) -> None:
    """Keep a setting (None forgets it) and note the change; nothing is noted where nothing changes."""
    old = await read_setting(connection, name)
    if old == value:
        return
    if value is None:
        await connection.execute(delete(tables.settings).where(_setting.name == name))
    else:
        await PUT_SETTING.run(connection, [(name, value, now)])
    await connection.execute(insert(tables.settings_changes), [{"at": now, "name": name, "old": old, "new": value}])


_action = tables.actions.c


async def add_action(connection: AsyncConnection, action: Action) -> int:
    """Keep an action; its number. The latest ten thousand are kept."""
    undo = None if action.undo is None else json.dumps(action.undo)
    row = {"at": action.at, "who": action.who, "verb": action.verb, "sentence": action.sentence, "undo": undo}
    number = int((await connection.execute(insert(tables.actions).returning(_action.id), row)).scalar_one())
    await connection.execute(delete(tables.actions).where(_action.id <= number - 10_000))
    return number


async def read_actions(connection: AsyncConnection, limit: int, number: int | None = None) -> Sequence[Action]:
    """The latest actions, newest first; with a number that one alone."""
    query = select(tables.actions).order_by(_action.id.desc()).limit(limit)
    if number is not None:
        query = query.where(_action.id == number)
    return [_action_of(row._mapping) for row in await connection.execute(query)]


async def mark_undone(connection: AsyncConnection, number: int, at: float) -> bool:
    """Note that an action was undone; False where it was already, or is not kept."""
    query = update(tables.actions).where(_action.id == number, _action.undone_at.is_(None)).values(undone_at=at)
    return bool((await connection.execute(query)).rowcount)


def _action_of(row: Mapping[Any, Any]) -> Action:
    return Action(**dict(row) | {"undo": None if row["undo"] is None else json.loads(row["undo"])})


_page = tables.pages.c
_WEIGH = ForRows(
    "id bigint, weight double precision", "UPDATE pages SET weight = :weight {FROM given} WHERE pages.id = :id"
)
_PUT_DEMAND = replacing(tables.demand)


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
    await _PUT_DEMAND.run(connection, list(zip(*(column.tolist() for column in columns), strict=True)))
    if demand.weight is not None:
        await _WEIGH.run(connection, list(zip(demand.page_ids.tolist(), demand.weight.tolist(), strict=True)))


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
