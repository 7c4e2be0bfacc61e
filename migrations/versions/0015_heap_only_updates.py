"""On PostgreSQL, no index on what every crawl writes, so that page updates are heap-only; robots.txt by host."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

UPDATED = ("pages", "estimates")


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.drop_index("ix_pages_dirty_since", table_name="pages")
    op.drop_index(op.f("ix_pages_last_success_id"), table_name="pages")
    op.create_index(op.f("ix_robots_host"), "robots", ["host"])
    for table in UPDATED:
        op.execute(f"ALTER TABLE {table} SET (fillfactor = 85)")


def downgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in UPDATED:
        op.execute(f"ALTER TABLE {table} RESET (fillfactor)")
    op.drop_index(op.f("ix_robots_host"), table_name="robots")
    op.create_index(op.f("ix_pages_last_success_id"), "pages", ["last_success", "id"])
    op.create_index(
        "ix_pages_dirty_since", "pages", ["dirty_since"], postgresql_where=sa.text("dirty_since IS NOT NULL")
    )
