"""What slots were spent on, minute by minute."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "slot_history",
        sa.Column("span", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("use", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("slots", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("span", "at", "use", "outcome", name=op.f("pk_slot_history")),
    )


def downgrade() -> None:
    op.drop_table("slot_history")
