"""On PostgreSQL, no look-up of a page for each crawl and copy, and no second compression of copies."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

KEYED = ("crawls", "bodies")


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in KEYED:
        op.drop_constraint(f"{table}_page_id_fkey", table, type_="foreignkey")
    op.execute("ALTER TABLE bodies ALTER COLUMN zstd SET STORAGE EXTERNAL")


def downgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("ALTER TABLE bodies ALTER COLUMN zstd SET STORAGE EXTENDED")
    for table in KEYED:
        op.execute(f"DELETE FROM {table} c WHERE NOT EXISTS (SELECT FROM pages p WHERE p.id = c.page_id)")
        op.create_foreign_key(f"{table}_page_id_fkey", table, "pages", ["page_id"], ["id"])
