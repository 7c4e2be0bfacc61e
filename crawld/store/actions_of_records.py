"""What operators did, and what undoes it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store import tables
from crawld.store.actions_of_interfaces import Action

KEPT = 10_000
"""The latest so many are kept."""
_action = tables.actions.c


async def add_action(connection: AsyncConnection, action: Action) -> int:
    """Keep an action; its number. The oldest beyond those that are kept go."""
    undo = None if action.undo is None else json.dumps(action.undo)
    row = {"at": action.at, "who": action.who, "verb": action.verb, "sentence": action.sentence, "undo": undo}
    number = int((await connection.execute(insert(tables.actions).returning(_action.id), row)).scalar_one())
    await connection.execute(delete(tables.actions).where(_action.id <= number - KEPT))
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
