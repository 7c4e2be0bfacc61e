"""Pages that are kept out: removed by hand, whatever a URL list or a sitemap says of them."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "exclusions",
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("identity", name=op.f("pk_exclusions")),
    )


def downgrade() -> None:
    op.drop_table("exclusions")
