"""What is known of hosts, by their names: written over what was known, or as a host that is new."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from sqlalchemy import Insert, bindparam, func, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from crawld.model.host import HostState
from crawld.store import tables
from crawld.store.records.numbering import WriteScope, know_hosts
from crawld.store.writing.bulk import run
from crawld.store.writing.for_rows import ForRows, Given

_FIELDS = [column for column in tables.hosts.columns if column.name != "id"]


async def put_hosts(connection: AsyncConnection, scope: WriteScope | None, hosts: Sequence[HostState]) -> None:
    """Insert hosts, or overwrite what is known of them."""
    if not hosts:
        return
    if scope is None:
        rows = [{f"b_{key}": value for key, value in asdict(host).items()} for host in hosts]
        await run(connection, _put_host(connection.dialect.name), rows)
        return
    known = await know_hosts(connection, scope.numbering, [host.name for host in hosts])
    fields = [asdict(host) | {"id": known[host.name]} for host in hosts]
    await _UPDATE.run(connection, sorted(tuple(row[name] for name in _UPDATE.columns) for row in fields))


@lru_cache
def _put_host(dialect: str) -> Insert:
    """INSERT or overwrite a host by its name; a new one has the next free id, which the one writer takes."""
    hosts = tables.hosts
    next_id = select(func.coalesce(func.max(hosts.c.id), 0) + 1).scalar_subquery()
    origin = select(next_id, *(bindparam(f"b_{c.name}", type_=c.type) for c in _FIELDS)).where(literal(1) == 1)
    insert: Any = postgresql.insert(hosts) if dialect == "postgresql" else sqlite.insert(hosts)
    statement = insert.from_select(["id", *(c.name for c in _FIELDS)], origin)
    changes = {c.name: statement.excluded[c.name] for c in _FIELDS if c.name != "name"}
    finished: Insert = statement.on_conflict_do_update(index_elements=["name"], set_=changes)
    return finished


def _update(given: Given) -> Any:
    values = {name: value for name, value in given.items() if name != "id"}
    return update(tables.hosts).where(tables.hosts.c.id == given["id"]).values(values)


_UPDATE = ForRows({"id": tables.hosts.c.id.type} | {c.name: c.type for c in _FIELDS if c.name != "name"}, _update)
