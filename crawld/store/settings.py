"""Settings changed while running: their values, and the history of their changes."""

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.store import tables
from crawld.store.upserts import replacing

_setting = tables.settings.c


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
        row = {"name": name, "value": value, "changed_at": now}
        await connection.execute(replacing(connection.dialect.name, tables.settings), [row])
    await connection.execute(insert(tables.settings_changes), [{"at": now, "name": name, "old": old, "new": value}])
