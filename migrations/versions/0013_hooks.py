"""Hooks, and the changes that wait for them."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "hooks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cursor", ID, nullable=False),
        sa.Column("delivered", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("dropped", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("delivered_at", sa.Double()),
        sa.Column("trouble", sa.Text()),
        sa.Column("trouble_since", sa.Double()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_hooks")),
    )
    op.create_table(
        "deliveries",
        sa.Column("hook", sa.Text(), nullable=False),
        sa.Column("change", ID, autoincrement=False, nullable=False),
        sa.Column("page_id", ID, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("added_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("hook", "change", name=op.f("pk_deliveries")),
    )


def downgrade() -> None:
    op.drop_table("deliveries")
    op.drop_table("hooks")
