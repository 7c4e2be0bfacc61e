"""Reads of some shards: every id of a shard lies in one range, so each is a range scan of a primary key."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, bindparam
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store.bulk import fetch

Ranges = Sequence[tuple[int, int]]
"""Ids from the first of each pair on, up to the second, which is not among them."""


def within(key: Any) -> ColumnElement[bool]:
    """The condition that an id lies in a range, for a query that is built once."""
    first, end = bindparam("range_first", type_=BigInteger), bindparam("range_end", type_=BigInteger)
    condition: ColumnElement[bool] = (key >= first) & (key < end)
    return condition


async def fetch_within(connection: AsyncConnection, query: Select[Any], ranges: Ranges) -> list[Sequence[Any]]:
    """The rows of a query that has the condition `within`, of all ranges in their order."""
    found: list[Sequence[Any]] = []
    for first, end in ranges:
        found += await fetch(connection, query, {"range_first": first, "range_end": end})
    return found
