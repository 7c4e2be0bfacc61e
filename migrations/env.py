"""Alembic's entry: runs on the connection that crawld hands over, inside its transaction."""

from typing import Any

from alembic import context

from crawld.store import tables

connection = context.config.attributes["connection"]
on_postgresql = connection.dialect.name == "postgresql"
metadata = [tables.metadata]
if on_postgresql:
    from crawld.fleet.store import tables as fleet_tables

    metadata.append(fleet_tables.metadata)


def belongs_here(thing: Any, _name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
    """Whether a thing of the tables is meant for this database: some indexes and keys are for one of the two alone."""
    if kind not in {"index", "foreign_key_constraint"}:
        return True
    told = thing.info if kind == "index" else thing.elements[0].info
    return bool(told.get("only", connection.dialect.name) == connection.dialect.name)


context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=not on_postgresql,
    transactional_ddl=True,
    compare_server_default=False,
    include_object=belongs_here,
)
with context.begin_transaction():
    context.run_migrations()
