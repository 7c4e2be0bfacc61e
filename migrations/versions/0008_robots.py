"""What is known of each site's robots.txt."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "robots",
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("fresh_until", sa.Double(), nullable=False),
        sa.Column("good_until", sa.Double(), nullable=False),
        sa.Column("rules", sa.LargeBinary()),
        sa.Column("crawl_delay", sa.Double()),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("origin", name=op.f("pk_robots")),
    )
    op.create_index(op.f("ix_robots_fresh_until"), "robots", ["fresh_until"])


def downgrade() -> None:
    op.drop_index(op.f("ix_robots_fresh_until"), table_name="robots")
    op.drop_table("robots")
