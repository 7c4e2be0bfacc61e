"""Links between the pages of sites that are followed, and what is known of pages found that way."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "links",
        sa.Column("source", ID, autoincrement=False, nullable=False),
        sa.Column("target", ID, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("source", "target", name="pk_links"),
    )
    op.create_index("ix_links_target", "links", ["target"])
    op.create_table(
        "site_pages",
        sa.Column("page_id", ID, autoincrement=False, nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("novel", sa.Boolean()),
        sa.Column("deferred", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("refused", sa.Text()),
        sa.Column("refused_at", sa.Double()),
        sa.PrimaryKeyConstraint("page_id", name="pk_site_pages"),
    )


def downgrade() -> None:
    """A page that only links led to is one of a file it was discovered in to an earlier version."""
    op.execute("UPDATE pages SET origin = 'discovered in links' WHERE origin = 'links'")
    op.drop_table("site_pages")
    op.drop_index("ix_links_target", "links")
    op.drop_table("links")
