"""Alembic's entry: runs on the connection that crawld hands over, inside its transaction."""

from alembic import context

from crawld.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,
    compare_server_default=False,
)
with context.begin_transaction():
    context.run_migrations()
