"""Pages whose site turned us away at the last crawl, and how."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pages", sa.Column("turned_away", sa.Text()))
    some = sa.text("turned_away IS NOT NULL")
    op.create_index(
        "ix_pages_turned_away", "pages", ["host_id", "turned_away"], sqlite_where=some, postgresql_where=some
    )


def downgrade() -> None:
    op.drop_index("ix_pages_turned_away", "pages")
    op.drop_column("pages", "turned_away")
