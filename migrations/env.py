"""Alembic's entry: runs on the connection that crawld hands over, inside its transaction."""

from alembic import context

from crawld.store import tables
from crawld.store.fleet import tables as fleet_tables

connection = context.config.attributes["connection"]
on_postgresql = connection.dialect.name == "postgresql"
context.configure(
    connection=connection,
    target_metadata=[tables.metadata, fleet_tables.metadata] if on_postgresql else tables.metadata,
    render_as_batch=not on_postgresql,
    transactional_ddl=True,
    compare_server_default=False,
)
with context.begin_transaction():
    context.run_migrations()
