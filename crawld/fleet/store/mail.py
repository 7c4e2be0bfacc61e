"""Messages to whoever holds a shard, left in the transaction that they tell of or by themselves."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.fleet.contracts import Mail
from crawld.fleet.store import tables

READ_ANEW = ("pages", "host")
"""Kinds that tell what whoever loads a shard reads by itself."""


async def leave_mail(connection: AsyncConnection, mail: Sequence[Mail]) -> None:
    """Leave messages with the transaction of this connection."""
    if mail:
        rows = [{"shard": one.shard, "kind": one.kind, "body": packed(one.body)} for one in mail]
        await connection.execute(insert(tables.mail), rows)


def packed(body: Mapping[str, Any]) -> str:
    """A message's body as it is stored."""
    return json.dumps(body, separators=(",", ":"))
